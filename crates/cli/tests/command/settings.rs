//! Tests of `--set`, and of the lists of tunables and features.

use crate::json::Json;
use crate::rig::{call, call_with, sim};

const HOGS: &str = r#"{
    "machine": {"cpus": 2}, "global": {"duration": 1},
    "tasks": {"hog": {"instance": 3, "run": 20000}, "tick": {"run": 100, "sleep": 900}}
}"#;

/// Returns the report of a run without its wall-clock time.
fn report(scenario: &str, options: &[&str]) -> String {
    let report = sim(scenario, &[options, &["--json"]].concat()).done();
    report.lines().filter(|line| !line.contains("wall_ns")).collect()
}

#[test]
fn a_setting_is_an_edit_of_the_file() {
    let edited = HOGS
        .replace("\"global\"", "\"scheduler\": {\"base_slice_us\": 300}, \"global\"")
        .replace("20000", "{\"uniform\": [100, 300]}");
    let settings = [
        "--set",
        "scheduler.base_slice_us=300",
        "--set",
        "tasks.hog.run={\"uniform\": [100, 200]}",
    ];
    let all = [&settings[..], &["--set", "tasks.hog.run.uniform.1=300"]].concat();
    assert_eq!(report(HOGS, &all), report(&edited, &[]));
    assert_ne!(report(HOGS, &settings), report(&edited, &[]));
    let report =
        Json::read(&sim(HOGS, &["--cpus", "3", "--set", "machine.topology=2x2", "--json"]).done());
    assert_eq!(report.number("machine.cpus"), 4.0);
}

#[test]
fn wrong_settings_are_refused_in_a_line() {
    let refused = |setting: &str| sim(HOGS, &["--set", setting]).refused();
    let told =
        "--set tasks.hog.rum=5: \"rum\" is not known in tasks.hog; did you mean tasks.hog.run?";
    assert_eq!(refused("tasks.hog.rum=5"), told);
    assert!(
        refused("tasks.hog.run=-5").starts_with("--set tasks.hog.run=-5: expected microseconds, ")
    );
    let told = "--set scheduler.latency_us=9000: `latency_us` has no effect on 6.18 + founding: it is a number of CFS, and \
                EEVDF is on (kernels that have it: 6.1)";
    assert_eq!(refused("scheduler.latency_us=9000"), told);
    let misused = sim(HOGS, &["--set", "tasks.hog.run"]).misused();
    assert!(misused.contains("a setting is PATH=VALUE"), "{misused}");
}

/// A hog in a group with this limit.
fn limited(limit: &str) -> String {
    let groups = format!(r#""groups": {{"/pod": {{{limit}}}}}, "tasks""#);
    HOGS.replace("\"tasks\"", &groups).replace("\"instance\": 3", "\"group\": \"/pod\"")
}

#[test]
fn a_file_of_a_group_replaces_what_spells_the_same() {
    let founding = limited(r#""runtime": 20000, "period": 100000"#);
    let kernels = limited(r#""cpu.max": "30000 50000""#);
    let set = ["--set", "groups./pod.cpu.max=30000 50000"];
    assert_eq!(report(&founding, &set), report(&kernels, &[]));
    assert_ne!(report(&founding, &[]), report(&kernels, &[]));
    let told = sim(&founding, &["--set", "groups./pod.cpu.uclamp.max=50"]).refused();
    assert!(told.contains("cpu.uclamp") && told.contains("does not exist here yet"), "{told}");
}

#[test]
fn the_share_of_the_founding_pool_is_refused_where_no_group_has_one() {
    let share = ["--feature", "RUNTIME_SHARE"];
    let told = sim(&limited(r#""cpu.max": "20000""#), &share).refused();
    assert!(told.contains("RUNTIME_SHARE belongs to the founding pool"), "{told}");
    let per_cpu = limited(r#""runtime": 20000, "period": 100000, "per_cpu": true"#);
    sim(&per_cpu, &share).done();
    let founding = ["--feature", "NO_CFS_BANDWIDTH", "--feature", "RUNTIME_SHARE"];
    sim(&limited(r#""cpu.max": "20000""#), &founding).done();
}

#[test]
fn the_lists_have_all_that_can_be_set_and_switched() {
    let list = |options: &[&str]| Json::read(&call(&[options, &["--json"]].concat()).done());
    let tunables = list(&["tunables", "--kernel", "6.1", "--cpus", "4"]);
    assert_eq!(tunables.text("kernel"), "6.1");
    let latency =
        (0..).find(|at| tunables.text(&format!("tunables.{at}.path")).ends_with("latency_us"));
    let latency = format!("tunables.{}", latency.unwrap());
    assert_eq!(tunables.number(&format!("{latency}.default")), 18_000.0);
    assert_eq!(tunables.number(&format!("{latency}.min")), 100.0);
    let features = list(&["features", "--kernel", "6.1"]);
    assert_eq!(features.list("features").len(), 27);
    for command in ["tunables", "features"] {
        let text = call(&[command]).done();
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(110), "{widest:?}\n{text}");
        assert!(text.contains("6.18 + founding"), "{text}");
        assert!(!text.lines().any(|line| line.ends_with(' ')));
    }
}

/// `--set` accepts each listed tunable, and the listed default is the real one.
#[test]
fn what_is_listed_can_be_set() {
    let tunables = Json::read(&call(&["tunables", "--cpus", "2", "--json"]).done());
    let plain = report(HOGS, &[]);
    let mut settings = Vec::new();
    for at in 0..tunables.list("tunables").len() {
        let text = |key: &str| tunables.text(&format!("tunables.{at}.{key}"));
        if text("type") == "integer"
            && tunables.at(&format!("tunables.{at}.default")) != &Json::Null
        {
            let default = tunables.number(&format!("tunables.{at}.default"));
            settings.push(format!("{}={default}", text("path")));
        }
    }
    assert!(settings.len() > 12, "{settings:?}");
    let options: Vec<_> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    assert_eq!(report(HOGS, &options), plain);
}

#[test]
fn real_cpus_say_what_has_no_effect() {
    let text = HOGS.replace("\"duration\": 1", "\"duration\": 1, \"gnuplot\": false");
    let options = ["linux", "-", "--duration", "20ms", "--set", "scheduler.base_slice_us=300"];
    let said = call_with(&options, text.as_bytes());
    if said.code == Some(0) {
        let told =
            "warning: linux runs under the kernel's own scheduler: `scheduler` has no effect";
        assert!(said.err.contains(told), "{}", said.err);
    }
}
