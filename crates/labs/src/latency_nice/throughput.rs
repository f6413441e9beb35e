//! hackbench alone: its time with the feature latency nice, which no task uses, and without.

use super::hackbench::Hackbench;
use super::shipped::shipped;
use crate::claims::{Claim, ClaimVerdict};
use crate::figure::rounded;
use crate::virtual_time::simulate;
use runyard_engine::event::Event;
use runyard_engine::kernel::Model;
use runyard_engine::time::{Nanos, Time};
use runyard_outcome::Failure;
use runyard_workload::Scenario;

/// The document's numbers of groups.
pub(super) const GROUPS: [u32; 4] = [1, 4, 8, 16];

/// The number of messages that a sender writes to a receiver in one group. With more groups it is divided by their
/// number, as the document's `-l (2560 / #grp)`.
const LOOPS: u32 = 160;

/// The largest difference of the times, as a fraction. The document's own differences stay below it.
const MAX_DIFFERENCE: f64 = 0.01;

/// hackbench with so many groups. The number of all messages does not depend on it.
pub(super) fn size(groups: u32, loops: u32) -> Hackbench {
    Hackbench { groups, loops: Some(loops / groups) }
}

pub(super) fn scenario(hackbench: Hackbench) -> Scenario {
    let mut scenario = shipped();
    (scenario.tasks, scenario.objects.pipes) = (Vec::new(), Vec::new());
    scenario.duration = None;
    hackbench.add_to(&mut scenario);
    scenario
}

/// The time of the run with this seed.
pub(super) fn run(groups: u32, model: Model, seed: u64) -> Result<Nanos, Failure> {
    let mut scenario = scenario(size(groups, LOOPS));
    scenario.use_model(model);
    Ok(simulate(&scenario, seed, |_: &Event| ())?.end.since(Time::ZERO))
}

pub(super) fn name(groups: u32) -> String {
    let plural = if groups == 1 { "" } else { "s" };
    format!("hackbench of {groups} group{plural}")
}

/// The time in milliseconds, to a hundredth.
pub(super) fn millis(time: Nanos) -> f64 {
    rounded(time.0 as f64 / 1e6, 2)
}

pub(super) fn claim(groups: u32, [without, with]: [Nanos; 2]) -> Claim {
    let what = format!("{}, nobody sensitive: time", name(groups));
    let times = [without, with].map(|time| Some(millis(time)));
    let apart = with.0.abs_diff(without.0) as f64;
    let as_long = apart <= without.0 as f64 * MAX_DIFFERENCE;
    let as_long = ClaimVerdict::same(as_long, "no task has a latency nice, so no decision differs");
    Claim::of(what, "ms", times, as_long)
}
