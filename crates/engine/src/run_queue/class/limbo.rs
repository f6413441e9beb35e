//! Throttling task by task (Linux since 6.18,
//! [`FairRules::throttles_tasks`](crate::rules::FairRules::throttles_tasks)).
//!
//! The queue of a group that the kernel's bandwidth throttles stays in its parent's queue, with its
//! tasks. They compete on until each of them is picked. A picked task of a throttled queue, or of a
//! queue below one, runs to its return to user mode ([`Resched::InUserMode`]). There it enters limbo
//! ([`crate::fair`]). So a task that wakes in a throttled group finishes its work in the kernel.
//! When no queue above it is throttled any more, a task in limbo comes back as one that wakes.
//!
//! | event | function of `kernel/sched/fair.c` |
//! |---|---|
//! | a task of a throttled queue is picked | `pick_task_fair`, `task_throttle_setup_work` |
//! | it returns to user mode | `throttle_cfs_rq_work` |
//! | it is changed or moved while it is in limbo | `dequeue_throttled_task`, `enqueue_throttled_task` |
//! | the queue is not throttled any more | `tg_unthrottle_up` |
//!
//! A host whose tasks are never in the kernel switches at once, so the task uses no CPU time.
//!
//! Invariants ([`RunQueue::check`](crate::run_queue::RunQueue::check)): a task in limbo does not
//! run, and a queue at or above its own is throttled. A running fair task that its groups hold back
//! has a switch due.

use crate::ensure::ensure;
use crate::fair::entity::QueueId;
use crate::fair::order::Before;
use crate::features::Feature;
use crate::limits::Pools;
use crate::run_queue::class::stay::Gone;
use crate::run_queue::class::{Classes, Queues};
use crate::run_queue::switch::Resched;
use crate::store::heap::Index;
use crate::store::list::End;
use crate::task::TaskId;
use std::fmt::Display;

impl<P, G: Pools> Queues<P, G> {
    /// Returns whether the kernel's bandwidth throttles task by task.
    #[inline]
    pub(super) fn throttles_tasks(&self) -> bool {
        self.site.config().rules.throttles_tasks
    }

    /// Returns whether a throttled group holds the picked or running task back.
    #[inline]
    pub(super) fn holds_back(&self) -> bool {
        self.throttles_tasks() && self.limits.slices.holds_back()
    }

    /// Returns whether a queue, or one above it, is throttled by the kernel's bandwidth.
    fn is_held_back(&self, id: QueueId) -> bool {
        self.fair.tree.lineage(id).any(|id| self.limits.slices.is_throttled(id))
    }

    /// The running task enters limbo. From its first task on, throttling counts.
    fn enter_limbo(&mut self, at: Index) {
        let now = self.site.now();
        let task = self.tasks.task_mut(at);
        if self.site.has(Feature::Pelt) {
            self.fair.part_with(now, at, true, task.kept.average_mut());
        }
        task.standing = self.fair.enter_limbo(now, self.site.groups(), at);
        self.waiting.remove(at);
        for id in self.fair.tree.lineage(self.fair.tree.entity(at).parent) {
            self.limits.slices.note_task(now.clock, id);
        }
        self.return_slack();
    }

    /// Takes a task out of limbo, if it is there, to change or move it. Returns whether it was.
    #[inline]
    pub(super) fn take_from_limbo(&mut self, at: Index) -> bool {
        let was_there = self.fair.is_in_limbo(at);
        if was_there {
            self.fair.leave_limbo(at);
            let Queues { site, tasks, fair, .. } = self;
            if let Some(carried) = tasks.task_mut(at).kept.average_mut() {
                fair.withdraw(site.now(), site.groups(), carried);
            }
        }
        was_there
    }

    /// Lets the tasks in limbo below a queue compete again, unless another queue holds them back.
    pub(super) fn empty_limbo(&mut self) {
        // In the kernel the queues below come first.
        for nth in (0..self.fair.nr_group_queues()).rev() {
            let id = self.fair.nth_group_queue(nth);
            if self.fair.last_in_limbo(id).is_none() || self.is_held_back(id) {
                continue;
            }
            while let Some(at) = self.fair.last_in_limbo(id) {
                self.fair.leave_limbo(at);
                self.enqueue_fair(at);
            }
        }
    }
}

impl<P, G: Pools> Classes<P, G> {
    /// The running task is at its return to user mode, and no other switch is due. It enters limbo,
    /// if a throttled group still holds it back.
    ///
    /// # Errors
    /// The task itself, if it keeps the CPU.
    #[cold]
    pub(super) fn leave_for_limbo(
        &mut self,
        at: Index,
        payload: P,
        before: &mut Before,
    ) -> Result<Gone<P>, (TaskId, P)> {
        if !self.queues.holds_back() {
            self.next.done();
            return Err((self.queues.tasks.task(at).id, payload));
        }
        self.queues.tasks.task_mut(at).payload = Some(payload);
        let group = self.queues.group_left(at);
        self.queues.enter_limbo(at);
        self.queues.tasks.set_running(None);
        self.note_loss(at);
        before.ran = group;
        if let Some(group) = group {
            self.queues.fair.nominate(self.queues.site.now(), group);
        }
        Ok(None)
    }

    /// Enqueues a changed task, or puts it back into limbo if it `was_in_limbo` and its new group
    /// holds it back too.
    pub(super) fn enqueue_changed(&mut self, at: Index, end: End, was_in_limbo: bool) {
        let task = self.queues.tasks.task(at);
        if was_in_limbo && task.class().is_fair() {
            let (ask, group) = (task.ask(), task.queue_group());
            let home = self.queues.group_queue(group);
            if self.queues.is_held_back(home) {
                let now = self.queues.site.now();
                return self.queues.fair.stay_in_limbo(now, at, (ask, home));
            }
        }
        self.enqueue(at, end);
    }

    /// Asserts the invariants of this file.
    ///
    /// # Panics
    /// If one does not hold, with `picture`.
    pub(super) fn check_limbo(&self, picture: &dyn Display) {
        let Queues { tasks, fair, .. } = &self.queues;
        for (at, task) in tasks.iter().filter(|(at, _)| fair.is_in_limbo(at.0)) {
            let fits = task.class().is_fair() && !tasks.runs(at);
            ensure!(picture, fits, "{} is fair, waits, and is in limbo", task.id);
            let held_back = self.queues.is_held_back(fair.tree.entity(at.0).parent);
            ensure!(picture, held_back, "{} is in limbo because of a throttled group", task.id);
        }
        let leaves = tasks.running_fair().is_none() || !self.queues.holds_back();
        let due = self.next.resched() >= Resched::InUserMode;
        ensure!(picture, leaves || due, "a task that its groups hold back leaves in user mode");
    }
}
