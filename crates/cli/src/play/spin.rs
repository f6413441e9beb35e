//! Work, as a program that is to be scheduled sees it: instructions until enough time has passed.
//!
//! CPU time never passes faster than time on the wall, so who spins on the wall's clock, which
//! takes no system call, for what is left of the CPU time never spins for too long. What a
//! preemption took is left over, and spun for in the next round.

use super::{Stage, World};
use runyard_engine::time::{Nanos, Time};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// How long a task spins at most before it looks whether the run is over.
const LOOK: Nanos = Nanos::from_micros(500);

/// How many instructions of a pause there are between two looks at the clock.
const PAUSES: u32 = 8;

/// The CPU time that the calling thread has used.
pub(crate) fn cpu_time() -> Nanos {
    nanos(clock_gettime(ClockId::ThreadCPUTime))
}

/// A time of a clock of the kernel's.
pub(crate) fn nanos(time: Timespec) -> Nanos {
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Uses `span` of CPU time, unless the run ends before.
pub(crate) fn work(stage: &impl Stage, world: &World, span: Nanos) {
    let goal = cpu_time() + span;
    loop {
        let left = goal.saturating_sub(cpu_time());
        let now = stage.now();
        if left == Nanos::ZERO || world.is_over(now) {
            return;
        }
        spin(stage, (now + left.min(LOOK)).min(world.end()));
    }
}

/// Spins until the time is `until`, unless the run ends before.
pub(crate) fn until(stage: &impl Stage, world: &World, until: Time) {
    loop {
        let now = stage.now();
        if now >= until || world.is_over(now) {
            return;
        }
        spin(stage, (now + LOOK).min(until).min(world.end()));
    }
}

fn spin(stage: &impl Stage, until: Time) {
    while stage.now() < until {
        (0..PAUSES).for_each(|_| std::hint::spin_loop());
    }
}
