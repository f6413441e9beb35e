//! The table of tunables agrees with the reader: each key, its range, its default, and its effect.

use runyard_engine::config::Config;
use runyard_engine::kernel::Model;
use runyard_workload::tunables::{ALL, Takes, Tunable};
use runyard_workload::{Overrides, Scenario, parse};
use std::collections::BTreeSet;

/// Returns a kernel that has the tunable.
fn kernel(tunable: &Tunable) -> Model {
    Model::named(tunable.kernels().next().expect("some kernel has it"))
}

/// Returns a scenario that sets `path`, or nothing.
fn with(model: Model, set: Option<(&str, &str)>) -> Result<Scenario, String> {
    let settings = set.map(|(path, value)| format!("{path}={value}").parse().unwrap());
    let over = Overrides {
        kernel: Some(model).filter(|_| set.is_none_or(|(path, _)| path != "machine.kernel")),
        settings: settings.into_iter().collect(),
        ..Overrides::default()
    };
    let parsed = parse("-", "{\"tasks\": {\"a\": {\"run\": 1, \"loop\": 1}}}", &over);
    parsed.map(|parsed| parsed.scenario).map_err(|error| error.to_string())
}

/// Returns all values of the machine as text.
fn machine(scenario: &Scenario) -> String {
    format!("{:?} {:?}", scenario.config(), scenario.machine)
}

/// Returns a value that is not the default.
fn another(tunable: &Tunable, default: Option<&str>) -> String {
    match (tunable.takes, default) {
        (Takes::Integer { high, .. }, Some(default)) => {
            let default: i64 = default.parse().unwrap();
            (if default < high { default + 1 } else { default - 1 }).to_string()
        }
        (Takes::Integer { low, .. }, None) => low.to_string(),
        (Takes::Switch, default) => (default == Some("false")).to_string(),
        (Takes::Part, _) => "0.25".to_owned(),
        (Takes::Shape, _) => "\"2x3\"".to_owned(),
        (Takes::Kernel, _) => "\"6.12\"".to_owned(),
        (Takes::Cpus, _) => "\"1-2\"".to_owned(),
        (Takes::Preemption, _) => "\"lazy\"".to_owned(),
    }
}

#[test]
fn each_tunable_changes_the_machine_and_is_read_back() {
    for tunable in ALL {
        let plain = with(kernel(tunable), None).unwrap();
        let default = tunable.value(&plain);
        let value = another(tunable, default.as_deref());
        let changed = with(kernel(tunable), Some((tunable.path, &value))).unwrap();
        assert_eq!(tunable.value(&changed), Some(value), "{}", tunable.path);
        assert_ne!(machine(&changed), machine(&plain), "{}", tunable.path);
        // The default in the table is the reader's default.
        let Some(default) = default else { continue };
        let same = with(kernel(tunable), Some((tunable.path, &default))).unwrap();
        assert_eq!(machine(&same), machine(&plain), "{}", tunable.path);
    }
}

#[test]
fn ranges_are_those_of_the_reader() {
    for tunable in ALL {
        let Takes::Integer { low, high, unit } = tunable.takes else { continue };
        for value in [low, high] {
            let set = with(kernel(tunable), Some((tunable.path, &value.to_string())));
            assert!(
                !set.is_err_and(|error| error.contains("expected")),
                "{}={value}",
                tunable.path
            );
        }
        for value in [low - 1, high + 1] {
            let set = with(kernel(tunable), Some((tunable.path, &value.to_string())));
            let error = set.expect_err(tunable.path);
            assert!(
                error.contains(&format!("expected {unit}, an integer of {low} to ")),
                "{error}"
            );
        }
    }
}

#[test]
fn a_tunable_is_refused_where_the_scheduler_lacks_it() {
    let refused = |kernel: &str| {
        let model: Model = kernel.parse().unwrap();
        let plain = with(model, None).unwrap();
        let lacked = ALL.iter().filter(|tunable| {
            let value = another(tunable, None).replace("100", "1000");
            let error = with(model, Some((tunable.path, &value))).err();
            let is_lacked = error.is_some_and(|error| error.contains("has no effect on"));
            let is_listed =
                tunable.path.starts_with("scheduler.") && tunable.value(&plain).is_none();
            assert_eq!(is_lacked, is_listed, "{} on {kernel}", tunable.path);
            is_lacked
        });
        lacked.map(|tunable| tunable.path.strip_prefix("scheduler.").unwrap()).collect::<Vec<_>>()
    };
    let server = ["fair_server_runtime_us", "fair_server_period_us"];
    let throttling = ["rt_period_us", "rt_runtime_us"];
    let cfs = ["latency_us", "min_granularity_us", "wakeup_granularity_us"];
    assert_eq!(refused("6.1"), [&["base_slice_us"][..], &server].concat());
    assert_eq!(refused("6.6"), [&cfs[..], &server].concat());
    assert_eq!(refused("6.18"), [&cfs[..], &throttling].concat());
    assert_eq!(refused("6.18 + founding"), refused("6.18"));
    let error = with("6.18".parse().unwrap(), Some(("scheduler.latency_us", "5000"))).unwrap_err();
    let expected = "--set scheduler.latency_us=5000: `latency_us` has no effect on 6.18: it is a number of CFS, and EEVDF \
                    is on (kernels that have it: 6.1)";
    assert_eq!(error, expected);
}

/// All numbers and switches of the engine are tunables, except for those listed here.
#[test]
fn no_number_of_the_engine_is_left_out() {
    let Config {
        topology: _,    // machine.topology, machine.cpus
        domains: _,     // machine.isolated, cpuset.cpus.partition
        features: _,    // features
        rules: _,       // machine.kernel
        accounts: _,    // no decision depends on it
        cookies: _,     // a task's or a group's cookie
        tick: _,        // machine.tick_hz
        packs_below: _, // machine.packs_below
        skew_tick: _,   // machine.skew_tick
        tickless: _,    // the simulator is never
        latency: _,
        min_granularity: _,
        wakeup_granularity: _,
        base_slice: _,
        migration_cost: _,
        deep_sleep: _,
        rr_slice: _,
        rt_runtime: _,
        rt_period: _,
        server_runtime: _,
        server_period: _,
        bandwidth_slice: _,
    } = with(Model::NEWEST, None).unwrap().config();
    let scheduler = ALL.iter().filter(|tunable| tunable.path.starts_with("scheduler."));
    assert_eq!(scheduler.count(), 12);
}

#[test]
fn each_tunable_is_told_once_and_in_a_sentence() {
    let paths: BTreeSet<_> = ALL.iter().map(|tunable| tunable.path).collect();
    assert_eq!(paths.len(), ALL.len());
    for tunable in ALL {
        assert!(tunable.what.ends_with('.') && tunable.what.len() > 20, "{}", tunable.path);
        assert!(!tunable.source.is_empty());
    }
}

/// An object of tunables refuses a key that the table does not have, and suggests the nearest one.
#[test]
fn other_keys_are_refused() {
    for (text, what) in [
        ("'machine': {'cores': 4}", "-:1:14: \"cores\" is not known in `machine`"),
        (
            "'machine': {'cpu': 4}",
            "-:1:14: \"cpu\" is not known in `machine`; did you mean \"cpus\"?",
        ),
        ("'machine': {'costs': {'foo': 4}}", "-:1:24: \"foo\" is not known in `costs`; known are"),
        (
            "'machine': {'smt': {'speed': 4}}",
            "-:1:22: \"speed\" is not known in `smt`; did you mean",
        ),
        (
            "'scheduler': {'base_slice': 4}",
            "-:1:16: \"base_slice\" is not known in `scheduler`; did you",
        ),
        (
            "'groups': {'/a': {'wieght': 4}}",
            "-:1:20: \"wieght\" is not known in a task group; did you",
        ),
    ] {
        let text = format!("{{{text}, 'tasks': {{'a': {{'run': 1, 'loop': 1}}}}}}");
        let error = parse("-", &text, &Overrides::default()).expect_err(&text).to_string();
        assert!(error.starts_with(what), "{error}");
    }
}
