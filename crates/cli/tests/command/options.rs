//! Tests of the options of `runyard sim`, one after the other, and of refused usage.

use crate::json::Json;
use crate::rig::{call, call_with, sim};

/// A scenario with two policies, sharing, and random times.
const MIXED: &str = r#"{
    "machine": {"cpus": 2, "costs": {"jitter_ns": 500}},
    "features": ["NO_RT_PUSH_PAST_STUCK"],
    "global": {"duration": 1},
    "tasks": {
        "rt": {"policy": "SCHED_FIFO", "priority": 20, "run": {"exponential": 300}, "sleep": 700},
        "work": {"instance": 3, "run": {"uniform": [100, 5000]}, "lock": "m", "run1": 50, "unlock": "m"}
    }
}"#;

#[track_caller]
fn report(options: &[&str]) -> Json {
    Json::read(&sim(MIXED, &[options, &["--json"]].concat()).done())
}

fn features(report: &Json) -> Vec<&str> {
    let places = 0..report.list("features").len();
    places.map(|at| report.text(&format!("features.{at}"))).collect()
}

#[test]
fn cpus_and_topology_are_the_machine() {
    let cpus = |options: &[&str]| {
        let report = report(options);
        assert_eq!(report.list("cpus").len() as f64, report.number("machine.cpus"));
        report.number("machine.cpus")
    };
    assert_eq!(cpus(&[]), 2.0);
    assert_eq!(cpus(&["--cpus", "3"]), 3.0);
    assert_eq!(cpus(&["--topology", "2x3"]), 6.0);
    assert_eq!(cpus(&["--topology=2x2x2"]), 8.0);
    assert_eq!(cpus(&["--topology", "2x2", "--cpus", "4"]), 4.0);
}

#[test]
fn a_large_machine_is_only_large() {
    let report = report(&["--cpus", "65536", "--duration", "1ms"]);
    assert_eq!(report.list("cpus").len(), 65_536);
}

#[test]
fn features_are_switched_after_the_files_in_order() {
    let before = ["RT_PUSH", "RT_PULL", "LOAD_BALANCE", "WAKEUP_PREEMPTION"];
    let all = report(&[]);
    for name in before {
        assert!(features(&all).contains(&name), "{name} is on unless said");
    }
    assert!(!features(&all).contains(&"RT_PUSH_PAST_STUCK"), "the file says so");
    let other = report(&["--feature", "RT_PUSH_PAST_STUCK", "--feature", "NO_RT_PULL"]);
    assert!(features(&other).contains(&"RT_PUSH_PAST_STUCK"));
    assert!(!features(&other).contains(&"RT_PULL"));
    let last = report(&["--feature", "NO_RT_PULL", "--feature=RT_PULL"]);
    assert_eq!(features(&last), features(&all), "the last counts");
}

#[test]
fn a_kernel_is_named_on_the_command_line_or_in_the_file() {
    let in_file = MIXED.replacen("\"cpus\": 2", "\"cpus\": 2, \"kernel\": \"6.6\"", 1);
    let of = |text: &str, options: &[&str]| {
        let report = Json::read(&sim(text, &[options, &["--json"]].concat()).done());
        let names = features(&report).join(" ");
        (report.text("kernel").to_owned(), names)
    };
    let (name, unless_said) = of(MIXED, &[]);
    assert_eq!(name, "6.18 + founding");
    let some = ["LATENCY_NICE", "EEVDF", "PREEMPT_SHORT", "DELAY_DEQUEUE", "FAIR_SERVER"];
    for feature in some.into_iter().chain(["PELT", "BALANCE_BY_ROOM", "NI_RANDOM"]) {
        assert!(unless_said.contains(feature), "{feature}");
    }
    let (name, founding) = of(&in_file, &["--kernel", "6.1 + founding"]);
    assert_eq!(name, "6.1 + founding");
    assert!(founding.contains("LATENCY_NICE") && !founding.contains("EEVDF"));
    let (name, of_file) = of(&in_file, &[]);
    assert_eq!(name, "6.6");
    assert!(!of_file.contains("LATENCY_NICE") && of_file.contains("EEVDF"), "{of_file}");
    let (name, experiment) = of(&in_file, &["--kernel", "rt-migrate"]);
    assert_eq!(name, "rt-migrate");
    assert!(!experiment.contains("RT_PUSH") && experiment.contains("LATENCY_NICE"));
    let (name, switched) =
        of(&in_file, &["--kernel=6.18", "--feature", "LATENCY_NICE", "--feature", "NO_RT_PULL"]);
    assert_eq!(name, "6.18");
    assert!(switched.contains("LATENCY_NICE") && !switched.contains("RT_PULL"), "{switched}");
    let text = sim(&in_file, &["--kernel", "6.18", "--feature", "NO_RT_PULL"]).done();
    assert!(
        text.starts_with("- on sim: 2 CPUs, 4 tasks, 1.00 s, seed 1, kernel 6.18\nNO_RT_PULL\n")
    );
}

#[test]
fn an_unknown_kernel_is_refused_with_the_known_ones() {
    let said = sim(MIXED, &["--kernel", "6.13"]).misused();
    assert!(
        said.contains("\"6.13\"") && said.contains("6.12, 6.18.15, 6.18, rt-migrate"),
        "{said}"
    );
    let in_file = "{\"machine\": {\"kernel\": \"5.4\"}, \"tasks\": {}}";
    let line = sim(in_file, &[]).refused();
    assert!(line.starts_with("-:1:24: unknown kernel \"5.4\"; known are 6.1, 6.6,"), "{line}");
    let pairs = [
        ("6.6", "GENTLE_FAIR_SLEEPERS", "EEVDF is on"),
        ("6.1", "RUN_TO_PARITY", "a part of EEVDF"),
        ("6.1", "DELAY_DEQUEUE", "a part of EEVDF"),
        ("6.6", "PREEMPT_SHORT", "changes no rule of 6.6"),
        ("6.6", "PLACE_REL_DEADLINE", "changes no rule of 6.6"),
    ];
    for (kernel, feature, why) in pairs {
        let line = sim(MIXED, &["--kernel", kernel, "--feature", feature]).refused();
        assert!(line.contains(feature) && line.contains(why), "{line}");
    }
    for name in ["rt-migrate + founding", "6.12 + anything"] {
        assert!(sim(MIXED, &["--kernel", name]).misused().contains("unknown kernel"), "{name}");
    }
}

#[test]
fn the_seed_is_what_is_drawn_from() {
    let tasks = |options: &[&str]| report(options).at("tasks").clone();
    assert_eq!(report(&[]).number("seed"), 1.0);
    assert_eq!(report(&["--seed", "77"]).number("seed"), 77.0);
    assert_eq!(tasks(&["--seed", "77"]), tasks(&["--seed", "77"]));
    assert_ne!(tasks(&["--seed", "77"]), tasks(&["--seed", "78"]));
    let largest = sim(MIXED, &["--json", "--seed", "18446744073709551615"]).done();
    assert!(largest.contains("\"seed\": 18446744073709551615,"), "to the last digit");
}

#[test]
fn the_duration_is_a_number_with_a_unit() {
    let duration = |options: &[&str]| report(options).number("duration_ns");
    assert_eq!(duration(&[]), 1e9, "the file's");
    assert_eq!(duration(&["--duration", "5us"]), 5e3);
    assert_eq!(duration(&["--duration", "250ms"]), 250e6);
    assert_eq!(duration(&["--duration", "2s"]), 2e9);
    assert_eq!(duration(&["--duration=1m"]), 60e9);
    for bad in ["", "s", "-1s", "+1s", "10 s", " 1s", "0", "0s", "0m", "1d", "1S", "1min"] {
        let said = sim(MIXED, &[&format!("--duration={bad}")]).misused();
        assert!(said.contains("--duration"), "{bad}: {said}");
    }
    let centuries = format!("--duration={}s", u64::MAX);
    sim(MIXED, &[&centuries]).misused();
}

#[test]
fn a_check_says_that_it_was_one() {
    let unchecked = sim(MIXED, &[]).done();
    assert!(unchecked.contains("not checked"), "{unchecked}");
    let checked = sim(MIXED, &["--check"]).done();
    assert!(checked.contains("Invariants") && !checked.contains("not checked"), "{checked}");
    assert!(sim(MIXED, &["--check=full"]).done().contains("checked, all held"));
    sim(MIXED, &["--check=some"]).misused();
    let same = |text: &str| {
        let lines = text.lines().filter(|line| !line.contains("wall time"));
        let lines = lines.filter(|line| !line.starts_with("Invariants"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(same(&unchecked), same(&checked), "to look changes nothing");
}

#[test]
fn a_broken_invariant_is_exit_code_1() {
    let spin = r#"{"tasks": {"a": {"lock": "m", "unlock": "m"}}, "global": {"duration": 1}}"#;
    for options in [&["--json"][..], &["--json", "--check"], &["--json", "--check=full"]] {
        let said = sim(spin, options);
        assert_eq!(said.code, Some(1), "{}", said.err);
        let report = Json::read(&said.out);
        assert_eq!(report.list("violations").len(), 1);
        assert_eq!(report.at("violations.0").keys(), ["invariant", "at_ns", "what"]);
        assert_eq!(report.text("violations.0.invariant"), "progress");
        assert!(report.text("violations.0.what").starts_with("a "), "it names the task");
        assert_eq!(said.err.is_empty(), options.len() == 1, "a check draws a picture");
    }
    let said = sim(spin, &["--check"]);
    assert_eq!(said.code, Some(1));
    assert!(said.out.contains("progress"), "{}", said.out);
}

#[test]
fn usage_is_refused_with_exit_code_2() {
    for arguments in [
        &["sim"][..],
        &["sim", "-", "extra"],
        &["sim", "-", "--no-such-option"],
        &["sim", "-", "--cpus"],
        &["sim", "-", "--cpus", "-1"],
        &["sim", "-", "--cpus", "four"],
        &["sim", "-", "--cpus", "1.5"],
        &["sim", "-", "--topology", "4"],
        &["sim", "-", "--topology", "0x1"],
        &["sim", "-", "--topology", "2x"],
        &["sim", "-", "--topology", "65536x2"],
        &["sim", "-", "--seed", "-1"],
        &["sim", "-", "--seed", "18446744073709551616"],
        &["sim", "-", "--seed", "1", "--seed", "2"],
        &["sim", "-", "--feature", "NO_SUCH"],
        &["sim", "-", "--feature", "NO_"],
        &["sim", "-", "--feature", "rt_push"],
        &["sim", "-", "--feature", ""],
        &["reproduce", "no-such-experiment"],
        &["reproduce", "--host", "moon"],
        &["reproduce", "--out"],
        &["no-such-command"],
    ] {
        call(arguments).misused();
    }
    let said = sim(MIXED, &["--feature", "NO_SUCH"]).misused();
    assert!(said.contains("RT_PUSH_PAST_STUCK"), "it names those that there are: {said}");
    let nothing = call(&[]);
    assert_eq!((nothing.code, nothing.out.as_str()), (Some(2), ""));
}

#[test]
fn a_machine_that_cannot_be_is_a_mistake_of_the_option() {
    for host in ["sim", "live", "linux"] {
        for cpus in ["0", "65537", "18446744073709551615"] {
            let said = call(&[host, "-", "--cpus", cpus]).misused();
            assert!(said.contains("--cpus") && said.contains("1 to 65536"), "{host}: {said}");
        }
    }
}

#[test]
fn help_and_version_are_no_mistakes() {
    for arguments in [&["--help"][..], &["--version"], &["sim", "--help"], &["reproduce", "-h"]] {
        assert!(!call(arguments).done().is_empty());
    }
    let help = call(&["sim", "--help"]).done();
    let options =
        ["--cpus", "--topology", "--feature", "--seed", "--duration", "--json", "--check"];
    for option in options {
        assert!(help.contains(option), "{option}");
    }
}

/// All options that take a time read it alike, and as the scenario's own `duration`.
#[test]
fn a_time_has_a_unit_or_is_in_seconds() {
    let scenario = r#"{"tasks": {"a": {"run": 300, "sleep": 700}}, "global": {"duration": "1h"}}"#;
    let json =
        |options: &[&str]| Json::read(&sim(scenario, &[options, &["--json"]].concat()).done());
    for time in ["1.5", "1.5s", "1500ms", "1500000us", "0.025m"] {
        assert_eq!(json(&["--duration", time]).number("duration_ns"), 1.5e9, "{time}");
        assert_eq!(json(&["--until", time]).number("duration_ns"), 1.5e9, "{time}");
        assert_eq!(json(&["--from", time, "--until", "2"]).number("from_ns"), 1.5e9, "{time}");
        let late = ["explain", "-", "--task", "a", "--duration", "2", "--at", time];
        assert!(call_with(&late, scenario.as_bytes()).done().contains("1.5"), "{time}");
    }
    let said = sim(scenario, &["--duration", "0"]);
    assert!(said.code == Some(2) && said.err.contains("a run takes some time"), "{}", said.err);
}

#[test]
fn a_part_of_a_run_is_reported_or_refused() {
    let scenario = r#"{"tasks": {"a": {"run": {"exponential": 300}, "sleep": 700}}, "global": {"duration": 2}}"#;
    let json =
        |options: &[&str]| Json::read(&sim(scenario, &[options, &["--json"]].concat()).done());
    let part = json(&["--from", "500ms", "--until", "1.5s"]);
    assert_eq!((part.number("from_ns"), part.number("duration_ns")), (5e8, 1e9));
    let whole = json(&[]);
    assert_eq!(whole.number("from_ns"), 0.0);
    let share = |it: &Json| it.number("tasks.0.runtime_ns") / it.number("duration_ns");
    assert!((share(&part) / share(&whole) - 1.0).abs() < 0.1);
    assert_eq!(json(&["--warmup", "1s"]).number("from_ns"), 1e9);
    for (options, what) in [
        (&["--from", "2s"][..], "-:1:1: the run ends at 2.000 s: from must be before it"),
        (&["--warmup", "1s", "--until", "1s"], "-:1:1: the run ends at 1.000 s: from must be"),
        (&["--until", "2001ms"], "-:1:1: until 2.001 s is beyond the duration of the run, 2.000 s"),
        (&["--from", "1s", "--warmup", "1s"], "cannot be used multiple times"),
        (&["--from", "soon"], "a time is a number of seconds, or a number and us, ms, s, m or h"),
    ] {
        let said = sim(scenario, options);
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{}", said.err);
        assert!(said.err.contains(what), "{}", said.err);
    }
    let short = r#"{"tasks": {"a": {"run": 1000, "loop": 3}}}"#;
    let said = sim(short, &["--from", "1s"]);
    assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{}", said.err);
    assert!(said.err.contains("the run ended at 0.003"), "{}", said.err);
}
