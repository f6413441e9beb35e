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
use crate::run_queue::class::Classes;
use crate::run_queue::meter::Meter;
use crate::time::Time;
use std::sync::Arc;

impl<P, G: Pools> RunQueue<P, G> {
    /// From now on, charges tasks for no more than the CPU time that the host measured.
    pub fn charge_by(&mut self, meter: Arc<dyn Meter>) {
        self.time.charge_by(meter);
    }

    /// Brings the clock of the queue and the account of the running task up to `now`, and returns
    /// the classes.
    #[inline]
    pub fn at(&mut self, now: Time) -> &mut Classes<P, G> {
        let classes = &mut self.classes;
        classes.advance(now);
        if let Some(curr) = classes.queues().tasks().running() {
            let site = classes.queues().site();
            if let Some(span) = self.time.charge(site.cpu(), site.clock()) {
                classes.charge(curr, span);
            }
        }
        classes
    }
}
