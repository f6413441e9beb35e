//! Work that a scheduler can interrupt: instructions for a given time of execution.
//!
//! A task reads the wall clock continuously, which takes no system call. A step of that clock is time in which the task
//! executed, except for a long step. A long step is a *gap*, in which another thread, an interrupt or the machine's
//! host had the CPU.
//!
//! Rejected: reading the thread's CPU time. That is a system call in which the kernel charges the thread's time. A
//! used-up slice then ends there, and not at the next tick as in programs that read no such clock. Three hogs on a CPU
//! that read it every 500 us switched three times as often, and the tasks beside them waited half as long.

use super::stage::Stage;
use super::world::World;
use runyard_engine::time::{Nanos, Time};

/// A task that spins checks at least this often whether the run is over.
const END_CHECK_INTERVAL: Nanos = Nanos::from_micros(500);

/// The number of pause instructions between two readings of the clock.
const PAUSES: u32 = 8;

/// A step of the clock is a gap if it is longer than this, and longer than [`GAP_STEPS`] of the shortest steps. A
/// reading with its pauses takes a tenth of this. A switch to another thread and back takes longer.
const GAP: Nanos = Nanos::from_micros(2);

/// Steps are long where each reading of the clock is slow, as under a debugger.
const GAP_STEPS: u64 = 8;

/// Executes for `span`, unless the run ends before. Returns the time of execution.
pub(crate) fn work(stage: &impl Stage, world: &World, span: Nanos) -> Nanos {
    let (mut worked, mut shortest) = (Nanos::ZERO, None::<Nanos>);
    let mut now = stage.now();
    let mut next_check = now;
    while worked < span {
        if now >= next_check {
            if world.is_over(now) {
                break;
            }
            next_check = (now + END_CHECK_INTERVAL).min(world.end());
        }
        pause();
        let last = std::mem::replace(&mut now, stage.now());
        let step = now.since(last);
        let usual = shortest.map_or(Nanos::ZERO, |shortest| Nanos(shortest.0 * GAP_STEPS));
        if step <= GAP.max(usual) {
            worked += step;
        }
        shortest = Some(shortest.map_or(step, |shortest| shortest.min(step)));
    }
    worked
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
        pause();
    }
}

fn pause() {
    (0..PAUSES).for_each(|_| std::hint::spin_loop());
}
