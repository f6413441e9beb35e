//! Tests of `--trace FILE`. `cargo xtask traces` checks the contents of a trace against the report, with Perfetto's own
//! decoder.

use crate::rig::{call, file, folder};
use std::fs;
use std::path::PathBuf;

const FOUR_FORKS: &str = "{'machine': {'cpus': 2, 'costs': {'jitter_ns': 0}}, 'tasks': {
    'parent': {'loop': 4, 'run': 100, 'fork': 'child', 'sleep': 50},
    'child': {'instance': 0, 'loop': 1, 'run': 300}}}";

fn place(name: &str) -> (PathBuf, String) {
    let path = folder().join(name);
    (path.clone(), path.to_str().unwrap().to_owned())
}

#[test]
fn the_same_run_gives_the_same_trace_and_the_report_of_a_run_without_one() {
    let scenario = file("trace.json", FOUR_FORKS);
    let plain = call(&["sim", &scenario, "--json"]).done();
    let without_time = |report: &str| {
        let mut report: serde_json::Value = serde_json::from_str(report).unwrap();
        assert!(report["engine"]["wall_ns"].take().is_u64());
        report
    };
    for form in ["pftrace", "txt"] {
        let traces = ["one", "two"].map(|name| {
            let (path, name) = place(&format!("trace-{name}.{form}"));
            let report = call(&["sim", &scenario, "--json", "--trace", &name]).done();
            assert_eq!(without_time(&report), without_time(&plain));
            fs::read(path).unwrap()
        });
        assert!(!traces[0].is_empty() && traces[0] == traces[1], "{form}");
    }
}

#[test]
fn a_text_has_every_switch_and_every_wake_up() {
    let (path, name) = place("trace-lines.txt");
    call(&["sim", &file("trace-lines.json", FOUR_FORKS), "--trace", &name]).done();
    let text = fs::read_to_string(path).unwrap();
    let lines = |what: &str| text.lines().filter(|line| line.contains(what)).count();
    assert!(text.starts_with("# tracer: nop\n"), "{text}");
    assert_eq!(lines("sched_wakeup_new: comm=child-000"), 4, "{text}");
    assert_eq!(lines("sched_wakeup: comm=parent "), 4, "{text}");
    assert_eq!(lines("prev_state=X"), 5, "{text}");
    assert_eq!(lines("hrtimer_expire_entry"), 4, "{text}");
    let forked = "parent-1       [000] d..2.     0.000104000: sched_waking: comm=child-0000 pid=2";
    assert!(text.contains(forked), "{text}");
}

#[test]
fn live_writes_traces_too() {
    let scenario = file("trace-live.json", FOUR_FORKS);
    for form in ["pftrace", "txt"] {
        let (path, name) = place(&format!("trace-live.{form}"));
        call(&["live", &scenario, "--trace", &name]).done();
        let trace = fs::read(path).unwrap();
        for name in ["parent", "child-0003", "the run ends"] {
            let found = trace.windows(name.len()).any(|bytes| bytes == name.as_bytes());
            assert!(found, "{name} is in the {form}");
        }
    }
}

#[test]
fn a_trace_that_cannot_be_written_is_refused_before_the_run() {
    let scenario = file("trace-refused.json", FOUR_FORKS);
    for host in ["sim", "live"] {
        let misused = call(&[host, &scenario, "--trace", "x.json"]).misused();
        assert!(misused.contains("the name of a trace ends in .pftrace or .txt"), "{misused}");
        let said = call(&[host, &scenario, "--trace", "no/such/x.txt"]);
        assert_eq!((said.code, said.out.as_str()), (Some(3), ""), "before anything ran");
        assert!(said.err.starts_with("no/such/x.txt: No such file"), "{}", said.err);
    }
}

/// Returns the run time of each task by its name.
fn runtimes(report: &str) -> Vec<(String, u64)> {
    let report: serde_json::Value = serde_json::from_str(report).unwrap();
    let figure = |task: &serde_json::Value| {
        (task["name"].as_str().unwrap().to_owned(), task["runtime_ns"].as_u64().unwrap())
    };
    report["tasks"].as_array().unwrap().iter().map(figure).collect()
}

#[test]
fn a_trace_that_is_imported_replays_what_each_task_ran() {
    let scenario = file("trace-replay.json", include_str!("../../../../scenarios/probes.json"));
    let (_, trace) = place("trace-replay.txt");
    let run = ["sim", &scenario, "--duration", "1s", "--json", "--trace", &trace];
    let recorded = runtimes(&call(&run).done());
    let imported = call(&["import", &trace]);
    assert_eq!(imported.code, Some(0), "{}", imported.err);
    assert!(!imported.err.contains("skipped"), "every line makes sense: {}", imported.err);
    assert!(!imported.err.contains("not recorded"), "no switch is missing: {}", imported.err);
    let replayed =
        runtimes(&call(&["sim", &file("trace-replayed.json", imported.out), "--json"]).done());
    assert_eq!(replayed.len(), recorded.len());
    // What a hog gets is what the others leave it.
    for (name, ran) in replayed.into_iter().filter(|(name, _)| !name.starts_with("hog")) {
        let task = name.rsplit_once('-').unwrap().0;
        let (_, recorded) = recorded.iter().find(|(name, _)| name == task).unwrap();
        // A replay counts context switches as run time of the tasks. That costs a probe 1.5 us of 100 us.
        assert!(ran.abs_diff(*recorded) * 50 <= *recorded, "{name} ran {ran} of {recorded} ns");
    }
}
