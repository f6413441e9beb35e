//! Task groups that are added and removed, and their limits, over all CPUs.
//!
//! A pool knows the CPUs that wait for budget ([`crate::groups`]). A run queue draws from it when it picks a task, and
//! gives back the budget that it does not need. Effects on other CPUs go through this file, with one run-queue lock at
//! a time. Budget that is given back goes to a CPU that waits for it. A change of a limit visits each CPU in turn.
//! Until that visit, the budget that a CPU holds under the old limit does not count in the new pool, and the CPU draws
//! from the new pool.

use crate::cpu::OneCpu;
use crate::cpus::Cpus;
use crate::groups::TooManyGroups;
use crate::host::{Controlled, Effects, kick_if};
use crate::machine::Machine;
use runyard_engine::attr::{GroupId, Weight};
use runyard_engine::cpu::CpuId;
use runyard_engine::limits::Pools;
use runyard_engine::limits::{Limit, Usage};
use runyard_engine::spec::GroupSpec;
use runyard_engine::time::Time;

impl<W: Controlled> Machine<W> {
    /// Adds a group.
    ///
    /// # Errors
    /// If the machine has no room for another group.
    pub fn add_group(&self, now: Time, spec: GroupSpec) -> Result<GroupId, TooManyGroups> {
        let group = self.groups().add(spec)?;
        if spec.limit.is_some() {
            // The new group has no task yet, so no run queue needs a visit.
            self.groups().set_limit(now, group, spec.limit, || self.sight().nr_online());
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
        self.groups().set_limit(now, group, limit, || self.sight().nr_online());
        for cpu in self.config().topology.iter() {
            let before = self.sight().next_expiry(cpu);
            let (_, delta) = self.cpu(cpu).change(fx, |rq| rq.at(now).renew_limit(group));
            let at = |time: Option<Time>| time.unwrap_or(Time::MAX);
            if at(self.sight().next_expiry(cpu)) < at(before) {
                // The CPU must set its timer again.
                fx.kick(cpu);
            }
            kick_if(delta.resched, cpu, fx);
            self.cpus.react(now, cpu, delta, fx);
        }
    }

    /// Sets the weight of a group. An idle group keeps the weight of its kind. A queue with tasks of the group
    /// continues to count as SCHED_IDLE or not, as before ([`Groups::counts_as_idle`]), until the last of them has
    /// left.
    ///
    /// [`Groups::counts_as_idle`]: runyard_engine::group::Groups::counts_as_idle
    pub fn set_weight(&self, now: Time, group: GroupId, weight: Weight, fx: &mut impl Effects<W>) {
        assert_ne!(group, GroupId::ROOT, "the root has no siblings");
        self.groups().set_weight(group, weight);
        for cpu in self.config().topology.iter() {
            self.cpus.act(now, cpu, fx, |rq| rq.at(now).renew_weight(group));
        }
    }

    /// Removes the limits of all groups. A host that ends calls it so that no throttled task delays the end.
    pub fn lift_limits(&self, now: Time, fx: &mut impl Effects<W>) {
        let groups = self.groups();
        for group in groups.ids().filter(|&group| groups.has_limit(group)) {
            self.set_limit(now, group, None, fx);
        }
    }

    /// Removes a group that is not the root and has neither children nor tasks. No task of it may be in a run queue or
    /// with the host.
    ///
    /// # Panics
    /// If a task of the group is in a run queue.
    pub fn remove_group(&self, now: Time, group: GroupId, fx: &mut impl Effects<W>) {
        let groups = self.groups();
        assert!(group != GroupId::ROOT && !groups.has_children(group), "{group:?} is a leaf");
        if groups.has_limit(group) {
            self.set_limit(now, group, None, fx);
        }
        groups.leave(group);
        for cpu in self.config().topology.iter() {
            let _ = self.cpu(cpu).change(fx, |rq| rq.forget_group(now, group));
        }
        groups.remove(group);
    }

    /// Returns the effects of a group's limit until `now`.
    #[must_use]
    pub fn usage(&self, now: Time, group: GroupId) -> Usage {
        let mut usage = self.groups().usage(now, group);
        for there in self.cpus.all().filter_map(|cpu| cpu.usage(now, group)) {
            usage.throttled += there.throttled;
            usage.borrowed += there.borrowed;
        }
        usage
    }

    /// Returns a CPU that waits for budget of a group although the pool has budget that no CPU is about to draw. For
    /// checks.
    #[must_use]
    pub fn waits_in_vain(&self, now: Time, group: GroupId) -> Option<CpuId> {
        let has_claim = |cpu: &OneCpu<'_, W>| cpu.inspect(|rq| rq.queues().has_claim(group));
        let claims = || self.cpus.all().filter(has_claim).count() as u32;
        self.groups().waits_in_vain(now, group, claims)
    }
}

impl<W: Controlled> Machine<W> {
    /// Returns a CPU that waits for a group's budget under the kernel's control, although its pool has more than a slice
    /// and the refill is not near. For checks: the slack timer ends that wait.
    #[must_use]
    pub fn waits_beside_slice(&self, now: Time, group: GroupId) -> Option<CpuId> {
        self.groups().waits_beside_slice(now, group)
    }
}

impl<W: Controlled> Cpus<W> {
    /// Passes the budget that `cpu` gave back to the CPUs that wait for it.
    #[inline(never)]
    pub(crate) fn refill_others(&self, now: Time, cpu: CpuId, fx: &mut impl Effects<W>) {
        while let (Some((waiting, group)), _) =
            self.of(cpu).change(fx, |rq| rq.news_mut().take_refilled())
        {
            let (mut next, mut told) = (Some(waiting), 0);
            while let Some(waiting) = next {
                next = self.act(now, waiting, fx, |rq| rq.at(now).refill(now, group, &mut told));
            }
        }
    }
}
