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
//! Invariants ([`RunQueue::check`](crate::run_queue::RunQueue::check)): the running task is not below a throttled group, or leaves at
//! once. The entity of a throttled group is in no queue. Its real-time tasks are in no priority
//! list.

use crate::attr::GroupId;
use crate::class::Class;
use crate::cpu::CpuId;
use crate::fair::entity::QueueId;
use crate::limits::bandwidth::Want;
use crate::limits::grants::Exhausted;
use crate::limits::here::Here;
use crate::limits::{Pools, UsageOnCpu};
use crate::run_queue::class::Classes;
use crate::run_queue::class::queues::Queues;
use crate::run_queue::switch::Resched;
use crate::store::heap::Index;
use crate::task::{QueueIndex, Task};
use crate::time::{Nanos, Time};

/// Whether a throttled group lets a picked task run only to its return to user mode (`limbo.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run_queue) enum Held {
    No,
    Back,
}

/// The budget of a group on this CPU.
impl<P, G: Pools> Queues<P, G> {
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

    /// Returns the CPU time that a group used here beyond what it drew under the kernel's control,
    /// apart from that of tasks that it did not hold back.
    #[must_use]
    pub fn owed(&self, group: GroupId) -> Nanos {
        self.fair.queue_of(group).map_or(Nanos::ZERO, |id| self.limits.slices.owed(id))
    }

    /// Returns the used part of that budget that the pool has not accounted for yet.
    #[must_use]
    pub fn in_use(&self, group: GroupId) -> Nanos {
        self.fair.queue_of(group).map_or(Nanos::ZERO, |id| self.limits.in_use(id))
    }

    /// Returns whether tasks of a limited group compete here that will draw from its pool when they
    /// are picked.
    #[must_use]
    pub fn has_claim(&self, group: GroupId) -> bool {
        let free = self.fair.queue_of(group).is_some_and(|id| self.limits.is_without_grant(id));
        let claims = |task: &Task<P>| self.site.is_within(task.queue_group(), group);
        free && self.competing().any(|(_, task)| claims(task))
    }

    /// Returns the tasks that compete: all tasks without those below throttled groups.
    pub fn competing(&self) -> impl Iterator<Item = (QueueIndex, &Task<P>)> {
        self.tasks.iter().filter(|(at, _)| !self.is_set_aside(at.0))
    }

    /// Charges the following CPU time to the group of a picked task. The limited groups above get
    /// budget for it and pay. If one has no budget left and `waits`, this CPU is noted as one that
    /// waits for more. Returns whether the task may only run to its return to user mode.
    ///
    /// # Errors
    /// The outermost group that has no budget left.
    #[inline]
    pub(super) fn charge_to_groups(
        &mut self,
        picked: Index,
        waits: bool,
    ) -> Result<Held, Exhausted> {
        let own = self.tasks.task(picked).attr.group;
        let limited = own != GroupId::ROOT && self.site.groups().is_limited(own);
        if limited { self.charge_to_limited(picked, waits) } else { Ok(Held::No) }
    }

    #[inline(never)]
    fn charge_to_limited(&mut self, picked: Index, waits: bool) -> Result<Held, Exhausted> {
        let task = self.tasks.task(picked);
        let (own, group) = (task.attr.group, task.queue_group());
        let is_fair = task.class().is_fair();
        let own = self.group_queue(own);
        let competes = self.fair.queue_of(group);
        let here = self.site.here();
        if is_fair {
            self.limits.call_slices(&self.fair.tree, (own, competes));
        }
        self.limits.call_payers(&here, &mut self.fair.tree, (own, competes), waits)?;
        while let Some(payer) = self.limits.slices.spent() {
            if self.draw_slice(payer.queue, Want::Any) {
                continue;
            }
            if !waits || !self.throttles_tasks() {
                return Err(Exhausted(payer.queue));
            }
            self.throttle_slice(payer.queue, false);
        }
        Ok(if self.holds_back() { Held::Back } else { Held::No })
    }

    /// After a pick: returns unneeded grants to their pools.
    #[inline]
    pub(super) fn return_grants(&mut self) {
        self.limits.return_grants(&self.site.here(), &mut self.fair.tree);
    }

    /// Before a pick: throttles the groups that the last task used up (`put_prev_entity`). They try
    /// once more to draw.
    #[inline]
    pub(super) fn throttle_spent(&mut self) {
        while let Some(payer) = self.limits.slices.spent() {
            if !self.draw_slice(payer.queue, Want::Any) {
                self.throttle(payer.queue);
            }
        }
    }

    /// Draws bandwidth until a group has what it wants. Returns whether anything is left.
    fn draw_slice(&mut self, id: QueueId, want: Want) -> bool {
        let group = self.fair.tree.queue(id).group;
        let left = self.limits.slices.refresh(&self.site.here(), (id, group), want);
        self.limits.renew_next();
        left
    }

    /// Before a fair task comes to an empty queue: its group, and those above that are empty, draw
    /// bandwidth. One that gets none is throttled (`check_enqueue_throttle`).
    #[inline(never)]
    pub(super) fn draw_for_first(&mut self, id: QueueId) {
        let (mut next, by_task) = (id, self.throttles_tasks());
        while next != QueueId::ROOT && self.fair.tree.queue(next).nr == 0 {
            if self.limits.slices.has(next) && !by_task {
                self.limits.slices.note_task(self.site.clock(), next);
            }
            // Nothing of a throttled group comes to the queue above, whatever limit throttles it.
            if self.fair.tree.queue(next).throttled {
                return;
            }
            if self.limits.slices.has(next)
                && !self.limits.slices.is_throttled(next)
                && !self.limits.slices.has_left(next)
                && !self.draw_slice(next, Want::Slice)
            {
                self.throttle_slice(next, true);
                if !by_task {
                    return;
                }
            }
            let at = self.fair.tree.queue(next).entity.expect("the root is above");
            next = self.fair.tree.entity(at).parent;
        }
    }

    /// After a fair task or an entity left: empty queues give bandwidth back.
    #[inline]
    pub(super) fn return_slack(&mut self) {
        if self.limits.slices.holds_any() {
            self.limits.slices.return_slack(&self.site.here(), &self.fair.tree);
            self.limits.renew_next();
        }
    }

    /// Throttles a queue under the kernel's bandwidth. Real-time tasks are not concerned. `comes`
    /// says whether a task is about to come.
    fn throttle_slice(&mut self, id: QueueId, comes: bool) {
        let queue = self.fair.tree.queue(id);
        let has_tasks = queue.nr > 0 || comes;
        let by_task = self.throttles_tasks();
        let counts = (has_tasks || self.site.config().rules.counts_empty_throttling) && !by_task;
        let group = queue.group;
        if !by_task {
            self.fair.throttle_asleep(self.site.now(), self.site.groups(), id);
        }
        self.limits.slices.throttle(&self.site.here(), (id, group), counts);
        self.limits.note_throttling(group, true, Nanos::ZERO);
        self.return_slack();
    }

    /// Throttles a group that has no budget left, until its pool has some. No task runs.
    #[inline(never)]
    pub(super) fn throttle(&mut self, id: QueueId) {
        debug_assert_eq!(self.tasks.running(), None, "the running task is put back first");
        if self.limits.slices.has(id) {
            return self.throttle_slice(id, false);
        }
        let here = self.site.here();
        self.limits.return_grant(&here, &mut self.fair.tree, id);
        let group = self.fair.tree.queue(id).group;
        self.fair.throttle(self.site.now(), self.site.groups(), id);
        self.limits.throttle(&here, id, group);
        self.return_slack();
        self.set_rt_aside();
    }

    /// Notes for the host that the throttling of real-time tasks began or ended. The note covers
    /// only changes that this CPU has acted on, by a decision or at the end of a walk of its
    /// timers. Between two such points an inherited priority may come and go.
    #[inline]
    pub(in crate::run_queue) fn note_rt_throttling(&mut self) {
        if let Some(begins) = self.rt.take_throttling() {
            self.limits.news_mut().note_rt(begins);
        }
    }

    /// Charges the pools of a group, and of those above it, for CPU time of its tasks after they
    /// lost the CPU. Returns whether one of these groups has no budget left.
    pub(in crate::run_queue) fn charge_unpicked(
        &mut self,
        now: Time,
        group: GroupId,
        span: Nanos,
    ) -> bool {
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
    pub fn forgive(&self, now: Time, group: GroupId) {
        let mut next = group;
        while next != GroupId::ROOT {
            self.site.groups().with_pool(next, self.site.cpu(), |pool| pool.forgive(now));
            next = self.site.groups().parent(next);
        }
    }

    /// Returns whether a task is below a throttled group, or in limbo.
    #[inline]
    pub(in crate::run_queue) fn is_set_aside(&self, at: Index) -> bool {
        let is_below = |task: &Task<P>| self.is_below_throttled(task.class(), task.queue_group());
        self.fair.is_any_throttled() && is_below(self.tasks.task(at)) || self.fair.is_in_limbo(at)
    }

    /// Returns whether throttling here would set a task of a class and a group aside.
    #[inline]
    pub(super) fn sets_aside(&self, class: Class, group: GroupId) -> bool {
        self.fair.is_any_throttled() && self.is_below_throttled(class, group)
    }

    /// The kernel's bandwidth holds no real-time task back.
    #[inline(never)]
    fn is_below_throttled(&self, class: Class, group: GroupId) -> bool {
        let holds = |id: QueueId| {
            self.fair.tree.queue(id).throttled && (class.is_fair() || !self.limits.slices.has(id))
        };
        let mut lineage = self.site.groups().lineage(group);
        let nearest = lineage.find_map(|above| self.fair.queue_of(above));
        self.fair.tree.lineage(nearest.unwrap_or(QueueId::ROOT)).any(holds)
    }
}

/// The end of throttling, and changes of limits.
impl<P, G: Pools> Classes<P, G> {
    /// Notes that there is budget for a group that may be throttled here. `told` counts the CPUs that
    /// were notified and are to draw; this one is added if tasks of the group wait here. Returns the
    /// next waiting CPU to notify, unless this CPU picks at once: then the pick finds the next one.
    pub fn refill(&mut self, now: Time, group: GroupId, told: &mut u32) -> Option<CpuId> {
        if self.queues.site.groups().has_bandwidth(group) {
            return self.accept_bandwidth(group);
        }
        let fair = &self.queues.fair;
        let waited = fair.queue_of(group).filter(|&id| fair.tree.queue(id).throttled);
        match waited {
            Some(id) => self.unthrottle(id),
            None => self.queues.site.here().forget(group),
        }
        if waited.is_some() || self.next.is_due() {
            self.queues.limits.notice_refill(group);
        }
        if self.next.is_due() {
            return None;
        }
        *told += u32::from(self.queues.has_claim(group));
        Here { now, ..self.queues.site.here() }.waiting(group, *told)
    }

    /// Takes the bandwidth that a throttled queue needs from its group. Returns the next CPU that
    /// waits, if there is more.
    fn accept_bandwidth(&mut self, group: GroupId) -> Option<CpuId> {
        let Queues { site, fair, limits, .. } = &mut self.queues;
        let waits = |id: &QueueId| limits.slices.is_throttled(*id);
        match fair.queue_of(group).filter(waits) {
            Some(id) => {
                if limits.slices.accept(&site.here(), (id, group)) {
                    self.unthrottle(id);
                }
            }
            None => {
                let cpu = site.cpu();
                site.groups().with_bandwidth(group, |pool| pool.forget(cpu));
            }
        }
        let groups = self.queues.site.groups();
        groups.with_bandwidth(group, |pool| pool.first_waiting()).flatten()
    }

    /// Applies a change of the limit of a group: the budget that this CPU had of the old limit
    /// lapses, and the old limit throttles no task any more.
    pub fn renew_limit(&mut self, group: GroupId) {
        // A real-time task may have run without a queue of its group.
        self.queues.limits.dismiss_payers();
        if let Some(id) = self.queues.fair.queue_of(group) {
            self.end_throttling(id);
            let Queues { site, fair, limits, .. } = &mut self.queues;
            if limits.has_budget(id) {
                // The budget may be of the new pool already.
                limits.return_grant(&site.here(), &mut fair.tree, id);
            }
            limits.set(id, site.kind_of_limit(group));
            limits.renew_next();
        }
        self.renew_payers();
    }

    /// Applies a change of the weight of a group to its share of this CPU and to the shares of the
    /// groups above.
    pub fn renew_weight(&mut self, group: GroupId) {
        let Queues { site, fair, .. } = &mut self.queues;
        if let Some(id) = fair.queue_of(group) {
            fair.update_shares_from(site.now(), site.groups(), id);
        }
    }

    /// Removes a group that has no task any more, after the queues of its children.
    pub(in crate::run_queue) fn forget_group(&mut self, group: GroupId) {
        if let Some(id) = self.queues.fair.queue_of(group) {
            self.end_throttling(id);
            let Queues { site, tasks, fair, .. } = &mut self.queues;
            tasks.drop_ghosts_of(id, site, fair);
            self.queues.return_slack();
            self.queues.remove_queue(id);
        }
        self.queues.limits.forget(group);
    }

    /// Determines the payers of the running task anew.
    pub(super) fn renew_payers(&mut self) {
        self.queues.limits.dismiss_payers();
        let curr = self.queues.tasks.running();
        match curr.map_or(Ok(Held::No), |curr| self.queues.charge_to_groups(curr, false)) {
            Ok(Held::No) => {}
            Ok(Held::Back) => self.next.ask_for(Resched::InUserMode),
            Err(_) => self.next.ask(true),
        }
        self.queues.return_grants();
    }

    /// Ends the throttling of a group, if it is throttled.
    fn end_throttling(&mut self, id: QueueId) {
        if self.queues.fair.tree.queue(id).throttled || self.queues.limits.slices.is_throttled(id) {
            self.unthrottle(id);
        }
    }

    /// Lets a group compete again, if it is out of its parent's queue.
    fn unthrottle_queue(&mut self, id: QueueId) {
        if self.queues.fair.tree.queue(id).throttled {
            self.unthrottle(id);
        }
    }

    fn unthrottle(&mut self, id: QueueId) {
        let Queues { site, fair, limits, .. } = &mut self.queues;
        let group = fair.tree.queue(id).group;
        if limits.slices.has(id) {
            let counted = limits.slices.unthrottle(&site.here(), (id, group));
            limits.note_throttling(group, false, counted);
        } else {
            limits.unthrottle(&site.here(), id, group);
        }
        let queue = fair.tree.queue(id);
        if queue.throttled
            && queue.nr > 0
            && limits.slices.is_used()
            && let Some(at) = queue.entity
        {
            let above = fair.tree.entity(at).parent;
            self.queues.draw_for_first(above);
        }
        let due = self.server_due();
        let Queues { site, fair, .. } = &mut self.queues;
        if fair.tree.queue(id).throttled {
            fair.unthrottle(site.now(), site.groups(), id);
        } else {
            self.queues.empty_limbo();
        }
        self.start_server();
        if self.server_due() != due {
            // Another CPU may have handed the budget out, and then this one is not interrupted.
            self.queues.limits.news_mut().note_timer();
        }
        self.queues.bring_rt_back();
        // If there are only ghosts, a pick drops them.
        let anybody = self.queues.nr_running() > 0 || self.queues.fair.root().nr > 0;
        let wanted = self.queues.tasks.running().map_or(anybody, |curr| self.makes_way(curr));
        self.next.ask_anew(wanted);
    }

    /// Draws new grants, if one is used up; otherwise ends the wait of a throttled group, if
    /// other CPUs left any budget for it. Returns whether it was a grant.
    pub(in crate::run_queue) fn end_grant_or_wait(&mut self, now: Time) -> bool {
        let Queues { site, fair, limits, .. } = &mut self.queues;
        let here = site.here();
        if limits.expire_bandwidth(&here, now) {
            return false;
        }
        if limits.grant_is_over(now) {
            let leaves = limits.end_grant(&here, &mut fair.tree);
            self.next.ask(leaves);
            return true;
        }
        let id = limits.first_throttled().expect("a group waits for a refill");
        let group = fair.tree.queue(id).group;
        if here.next_refill(group).is_none() {
            self.unthrottle(id);
        } else {
            limits.wait_on(&here, id, group);
        }
        false
    }

    /// Lets every throttled group above `group` compete again, until it is picked.
    pub(super) fn unthrottle_above(&mut self, group: GroupId) {
        let mut id = self.queues.group_queue(group);
        while let Some(at) = self.queues.fair.tree.queue(id).entity {
            self.unthrottle_queue(id);
            id = self.queues.fair.tree.entity(at).parent;
        }
    }
}
