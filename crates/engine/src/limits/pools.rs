//! The interface of a run queue to limits beyond its own CPU: the pools of the groups' budgets,
//! which all CPUs share.

use crate::attr::GroupId;
use crate::cpu::CpuId;
use crate::group::Groups;
use crate::limits::bandwidth::CfsBandwidth;
use crate::limits::pool::Pool;

/// The limits of a machine's task groups, for its run queues. This is the only access of a CPU to
/// data that it does not own: the machine has a lock for the
/// pools of each group.
pub trait Pools: Groups {
    /// Returns whether the group itself has a limit.
    fn has_limit(&self, group: GroupId) -> bool {
        let _ = group;
        false
    }

    /// Returns whether the group or one above it has a limit.
    fn is_limited(&self, group: GroupId) -> bool {
        let _ = group;
        false
    }

    /// Returns whether the group itself has a limit that is the kernel's bandwidth, not a pool.
    fn has_bandwidth(&self, group: GroupId) -> bool {
        let _ = group;
        false
    }

    /// Calls `act` with the bandwidth of `group`; returns `None` if it has none. `act` is short and
    /// calls nothing that could wait.
    fn with_bandwidth<R>(
        &self,
        group: GroupId,
        act: impl FnOnce(&mut CfsBandwidth) -> R,
    ) -> Option<R> {
        let _ = (group, act);
        None
    }

    /// Returns whether the kernel's bandwidth throttles the group, or one above it, on `cpu`
    /// (`throttled_hierarchy`). Balance takes no task of such a group to that CPU.
    fn is_throttled_on(&self, group: GroupId, cpu: CpuId) -> bool {
        let waits = |group| self.with_bandwidth(group, |bandwidth| bandwidth.waits(cpu));
        self.is_limited(group) && self.lineage(group).any(|group| waits(group) == Some(true))
    }

    /// Calls `act` with the pool from which `cpu` draws the budget of `group`; returns `None` if
    /// there is no limit any more. `act` is short and calls nothing that could wait.
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

/// A machine without limits.
impl Pools for () {}
