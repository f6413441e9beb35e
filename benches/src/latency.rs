//! What latency nice costs the engine: the second heap of a fair queue, which is empty while nobody is
//! sensitive. `latency/hackbench` is a turn of [`crate::cycle`]; `latency/yield` and `latency/tick`
//! are switches, as of [`crate::switch`]. Each with `LATENCY_NICE` off; with it on and nobody, every
//! eighth task or everybody at -20.

use crate::Operation;
use crate::cycle;
use crate::rig::Sensitive;
use crate::switch::{self, Cause, Tasks};
use runyard_engine::attr::{Nice, Policy};
use runyard_engine::features::{Feature, Features};
use runyard_engine::time::Nanos;

/// Tasks in the queue, the running one included.
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
                // Who goes first by its offset is ahead of the others, and may go on though it yields.
                continue;
            }
            let tasks = Tasks { policy, number: QUEUED, sensitive };
            let name = format!("latency/{cause_word}/{word}/{QUEUED}");
            operations.push(switch::engine(name, tasks, (features, cause)));
        }
    }
    operations
}
