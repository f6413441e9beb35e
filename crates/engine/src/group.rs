//! The interface of a run queue to the task groups of the machine.
//!
//! A group has a queue on each CPU where it has members. Its entity represents that queue in the
//! parent's. The weight of the entity is the group's share of that CPU. It depends on the group's
//! load on all CPUs, which is the only number here that all CPUs write. The budget of a limit, its
//! pool, is also shared by all CPUs.

use crate::attr::{Attr, Cookie, GroupId, LatencyNice, Weight};
use crate::store::decay::decay;
use std::iter::successors;

/// The task groups of a machine, for its run queues. All run queues share one value.
pub trait Groups {
    /// Returns the number of groups, including the root.
    fn count(&self) -> usize;

    /// Returns the parent of a group other than the root.
    fn parent(&self, group: GroupId) -> GroupId;

    /// Returns a group and those above it, up to the root.
    fn lineage(&self, group: GroupId) -> impl Iterator<Item = GroupId> {
        let above = |&group: &GroupId| (group != GroupId::ROOT).then(|| self.parent(group));
        successors(Some(group), above)
    }

    /// Returns the group's share among its siblings; [`Weight::IDLE`] for an idle group.
    fn weight(&self, group: GroupId) -> Weight;

    /// Returns whether a group other than the root was itself marked idle (`cpu.idle` since Linux
    /// 5.15): its entity makes way like a SCHED_IDLE task. The groups above it do not matter.
    fn is_idle(&self, group: GroupId) -> bool;

    /// Returns the latency nice of the group among its siblings (`cpu.latency.nice`). The latency
    /// nice of its tasks applies among themselves.
    fn latency_nice(&self, group: GroupId) -> LatencyNice;

    /// Returns the cookie of a task in `group` that has none of its own: that of the group, or of
    /// the nearest group above that has one.
    fn cookie(&self, _group: GroupId) -> Option<Cookie> {
        None
    }

    /// Returns the cookie of a task with these attributes: its own, or that of its group.
    fn cookie_of(&self, attr: &Attr) -> Option<Cookie> {
        attr.cookie.or_else(|| self.cookie(attr.group))
    }

    /// Returns whether the tasks of a group other than the root count as SCHED_IDLE where it
    /// competes.
    ///
    /// The tasks of an idle group do (`idle_h_nr_running`). So do those of a group that has no more
    /// weight than a SCHED_IDLE task: the founding document on balancing calls "cpu.shares of 2"
    /// SCHED_IDLE-like. The kernel does not go that far, so this only affects counts, which
    /// balancing uses. Preemption depends only on [`Groups::is_idle`].
    fn counts_as_idle(&self, group: GroupId) -> bool {
        self.is_idle(group) || self.weight(group) <= Weight::IDLE
    }

    /// Returns whether the tasks of `group` count as SCHED_IDLE, because of it or a group above it
    /// ([`Groups::counts_as_idle`]).
    fn is_below_idle(&self, mut group: GroupId) -> bool {
        let mut idle = false;
        while !idle && group != GroupId::ROOT {
            idle = self.counts_as_idle(group);
            group = self.parent(group);
        }
        idle
    }

    /// Replaces the contribution of one CPU to the load of `group`. Returns the load over all CPUs,
    /// including the new contribution.
    fn exchange_load(&self, group: GroupId, old: u64, new: u64) -> u64;

    /// Replaces a part of the load that the sleepers of `group` left in queues without members, as
    /// of a period. Returns the sum of all, including the new part ([`Blocked`]). Called only under
    /// `PELT`; an implementation without such a sum returns 0.
    fn exchange_blocked(&self, _group: GroupId, _period: u64, _old: u64, _new: u64) -> u64 {
        0
    }
}

/// The load of sleepers as of a period, in units of 1/64 of a weight. It decays by half in 32
/// periods, and any reader can age it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocked {
    load: u64,
    /// Modulo 2^28: 78 hours.
    period: u64,
}

impl Blocked {
    /// The binary logarithm of the units of a load in one unit of weight.
    pub const FRACTION_BITS: u32 = 6;

    const LOAD_BITS: u32 = 36;
    const PERIOD_BITS: u32 = u64::BITS - Blocked::LOAD_BITS;

    /// Returns this load in a period. It is capped at the weight of a million tasks.
    #[must_use]
    pub fn new(load: u64, period: u64) -> Blocked {
        let load = load.min((1 << Blocked::LOAD_BITS) - 1);
        Blocked { load, period: period & ((1 << Blocked::PERIOD_BITS) - 1) }
    }

    /// Returns its rest in another period. In an earlier period it is unchanged.
    #[must_use]
    pub fn at(self, period: u64) -> Blocked {
        let now = Blocked::new(self.load, period);
        let later = now.period.wrapping_sub(self.period) & ((1 << Blocked::PERIOD_BITS) - 1);
        match later >> (Blocked::PERIOD_BITS - 1) {
            0 => Blocked { load: decay(self.load, later), ..now },
            _ => self,
        }
    }

    /// Returns it with one part replaced by another.
    #[must_use]
    pub fn exchange(self, old: u64, new: u64) -> Blocked {
        Blocked::new(self.load.saturating_sub(old) + new, self.period)
    }

    /// Returns the period.
    #[must_use]
    pub fn period(self) -> u64 {
        self.period
    }

    /// Returns the load.
    #[must_use]
    pub fn get(self) -> u64 {
        self.load
    }

    /// Returns both numbers in a word.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        self.period << Blocked::LOAD_BITS | self.load
    }

    /// Returns the value of a word from [`Blocked::to_bits`].
    #[must_use]
    pub fn from_bits(bits: u64) -> Blocked {
        Blocked::new(bits & ((1 << Blocked::LOAD_BITS) - 1), bits >> Blocked::LOAD_BITS)
    }
}

/// A machine with only the root group.
impl Groups for () {
    fn count(&self) -> usize {
        1
    }

    fn parent(&self, group: GroupId) -> GroupId {
        unreachable!("{group:?} does not exist")
    }

    fn weight(&self, group: GroupId) -> Weight {
        unreachable!("{group:?} does not exist")
    }

    fn latency_nice(&self, group: GroupId) -> LatencyNice {
        unreachable!("{group:?} does not exist")
    }

    fn is_idle(&self, group: GroupId) -> bool {
        unreachable!("{group:?} does not exist")
    }

    fn exchange_load(&self, group: GroupId, _: u64, _: u64) -> u64 {
        unreachable!("{group:?} does not exist")
    }
}
