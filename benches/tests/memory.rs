//! This test needs the program because `live memory` measures each runtime in a process of its own.

use serde_json::Value;
use std::process::Command;

#[test]
fn every_task_has_memory_and_only_groups_have_limits() {
    const TASKS: u64 = 100_000;
    let mut live = Command::new(env!("CARGO_BIN_EXE_live"));
    let output = live
        .args(["memory", "--json", "--iterations", &TASKS.to_string()])
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
    let memory = report["memory"].as_array().expect("it has measured the memory of tasks");
    let sides: Vec<_> = memory
        .iter()
        .map(|side| (side["host"].as_str().unwrap(), side["asleep"].as_bool().unwrap()))
        .collect();
    assert_eq!(sides, [("runyard", false), ("tokio", false), ("runyard", true), ("tokio", true)]);
    for side in memory {
        assert_eq!(side["tasks"], TASKS);
        // A task takes more than two pointers, and less than a page of 4 KiB.
        let bytes = side["bytes_each"].as_f64().expect("it is a number");
        assert!((16.0..4_096.0).contains(&bytes), "{side}");
        // Only the tasks that sleep end.
        assert_eq!(side["kept_bytes_each"].is_number(), side["asleep"] == true, "{side}");
    }
    assert!(memory[0]["set_limit_ns"].as_u64() > Some(0), "{}", memory[0]);
    assert!(memory[1]["set_limit_ns"].is_null(), "{}", memory[1]);
}
