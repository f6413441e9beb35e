//! The real-time class's answers to its duties. The lists and the budget are in [`crate::rt`].

use crate::attr::RtPrio;
use crate::class::Class;
use crate::limits::Pools;
use crate::rt::RtTask;
use crate::run_queue::class::Classes;
use crate::run_queue::class::queues::Queues;
use crate::run_queue::tasks::Tasks;
use crate::store::heap::Index;
use crate::store::list::End;
use crate::task::Change;
use crate::time::{Nanos, Time};

impl<P> Tasks<P> {
    /// Returns the fields of a task that the real-time class needs.
    #[inline(always)]
    pub(in crate::run_queue) fn rt_task(&self, at: Index) -> RtTask {
        let task = self.task(at);
        let prio = match task.class() {
            Class::Rt(prio) => prio,
            Class::Fair => unreachable!("the task is real-time"),
        };
        let (boosted, migratory) = (task.boost.is_some(), task.is_migratory());
        RtTask { at, prio, boosted, migratory, running: self.running() == Some(at) }
    }
}

impl<P, G: Pools> Queues<P, G> {
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

    #[inline(always)]
    fn list_rt(&mut self, at: Index, end: End) {
        self.rt.enqueue(self.tasks.rt_task(at), end);
        self.waiting.note_rt(at, &self.site, (&self.tasks, end));
    }

    #[inline]
    pub(super) fn unlist_rt(&mut self, at: Index) {
        self.rt.dequeue(self.tasks.rt_task(at));
        self.waiting.remove(at);
    }

    /// Moves the task before or behind its equals.
    #[inline(always)]
    pub(super) fn requeue_rt(&mut self, at: Index, end: End) {
        self.rt.requeue(self.tasks.rt_task(at), end);
        self.waiting.note_rt(at, &self.site, (&self.tasks, end));
    }

    /// Applies a change that leaves the task its priority, though perhaps for another reason.
    pub(super) fn change_in_place_rt(&mut self, at: Index, change: Change) {
        let task = self.tasks.task_mut(at);
        let was_boosted = task.boost.is_some();
        task.apply(change);
        self.rt.reboost(was_boosted, task.boost.is_some());
    }

    /// Returns whether a task of this class waits for the budget of real-time tasks.
    pub(super) fn is_out_of_budget(&self, class: Class) -> bool {
        class.has_rt_budget() && self.rt.is_throttled()
    }

    /// Takes the real-time tasks below throttled groups out of their lists.
    pub(super) fn set_rt_aside(&mut self) {
        let mut next = self.rt.first();
        while let Some(at) = next {
            next = self.rt.after(at, self.tasks.rt_task(at).prio);
            if self.is_set_aside(at) {
                self.unlist_rt(at);
                self.rt.set_aside(at);
            }
        }
    }

    /// Puts those real-time tasks back that are no longer below a throttled group.
    pub(super) fn bring_rt_back(&mut self) {
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
}

impl<P, G: Pools> Classes<P, G> {
    #[inline]
    pub(super) fn charge_rt(&mut self, curr: Index, span: Nanos) {
        let task = self.queues.tasks.task_mut(curr);
        if task.attr.policy.is_round_robin() {
            task.rr_used += span;
        }
        let now = self.queues.site.now();
        self.taken.by_rt.add(now.clock, span);
        self.taken.by_normal.add(now.clock, span);
        let throttles = self.queues.rt.charge(span, now.config);
        self.next.ask_anew(throttles);
        self.expire_server();
    }

    /// Moves a SCHED_RR task whose slice is over to the tail, if another task has its priority.
    pub(super) fn tick_rt(&mut self, curr: Index, prio: RtPrio) {
        let slice = self.queues.site.config().rr_slice;
        let task = self.queues.tasks.task_mut(curr);
        if !task.attr.policy.is_round_robin() || task.rr_used < slice {
            return;
        }
        task.rr_used = Nanos::ZERO;
        if self.queues.rt.is_shared(prio) {
            self.queues.requeue_rt(curr, End::Tail);
            self.next.ask(true);
        }
    }

    /// Ends a period of the real-time budget, or several.
    #[inline(never)]
    pub(in crate::run_queue) fn end_rt_period(&mut self, now: Time) {
        let running = self.queues.tasks.curr().is_some_and(|curr| curr.class().has_rt_budget());
        let back = self.queues.rt.end_period(now, running, self.queues.site.config());
        self.next.ask_anew(back);
    }
}
