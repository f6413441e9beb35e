//! CPUs that go offline, which the document leaves for later: the budget that they held is the group's all the same.

use super::meter::{Meter, Used, Window};
use crate::claims::{Claim, ClaimVerdict};
use crate::figure::Figure;
use runyard_engine::kernel::{Experiment, Model};
use runyard_engine::time::{Nanos, Time};
use runyard_outcome::Failure;
use runyard_sim::{Options, Sim};
use runyard_workload::{Overrides, parse};

/// Eight hogs may use three of eight CPUs. Three CPUs go offline in the middle of a period, and again, so that each time
/// they hold a part of the budget.
const SCENARIO: &str = r#"{
    "machine": {"cpus": 8, "kernel": "6.1 + founding", "costs": {"jitter_ns": 0}},
    "global": {"duration": 11},
    "groups": {"/limited": {"runtime": 300000, "period": 100000}},
    "tasks": {"hog": {"instance": 8, "group": "/limited", "run": 1000}},
    "timeline": [
        {"at": 1005000, "cpu": 5, "online": false}, {"at": 1005000, "cpu": 6, "online": false},
        {"at": 1005000, "cpu": 7, "online": false}, {"at": 3000000, "cpu": 7, "online": true},
        {"at": 3005000, "cpu": 7, "online": false}, {"at": 5000000, "cpu": 6, "online": true},
        {"at": 5005000, "cpu": 6, "online": false},
    ],
}"#;

const WINDOW: Window = Window { from: Time(1_000_000_000), end: Time(11_000_000_000) };

/// The group's limit in CPUs, and the number of CPUs that stay.
const LIMIT: f64 = 3.0;
const STAY: f64 = 5.0;

/// The largest difference from the due amount, as a fraction.
const MAX_DIFFERENCE: f64 = 0.01;

/// The use without limits and with them.
pub(super) fn pair() -> Result<[Used; 2], Failure> {
    Ok([run(Experiment::HardLimits.before())?, run(Model::default())?])
}

/// The use without limits, as before and after.
pub(super) fn without() -> Result<[Used; 2], Failure> {
    let used = run(Experiment::HardLimits.before())?;
    Ok([used.clone(), used])
}

fn run(model: Model) -> Result<Used, Failure> {
    let parsed = parse("offline.json", SCENARIO, &Overrides::default()).map_err(Failure::input)?;
    let mut scenario = parsed.scenario;
    scenario.use_model(model);
    let mut meter = Meter::new(WINDOW, Nanos::from_millis(100), 8);
    let outcome =
        Sim::new(&scenario, Options::default(), &mut meter).map_err(Failure::input)?.run();
    Ok(meter.finish(outcome.end))
}

pub(super) fn claim(used: &[Used; 2]) -> Claim {
    let seconds = WINDOW.end.since(WINDOW.from).0 as f64;
    let [before, after] =
        [&used[0], &used[1]].map(|used| (used.total().0 as f64 / seconds * 1e4).round() / 1e4);
    let near = |had: f64, due: f64| (had - due).abs() <= due * MAX_DIFFERENCE;
    let what = "8 hogs, 300 of 100 ms on 8 CPUs, 3 of which go offline: /limited has";
    let verdict = ClaimVerdict::of(near(before, STAY) && near(after, LIMIT));
    Figure { what, unit: "CPUs", before: None, after: None }.claim(
        Some(before),
        Some(after),
        verdict,
    )
}
