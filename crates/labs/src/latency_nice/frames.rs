//! TouchLatency: frames that go through the tasks of an app, on a machine with other load.
//!
//! The document's other load is eight tasks that use the eight CPUs for 4 ms every 37,777 us. A task of the app that
//! wakes up then waits, unless its group is sensitive. The app is that of the shipped scenario. Its values are chosen
//! as follows:
//! * A frame passes through eight tasks of 0.45 ms. So on any CPU the app uses less between two stresses than the 8 ms
//!   by which a sensitive group may be ahead and still preempt. An app that wants more of a CPU is owed nothing by
//!   tasks that slept meanwhile: latency nice moves no share.
//! * The group weighs as much as two tasks. A frame that is handed on is on two CPUs for a moment, and the group's
//!   weight is divided among them.
//! * A frame is missed if it is not out 5 ms after it was due. Alone it needs 3.7 ms, so it may wait for a third of a
//!   stress.

use super::rounds::Rounds;
use super::shipped::simulate;
use crate::claims::{Claim, ClaimVerdict};
use crate::virtual_time;
use runyard_engine::attr::LatencyNice;
use runyard_engine::kernel::Model;
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_outcome::Failure;

const SCENARIO: &str = include_str!("../../scenarios/touch-latency.json");

/// The app's group, and the last task that a frame passes.
const FRAMES: usize = 1;
const COMPOSER: TaskId = TaskId(7);

/// The period of the frames, as in the shipped scenario.
const PERIOD: Nanos = Nanos::from_micros(16_667);

/// The time within which a frame must be out after it was due.
const WITHIN: Nanos = Nanos::from_millis(5);

/// The least part of missed frames at 0, and the largest part at -20, in per cent. The second is the document's.
const LEAST_BEFORE: f64 = 1.0;
const MOST_AFTER: f64 = 0.1;

/// The frames of the run with this seed, with this latency nice of the app's group.
pub(super) fn run(model: Model, latency_nice: LatencyNice, seed: u64) -> Result<Rounds, Failure> {
    let mut scenario = virtual_time::shipped("touch-latency.json", SCENARIO);
    scenario.use_model(model);
    scenario.groups[FRAMES].spec.latency_nice = latency_nice;
    let rounds = Rounds::new(PERIOD, WITHIN, Time::ZERO);
    let rounds = simulate(&scenario, seed, COMPOSER, vec![rounds], |_| ())?;
    Ok(Rounds::sum(rounds).expect("there is a composer"))
}

pub(super) fn claim(before: &Rounds, after: &Rounds) -> Claim {
    let [missed_before, missed_after] = [before, after].map(Rounds::late_percent);
    let holds = missed_before >= LEAST_BEFORE && missed_after < MOST_AFTER && after.done > 0;
    let what = "frames of an app beside eight tasks of 4 ms: missed";
    let why = "the frame's deadline of 5 ms, and the weight of the app's group";
    let verdict = ClaimVerdict::fitted(holds, why);
    let claim = Claim::of(what, "%", [Some(missed_before), Some(missed_after)], verdict);
    claim.beside([Some(5.0), Some(0.1)])
}
