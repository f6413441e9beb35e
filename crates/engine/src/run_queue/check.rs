//! The structural invariants of a run queue, each computed afresh, and the picture of a queue.
//!
//! Wherever correctness is tested (simulator, property tests, fuzzer), [`RunQueue::check`] is
//! called after every event. Its cost is linear in the length of the queue. A failure is a bug
//! here, never bad input, so it panics with a picture of the queue in the message.

use crate::ensure::ensure;
use crate::limits::Pools;
use crate::run_queue::RunQueue;
use std::fmt;

impl<P, G: Pools> RunQueue<P, G> {
    /// Asserts every structural invariant.
    ///
    /// # Panics
    /// If an invariant does not hold, with a picture of the queue.
    pub fn check(&self) {
        self.classes.check();
        // This bounds the overrun of a SCHED_RR slice to one tick.
        let tick = self.tick_at.map(|at| at <= self.site().clock() + self.site().config().tick);
        let busy = self.tasks().running().map(|_| true);
        ensure!(self, tick == busy, "a busy CPU ticks: {:?}", self.tick_at);
        let group = self.tasks().curr().map(|task| task.attr.group);
        self.time.check(self.classes.idle().since(), group, self);
        self.timers.check();
    }
}

/// The picture: a line for the CPU and a line for each task.
impl<P, G: Pools> fmt::Display for RunQueue<P, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.classes.fmt(f)
    }
}
