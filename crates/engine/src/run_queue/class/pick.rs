//! The choice of the next task: the first task, of the class that goes first, whose groups have
//! budget.

use crate::fair::order::Before;
use crate::limits::Pools;
use crate::limits::grants::Exhausted;
use crate::run_queue::class::limits::Held;
use crate::run_queue::class::{Classes, Queues};
use crate::run_queue::switch::Resched;
use crate::store::heap::Index;
use crate::task::TaskId;
use crate::time::Nanos;

impl<P, G: Pools> Queues<P, G> {
    /// Before a pick: no task runs, so no group pays. Those that the last task used up are throttled.
    #[inline]
    pub(super) fn dismiss_payers(&mut self) {
        if self.limits.pays() {
            self.throttle_spent();
            self.limits.dismiss_payers();
        }
    }

    /// Puts a picked task back whose group has no budget, and throttles that group.
    pub(super) fn pass_over(&mut self, at: Index, group: Exhausted) {
        self.limits.dismiss_payers();
        self.put_back(at);
        self.throttle(group.0);
    }
}

impl<P, G: Pools> Classes<P, G> {
    /// Returns the first task whose groups have budget. Groups without budget are throttled.
    pub(in crate::run_queue) fn pick(&mut self, mut before: Before) -> Option<Index> {
        self.end_idle_of_server();
        self.queues.dismiss_payers();
        // The tasks that wait on a CPU that is offline are about to be evicted.
        if !self.queues.site.is_online() {
            return None;
        }
        loop {
            let at = self.pick_class(&mut before)?;
            if self.has_budget(at) {
                return Some(at);
            }
        }
    }

    /// Charges the groups of a picked task. Returns whether they have budget for it; otherwise it is put back, and the
    /// group without budget is throttled. A task that a throttled group holds back has its next switch due in user mode.
    #[inline(always)]
    pub(super) fn has_budget(&mut self, at: Index) -> bool {
        match self.queues.charge_to_groups(at, true) {
            Ok(Held::No) => true,
            Ok(Held::Back) => {
                self.next.ask_for(Resched::InUserMode);
                true
            }
            Err(group) => {
                self.queues.pass_over(at, group);
                false
            }
        }
    }

    /// Takes the task with this number to run, as a recorded machine did. Returns the task that this
    /// queue would have chosen, and the one that it took.
    #[cold]
    pub(in crate::run_queue) fn pick_recorded(
        &mut self,
        mut before: Before,
        next: Option<TaskId>,
    ) -> (Option<TaskId>, Option<Index>) {
        self.end_idle_of_server();
        let own = self.peek_class(&mut before);
        let tasks = &self.queues.tasks;
        let next = next.and_then(|id| tasks.iter().find(|(_, task)| task.id == id));
        let next = next.map(|(at, _)| at.0);
        let own_id = own.map(|at| tasks.task(at).id);
        if let Some(at) = next {
            self.queues.take(at, own == next, &mut before);
        }
        (own_id, next)
    }

    /// Makes the picked task the running one, or the CPU idle. A CPU that is `forced` idle does not
    /// count as idle, because it has work. Returns the length of an idle period that ends.
    #[inline(always)]
    pub(in crate::run_queue) fn begin(
        &mut self,
        next: Option<Index>,
        forced: bool,
    ) -> Option<Nanos> {
        self.queues.return_grants();
        self.queues.tasks.set_running(next);
        let now = self.queues.site.now();
        if next.is_none() && !forced {
            self.idle.begin(now.clock);
            return None;
        }
        let idle = self.idle.end(now.clock, now.config);
        if let Some(at) = next {
            self.queues.set_next(at);
        }
        idle
    }
}
