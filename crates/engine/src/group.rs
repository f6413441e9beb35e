//! What a run queue must know of task groups beyond its own CPU.
//!
//! A group has a queue on each CPU where it has members, and an entity that stands for that queue
//! in the parent's. The entity's weight is the group's share of that CPU, which depends on the
//! group's load everywhere: the one number here that all CPUs write. The budget of a limit is what all
//! CPUs share as well: its pool.

use crate::attr::{GroupId, LatencyNice, Weight};
use crate::cpu::CpuId;
use crate::limits::Limit;
use crate::limits::pool::Pool;

/// What is asked for a task group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupSpec {
    /// Its parent, which comes before it where groups are listed; the root is its own.
    pub parent: GroupId,
    /// Its share among its siblings. Of an idle group it is [`Weight::IDLE`], whatever stands here,
    /// as setting `cpu.idle` forces it in the kernel (`sched_group_set_idle`).
    pub weight: Weight,
    /// Whether it is idle ([`Groups::is_idle`]). The root is not.
    pub idle: bool,
    /// How soon its tasks want to run beside its siblings ([`Groups::latency_nice`]). The root's is 0.
    pub latency_nice: LatencyNice,
    /// What it may use at the most. The root has no limit.
    pub limit: Option<Limit>,
}

impl GroupSpec {
    /// The root, which is always the first; and a group below it for which nothing is asked.
    pub const ROOT: GroupSpec = GroupSpec {
        parent: GroupId::ROOT,
        weight: Weight::NICE_0,
        idle: false,
        latency_nice: LatencyNice::ZERO,
        limit: None,
    };
}

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

/// The limits of a machine's task groups, as its run queues see them. Here a CPU leaves what is its own:
/// the machine has a lock for each pool.
pub trait Pools: Groups {
    /// Whether the group itself has a limit.
    fn has_limit(&self, group: GroupId) -> bool {
        let _ = group;
        false
    }

    /// Whether the group or one above it has a limit.
    fn is_limited(&self, group: GroupId) -> bool {
        let _ = group;
        false
    }

    /// Calls `act` with the pool from which `cpu` draws the budget of `group`; `None` if there is no
    /// limit any more. `act` is short and calls nothing that could wait.
    fn with_pool<R>(
        &self,
        group: GroupId,
        cpu: CpuId,
        act: impl FnOnce(&mut Pool) -> R,
    ) -> Option<R> {
        let _ = act;
        unreachable!("{group:?} has no limit for {cpu}")
    }
}

/// No group has a limit.
impl Pools for () {}

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
