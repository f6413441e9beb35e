//! What a run queue must know of task groups beyond its own CPU.
//!
//! A group has a queue on each CPU where it has members, and an entity that stands for that queue
//! in the parent's. The entity's weight is the group's share of that CPU, which depends on the
//! group's load everywhere: the one number here that all CPUs write. The budget of a limit is what all
//! CPUs share as well: its pool.

use crate::attr::{Attr, Cookie, GroupId, LatencyNice, Weight};
use crate::store::decay::decay;

/// The task groups of a machine, as its run queues see them. The machine shares one among them.
pub trait Groups {
    /// How many there are, the root included.
    fn count(&self) -> usize;

    /// The parent of a group other than the root.
    fn parent(&self, group: GroupId) -> GroupId;

    /// The group's share among its siblings; [`Weight::IDLE`] of an idle one.
    fn weight(&self, group: GroupId) -> Weight;

    /// Whether a group other than the root was itself marked idle (`cpu.idle` since Linux 5.15):
    /// its entity makes way as a SCHED_IDLE task does. Says nothing of the groups above it.
    fn is_idle(&self, group: GroupId) -> bool;

    /// How soon the group's tasks want to run where it competes with its siblings
    /// (`cpu.latency.nice`); theirs says that among each other.
    fn latency_nice(&self, group: GroupId) -> LatencyNice;

    /// The cookie of a task in `group` that has none of its own: that of the group, or of the nearest one above it that
    /// has one.
    fn cookie(&self, _group: GroupId) -> Option<Cookie> {
        None
    }

    /// The cookie of a task for which this is asked: its own, or that of its group.
    fn cookie_of(&self, attr: &Attr) -> Option<Cookie> {
        attr.cookie.or_else(|| self.cookie(attr.group))
    }

    /// Whether the tasks of a group other than the root count as SCHED_IDLE ones where it competes.
    ///
    /// An idle group's do (`idle_h_nr_running`). So do those of a group that has no more weight
    /// than a SCHED_IDLE task: the founding document on balancing calls "cpu.shares of 2"
    /// SCHED_IDLE-like. The kernel does not go that far, so this is for counts, on which balancing
    /// decides; who preempts whom is decided by [`Groups::is_idle`] alone.
    fn counts_as_idle(&self, group: GroupId) -> bool {
        self.is_idle(group) || self.weight(group) <= Weight::IDLE
    }

    /// Whether the tasks of `group` count as SCHED_IDLE ones, by it or by one above it
    /// ([`Groups::counts_as_idle`]).
    fn is_below_idle(&self, mut group: GroupId) -> bool {
        let mut idle = false;
        while !idle && group != GroupId::ROOT {
            idle = self.counts_as_idle(group);
            group = self.parent(group);
        }
        idle
    }

    /// Replaces what one CPU contributes to the load of `group` and returns the load over all
    /// CPUs, the new contribution included.
    fn exchange_load(&self, group: GroupId, old: u64, new: u64) -> u64;

    /// Replaces a part of what the sleepers of `group` left in queues without members, as of a period, and returns the
    /// sum of all, the new part included ([`Blocked`]). Called under `PELT` alone; who has no sum gives none.
    fn exchange_blocked(&self, _group: GroupId, _period: u64, _old: u64, _new: u64) -> u64 {
        0
    }
}

/// Load of sleepers, which decays by half in 32 periods whoever looks: in units of 1/64 of a weight, as of a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocked {
    load: u64,
    /// Modulo 2^28: 78 hours.
    period: u64,
}

impl Blocked {
    /// The unit of a load is so small a part of that of weights.
    pub const FRACTION_BITS: u32 = 6;

    const LOAD_BITS: u32 = 36;
    const PERIOD_BITS: u32 = u64::BITS - Blocked::LOAD_BITS;

    /// This load in a period. More than the weight of a million tasks is as much.
    #[must_use]
    pub fn new(load: u64, period: u64) -> Blocked {
        let load = load.min((1 << Blocked::LOAD_BITS) - 1);
        Blocked { load, period: period & ((1 << Blocked::PERIOD_BITS) - 1) }
    }

    /// What is left of it in a period. To a period that is earlier it is what it is.
    #[must_use]
    pub fn at(self, period: u64) -> Blocked {
        let now = Blocked::new(self.load, period);
        let later = now.period.wrapping_sub(self.period) & ((1 << Blocked::PERIOD_BITS) - 1);
        match later >> (Blocked::PERIOD_BITS - 1) {
            0 => Blocked { load: decay(self.load, later), ..now },
            _ => self,
        }
    }

    /// With a part of it replaced by another.
    #[must_use]
    pub fn exchange(self, old: u64, new: u64) -> Blocked {
        Blocked::new(self.load.saturating_sub(old) + new, self.period)
    }

    /// The period.
    #[must_use]
    pub fn period(self) -> u64 {
        self.period
    }

    /// The load.
    #[must_use]
    pub fn get(self) -> u64 {
        self.load
    }

    /// Both numbers in a word.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        self.period << Blocked::LOAD_BITS | self.load
    }

    /// What [`Blocked::to_bits`] gave.
    #[must_use]
    pub fn from_bits(bits: u64) -> Blocked {
        Blocked::new(bits & ((1 << Blocked::LOAD_BITS) - 1), bits >> Blocked::LOAD_BITS)
    }
}

/// No group but the root.
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
