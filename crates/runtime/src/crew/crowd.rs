//! The time for which a fair task keeps its CPU while many threads are stopped.
//!
//! A task that is preempted in the middle of a poll keeps its thread. In a crowd of tasks that compute, turns of some
//! milliseconds stop one task after the other: two thousand tasks of 6 ms would need almost as many threads. So the more
//! threads are stopped, the longer a tick leaves the CPU to a fair task. All tasks have the same share as ever, and a
//! turn comes later by as much as it is longer. Real-time tasks, wake-ups and latency-sensitive tasks preempt as ever.
//!
//! Rejected: a task keeps its CPU to the end of its poll from some number of stopped threads on. A few polls that never
//! end would stop all others for good.

use crate::shared::Scheduler;
use runyard_engine::time::Nanos;

/// The number of stopped threads for each slot from which on turns are twice as long, and at each of whose multiples they
/// double again.
const CROWD: usize = 6;

/// The number of times that turns double at most: to 16 times the least granularity, which is 12 ms on one CPU and 48 ms
/// on eight. Where polls are longer still, a thousand of them need a thousand threads: a task that spins until all have
/// begun would wait ever longer otherwise.
const DOUBLINGS: u32 = 4;

/// How long turns are now.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    doublings: u32,
}

impl Crowd {
    /// Makes turns as long as the number of stopped threads wants.
    pub(super) fn follow(&mut self, scheduler: &Scheduler) {
        let (crew, machine) = (scheduler.crew(), scheduler.machine());
        let doublings = self.for_stopped(crew.keeper.nr_stopped(), crew.slots.len());
        if std::mem::replace(&mut self.doublings, doublings) == doublings {
            return;
        }
        let turn = match doublings {
            0 => Nanos::ZERO,
            some => Nanos(machine.config().min_granularity.0 << some),
        };
        machine.config().topology.iter().for_each(|cpu| machine.cpu(cpu).set_least_turn(turn));
    }

    /// Returns the number of doublings for this many stopped threads. They become fewer only when half a crowd more
    /// would not keep them.
    fn for_stopped(&self, stopped: usize, slots: usize) -> u32 {
        let wanted = |stopped: usize| DOUBLINGS.min((stopped / (CROWD * slots)) as u32);
        let most = wanted(stopped + CROWD * slots / 2);
        self.doublings.clamp(wanted(stopped), most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_double_with_each_crowd_of_stopped_threads() {
        let mut crowd = Crowd::default();
        let mut after = |stopped| {
            crowd.doublings = crowd.for_stopped(stopped, 2);
            crowd.doublings
        };
        assert_eq!([0, 11, 12, 23, 24, 48, 500].map(&mut after), [0, 0, 1, 1, 2, 4, 4]);
        assert_eq!([46, 42, 41, 30, 6, 5, 0].map(&mut after), [4, 4, 3, 3, 1, 0, 0]);
    }
}
