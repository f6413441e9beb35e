//! `runyard compare`: what it says of two saved reports, and which input it refuses. How the page
//! of two runs looks is the business of `html.rs`.

use crate::json::Json;
use crate::rig::{call, call_with, file, folder, sim};

/// Three probes that wake up on time and six hogs on two CPUs.
const RUN: &str = r#"{
    "machine": {"cpus": 2, "kernel": "6.1 + founding"},
    "global": {"duration": 1},
    "groups": {"/web": {}},
    "tasks": {
        "probe": {"instance": 3, "timer": {"ref": "unique", "period": 5000}, "run": 100},
        "hog": {"instance": 6, "group": "/web", "run": 1000},
        "rt": {"policy": "SCHED_FIFO", "timer": {"ref": "unique", "period": 9000}, "run": 500}
    }
}"#;

fn saved(name: &str, options: &[&str]) -> String {
    file(name, sim(RUN, &[options, &["--json"]].concat()).done())
}

/// The words of the line of `text` that begins so, from there on.
#[track_caller]
fn words<'t>(text: &'t str, from: &str) -> Vec<&'t str> {
    let from: Vec<_> = from.split_whitespace().collect();
    let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let line = lines.find(|words| words.starts_with(&from));
    line.unwrap_or_else(|| panic!("{from:?}\n{text}"))
}

#[test]
fn figures_stand_before_and_after() {
    let before = saved("before.json", &[]);
    let after = saved("after.json", &["--feature", "NO_WAKEUP_PREEMPTION"]);
    let text = call(&["compare", &before, &after]).done();
    assert!(text.starts_with(
        "before: - on sim: 2 CPUs, 10 tasks, 1.00 s, seed 1, kernel 6.1 + founding\nafter:  - on"
    ));
    let [old, new] = [&before, &after]
        .map(|name| Json::read(&std::fs::read_to_string(folder().join(name)).unwrap()));
    for figure in ["switches", "preemptions", "migrations"] {
        let [old, new] = [&old, &new].map(|it| it.number(&format!("machine.{figure}")));
        let words = words(&text, figure);
        let shown = |at: usize| words[at].replace(',', "").parse::<f64>().unwrap();
        assert_eq!((shown(1), shown(2)), (old, new), "{figure}\n{text}");
        assert!((shown(3) - new / old).abs() <= 0.006, "{figure}\n{text}");
    }
    let [old, new] = [&old, &new].map(|it| it.number("latencies.0.wakeup_latency.p99_ns"));
    assert!(new > old, "hogs run on: {old} to {new} ns");
    let latency = text.split_once("wake-up latency").unwrap().1;
    let ratio: f64 = words(latency, "p99").last().unwrap().parse().unwrap();
    assert!((ratio / (new / old) - 1.0).abs() < 0.01, "{ratio} for {}\n{text}", new / old);
    for word in ["probe ", "probe-2 ", "hog-5 ", "utilization ", "task group"] {
        assert!(text.contains(word), "{word}\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "lines are short\n{text}");
}

#[test]
fn a_run_is_as_itself() {
    let name = saved("same.json", &[]);
    let text = call(&["compare", &name, &name]).done();
    for words in ["3 distributions as before", "10 tasks as before", "2 task groups as before"] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    assert!(!text.contains("probe-0"), "{text}");
    let report = std::fs::read(folder().join(&name)).unwrap();
    assert_eq!(call_with(&["compare", "-", &name], &report).done(), text);
    assert_eq!(call_with(&["compare", &name, "-"], &report).done(), text);
}

#[test]
fn a_task_of_one_run_stands_against_nothing() {
    let [one, two] = ["one", "two"].map(|task| {
        let text = format!("{{\"tasks\": {{\"{task}\": {{\"loop\": 1, \"run\": 1000}}}}}}");
        file(&format!("{task}.json"), sim(&text, &["--json"]).done())
    });
    let text = call(&["compare", &one, &two]).done();
    assert_eq!(words(&text, "one runtime"), ["one", "runtime", "1.00", "ms", "-", "-"], "{text}");
    assert_eq!(words(&text, "two runtime"), ["two", "runtime", "-", "1.00", "ms", "-"], "{text}");
}

#[test]
fn what_is_no_report_is_refused_with_its_place() {
    let good = saved("good.json", &[]);
    let report = std::fs::read_to_string(folder().join(&good)).unwrap();
    for (name, text, place) in [
        ("void.json", String::new(), "1:1: "),
        ("half.json", report[..report.len() / 2].to_owned(), ""),
        (
            "scenario.json",
            RUN.to_owned(),
            "4:14: no report: invalid type: map, expected a sequence",
        ),
        ("list.json", "[\n1]".to_owned(), ""),
        ("text.json", "\n\n  nothing".to_owned(), "3:4: "),
        ("type.json", report.replacen("\"seed\": 1,", "\"seed\": -1,", 1), "5:12: "),
        ("next.json", report.replacen("report/1", "report/2", 1), "1:1: its schema is "),
        (
            "claims.json",
            "{\"schema\": \"runyard.reproduce/1\", \"experiments\": []}".to_owned(),
            "1:1: its schema is \"runyard.reproduce/1\", not \"runyard.report/1\"",
        ),
    ] {
        let name = file(name, text);
        for arguments in [["compare", &name, &good], ["compare", &good, &name]] {
            let line = call(&arguments).refused();
            assert!(line.starts_with(&format!("{name}:{place}")), "{place}: {line}");
        }
    }
    let line = call(&["compare", "no/such.json", &good]).refused();
    assert!(line.starts_with("no/such.json:1:1: No such file"), "{line}");
    let latin = file("latin-report.json", b"\xff");
    assert_eq!(call(&["compare", &latin, &good]).refused(), "latin-report.json:1:1: not UTF-8");
    assert!(call(&["compare", "-", "-"]).refused().starts_with("-: "));
    call(&["compare", &good]).misused();
}

#[test]
fn a_page_that_cannot_be_written_is_the_hosts_refusal() {
    let good = saved("refusal.json", &[]);
    let scenario = file("refusal-scenario.json", "{\"tasks\": {\"a\": {\"loop\": 1, \"run\": 1}}}");
    for arguments in [
        &["compare", &good, &good][..],
        &["sim", &scenario],
        &["live", &scenario, "--cpus", "1"],
        &["linux", &scenario, "--cpus", "1"],
    ] {
        let said = call(&[arguments, &["--html", "no/such/folder.html"]].concat());
        assert_eq!((said.code, said.out.as_str()), (Some(3), ""), "before anything ran");
        assert!(said.err.starts_with("no/such/folder.html: No such file"), "{}", said.err);
        assert_eq!(said.err.lines().count(), 1, "{}", said.err);
    }
}

#[test]
fn a_page_that_is_there_stays_until_there_is_another() {
    let page = file("kept.html", "the old one");
    let endless = "{\"tasks\": {\"a\": {\"run\": 1}}}";
    sim(endless, &["--html", &page]).refused();
    assert_eq!(std::fs::read_to_string(folder().join(&page)).unwrap(), "the old one");
    let text = sim(RUN, &[]).done();
    let with_page = sim(RUN, &["--html", &page]).done();
    let table = |text: &str| {
        text.split_once("\ntask").unwrap().1.split_once("decision").unwrap().0.to_owned()
    };
    assert_eq!(table(&with_page), table(&text), "the report is the same");
    let written = std::fs::read_to_string(folder().join(&page)).unwrap();
    assert!(written.starts_with("<!doctype html>"));
}
