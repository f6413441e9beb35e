//! Task groups that are added and removed, and their limits, over all CPUs.
//!
//! A pool knows the CPUs that wait for budget ([`crate::groups`]). A run queue draws from it when it picks a task, and
//! gives back the budget that it does not need. Effects on other CPUs go through this file, with one run-queue lock at
//! a time. Budget that is given back goes to a CPU that waits for it. A change of a limit visits each CPU in turn.
//! Until that visit, the budget that a CPU holds under the old limit does not count in the new pool, and the CPU draws
//! from the new pool.

use crate::groups::TooManyGroups;
use crate::host::{Controlled, Effects, kick_if};
use crate::machine::Machine;
use crate::sync::lock;
use runyard_engine::attr::{GroupId, Weight};
use runyard_engine::cpu::CpuId;
use runyard_engine::limits::Pools;
use runyard_engine::limits::{Limit, Usage, UsageOnCpu};
use runyard_engine::run_queue::RunQueue;
use runyard_engine::spec::GroupSpec;
use runyard_engine::time::{Nanos, Time};

impl<W: Controlled> Machine<W> {
    /// Adds a group.
    ///
    /// # Errors
    /// If the machine has no room for another group.
    pub fn add_group(&self, now: Time, spec: GroupSpec) -> Result<GroupId, TooManyGroups> {
        let group = self.sight.groups.add(spec)?;
        if spec.limit.is_some() {
            // The new group has no task yet, so no run queue needs a visit.
            self.sight.groups.set_limit(now, group, spec.limit, || self.sight.nr_online());
        }
        Ok(group)
    }

    /// Sets or removes the limit of a group. The group has the whole budget at once, and its throttled tasks become
    /// runnable.
    pub fn set_limit(
        &self,
        now: Time,
        group: GroupId,
        limit: Option<Limit>,
        fx: &mut impl Effects<W>,
    ) {
        assert_ne!(group, GroupId::ROOT, "the root has no limit");
        self.sight.groups.set_limit(now, group, limit, || self.sight.nr_online());
        for cpu in self.sight.config.topology.iter() {
            let before = self.sight.next_expiry(cpu);
            let (_, delta) = self.with(cpu, fx, |rq| rq.renew_limit(now, group));
            let at = |time: Option<Time>| time.unwrap_or(Time::MAX);
            if at(self.sight.next_expiry(cpu)) < at(before) {
                // The CPU must set its timer again.
                fx.kick(cpu);
            }
            kick_if(delta.resched, cpu, fx);
            self.react(now, cpu, delta, fx);
        }
    }

    /// Sets the weight of a group. An idle group keeps the weight of its kind. A queue with tasks of the group
    /// continues to count as SCHED_IDLE or not, as before ([`Groups::counts_as_idle`]), until the last of them has
    /// left.
    ///
    /// [`Groups::counts_as_idle`]: runyard_engine::group::Groups::counts_as_idle
    pub fn set_weight(&self, now: Time, group: GroupId, weight: Weight, fx: &mut impl Effects<W>) {
        assert_ne!(group, GroupId::ROOT, "the root has no siblings");
        self.sight.groups.set_weight(group, weight);
        for cpu in self.sight.config.topology.iter() {
            let (_, delta) = self.with(cpu, fx, |rq| rq.renew_weight(now, group));
            kick_if(delta.resched, cpu, fx);
            self.react(now, cpu, delta, fx);
        }
    }

    /// Removes the limits of all groups. A host that ends calls it so that no throttled task delays the end.
    pub fn lift_limits(&self, now: Time, fx: &mut impl Effects<W>) {
        for group in self.sight.groups.ids().filter(|&group| self.sight.groups.has_limit(group)) {
            self.set_limit(now, group, None, fx);
        }
    }

    /// Returns the limit of a group, if it has one that is enforced.
    #[must_use]
    pub fn limit(&self, group: GroupId) -> Option<Limit> {
        self.sight.groups.limit(group)
    }

    /// Returns whether a group has or had a limit that is enforced.
    #[must_use]
    pub fn was_limited(&self, group: GroupId) -> bool {
        self.sight.groups.was_limited(group)
    }

    /// Charges a group for CPU time that its tasks used without being picked, after they had lost `cpu`. Returns
    /// whether the group has no budget left. If the last of these tasks has left the group and the group was removed,
    /// no group is charged.
    pub fn charge_unpicked(&self, now: Time, cpu: CpuId, group: GroupId, span: Nanos) -> bool {
        if group == GroupId::ROOT {
            return false;
        }
        let mut queue = lock(&self.cpus[cpu.index()].queue);
        self.sight.groups.is_there(group) && queue.rq.charge_unpicked(now, group, span)
    }

    /// Reduces the debts of a group and of those above it, each to the budget of one period: for CPU time that the host
    /// could not keep the group from using. A group that was removed has none.
    pub fn forgive(&self, now: Time, cpu: CpuId, group: GroupId) {
        let mut queue = lock(&self.cpus[cpu.index()].queue);
        if self.sight.groups.is_there(group) {
            queue.rq.forgive(now, group);
        }
    }

    /// Returns the groups, as run queues see them.
    #[must_use]
    pub fn groups(&self) -> &impl Pools {
        &*self.sight.groups
    }

    /// Returns whether the group has children.
    #[must_use]
    pub fn has_children(&self, group: GroupId) -> bool {
        self.sight.groups.has_children(group)
    }

    /// Removes a group that is not the root and has neither children nor tasks. No task of it may be in a run queue or
    /// with the host.
    ///
    /// # Panics
    /// If a task of the group is in a run queue.
    pub fn remove_group(&self, now: Time, group: GroupId, fx: &mut impl Effects<W>) {
        assert!(group != GroupId::ROOT && !self.has_children(group), "{group:?} is a leaf");
        self.set_limit(now, group, None, fx);
        self.sight.groups.leave(group);
        for cpu in self.sight.config.topology.iter() {
            let _ = self.with(cpu, fx, |rq| rq.forget_group(now, group));
        }
        self.sight.groups.remove(group);
    }

    /// Returns the effects of a group's limit until `now`.
    #[must_use]
    pub fn usage(&self, now: Time, group: GroupId) -> Usage {
        let mut usage = self.sight.groups.usage(now, group);
        let on = |cpu| self.usage_on(now, group, cpu);
        for there in self.sight.config.topology.iter().filter_map(on) {
            usage.throttled += there.throttled;
            usage.borrowed += there.borrowed;
        }
        usage
    }

    /// Returns the CPU time that a group with a limit used on a CPU, and its throttling there. It is zero if the group
    /// never had a task on that CPU.
    #[must_use]
    pub fn usage_on(&self, now: Time, group: GroupId, cpu: CpuId) -> Option<UsageOnCpu> {
        self.inspect(cpu, |rq| rq.usage(now, group))
    }

    /// Returns a CPU that waits for budget of a group although the pool has budget that no CPU is about to draw. For
    /// checks.
    #[must_use]
    pub fn waits_in_vain(&self, now: Time, group: GroupId) -> Option<CpuId> {
        let cpus = || self.sight.config.topology.iter();
        let has_claim = |&cpu: &CpuId| self.inspect(cpu, |rq| rq.has_claim(group));
        self.sight.groups.waits_in_vain(now, group, || cpus().filter(has_claim).count() as u32)
    }

    /// Passes the budget that `cpu` gave back to the CPUs that wait for it.
    #[inline(never)]
    pub(crate) fn refill_others(&self, now: Time, cpu: CpuId, fx: &mut impl Effects<W>) {
        while let (Some((waiting, group)), _) = self.with(cpu, fx, RunQueue::take_refilled) {
            let (mut next, mut told) = (Some(waiting), 0);
            while let Some(waiting) = next {
                told += 1;
                let (then, delta) = self.with(waiting, fx, |rq| rq.refill(now, group, told));
                kick_if(delta.resched, waiting, fx);
                self.react(now, waiting, delta, fx);
                next = then;
            }
        }
    }

    /// Asserts that all granted budget is accounted for.
    pub(crate) fn check_limits(&self) {
        for group in
            self.sight.groups.ids().skip(1).filter(|&group| self.sight.groups.has_limit(group))
        {
            let (mut held, mut used) = (Vec::new(), Nanos::ZERO);
            for cpu in self.sight.config.topology.iter() {
                self.inspect(cpu, |rq| {
                    held.push(rq.held(group));
                    let charged = rq.usage(Time::ZERO, group).unwrap_or_default().used;
                    used += charged - rq.in_use(group);
                });
            }
            self.sight.groups.check(group, &held);
            self.sight.groups.check_used(group, used);
        }
    }
}
