//! Work, as a program that is to be scheduled sees it: instructions until enough time has passed.
//!
//! CPU time never passes faster than time on the wall, so who spins on the wall's clock, which
//! takes no system call, for what is left of the CPU time never spins for too long. What a
//! preemption took is left over, and spun for in the next round.

use super::stage::Stage;
use super::world::World;
use crate::clock::cpu_time;
use runyard_engine::time::{Nanos, Time};

/// A task that spins checks at least this often whether the run is over.
const END_CHECK_INTERVAL: Nanos = Nanos::from_micros(500);

/// How many instructions of a pause there are between two looks at the clock.
const PAUSES: u32 = 8;

/// Uses `span` of CPU time, unless the run ends before. What was used.
pub(crate) fn work(stage: &impl Stage, world: &World, span: Nanos) -> Nanos {
    let begin = cpu_time();
    let goal = begin + span;
    loop {
        let used = cpu_time();
        let left = goal.saturating_sub(used);
        let now = stage.now();
        if left == Nanos::ZERO || world.is_over(now) {
            return used.saturating_sub(begin);
        }
        spin(stage, (now + left.min(END_CHECK_INTERVAL)).min(world.end()));
    }
}

/// Spins until the time is `until`, unless the run ends before.
pub(crate) fn until(stage: &impl Stage, world: &World, until: Time) {
    loop {
        let now = stage.now();
        if now >= until || world.is_over(now) {
            return;
        }
        spin(stage, (now + END_CHECK_INTERVAL).min(until).min(world.end()));
    }
}

fn spin(stage: &impl Stage, until: Time) {
    while stage.now() < until {
        (0..PAUSES).for_each(|_| std::hint::spin_loop());
    }
}
