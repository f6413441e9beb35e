//! Tests of `--log`: rt-app's log, from every host.

use crate::rig::{Said, call, call_with, file, folder};
use std::collections::BTreeMap;
use std::fs;

const HOSTS: [&str; 3] = ["sim", "live", "linux"];

const HEADER: &str = "#idx     perf      run   period           start             end          \
                      rel_st      slack c_duration   c_period     wu_lat";

/// Two instances and a fork. All tasks end by themselves, and so does the run, under any load.
const TASKS: &str = r#""tasks": {
    "tick": {"instance": 2, "loop": 5, "run": 200, "timer": {"ref": "unique", "period": 3000}},
    "parent": {"loop": 1, "phases": {"p": {"run": 100}, "q": {"loop": 3, "run": 50, "fork": "child"}}},
    "child": {"instance": 0, "loop": 1, "runtime": 500}
}"#;

/// Runs `text` and returns the rows of each log file as numbers.
fn logged(host: &str, text: &str, options: &[&str]) -> BTreeMap<String, Vec<Vec<i64>>> {
    let (folder, said) = run(host, text, options);
    said.done();
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap());
    let rows = |text: String| {
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some(HEADER), "{host}");
        let numbers =
            |line: &str| line.split_whitespace().map(|number| number.parse().unwrap()).collect();
        lines.map(numbers).collect()
    };
    let read = |file: fs::DirEntry| {
        let text = fs::read_to_string(file.path()).unwrap();
        (file.file_name().into_string().unwrap(), rows(text))
    };
    files.map(read).collect()
}

fn run(host: &str, text: &str, options: &[&str]) -> (std::path::PathBuf, Said) {
    let name = format!("log-{:?}", std::thread::current().id()).replace(['(', ')'], "-") + host;
    let into = folder().join(&name);
    let _ = fs::remove_dir_all(&into);
    fs::create_dir(&into).unwrap();
    let options = [&[host, "-", "--json", "--log", &name], options].concat();
    (into, call_with(&options, text.as_bytes()))
}

#[test]
fn every_task_has_a_file_and_every_round_a_row() {
    let text = format!("{{{TASKS}}}");
    for host in HOSTS {
        let logs = logged(host, &text, &[]);
        let rounds: Vec<_> = logs.iter().map(|(file, rows)| (&**file, rows.len())).collect();
        let expected = [
            ("rt-app-child-0000.log", 1),
            ("rt-app-child-0001.log", 1),
            ("rt-app-child-0002.log", 1),
            ("rt-app-parent.log", 4),
            ("rt-app-tick-0.log", 5),
            ("rt-app-tick-1.log", 5),
        ];
        assert_eq!(rounds, expected, "{host}");
        for row in &logs["rt-app-tick-1.log"] {
            let [idx, perf, run, period, start, end, rel_st, slack, c_duration, c_period, wu_lat] =
                row[..]
            else {
                panic!("{row:?}")
            };
            assert_eq!((idx, perf, c_duration, c_period), (1, 0, 200, 3_000), "{host}");
            assert!(run >= 199 && period >= run && rel_st == start, "{host}: {row:?}");
            assert!((end - start - period).abs() <= 1 && slack < 3_000, "{host}: {row:?}");
            assert!(wu_lat >= 0, "{host}: {row:?}");
        }
        let starts: Vec<_> = logs["rt-app-tick-0.log"].iter().map(|row| row[4]).collect();
        assert!(starts.is_sorted(), "{host}: {starts:?}");
    }
}

#[test]
fn a_task_that_never_comes_to_the_end_of_a_round_has_a_file_without_rows() {
    let text = r#"{"tasks": {"never": {"suspend": ""}, "later": {"delay": 1000000, "resume": "never", "run": 1}}}"#;
    for host in HOSTS {
        let logs = logged(host, text, &["--duration", "100ms"]);
        let empty = |task| (format!("rt-app-{task}.log"), vec![]);
        assert_eq!(logs, BTreeMap::from(["never", "later"].map(empty)), "{host}");
    }
}

#[test]
fn a_simulated_log_is_always_the_same() {
    let text = format!("{{\"global\": {{\"log_basename\": \"a/b\", \"duration\": 1}}, {TASKS}}}");
    let first = logged("sim", &text, &["--seed", "3"]);
    assert_eq!(first, logged("sim", &text, &["--seed", "3"]));
    assert!(first.keys().all(|file| file.starts_with("a_b-")), "{:?}", first.keys());
}

#[test]
fn a_folder_that_takes_no_files_is_refused_before_the_run() {
    fs::write(folder().join("no-folder"), "").unwrap();
    let scenario = file("log-refused.json", "{'tasks': {'a': {'loop': 1, 'run': 1}}}");
    for host in HOSTS {
        for (at, why) in [("not/there", "No such file"), ("no-folder", "Not a directory")] {
            let said = call(&[host, &scenario, "--cpus", "1", "--log", at]);
            assert_eq!((said.code, said.out.as_str()), (Some(3), ""), "before anything ran");
            assert!(said.err.starts_with(&format!("{at}: {why}")), "{}", said.err);
        }
    }
}
