//! The fair class's answers to its duties. The queues and their order are in [`crate::fair`].

use crate::attr::Policy;
use crate::fair::entity::{Lag, QueueId};
use crate::fair::order::{Before, Wakeup};
use crate::fair::tree::Member;
use crate::features::Feature;
use crate::limits::Pools;
use crate::run_queue::class::Classes;
use crate::run_queue::class::queues::Queues;
use crate::store::heap::Index;
use crate::task::Task;
use crate::time::Nanos;

impl<P, G: Pools> Queues<P, G> {
    pub(super) fn enqueue_fair(&mut self, at: Index) {
        let queue = self.group_queue(self.tasks.task(at).queue_group());
        // A running task that comes from another queue is throttled at the next switch.
        let draws = queue != QueueId::ROOT && self.limits.slices.is_used();
        if draws && self.tasks.running() != Some(at) {
            self.draw_for_first(queue);
        }
        let (now, groups) = (self.site.now(), self.site.groups());
        let task = self.tasks.task_mut(at);
        if self.site.has(Feature::Pelt) {
            let (member, weight) = (Member { queue, at }, task.ask().weight);
            self.fair.bring(now, groups, (member, weight), task.kept.average_mut());
        }
        let comes = (task.ask(), &task.standing);
        self.fair.enqueue(now, groups, Member { queue, at }, comes);
        self.reindex(at);
    }

    pub(super) fn dequeue_fair(&mut self, at: Index, asleep: bool) {
        let now = self.site.now();
        let task = self.tasks.task_mut(at);
        if self.site.has(Feature::Pelt) {
            self.fair.part_with(now, at, asleep, task.kept.average_mut());
        }
        task.standing = self.fair.dequeue(now, self.site.groups(), at, asleep);
        self.waiting.remove(at);
        self.return_slack();
    }

    pub(super) fn pick_fair(&mut self, before: &mut Before) -> Option<Index> {
        if self.tasks.drop_due_ghosts(&self.site, &mut self.fair, before) {
            self.return_slack();
        }
        let next = self.fair.pick(self.site.now(), *before)?;
        before.yielded = None;
        Some(next)
    }

    pub(super) fn peek_fair(&mut self, before: &mut Before) -> Option<Index> {
        let yielded = before.yielded;
        if self.tasks.drop_due_ghosts(&self.site, &mut self.fair, before) {
            self.return_slack();
        }
        let next = self.fair.peek(self.site.now(), before);
        // The task that yielded may have moved in its queue.
        yielded.into_iter().for_each(|at| self.reindex(at));
        next
    }

    pub(super) fn take_to_run(&mut self, at: Index, first: bool, before: &mut Before) {
        let now = self.site.now();
        match first {
            true => {
                let picked = self.fair.pick(now, *before);
                debug_assert_eq!(picked, Some(at), "a pick takes the task seen before");
            }
            false => self.fair.take(now, at, *before),
        }
        before.yielded = None;
        self.waiting.remove(at);
    }

    #[inline(never)]
    pub(super) fn put_back_fair(&mut self, at: Index) {
        self.fair.put_prev(self.site.now(), at);
        self.reindex(at);
    }

    /// Returns whether a woken fair task preempts the running fair task (`check_preempt_wakeup`).
    /// If so, the turn of the running task is over. `due` is whether a switch was due before.
    ///
    /// An idle entity is preempted by one that is not idle, and never the other way round. Linux
    /// 6.1 tests this twice. First it compares the tasks, whatever their groups and the features.
    /// Then, for a SCHED_OTHER task and under `WAKEUP_PREEMPTION`, it compares the entities that
    /// compete in one queue. Since 6.6 it compares only the entities, for any task.
    pub(super) fn preempts_on_wakeup(&mut self, curr: Index, woken: Index, due: bool) -> bool {
        let [running, arrival] = [curr, woken].map(|at| self.tasks.task(at).attr.policy);
        let tasks_first = self.site.config().rules.idle_tasks_first;
        if tasks_first && running == Policy::Idle && arrival != Policy::Idle {
            self.fair.end_turns(curr);
            return true;
        }
        let may = !matches!(arrival, Policy::Batch(_) | Policy::Idle);
        if tasks_first && !may || !self.site.has(Feature::WakeupPreemption) {
            return false;
        }
        let lag = &self.tasks.task(woken).standing.lag;
        let forked = matches!(lag, Lag::New { .. });
        let slept = matches!(lag, Lag::Asleep { .. } | Lag::Delayed { .. });
        let wakeup = Wakeup { curr, woken, forked, slept, due };
        if may && self.site.config().rules.wakeup_drops {
            self.tasks.drop_ghosts_before(&self.site, &mut self.fair, wakeup);
            self.return_slack();
        }
        self.fair.preempts(self.site.now(), wakeup, may)
    }

    /// Sets the start of a task that the running one forks (`task_fork`). A latency-sensitive child
    /// may inherit a part of its parent's lead. The parent is not charged for the last `uncharged`
    /// yet.
    pub(in crate::run_queue) fn fork(&self, child: &mut Task<P>, uncharged: Nanos) {
        let Some(at) = self.tasks.running_fair() else { return };
        if self.tasks.task(at).queue_group() == child.queue_group() {
            child.standing = self.fair.forked(self.site.now(), at, uncharged);
        }
    }
}

impl<P, G: Pools> Classes<P, G> {
    #[inline]
    pub(super) fn charge_fair(&mut self, curr: Index, span: Nanos) {
        let (now, fair) = (self.queues.site.now(), &mut self.queues.fair);
        if !fair.is_idle_class(curr) {
            self.taken.by_normal.add(now.clock, span);
        }
        let makes_way = fair.charge(now, curr, span);
        self.next.ask_lazily(makes_way);
        let spent = self.server.charge(now.clock, span, now.config);
        self.next.ask_anew(spent);
    }

    pub(super) fn tick_fair(&mut self, curr: Index) {
        let (now, groups) = (self.queues.site.now(), self.queues.site.groups());
        self.queues.fair.update_shares(now, groups, curr);
        let over = self.queues.fair.turn_is_over(now, curr);
        self.next.ask_lazily(over);
    }
}
