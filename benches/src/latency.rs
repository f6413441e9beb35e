//! The engine's cost of latency nice: the second heap of a fair queue, which is empty while no task is
//! latency-sensitive.
//!
//! `latency/hackbench` is a turn of [`crate::cycle`]. `latency/yield` and `latency/tick` are switches as in
//! [`crate::switch`]. Each is measured with `LATENCY_NICE` off, and with it on and no task, every eighth task or every
//! task at latency nice -20.

use crate::Operation;
use crate::cycle;
use crate::rig::Sensitive;
use crate::switch::{self, Cause, Tasks};
use runyard_engine::attr::{Nice, Policy};
use runyard_engine::features::{Feature, Features};
use runyard_engine::time::Nanos;

/// Number of tasks in the queue, including the running one.
const QUEUED: u32 = 64;

pub(crate) fn operations() -> Vec<Operation> {
    let all = Features::default();
    let off = ("off", all.without(Feature::LatencyNice), Sensitive::Nobody);
    let on = Sensitive::ALL.map(|sensitive| (sensitive.word(), all, sensitive));
    let policy = Policy::Normal(Nice::default());
    let causes = [("yield", Cause::Yield), ("tick", Cause::Tick(Nanos::from_millis(1)))];
    let mut operations = Vec::new();
    for (word, features, sensitive) in [off].into_iter().chain(on) {
        let name = format!("latency/hackbench/{word}/{QUEUED}");
        operations.push(Operation::new(name, move || cycle::turns(QUEUED, features, sensitive)));
        for (cause_word, cause) in causes {
            if sensitive != Sensitive::Nobody && matches!(cause, Cause::Yield) {
                // A latency-sensitive task may be picked again after it yields, so such a yield is not always a switch.
                continue;
            }
            let tasks = Tasks { policy, number: QUEUED, sensitive };
            let name = format!("latency/{cause_word}/{word}/{QUEUED}");
            operations.push(switch::engine(name, tasks, (features, cause)));
        }
    }
    operations
}
