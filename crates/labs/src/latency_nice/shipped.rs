//! The scenario of all experiments but the frames, and its simulation.

use super::rounds::Rounds;
use crate::virtual_time;
use runyard_engine::attr::LatencyNice;
use runyard_engine::event::{Event, What};
use runyard_engine::task::TaskId;
use runyard_outcome::Failure;
use runyard_workload::Scenario;

/// The scenario: cyclictest, and the parts of hackbench.
const SCENARIO: &str = include_str!("../../scenarios/latency-nice.json");
pub(super) const CYCLICTEST: TaskId = TaskId(0);

/// The shipped scenario.
pub(super) fn shipped() -> Scenario {
    virtual_time::shipped("latency-nice.json", SCENARIO)
}

/// Runs `scenario`, and watches the steps of some tasks: `first` and those after it. The observer `also` gets all
/// events.
pub(super) fn simulate(
    scenario: &Scenario,
    seed: u64,
    first: TaskId,
    mut rounds: Vec<Rounds>,
    mut also: impl FnMut(&Event),
) -> Result<Vec<Rounds>, Failure> {
    let observer = |event: &Event| {
        also(event);
        if let What::Step { task, step, .. } = event.what
            && let Some(nth) = task.index().checked_sub(first.index())
            && let Some(rounds) = rounds.get_mut(nth)
        {
            rounds.step(step as usize, event.at);
        }
    };
    virtual_time::simulate(scenario, seed, observer)?;
    Ok(rounds)
}

pub(super) fn latency_nice(value: i64) -> LatencyNice {
    LatencyNice::new(value).expect("it is in range")
}
