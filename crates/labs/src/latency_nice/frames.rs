//! TouchLatency: frames that go through the tasks of an app, on a machine that others use as well.
//!
//! The document's others are eight tasks that use the eight CPUs for 4 ms every 37,777 us. A task of
//! the app that wakes up then waits, unless its group is sensitive. The app is the shipped scenario's.
//! What is tuned there:
//! * The frame's way is eight tasks of 0.45 ms. So on any CPU the app uses less between two stresses
//!   than the 8 ms by which a sensitive group may be ahead and still preempts. An app that wants
//!   more of a CPU is owed nothing by those who slept meanwhile: latency nice moves no share.
//! * The group weighs as two tasks, since a frame that is handed on is on two CPUs for a moment, and
//!   its group's weight is divided among them.
//! * A frame is missed if it is not out 5 ms after it was due: it needs 3.7 alone, so it may wait
//!   for a third of a stress.

use super::rounds::Rounds;
use super::shipped::simulate;
use crate::claims::{Claim, ClaimVerdict};
use crate::figure::Figure;
use runyard_engine::attr::LatencyNice;
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_hosts::Failure;
use runyard_workload::{Overrides, Scenario, parse};

const SCENARIO: &str = include_str!("../../scenarios/touch-latency.json");

/// The app's group, and the last task of a frame's way.
const FRAMES: usize = 1;
const COMPOSER: TaskId = TaskId(7);

/// The period of the frames, as in the shipped scenario.
const PERIOD: Nanos = Nanos::from_micros(16_667);

/// How long after it was due a frame must be out.
const WITHIN: Nanos = Nanos::from_millis(5);

/// How many per cent are missed at 0 at least, and at -20 at most, which is the document's.
const LEAST_BEFORE: f64 = 1.0;
const MOST_AFTER: f64 = 0.1;

/// The scenario as it is shipped.
fn shipped() -> Scenario {
    let parsed = parse("touch-latency.json", SCENARIO, &Overrides::default());
    parsed.expect("the scenario that comes with the program is right").scenario
}

/// The frames of the run that follows from `seed`, with this latency nice of the app's group.
pub(super) fn run(latency_nice: LatencyNice, seed: u64) -> Result<Rounds, Failure> {
    let mut scenario = shipped();
    scenario.groups[FRAMES].spec.latency_nice = latency_nice;
    let rounds = Rounds::new(PERIOD, WITHIN, Time::ZERO);
    let rounds = simulate(&scenario, seed, COMPOSER, vec![rounds], |_| ())?;
    Ok(Rounds::sum(rounds).expect("there is a composer"))
}

pub(super) fn claim(before: &Rounds, after: &Rounds) -> Claim {
    let [missed_before, missed_after] = [before, after].map(Rounds::late_percent);
    let holds = missed_before >= LEAST_BEFORE && missed_after < MOST_AFTER && after.done > 0;
    let what = "frames of an app beside eight tasks of 4 ms: missed";
    Figure { what, unit: "%", before: Some(5.0), after: Some(0.1) }.claim(
        Some(missed_before),
        Some(missed_after),
        ClaimVerdict::of(holds),
    )
}
