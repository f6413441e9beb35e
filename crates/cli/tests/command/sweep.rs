//! Tests of `runyard sweep`: the tables of a specification, also after interruptions, and the input that it refuses.

use crate::rig::{call, command, file, folder};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

const SCENARIO: &str = r#"{
    "machine": {"cpus": 2},
    "global": {"duration": 1},
    "tasks": {
        "probe": {"timer": {"ref": "unique", "period": 5000}, "run": 100},
        "hog": {"instance": 3, "run": {"exponential": 1000}, "sleep": {"exponential": 500}}
    }
}"#;

const SPEC: &str = r#"{
    "scenario": "swept.json", // in this folder
    "set": {"tasks.hog.sleep": [200, 2000]},
    "kernel": ["6.1", "6.18"],
    "seeds": 20,
    "metrics": ["p99(tasks.probe.wakeup_latency)", "share(tasks.hog)", "machine.utilization"],
}"#;

/// Returns an empty folder for a sweep.
fn place(name: &str) -> String {
    let _ = std::fs::remove_dir_all(folder().join(name));
    name.to_owned()
}

/// Returns all files of a folder with their contents.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        match path.is_dir() {
            true => found.extend(
                files(&path).into_iter().map(|(file, text)| (format!("{name}/{file}"), text)),
            ),
            false => {
                found.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn written() -> String {
    file("swept.json", SCENARIO);
    file("sweep.json", SPEC)
}

#[test]
fn a_sweep_that_was_killed_goes_on_as_if_it_had_not() {
    let spec = written();
    let (whole, killed) = (place("sweep-whole"), place("sweep-killed"));
    let said = call(&["sweep", &spec, "--out", &whole, "--jobs", "3"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let shown = said.out.clone();
    let mut child = command(&["sweep", &spec, "--out", &killed, "--jobs", "1"]);
    let mut child = child.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let parts = folder().join(&killed).join("parts");
    let begun = Instant::now();
    let complete = || {
        let entries = std::fs::read_dir(&parts).into_iter().flatten().flatten();
        entries.filter(|it| it.path().extension().is_some_and(|it| it == "jsonl")).count()
    };
    while complete() < 3 && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!((3..80).contains(&complete()), "it was killed on its way: {} parts", complete());
    assert!(!folder().join(&killed).join("summary.csv").exists());
    // One part is torn, as after a power failure.
    let torn = parts.join("000001.jsonl");
    let text = std::fs::read(&torn).unwrap();
    std::fs::write(&torn, &text[..text.len() / 2]).unwrap();
    let refused = call(&["sweep", &spec, "--out", &killed]).refused();
    assert!(refused.contains("--resume continues it"), "{refused}");
    let said = call(&["sweep", &spec, "--out", &killed, "--resume"]);
    assert_eq!((said.code, said.out.as_str()), (Some(0), shown.as_str()), "{}", said.err);
    let (whole, killed) = (files(&folder().join(&whole)), files(&folder().join(&killed)));
    assert_eq!(whole.keys().collect::<Vec<_>>(), killed.keys().collect::<Vec<_>>());
    for (name, text) in &whole {
        assert!(*text == killed[name], "{name} has the same bytes");
    }
}

#[test]
fn the_tables_say_what_the_runs_do() {
    let spec = written();
    let out = place("sweep-tables");
    let shown = call(&["sweep", &spec, "--out", &out]).out;
    assert_eq!(shown.lines().count(), 1 + 4 * 3, "{shown}");
    assert!(
        shown.starts_with("tasks.hog.sleep  kernel  metric ") && shown.contains(" % to "),
        "{shown}"
    );
    let text = std::fs::read_to_string(folder().join(&out).join("summary.csv")).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows[0], ["tasks.hog.sleep", "kernel", "metric", "n", "mean", "median", "lo", "hi"]);
    assert_eq!(rows.len(), 1 + 4 * 3);
    let number = |row: &[&str], at: usize| row[at].parse::<f64>().unwrap();
    let row = |words: [&str; 3]| rows.iter().find(|row| row[..3] == words).unwrap();
    let busy = row(["200", "6.18", "machine.utilization"]);
    let calm = row(["2000", "6.18", "machine.utilization"]);
    assert_eq!(busy[3], "20");
    assert!(number(busy, 6) < number(busy, 4) && number(busy, 4) < number(busy, 7));
    assert!(number(calm, 7) < number(busy, 6), "{calm:?} {busy:?}");
    // The mean equals that of single runs.
    let runs = (1..=20).map(|seed: u32| {
        let seed = seed.to_string();
        let options =
            ["--set", "tasks.hog.sleep=200", "--kernel", "6.18", "--seed", &seed, "--json"];
        let report = call(&[&["sim", "swept.json"], &options[..]].concat()).done();
        crate::json::Json::read(&report).number("machine.utilization")
    });
    let mean = runs.sum::<f64>() / 20.0;
    assert!((mean - number(busy, 4)).abs() < 1e-12, "{mean} {busy:?}");
    let parquet = std::fs::read(folder().join(&out).join("runs.parquet")).unwrap();
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
}

#[test]
fn a_mistake_is_told_before_anything_runs() {
    let spec = written();
    for (text, said) in [
        (SPEC.replace("tasks.hog.sleep", "tasks.hog.slep"), "bad-sweep.json:3:"),
        (SPEC.replace("[200, 2000]", "[200, -1]"), "bad-sweep.json:3:38: "),
        (SPEC.replace("swept.json", "swpt.json"), "bad-sweep.json:2:17: swpt.json: No such file"),
        (
            SPEC.replace("tasks.probe", "tasks.prob"),
            "bad-sweep.json:6:17: the scenario's tasks have no \"prob\"; did you mean \"probe\"?",
        ),
        (
            SPEC.replace("seeds", "seed"),
            "bad-sweep.json:5:5: a sweep has no \"seed\"; did you mean \"seeds\"?",
        ),
    ] {
        let out = place("sweep-bad");
        let bad = file("bad-sweep.json", text);
        let line = call(&["sweep", &bad, "--out", &out]).refused();
        assert!(line.starts_with(said), "{line}");
        assert!(!folder().join(&out).exists(), "nothing is made");
    }
    let out = place("sweep-other");
    std::fs::create_dir(folder().join(&out)).unwrap();
    std::fs::write(folder().join(&out).join("mine.txt"), "mine").unwrap();
    let line = call(&["sweep", &spec, "--out", &out]).refused();
    assert!(line.starts_with("sweep-other: the folder has files, and none of a sweep"), "{line}");
}

#[test]
fn another_text_does_not_go_on() {
    let spec = written();
    let out = place("sweep-another");
    let few = file("few.json", SPEC.replace("\"seeds\": 20", "\"seeds\": 1"));
    call(&["sweep", &few, "--out", &out, "--resume"]);
    let line = call(&["sweep", &spec, "--out", &out, "--resume"]).refused();
    assert_eq!(
        line,
        "sweep-another: the sweep there cannot go on: it is of another text of sweep.json"
    );
}

#[cfg(unix)]
#[test]
fn an_interrupt_keeps_what_is_complete() {
    let spec = written();
    let out = place("sweep-interrupted");
    let mut child = command(&["sweep", &spec, "--out", &out, "--jobs", "1"]);
    let child = child.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let parts = folder().join(&out).join("parts/000000.jsonl");
    let begun = Instant::now();
    while !parts.exists() && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(1));
    }
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&child),
        rustix::process::Signal::INT,
    )
    .unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("--resume goes on"), "{said}");
    assert_eq!(output.status.code(), Some(130));
    assert!(parts.exists());
}

#[test]
fn a_precision_is_a_part_of_the_sweep() {
    let text = SPEC.replace("\"p99(tasks.probe.wakeup_latency)\", ", "").replace("20,", "3,");
    written();
    let (spec, out) = (file("precise.json", text), place("sweep-precise"));
    let options = ["--precision", "20%"];
    let said = call(&[&["sweep", &spec, "--out", &out], &options[..]].concat());
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("4 points, 10"), "{}", said.err);
    let again = call(&[&["sweep", &spec, "--out", &out, "--resume"], &options[..]].concat());
    assert_eq!(again.code, Some(0), "{}", again.err);
    let other = call(&["sweep", &spec, "--out", &out, "--resume"]).refused();
    assert!(other.ends_with("cannot go on: it has another precision"), "{other}");
    for wrong in ["5", "0%", "x%"] {
        let said = call(&["sweep", &spec, "--out", &out, "--precision", wrong]).misused();
        assert!(said.contains("it is a width as 5%"), "{said}");
    }
    let listed = file("listed.json", SPEC.replace("\"seeds\": 20", "\"seeds\": [4, 2]"));
    let line = call(&[&["sweep", &listed, "--out", "none"], &options[..]].concat()).refused();
    assert!(line.starts_with("listed.json:1:1: --precision: a precision takes 10 seeds"), "{line}");
}

/// Tests the specifications of the repository, each with few seeds of short runs.
#[test]
fn the_shipped_sweeps_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for entry in std::fs::read_dir(root.join("sweeps")).unwrap() {
        let path = entry.unwrap().path();
        let text = shortened(&std::fs::read_to_string(&path).unwrap());
        assert!(text.contains(SHORT), "{}: no seeds in a line of their own", path.display());
        let scenarios = format!("{}/scenarios/", root.display());
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let spec = file(&name, text.replace("../scenarios/", &scenarios));
        let out = place("sweep-shipped");
        let said = call(&["sweep", &spec, "--out", &out]);
        assert_eq!(said.code, Some(0), "{}", said.err);
        // A busy machine takes so long that the command says how far it is.
        let told = said.err.lines().filter(|line| !line.ends_with(" s left"));
        assert_eq!(told.count(), 1, "no run fails, nothing is warned of: {}", said.err);
        let table = std::fs::read_to_string(folder().join(&out).join("summary.csv")).unwrap();
        assert!(table.lines().count() > 1, "{table}");
    }
}

/// The seeds and duration of [`shortened`] specifications.
const SHORT: &str = r#""seeds": 2, "duration": "50ms","#;

/// Returns a specification with few seeds of short runs.
fn shortened(text: &str) -> String {
    let has = |line: &str, key| line.trim_start().starts_with(key);
    let kept = text.lines().filter(|line| !has(line, "\"duration\""));
    let lines = kept.map(|line| if has(line, "\"seeds\"") { SHORT } else { line });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn ray_takes_a_python_that_has_it() {
    let spec = written();
    let out = place("sweep-ray");
    let ray = |arguments: &[&str], python: &str| {
        let all = [&["sweep", "--backend", "ray", "--out", &out], arguments].concat();
        let ran = command(&all).env("RUNYARD_PYTHON", python).output().unwrap();
        (ran.status.code(), String::from_utf8(ran.stderr).unwrap())
    };
    let (code, said) = ray(&[&spec], "no-such-python");
    assert_eq!((code, said.contains("no-such-python")), (Some(3), true), "{said}");
    let (code, said) = ray(&[&spec], "/usr/bin/false");
    assert_eq!(
        (code, said.as_str()),
        (Some(1), ""),
        "the program is run in the place of the command"
    );
    let (code, said) = ray(&["-"], "python3");
    assert_eq!((code, said.contains("not standard input")), (Some(2), true), "{said}");
    let (code, _) = ray(&[&spec, "--jobs", "2"], "python3");
    assert_eq!(code, Some(2));
    assert!(!folder().join(&out).exists());
}

#[test]
fn a_part_of_each_run_is_swept() {
    written();
    let spec = |keys: &str| {
        file("part.json", SPEC.replace(r#""seeds": 20,"#, &format!(r#""seeds": 2, {keys}"#)))
    };
    let tables = |spec: &str, dir: &str, options: &[&str]| {
        let dir = place(dir);
        let said = call(&[&["sweep", spec, "--out", &dir][..], options].concat());
        assert_eq!(said.code, Some(0), "{}", said.err);
        std::fs::read_to_string(folder().join(dir).join("summary.csv")).unwrap()
    };
    let by_key = tables(&spec(r#""from": 0.25, "until": "500ms","#), "part-key", &[]);
    let part = spec("");
    let by_option = tables(&part, "part-option", &["--warmup", "250ms", "--until", "0.5s"]);
    assert_eq!(by_key, by_option);
    assert_ne!(by_key, tables(&part, "part-none", &[]));
    let again = call(&["sweep", &part, "--out", "part-option", "--resume"]);
    assert!(again.err.contains("it is of another part of the runs"), "{}", again.err);
    for (keys, what) in [
        (r#""from": 1,"#, "the run ends at 1.000 s: from must be before it"),
        (
            r#""from": 0.1, "warmup": 0.1,"#,
            "part.json:5:30: \"warmup\" is another name of \"from\"",
        ),
        (r#""until": "x","#, "part.json:5:26: a time is a number of seconds"),
    ] {
        let said = call(&["sweep", &spec(keys), "--out", "part-wrong"]);
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{}", said.err);
        assert!(said.err.contains(what), "{}", said.err);
    }
}

/// Tables for programs keep the name of the report's field.
#[test]
fn people_read_the_quantile_of_a_thousand_as_a_percentage() {
    written();
    let one = SPEC.replace("[\"p99(", "[\"p99.9(").replace("20,", "1,");
    let out = place("sweep-thousand");
    let said = call(&["sweep", &file("thousand.json", one), "--out", &out]);
    assert!(said.out.contains("p99.9(tasks.probe.wakeup_latency)"), "{}", said.out);
    let read = |name: &str| std::fs::read_to_string(folder().join(&out).join(name)).unwrap();
    assert!(read("summary.csv").contains("p999(tasks.probe.wakeup_latency)"));
    assert!(read("index.html").contains("p99.9(tasks.probe.wakeup_latency)"));
    let metric = "p999(tasks.probe.wakeup_latency)";
    let compare =
        |options: &[&str]| call(&[&["compare", "swept.json", "--seeds", "2"], options].concat());
    let said = compare(&["--metric", metric, "--fail-if", &format!("{metric} > 900%")]);
    assert!(said.out.contains("\np99.9(tasks.probe.wakeup_latency) "), "{}", said.out);
    assert!(said.out.contains(": p99.9(tasks.probe.wakeup_latency) > +900%"), "{}", said.out);
    assert!(!said.out.contains("p999("), "{}", said.out);
    let said = compare(&["--metric", "p99.9(tasks.probe.wakeup_latency)", "--json"]);
    assert!(said.out.contains(metric), "{}", said.out);
}
