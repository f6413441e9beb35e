//! Tests of `runyard import`: its outputs, and the input that it refuses.

use crate::rig::{call, call_with, file, folder};
use serde_json::Value;

const RECORDING: &str = "\
swapper 0 [000] 1.000000: sched:sched_switch: swapper/0:0 [120] R ==> a:11 [120]
what is this?
a 11 [000] 1.000100: sched:sched_waking: b c:12 [120] CPU:000
a 11 [000] 1.000120: sched:sched_switch: a:11 [120] S ==> b c:12 [120]
b c 12 [000] 1.000240: sched:sched_switch: b c:12 [120] S ==> swapper/0:0 [120]
";

#[test]
fn a_recording_becomes_a_scenario_that_sim_runs() {
    let said = call_with(&["import", "-"], RECORDING.as_bytes());
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.starts_with("skipped: -:2:1: no event"), "{}", said.err);
    assert!(said.err.ends_with("4 events in 0 ms; tasks: 2; CPUs: 1\n"), "{}", said.err);
    let report = call_with(&["sim", "-", "--json", "--check"], said.out.as_bytes()).done();
    let report: Value = serde_json::from_str(&report).unwrap();
    let task = |nth: usize| {
        let task = &report["tasks"][nth];
        (task["name"].as_str().unwrap().to_owned(), task["runtime_ns"].as_u64().unwrap())
    };
    assert_eq!(task(0), ("a-11".to_owned(), 120_000));
    // The second task began a cost later, and the replay ends with the recording.
    let (name, ran) = task(1);
    assert!(name == "b c-12" && (119_000..=120_000).contains(&ran), "{name}: {ran}");
}

/// The replay uses the newest kernel model that is not newer than the recorded kernel. The command line overrides it.
#[test]
fn a_replay_goes_by_the_kernel_that_was_recorded() {
    let headed = format!("# ========\n# os release : 6.14.0-rc2\n# ========\n{RECORDING}");
    let kernel = |text: &str, options: &[&str]| {
        let said = call_with(&[&["import", "-"], options].concat(), text.as_bytes());
        let report = call_with(&["sim", "-", "--json"], said.out.as_bytes()).done();
        let report: Value = serde_json::from_str(&report).unwrap();
        (report["kernel"].as_str().unwrap().to_owned(), said.err)
    };
    let (name, said) = kernel(&headed, &[]);
    assert!(name == "6.12" && said.contains("goes by kernel 6.12\n"), "{name}: {said}");
    assert_eq!(kernel(&headed, &["--kernel", "6.6"]).0, "6.6");
    let (name, said) = kernel(RECORDING, &[]);
    assert!(name == "6.18 + founding" && !said.contains("kernel"), "{name}: {said}");
}

#[test]
fn a_scenario_goes_into_a_file_and_the_figures_to_standard_output() {
    let recording = file("recording.txt", RECORDING);
    let said = call(&["import", &recording, "--out", "imported.json", "--json"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let figures: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(figures["schema"], "runyard.import/1");
    assert_eq!(figures["skipped"], 1);
    assert_eq!(figures["tasks"][1]["name"], "b c-12");
    assert_eq!(figures["tasks"][1]["wait_ns"], 20_000);
    let written = std::fs::read_to_string(folder().join("imported.json")).unwrap();
    assert!(written.contains("\"delay\": 100"), "who wakes up once comes late: {written}");
    assert!(!written.contains("\"sem_post\":"), "and is woken by nobody: {written}");
}

/// Both commands cut a recording in the same way.
#[test]
fn a_part_of_a_recording_is_imported() {
    for command in ["import", "replay"] {
        let args = [command, "-", "--from", "100us", "--until", "200us"];
        let said = call_with(&args, RECORDING.as_bytes());
        assert_eq!(said.code, Some(0), "{}", said.err);
        assert!(said.err.contains("2 events in 0 ms; tasks: 1; CPUs: 1\n"), "{}", said.err);
        let args = [command, "-", "--from", "2s", "--until", "2s"];
        let said = call_with(&args, RECORDING.as_bytes()).refused();
        assert_eq!(said, "--until is not after --from, or not after the begin");
        let said = call_with(&[command, "-", "--from", "2s"], RECORDING.as_bytes()).refused();
        assert!(said.contains("none of its 4 events is in the wanted part"), "{said}");
    }
}

#[test]
fn the_figures_need_no_file_for_the_scenario() {
    let said = call_with(&["import", "-", "--json"], RECORDING.as_bytes());
    assert_eq!(said.code, Some(0), "{}", said.err);
    let figures: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(figures["schema"], "runyard.import/1");
}

#[test]
fn a_text_without_a_line_that_makes_sense_is_bad_input() {
    let said = call_with(&["import", "-"], b"\n  no recording\n").refused();
    assert!(said.starts_with("-:2:3: no event"), "{said}");
    let said = call(&["import", "no-such-file"]).refused();
    assert!(said.starts_with("cannot read no-such-file: No such file"), "{said}");
}

#[test]
fn bytes_that_are_no_text_are_a_name_like_any_other() {
    let recording = RECORDING.replace("b c", "b \u{1}").into_bytes();
    let recording = recording.into_iter().map(|byte| if byte == 1 { 0xff } else { byte });
    let said = call_with(&["import", "-"], &recording.collect::<Vec<_>>());
    assert!(said.out.contains("\"b \u{fffd}-12\""), "{}", said.out);
}

/// Both commands read recordings, so both refuse them alike.
#[test]
fn a_recording_that_says_nothing_of_tasks_is_refused_with_the_command_that_records_them() {
    let marks = b"a-1 [000] d... 1.0: tracing_mark_write: B|1|x\n";
    for command in ["import", "replay"] {
        let said = call_with(&[command, "-"], marks).refused();
        assert!(said.starts_with("-:1:1: no `sched_switch` is in it"), "{said}");
        assert!(said.contains("perf sched record"), "{said}");
        let said = call_with(&[command, "-"], b"PERFILE2\0\0").refused();
        assert!(said.contains("`perf script --ns --header -i FILE > recorded.txt`"), "{said}");
        let broken = "a 1 [000] 1.0: sched:sched_switch: prev_comm=a\n".repeat(5);
        let mostly = format!("{RECORDING}{broken}");
        let said = call_with(&[command, "-"], mostly.as_bytes()).refused();
        assert!(said.contains("5 of 9 lines of the scheduler make no sense"), "{said}");
        let said = call_with(&[command, "-", "--partly"], mostly.as_bytes());
        assert_eq!(said.code, Some(0), "{}", said.err);
    }
}
