//! The tunables of the scheduler: the effect of one, and the validity of the ends of their ranges.

use runyard_engine::event::{Event, What};
use runyard_engine::kernel::Model;
use runyard_engine::time::{Nanos, Time};
use runyard_sim::{Check, Options, Outcome, Sim};
use runyard_workload::tunables::{ALL, Takes};
use runyard_workload::{Overrides, parse};

/// Three hogs, a periodic task and a real-time one on each of two CPUs, and some tasks that have a limit or are
/// SCHED_IDLE.
const SCENARIO: &str = r#"{
    "machine": {"cpus": 2},
    "groups": {"/limited": {"runtime": 20000}},
    "tasks": {
        "hog": {"instance": 3, "run": 20000},
        "held": {"group": "/limited", "run": 5000},
        "tick": {"instance": 2, "timer": {"ref": "unique", "period": 4000}, "run": 500},
        "idle": {"policy": "SCHED_IDLE", "run": 700, "sleep": 900},
        "rt": {"instance": 2, "policy": "SCHED_RR", "run": 3000, "sleep": 5000},
    },
}"#;

/// The duration of a run.
const LENGTH: Nanos = Nanos::from_millis(200);

/// Runs the scenario with some settings, and returns the result and the number of switches.
fn run(model: Model, settings: &[String]) -> (Outcome, u64) {
    let settings = settings.iter().map(|setting| setting.parse().unwrap()).collect();
    let (kernel, duration) = (Some(model), Some(LENGTH));
    let over = Overrides { kernel, settings, duration, ..Overrides::default() };
    let scenario = parse("-", SCENARIO, &over).unwrap_or_else(|error| panic!("{error}")).scenario;
    let mut switches = 0;
    let options = Options { seed: 1, check: Check::Touched, ..Options::default() };
    let count = |event: &Event| switches += u64::from(matches!(event.what, What::Switch { .. }));
    let outcome = Sim::new(&scenario, options, count).unwrap().run();
    (outcome, switches)
}

#[test]
fn the_ends_of_every_range_can_be_run() {
    for tunable in ALL.iter().filter(|tunable| tunable.path.starts_with("scheduler.")) {
        let ends = match tunable.takes {
            Takes::Integer { low, high, .. } => [low, high].map(|end| end.to_string()),
            _ => [true, false].map(|on| on.to_string()),
        };
        let model = Model::named(tunable.kernels().last().unwrap());
        for end in ends {
            let mut settings = vec![format!("{}={end}", tunable.path)];
            // A runtime may be as long as its period.
            let period = |key: &str| tunable.path.replace("runtime", "period") + "=" + key;
            let runtime = |key: &str| tunable.path.replace("period", "runtime") + "=" + key;
            match tunable.path {
                "scheduler.rt_runtime_us" | "scheduler.fair_server_runtime_us" if end.len() > 6 => {
                    settings.insert(0, period(&end));
                }
                "scheduler.rt_period_us" | "scheduler.fair_server_period_us" if end.len() < 5 => {
                    settings.insert(0, runtime("1"));
                }
                _ => {}
            }
            let (outcome, switches) = run(model, &settings);
            assert_eq!(outcome.end, Time::ZERO + LENGTH, "{settings:?}");
            assert!(switches > 10, "{settings:?}");
            assert_eq!(outcome.violations, [], "{settings:?}");
        }
    }
}

#[test]
fn shorter_slices_are_more_switches() {
    let switches = |kernel: &str, settings: &[&str]| {
        let settings: Vec<_> = settings.iter().map(|&setting| setting.to_owned()).collect();
        run(kernel.parse().unwrap(), &settings).1
    };
    let slice = |us: u32| switches("6.18", &[&format!("scheduler.base_slice_us={us}")]);
    assert!(slice(200) > 2 * slice(20_000), "{} {}", slice(200), slice(20_000));
    let spans = |us: u32| {
        let least = format!("scheduler.min_granularity_us={}", us / 8);
        switches("6.1", &[&format!("scheduler.latency_us={us}"), &least])
    };
    assert!(spans(1_600) > spans(200_000), "{} {}", spans(1_600), spans(200_000));
}
