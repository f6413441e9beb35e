//! What a run queue must know of task groups beyond its own CPU.
//!
//! A group has a queue on each CPU where it has members, and an entity that stands for that queue
//! in the parent's. The entity's weight is the group's share of that CPU, which depends on the
//! group's load everywhere: the one number here that all CPUs write. The budget of a limit is what all
//! CPUs share as well: its pool.

use crate::attr::{GroupId, LatencyNice, Weight};

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
