//! The memory that reading a scenario takes: at most three times its text, the text included.
//!
//! The documented bound for a file is that and 64 MB. With a small text those 64 MB would hide every excess, so they
//! are not allowed here. Without them the bound holds for the texts of this file, each of which repeats one element
//! very often. Short threads, phases and task groups take more; see `docs/figures/performance.md`.
#![cfg(target_os = "linux")]

use runyard_workload::{Overrides, parse};
use std::env;
use std::process::Command;

const NAME: &str = "a_scenario_is_read_in_three_times_its_text";
/// The environment variable that names the one text that a separate process reads.
const ONLY: &str = "RUNYARD_TEST_TEXT";

const TEXT: usize = 8_000_000;
/// The other memory of a process: code that runs for the first time, and the allocator's rounding.
const BESIDES: usize = 2_000_000;

/// Returns a text of this length. It repeats `repeated` between the other parts as often as it fits, each time with
/// another number for `#`.
fn text(before: &str, repeated: &str, behind: &str) -> String {
    let mut text = String::with_capacity(TEXT + 1_000);
    text.push_str(before);
    for nth in 0.. {
        if text.len() + behind.len() >= TEXT {
            break;
        }
        let mut parts = repeated.split('#');
        text.extend(parts.next());
        parts.for_each(|part| text.push_str(&format!("{nth}{part}")));
    }
    text.push_str(behind);
    text
}

/// Returns the peak memory of this process so far, in bytes.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    peak.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() * 1_024
}

#[test]
fn a_scenario_is_read_in_three_times_its_text() {
    let deep = format!(",{}{}", "{\"a\":[".repeat(25), "]}".repeat(25));
    let thread = ",\"thread-#\":{\"instance\":0,\"loop\":10,\"policy\":\"SCHED_OTHER\",\"priority\":5,\
                  \"cpus\":[0,1,2],\"run\":1000,\"sleep\":1000,\"lock\":\"m\",\"run\":10,\"unlock\":\"m\",\
                  \"signal\":\"c\",\"run\":3000,\"sem_post\":\"s\",\"sleep\":2000}";
    let events = "{'tasks':{'a':{'loop':1,'run':1";
    let unused = "{'tasks':{'a':{'loop':1,'run':1}},'resources':{'a':{'type':'";
    let only = env::var(ONLY).ok();
    for (what, before, repeated, behind) in [
        ("numbers", "{'tasks':{'a':{'loop':1,'run':1,'cpus':[0", ",0", "]}}}"),
        ("one long string", unused, "xxxxxxxxxx", "'}}}"),
        ("one long string of escapes", unused, "\\n\\u00e4", "'}}}"),
        ("a comment", "{'tasks':{'a':{'loop':1,'run':1}} /*", "xxxxxxxxxx", "*/}"),
        ("nested objects", "{'tasks':{'a':{'loop':1,'run':1,'colour':[0", &deep, "]}}}"),
        ("events", events, ",\"run\":1", "}}}"),
        ("events with numbers", events, ",\"run#\":1", "}}}"),
        ("keys that stand alone", events, ",\"exit\"", "}}}"),
        ("timers", events, ",\"timer\":{\"ref\":\"t\",\"period\":1}", "}}}"),
        ("threads", "{'tasks':{'a':{'loop':1,'run':1}", thread, "}}"),
    ] {
        // Each text has a separate process, because an allocator keeps freed memory.
        match &only {
            None => {
                let mut own = Command::new(env::current_exe().unwrap());
                own.args(["--exact", NAME, "--nocapture"]).env(ONLY, what);
                assert!(own.status().unwrap().success(), "{what}");
            }
            Some(only) if only == what => measured(what, &text(before, repeated, behind)),
            Some(_) => {}
        }
    }
}

fn measured(what: &str, text: &str) {
    let before = peak() - text.len();
    let parsed = parse("-", text, &Overrides::default());
    parsed.unwrap_or_else(|error| panic!("{what}: {error}"));
    let taken = peak() - before;
    println!("{what}: {:.2}", taken as f64 / text.len() as f64);
    assert!(taken <= 3 * text.len() + BESIDES, "{what}: {taken} bytes for {}", text.len());
}
