//! Limits of task groups on one CPU.
//!
//! A throttled group has its entity out of its parent's queue, with all its counts, and its
//! real-time tasks out of their lists. Tasks that wake, leave or move do so in the queue of the
//! group, and the queues above do not change. The group keeps its lead or lag in vruntime until it
//! returns: it is neither rewarded nor penalised for the wait.
//!
//! A task of the group may hold something that a task outside the group waits for. Then the holder
//! competes in the lowest group above both
//! ([`Change::inherited_group`](crate::task::Change::inherited_group)). The groups below that one pay
//! for its CPU time, but none of them throttles it.
//!
//! `limits/grants.rs` documents when a group pays and when it waits.
//!
//! Invariants ([`RunQueue::check`]): the running task is not below a throttled group, or leaves at
//! once. The entity of a throttled group is in no queue. Its real-time tasks are in no priority
//! list.

use crate::attr::GroupId;
use crate::cpu::CpuId;
use crate::fair::entity::QueueId;
use crate::fair::tree::Tree;
use crate::limits::Pools;
use crate::limits::Throttling;
use crate::limits::UsageOnCpu;
use crate::limits::grants::{Exhausted, Here, Limits};
use crate::run_queue::{Expired, Resched, RunQueue};
use crate::store::heap::Index;
use crate::task::{QueueIndex, Task};
use crate::time::{Nanos, Time};

impl<P, G: Pools> RunQueue<P, G> {
    /// Returns the use of a limited group on this CPU, and its throttling, until `now`.
    #[must_use]
    pub fn usage(&self, now: Time, group: GroupId) -> Option<UsageOnCpu> {
        self.limits.usage(now, group, self.fair.queue_of(group))
    }

    /// Returns the budget that this CPU drew from a group's pool and did not give back.
    #[must_use]
    pub fn held(&self, group: GroupId) -> Nanos {
        self.fair.queue_of(group).map_or(Nanos::ZERO, |id| self.limits.held(id))
    }

    /// Returns the used part of that budget that the pool has not accounted for yet.
    #[must_use]
    pub fn in_use(&self, group: GroupId) -> Nanos {
        self.fair.queue_of(group).map_or(Nanos::ZERO, |id| self.limits.in_use(id))
    }

    /// For checks: returns whether tasks of a limited group compete here that will draw from its
    /// pool when they are picked.
    #[must_use]
    pub fn has_claim(&self, group: GroupId) -> bool {
        let above = |id: GroupId| {
            let parent =
                |&id: &GroupId| (id != GroupId::ROOT).then(|| self.site.groups().parent(id));
            std::iter::successors(Some(id), parent)
        };
        let free = self.fair.queue_of(group).is_some_and(|id| self.limits.is_without_grant(id));
        free && self.competing().any(|(_, task)| above(task.queue_group()).any(|id| id == group))
    }

    /// Returns whether [`RunQueue::take_refilled`] or [`RunQueue::drain_throttlings`] has any
    /// result.
    #[inline]
    #[must_use]
    pub fn has_news(&self) -> bool {
        self.limits.has_news()
    }

    /// Takes a CPU that waits for budget that this one gave back, and the group. The caller repeats
    /// this until it gets `None`, after each call that may switch.
    pub fn take_refilled(&mut self) -> Option<(CpuId, GroupId)> {
        self.limits.take_refilled()
    }

    /// Calls `tell` with each group that was throttled or unthrottled since the last call, in
    /// order. The caller does this after each call that changes the queue, and after
    /// [`RunQueue::expire`] returned `None`.
    pub fn drain_throttlings(&mut self, tell: impl FnMut(Throttling)) {
        self.limits.drain_throttlings(tell);
    }

    /// Returns the tasks that compete: [`RunQueue::tasks`] without those below throttled groups.
    pub fn competing(&self) -> impl Iterator<Item = (QueueIndex, &Task<P>)> {
        self.tasks.iter().filter(|(at, _)| !self.is_set_aside(at.0))
    }

    /// Notes that there is budget for a group that may be throttled here. `told` is the number of
    /// CPUs that were notified, this one included. Returns the next waiting CPU to notify, unless
    /// this CPU picks at once: then the pick finds the next one.
    pub fn refill(&mut self, now: Time, group: GroupId, told: u32) -> Option<CpuId> {
        self.advance(now);
        let waited = self.fair.queue_of(group).filter(|&id| self.fair.tree.queue(id).throttled);
        match waited {
            Some(id) => self.unthrottle(id),
            None => self.site.here().forget(group),
        }
        if waited.is_some() || self.resched {
            self.limits.notice_refill(group);
        }
        if self.resched { None } else { Here { now, ..self.site.here() }.waiting(group, told) }
    }

    /// Charges a group, and those above it, for CPU time of its tasks after they lost the CPU: they
    /// ran before the host could stop them. Returns whether one of these groups has no budget left.
    pub fn charge_unpicked(&mut self, now: Time, group: GroupId, span: Nanos) -> bool {
        self.used.add_unpicked(group, span);
        let mut exhausted = false;
        let mut next = group;
        while next != GroupId::ROOT {
            let charged = self.site.groups().with_pool(next, self.site.cpu(), |pool| {
                pool.charge(now, span);
                pool.next_refill(now).is_some()
            });
            if let Some(nothing_left) = charged {
                self.limits.note_unpicked(next, span);
                exhausted |= nothing_left;
            }
            next = self.site.groups().parent(next);
        }
        exhausted
    }

    /// Reduces the debts of a group and of those above it, each to one quota.
    pub fn forgive(&mut self, now: Time, group: GroupId) {
        let mut next = group;
        while next != GroupId::ROOT {
            self.site.groups().with_pool(next, self.site.cpu(), |pool| pool.forgive(now));
            next = self.site.groups().parent(next);
        }
    }

    /// Applies a change of the limit of a group: the budget that this CPU had of the old limit
    /// lapses, and the old limit throttles no task any more.
    pub fn renew_limit(&mut self, now: Time, group: GroupId) -> Resched {
        self.advance(now);
        // A real-time task may have run without a queue of its group.
        self.limits.dismiss_payers();
        if let Some(id) = self.fair.queue_of(group) {
            if self.fair.tree.queue(id).throttled {
                self.unthrottle(id);
            }
            if self.limits.has_budget(id) {
                // The budget may be of the new pool already.
                let (limits, tree, here) = self.limits_here();
                limits.return_grant(&here, tree, id);
            }
            self.limits.set(id, self.site.groups().has_limit(group));
        }
        self.renew_payers();
        self.resched()
    }

    /// Applies a change of the weight of a group to its share of this CPU and to the shares of the
    /// groups above.
    pub fn renew_weight(&mut self, now: Time, group: GroupId) {
        self.advance(now);
        if let Some(id) = self.fair.queue_of(group) {
            let (fair, now, groups) = self.fair_here();
            fair.update_shares_from(now, groups, id);
        }
    }

    /// Removes a group that has no task any more, after the queues of its children.
    ///
    /// # Panics
    /// If a task of the group is here.
    pub fn forget_group(&mut self, now: Time, group: GroupId) {
        self.advance(now);
        if let Some(id) = self.fair.queue_of(group) {
            if self.fair.tree.queue(id).throttled {
                self.unthrottle(id);
            }
            self.tasks.drop_ghosts_of(id, &self.site, &mut self.fair);
            self.remove_queue(id);
        }
        self.limits.forget(group);
        self.pass_on_usage(group);
    }

    /// Determines the payers of the running task anew.
    pub(super) fn renew_payers(&mut self) {
        self.limits.dismiss_payers();
        let stopped =
            self.tasks.running().is_some_and(|curr| self.charge_to_groups(curr, false).is_err());
        self.resched_if(stopped);
        self.return_grants();
    }

    /// Charges the following CPU time to the group of a picked task. The limited groups above get
    /// budget for it and pay. If one has no budget left and `waits`, this CPU is noted as one that
    /// waits for more.
    ///
    /// # Errors
    /// The outermost group that has no budget left.
    #[inline]
    pub(super) fn charge_to_groups(&mut self, picked: Index, waits: bool) -> Result<(), Exhausted> {
        let own = self.tasks.task(picked).attr.group;
        if own != self.used.group() {
            self.settle_usage(own);
        }
        let limited = own != GroupId::ROOT && self.site.groups().is_limited(own);
        if limited { self.charge_to_limited(picked, waits) } else { Ok(()) }
    }

    #[inline(never)]
    fn charge_to_limited(&mut self, picked: Index, waits: bool) -> Result<(), Exhausted> {
        let task = self.tasks.task(picked);
        let (own, group) = (task.attr.group, task.queue_group());
        let own = self.group_queue(own);
        let competes = self.fair.queue_of(group);
        let (limits, tree, here) = self.limits_here();
        limits.call_payers(&here, tree, (own, competes), waits)
    }

    /// After a pick: returns unneeded grants to their pools.
    #[inline]
    pub(super) fn return_grants(&mut self) {
        let (limits, tree, here) = self.limits_here();
        limits.return_grants(&here, tree);
    }

    /// Notes that a waiting task left without a pick.
    #[inline]
    pub(super) fn pass_on(&mut self) {
        let (limits, _, here) = self.limits_here();
        limits.pass_on(&here);
    }

    /// Throttles a group that has no budget left, until its pool has some. No task runs.
    #[inline(never)]
    pub(super) fn throttle(&mut self, id: QueueId) {
        debug_assert_eq!(self.tasks.running(), None, "the running task is put back first");
        let (limits, tree, here) = self.limits_here();
        limits.return_grant(&here, tree, id);
        let group = tree.queue(id).group;
        let (fair, now, groups) = self.fair_here();
        fair.throttle(now, groups, id);
        let (limits, _, here) = self.limits_here();
        limits.throttle(&here, id, group);
        self.set_rt_aside();
    }

    fn unthrottle(&mut self, id: QueueId) {
        let (limits, tree, here) = self.limits_here();
        limits.unthrottle(&here, id, tree.queue(id).group);
        let (fair, now, groups) = self.fair_here();
        fair.unthrottle(now, groups, id);
        self.start_server();
        self.bring_rt_back();
        // If there are only ghosts, a pick drops them.
        let anybody = self.nr_running() > 0 || self.fair.root().nr > 0;
        let wanted = self.tasks.running().map_or(anybody, |curr| self.makes_way(curr));
        self.resched_anew(wanted);
    }

    /// Handles the time of [`Limits::next`]: a grant is used up, or a throttled group may have
    /// budget.
    pub(super) fn end_grant_or_wait(&mut self, now: Time) -> Expired {
        if self.limits.grant_is_over(now) {
            let (limits, tree, here) = self.limits_here();
            let leaves = limits.end_grant(&here, tree);
            self.resched_if(leaves);
            return Expired::Grant;
        }
        self.end_wait();
        Expired::Refill
    }

    /// Ends the wait of the first throttled group, if other CPUs left any budget for it.
    fn end_wait(&mut self) {
        let (limits, tree, here) = self.limits_here();
        let id = limits.first_throttled().expect("a group waits for a refill");
        let group = tree.queue(id).group;
        if here.next_refill(group).is_none() {
            self.unthrottle(id);
        } else {
            limits.wait_on(&here, id, group);
        }
    }

    /// Returns whether a task is below a throttled group.
    #[inline]
    pub(super) fn is_set_aside(&self, at: Index) -> bool {
        self.fair.is_any_throttled() && self.is_group_set_aside(self.tasks.task(at).queue_group())
    }

    /// Returns whether a group is throttled or below a throttled one.
    pub(super) fn is_group_set_aside(&self, mut group: GroupId) -> bool {
        if !self.fair.is_any_throttled() {
            return false;
        }
        while group != GroupId::ROOT {
            if let Some(id) = self.fair.queue_of(group) {
                return self.fair.is_below_throttled(id);
            }
            group = self.site.groups().parent(group);
        }
        false
    }

    /// Lets every throttled group above `group` compete again, until it is picked.
    pub(super) fn unthrottle_above(&mut self, group: GroupId) {
        let mut id = self.group_queue(group);
        while let Some(at) = self.fair.tree.queue(id).entity {
            if self.fair.tree.queue(id).throttled {
                self.unthrottle(id);
            }
            id = self.fair.tree.entity(at).parent;
        }
    }

    /// Returns the limits with the arguments that their methods need.
    fn limits_here(&mut self) -> (&mut Limits, &mut Tree, Here<'_, G>) {
        (&mut self.limits, &mut self.fair.tree, self.site.here())
    }
}
