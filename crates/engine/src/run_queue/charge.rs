//! The charge of the running task: the time for which it had a CPU.
//!
//! Nearly always that is the time since it was last charged. But the CPU of a host may stand still
//! while the clock runs: the process is stopped, frozen or out of its quota, or another process has
//! the CPU. Linux keeps a second clock for this, which then stands still (`rq->clock_task`). A run
//! queue cannot know of it. It asks its host ([`Meter`]) only now and then, because the answer
//! takes a system call.
//!
//! All accounts follow from this one charge: vruntime, the slice of SCHED_RR, the budgets of
//! real-time tasks, fair tasks and groups, and their usage.
//!
//! Invariant: a task is charged at most for the time that passed, and at least for the CPU time
//! that its thread used, as far as the host knows it.

use crate::limits::Pools;
use crate::run_queue::RunQueue;
use crate::run_queue::meter::Meter;
use crate::time::{Nanos, Time};
use std::sync::Arc;

impl<P, G: Pools> RunQueue<P, G> {
    /// From now on, charges tasks for no more than the CPU time that the host measured.
    pub fn charge_by(&mut self, meter: Arc<dyn Meter>) {
        self.metered.set(meter);
    }

    /// Brings the clock of the queue and the account of the running task up to `now`.
    #[inline]
    pub(super) fn advance(&mut self, now: Time) {
        self.site.advance(now);
        let Some(curr) = self.tasks.running() else { return };
        let passed = self.site.clock().since(self.charged);
        self.charged = self.site.clock();
        if passed == Nanos::ZERO {
            return;
        }
        let clock = self.site.clock();
        let span = self.metered.had_of(passed, self.site.cpu(), clock);
        let task = self.tasks.task_mut(curr);
        task.runtime += span;
        task.ran_until = clock;
        let class = task.class();
        self.limits.charge(span);
        self.charge(curr, class, span);
    }
}
