//! Refused input: its place is on standard error, standard output is empty, and the exit code is 2.

use crate::rig::{call, call_with, file, folder, sim};

const GOOD: &str = "{\"tasks\": {\"a\": {\"loop\": 1, \"run\": 100}}}";

#[test]
fn what_is_wrong_has_a_place_in_the_file() {
    for (name, text, place) in [
        ("empty.json", "", "1:1"),
        ("blank.json", " \n \n", "1:1"),
        ("cut.json", "{\"tasks\": {", "1:11"),
        (
            "policy.json",
            "{\n  \"tasks\": {\"a\": {\n    \"policy\": \"SCHED_EXT\", \"run\": 1}}}",
            "3:15",
        ),
        ("cpus.json", "{\"tasks\": {\"a\": {\"cpus\": [], \"loop\": 1, \"run\": 1}}}", "1:26"),
        ("cpu-8.json", "{\"tasks\": {\"a\": {\"cpus\": [8], \"loop\": 1, \"run\": 1}}}", "1:27"),
        ("no-tasks.json", "{\"tasks\": {}}", "1:11"),
        ("for-ever.json", "{\"tasks\": {\n\"a\": {\"run\": 1}}}", "2:1"),
        ("fork.json", "{\"tasks\": {\"a\": {\"loop\": 1, \"fork\": \"b\"}}}", "1:37"),
        ("feature.json", "{\"features\": [\"RT_PUSHES\"], \"tasks\": {}}", "1:15"),
        ("size.json", "{\"machine\": {\"cpus\": 3, \"topology\": \"2x2\"}, \"tasks\": {}}", "1:37"),
        ("many.json", "{\"machine\": {\"cpus\": 65537}, \"tasks\": {}}", "1:22"),
    ] {
        let line = call(&["sim", &file(name, text)]).refused();
        let what = line.strip_prefix(&format!("{name}:{place}: "));
        assert!(what.is_some_and(|what| what.len() > 5), "{name}:{place}: {line}");
    }
}

#[test]
fn standard_input_is_called_a_dash() {
    assert!(sim("", &[]).refused().starts_with("-:1:1: "));
    assert!(sim("{\"tasks\": [", &[]).refused().starts_with("-:1:"));
    assert!(call(&["sim", "-"]).refused().starts_with("-:1:1: "));
    sim(GOOD, &[]).done();
}

#[test]
fn what_is_no_text_has_a_place_too() {
    let name = file("latin.json", b"{\n\n  \"\xc3\xa4 \xe4\": 1}");
    assert_eq!(call(&["sim", &name]).refused(), "latin.json:3:6: not UTF-8");
    assert_eq!(call_with(&["sim", "-"], b"\xff").refused(), "-:1:1: not UTF-8");
    assert_eq!(call_with(&["sim", "-"], b"{} \xe2\x82").refused(), "-:1:4: not UTF-8");
    let zeros = file("zeros.json", [0; 4096]);
    assert!(call(&["sim", &zeros]).refused().starts_with("zeros.json:1:1: "));
}

#[test]
fn what_cannot_be_read_is_bad_input() {
    let line = call(&["sim", "no/such/file.json"]).refused();
    assert!(line.starts_with("cannot read no/such/file.json: No such file"), "{line}");
    std::fs::create_dir_all(folder().join("a-folder")).unwrap();
    let line = call(&["sim", "a-folder"]).refused();
    assert!(line.starts_with("cannot read a-folder: Is a directory"), "{line}");
}

#[test]
fn nesting_ends_somewhere() {
    for (open, depth) in [("[", 100_000), ("{\"a\":", 100_000), ("[", 5_000_000)] {
        let line = sim(&open.repeat(depth), &[]).refused();
        assert!(line.starts_with("-:1:") && line.contains("nested"), "{line}");
    }
    let name = format!("{{\"groups\": {{\"{}\": {{}}}}, \"tasks\": {{}}}}", "/a".repeat(100_000));
    assert!(sim(&name, &[]).refused().starts_with("-:1:13: "));
    let comment = format!("{}{GOOD}", "/* */".repeat(100_000));
    sim(&comment, &[]).done();
}

#[test]
fn a_million_tasks_are_enough() {
    let tasks =
        |n| format!("{{\"tasks\": {{\"a\": {{\"instance\": {n}, \"loop\": 1, \"run\": 1}}}}}}");
    let line = sim(&tasks(1_000_001), &[]).refused();
    assert!(line.starts_with("-:1:12: ") && line.contains("1000000"), "{line}");
    assert!(sim(&tasks(u64::MAX), &[]).refused().starts_with("-:1:"));
}

#[test]
fn a_message_is_one_line_whatever_was_written() {
    let line =
        sim("{\"tasks\": {\"a\": {\"policy\": \"a\\nb\\u001b[31m\", \"run\": 1}}}", &[]).refused();
    assert!(!line.contains('\u{1b}'), "{line:?}");
    let line =
        sim(&format!("{{\"tasks\": {{\"a\": {{\"policy\": \"{}\"}}}}}}", "x".repeat(100_000)), &[]);
    assert!(line.refused().len() < 1_000, "long words are cut");
}

#[test]
fn what_is_odd_is_warned_about_once_and_runs() {
    let text = "{\"tasks\": {\n \"a\": {\"loop\": 1, \"colour\": 1, \"run\": 1},\n \"b\": {\"loop\": 1, \"colour\": 2, \"run\": 1}}}";
    let said = sim(text, &["--json"]);
    assert_eq!(said.code, Some(0));
    assert!(said.err.starts_with("warning: -:2:19: \"colour\" "), "{}", said.err);
    assert_eq!(said.err.lines().count(), 1);
    crate::json::Json::read(&said.out);
}

#[test]
fn what_the_options_ask_for_is_held_to_the_file() {
    let pinned = "{\"tasks\": {\"a\": {\"cpus\": [5], \"loop\": 1, \"run\": 1}}}";
    sim(pinned, &[]).done();
    assert!(sim(pinned, &["--cpus", "4"]).refused().starts_with("-:1:27: "));
    assert!(sim(pinned, &["--topology", "2x2"]).refused().starts_with("-:1:27: "));
    let line = sim(GOOD, &["--cpus", "5", "--topology", "2x2"]).refused();
    assert!(line.starts_with("-:1:1: ") && line.contains('5') && line.contains("2x2"), "{line}");
    sim(GOOD, &["--cpus", "4", "--topology", "2x2"]).done();
    let for_ever = "{\"tasks\": {\"a\": {\"run\": 1}}}";
    sim(for_ever, &["--duration", "1ms"]).done();
}

#[test]
fn a_scenario_has_at_most_500_megabytes() {
    let long = vec![b' '; 500_000_001];
    assert_eq!(call_with(&["sim", "-"], &long).refused(), "-:1:1: larger than 500 MB");
    let name = file("too-long.json", "");
    let path = folder().join(&name);
    std::fs::File::create(&path).unwrap().set_len(5_000_000_000).unwrap();
    let said = call(&["sim", &name]).refused();
    std::fs::remove_file(path).unwrap();
    assert_eq!(said, "too-long.json:1:1: larger than 500 MB");
}
