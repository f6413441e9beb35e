//! CPUs that go offline, which the document leaves for later: the budget that they held is the group's all the same.

use super::exact::{cpus, meter, near};
use crate::claims::{Claim, ClaimVerdict};
use crate::figure::rounded;
use crate::usage::Used;
use crate::virtual_time::scenario;
use runyard_engine::kernel::{Experiment, Model};
use runyard_outcome::Failure;

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

/// The group's limit in CPUs, and the number of CPUs that stay.
const LIMIT: f64 = 3.0;
const STAY: f64 = 5.0;

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
    let mut scenario = scenario("offline.json", SCENARIO)?;
    scenario.use_model(model);
    meter(&scenario, 0)
}

pub(super) fn claim(used: &[Used; 2]) -> Claim {
    let [before, after] = used.each_ref().map(|used| rounded(cpus(used.total()), 4));
    let what = "8 hogs, 300 of 100 ms on 8 CPUs, 3 of which go offline: /limited has";
    let verdict = ClaimVerdict::of(near(before, STAY) && near(after, LIMIT));
    Claim::of(what, "CPUs", [Some(before), Some(after)], verdict)
}
