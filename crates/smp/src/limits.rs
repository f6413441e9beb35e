//! Task groups that come and go, and their limits, over all CPUs.
//!
//! The pools tell who waits for budget ([`crate::groups`]); a run queue asks them when it picks and
//! gives back what it does not need. What must reach other CPUs goes through here, one run-queue lock
//! at a time: budget that was given back goes to a CPU that waits for it, and a limit that changes is
//! told to each CPU in turn. Until a CPU has heard of it, what it holds of the old limit is not worth
//! anything in the new pool, and it draws from that.

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
    /// If there are as many as the machine has room for.
    pub fn add_group(&self, now: Time, spec: GroupSpec) -> Result<GroupId, TooManyGroups> {
        let group = self.groups.add(spec)?;
        if spec.limit.is_some() {
            // Nobody is in it yet.
            self.groups.set_limit(now, group, spec.limit, || self.nr_online());
        }
        Ok(group)
    }

    /// Gives a group another limit, or none. It has the whole budget at once, and who was throttled
    /// runs.
    pub fn set_limit(
        &self,
        now: Time,
        group: GroupId,
        limit: Option<Limit>,
        fx: &mut impl Effects<W>,
    ) {
        assert_ne!(group, GroupId::ROOT, "the root has no limit");
        self.groups.set_limit(now, group, limit, || self.nr_online());
        for cpu in self.config.topology.iter() {
            let before = self.next_expiry(cpu);
            let (_, delta) = self.with(cpu, fx, |rq| rq.renew_limit(now, group));
            let at = |time: Option<Time>| time.unwrap_or(Time::MAX);
            if at(self.next_expiry(cpu)) < at(before) {
                // It must set its timer anew.
                fx.kick(cpu);
            }
            kick_if(delta.resched, cpu, fx);
            self.react(now, cpu, delta, fx);
        }
    }

    /// Gives a group another weight. An idle group keeps that of its kind. Where tasks of the group are queued it
    /// goes on to count as SCHED_IDLE ([`Groups::counts_as_idle`]) as before, until the last of them has gone.
    ///
    /// [`Groups::counts_as_idle`]: runyard_engine::group::Groups::counts_as_idle
    pub fn set_weight(&self, now: Time, group: GroupId, weight: Weight, fx: &mut impl Effects<W>) {
        assert_ne!(group, GroupId::ROOT, "the root has no siblings");
        self.groups.set_weight(group, weight);
        for cpu in self.config.topology.iter() {
            let (_, delta) = self.with(cpu, fx, |rq| rq.renew_weight(now, group));
            kick_if(delta.resched, cpu, fx);
            self.react(now, cpu, delta, fx);
        }
    }

    /// Takes the limits of all groups away: the host ends, and nobody is to be waited for.
    pub fn lift_limits(&self, now: Time, fx: &mut impl Effects<W>) {
        for group in self.groups.ids().filter(|&group| self.groups.has_limit(group)) {
            self.set_limit(now, group, None, fx);
        }
    }

    /// The limit of a group, if it has one that is heeded.
    #[must_use]
    pub fn limit(&self, group: GroupId) -> Option<Limit> {
        self.groups.limit(group)
    }

    /// Whether a group has a limit that is heeded, or had one.
    #[must_use]
    pub fn was_limited(&self, group: GroupId) -> bool {
        self.groups.was_limited(group)
    }

    /// Charges a group for what its tasks used without being picked, after they had lost `cpu`. Whether it has
    /// nothing left now. The last of these tasks may have gone to another group meanwhile, and this one be removed: then
    /// nobody pays.
    pub fn charge_unpicked(&self, now: Time, cpu: CpuId, group: GroupId, span: Nanos) -> bool {
        if group == GroupId::ROOT {
            return false;
        }
        let mut queue = lock(&self.cpus[cpu.index()].queue);
        self.groups.is_there(group) && queue.rq.charge_unpicked(now, group, span)
    }

    /// The groups, as run queues see them.
    #[must_use]
    pub fn groups(&self) -> &impl Pools {
        &*self.groups
    }

    /// Whether groups have this one as their parent.
    #[must_use]
    pub fn has_children(&self, group: GroupId) -> bool {
        self.groups.has_children(group)
    }

    /// Removes a group other than the root without children, in which no task is: neither in a run
    /// queue nor with the host.
    ///
    /// # Panics
    /// If one is in a run queue.
    pub fn remove_group(&self, now: Time, group: GroupId, fx: &mut impl Effects<W>) {
        assert!(group != GroupId::ROOT && !self.has_children(group), "{group:?} is a leaf");
        self.set_limit(now, group, None, fx);
        self.groups.leave(group);
        for cpu in self.config.topology.iter() {
            let _ = self.with(cpu, fx, |rq| rq.forget_group(now, group));
        }
        self.groups.remove(group);
    }

    /// What its limit did to a group until `now`.
    #[must_use]
    pub fn usage(&self, now: Time, group: GroupId) -> Usage {
        let mut usage = self.groups.usage(now, group);
        let on = |cpu| self.usage_on(now, group, cpu);
        for there in self.config.topology.iter().filter_map(on) {
            usage.throttled += there.throttled;
            usage.borrowed += there.borrowed;
        }
        usage
    }

    /// What a group with a limit used on a CPU, and how it was throttled there; nothing if it never was
    /// there.
    #[must_use]
    pub fn usage_on(&self, now: Time, group: GroupId, cpu: CpuId) -> Option<UsageOnCpu> {
        self.inspect(cpu, |rq| rq.usage(now, group))
    }

    /// A CPU that waits for budget of a group of which its pool has some that no CPU is about to draw,
    /// for checks.
    #[must_use]
    pub fn waits_in_vain(&self, now: Time, group: GroupId) -> Option<CpuId> {
        let cpus = || self.config.topology.iter();
        let has_claim = |&cpu: &CpuId| self.inspect(cpu, |rq| rq.has_claim(group));
        self.groups.waits_in_vain(now, group, || cpus().filter(has_claim).count() as u32)
    }

    /// Passes on what `cpu` gave back, to those that wait for it.
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

    /// Asserts that what was granted is somewhere.
    pub(crate) fn check_limits(&self) {
        for group in self.groups.ids().skip(1).filter(|&group| self.groups.has_limit(group)) {
            let (mut held, mut used) = (Vec::new(), Nanos::ZERO);
            for cpu in self.config.topology.iter() {
                self.inspect(cpu, |rq| {
                    held.push(rq.held(group));
                    let charged = rq.usage(Time::ZERO, group).unwrap_or_default().used;
                    used += charged - rq.in_use(group);
                });
            }
            self.groups.check(group, &held);
            self.groups.check_used(group, used);
        }
    }
}
