//! Signals that ask the command to end. It shows the results so far, and cleans up.

use crate::rig::{Said, command, file, folder};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::process::{Child, Stdio};
use std::time::Duration;

/// A scenario that lasts longer than any test waits.
const LONG: &str = r#"{
    "machine": {"cpus": 2},
    "global": {"duration": 3600},
    "groups": {"/web": {}},
    "tasks": {
        "busy": {"instance": 2, "group": "/web", "run": 1000, "sleep": 1000},
        "sleeper": {"sleep": 2000000000}
    }
}"#;

fn start(arguments: &[&str]) -> Child {
    let mut command = command(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Sends a signal when the command has been running for a while.
fn end(child: Child, signal: Signal) -> Said {
    std::thread::sleep(Duration::from_millis(700));
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
    child.wait_with_output().unwrap().into()
}

#[test]
fn a_run_that_is_interrupted_shows_what_there_is() {
    let scenario = file("long.json", LONG);
    for (host, signal, code) in [
        ("sim", Signal::INT, 130),
        ("live", Signal::INT, 130),
        ("linux", Signal::TERM, 143),
        ("live", Signal::TERM, 143),
    ] {
        let page = format!("interrupted-{host}.html");
        // Checking every event makes the simulator slow enough that an hour of virtual time outlasts the test.
        let check: &[&str] = if host == "sim" { &["--check=full"] } else { &["--cpus", "2"] };
        let arguments = [&[host, &*scenario, "--json", "--html", &*page], check].concat();
        let said = end(start(&arguments), signal);
        if said.code == Some(3) {
            continue; // There is no such host here.
        }
        assert_eq!(said.code, Some(code), "{host}: {}", said.err);
        assert!(said.err.contains("interrupted at "), "{host}: {}", said.err);
        let report: Value = serde_json::from_str(&said.out).expect("a report");
        let reached = report["duration_ns"].as_u64().unwrap();
        assert!(reached > 0 && reached < 3_600_000_000_000, "{host}: {reached}");
        let ran = report["tasks"][0]["runtime_ns"].as_u64().unwrap();
        assert!(ran > 0 && ran <= reached, "{host}: {ran}");
        let page = std::fs::read_to_string(folder().join(page)).unwrap();
        assert!(page.ends_with("</html>\n"), "{host}");
    }
}

#[test]
fn what_was_reproduced_is_shown() {
    let said = end(
        start(&["reproduce", "--host", "sim", "greedy-timers", "--json", "--soak"]),
        Signal::INT,
    );
    assert_eq!(said.code, Some(130), "{}", said.err);
    let claims: Value = serde_json::from_str(&said.out).expect("claims");
    assert_eq!(claims["schema"], "runyard.reproduce/1");
}

#[test]
fn a_signal_that_is_sent_twice_at_once_is_one() {
    let scenario = file("long-again.json", LONG);
    let child = start(&["sim", &scenario, "--check=full"]);
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    std::thread::sleep(Duration::from_millis(700));
    // `timeout` sends the signal twice, and the command treats the pair as one.
    kill_process(pid, Signal::INT).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let said = Said::from(child.wait_with_output().unwrap());
    assert_eq!(said.code, Some(130));
    assert!(said.out.contains("switches"), "the report is there: {}", said.err);
}
