//! The real-time class's answers to its duties. The lists and the budget are in [`crate::rt`].

use crate::attr::RtPrio;
use crate::class::Class;
use crate::ensure::ensure;
use crate::limits::Pools;
use crate::run_queue::RunQueue;
use crate::store::heap::Index;
use crate::store::list::End;
use crate::task::Change;
use crate::time::{Nanos, Time};

impl<P, G: Pools> RunQueue<P, G> {
    pub(super) fn enqueue_rt(&mut self, at: Index, end: End) {
        if self.is_set_aside(at) {
            self.rt.set_aside(at);
        } else {
            self.list_rt(at, end);
        }
    }

    pub(super) fn dequeue_rt(&mut self, at: Index) {
        if self.is_set_aside(at) {
            self.rt.bring_back(at);
        } else {
            self.unlist_rt(at);
        }
    }

    #[inline]
    fn list_rt(&mut self, at: Index, end: End) {
        self.rt.enqueue(self.rt_task(at), end);
        self.index_rt(at, end);
    }

    #[inline]
    pub(in crate::run_queue) fn unlist_rt(&mut self, at: Index) {
        self.rt.dequeue(self.rt_task(at));
        self.unindex(at);
    }

    /// Moves the task before or behind its equals.
    #[inline]
    pub(in crate::run_queue) fn requeue_rt(&mut self, at: Index, end: End) {
        self.rt.requeue(self.rt_task(at), end);
        self.index_rt(at, end);
    }

    /// Applies a change that leaves the task its priority, though perhaps for another reason.
    pub(super) fn change_in_place_rt(&mut self, at: Index, change: Change) {
        let was_boosted = self.tasks.task(at).boost.is_some();
        self.tasks.task_mut(at).apply(change);
        self.rt.reboost(was_boosted, self.tasks.task(at).boost.is_some());
    }

    #[inline]
    pub(super) fn charge_rt(&mut self, curr: Index, span: Nanos) {
        let clock = self.site.clock();
        let task = self.tasks.task_mut(curr);
        if task.attr.policy.is_round_robin() {
            task.rr_used += span;
        }
        self.taken.by_rt.add(clock, span);
        self.taken.by_normal.add(clock, span);
        let throttles = self.rt.charge(span, self.site.config());
        self.resched_anew(throttles);
        self.expire_server();
    }

    /// Moves a SCHED_RR task whose slice is over to the tail, if another task has its priority.
    pub(super) fn tick_rt(&mut self, curr: Index, prio: RtPrio) {
        let slice = self.site.config().rr_slice;
        let task = self.tasks.task_mut(curr);
        if !task.attr.policy.is_round_robin() || task.rr_used < slice {
            return;
        }
        task.rr_used = Nanos::ZERO;
        if self.rt.is_shared(prio) {
            self.requeue_rt(curr, End::Tail);
            self.resched_if(true);
        }
    }

    /// Returns whether a task of this class waits for the budget of real-time tasks.
    pub(in crate::run_queue) fn is_out_of_budget(&self, class: Class) -> bool {
        class.has_rt_budget() && self.rt.is_throttled()
    }

    /// Takes the real-time tasks below throttled groups out of their lists.
    pub(in crate::run_queue) fn set_rt_aside(&mut self) {
        let mut next = self.rt.first();
        while let Some(at) = next {
            let task = self.rt_task(at);
            next = self.rt.after(at, task.prio);
            if self.is_set_aside(at) {
                self.unlist_rt(at);
                self.rt.set_aside(at);
            }
        }
    }

    /// Puts those real-time tasks back that are no longer below a throttled group.
    pub(in crate::run_queue) fn bring_rt_back(&mut self) {
        for _ in 0..self.rt.nr_set_aside() {
            let at = self.rt.first_set_aside().expect("as many as are counted");
            self.rt.bring_back(at);
            if self.is_set_aside(at) {
                self.rt.set_aside(at);
            } else {
                self.list_rt(at, End::Tail);
            }
        }
    }

    /// Ends a period of the real-time budget, or several.
    #[inline(never)]
    pub(in crate::run_queue) fn end_rt_period(&mut self, now: Time) {
        let running =
            self.tasks.running().is_some_and(|curr| self.tasks.task(curr).class().has_rt_budget());
        let back = self.rt.end_period(now, running, self.site.config());
        self.resched_anew(back);
    }

    /// Asserts the order of the classes: while a real-time task may run, no less important task
    /// does.
    pub(in crate::run_queue) fn check_class_order(&self) {
        // An idle CPU is no more important than one with a fair task.
        let running = self.tasks.running().map_or(Class::Fair, |at| self.tasks.task(at).class());
        let best = self.rt.best().map_or(Class::Fair, Class::Rt);
        let may_run = !self.is_out_of_budget(running);
        ensure!(self, self.resched || may_run, "{running:?} runs without a budget");
        let first = self.resched || running >= best || self.is_serving() || self.is_kept_off();
        ensure!(self, first, "{best:?} waits while {running:?} runs");
        let budget = self.site.config().rt_runtime.is_some();
        let period = self.rt.period_end().is_some();
        let active = running.has_rt_budget() || self.rt.is_budget_used();
        ensure!(self, period || !budget || !active, "a period runs while the budget is used");
    }
}
