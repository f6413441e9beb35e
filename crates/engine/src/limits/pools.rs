//! What a run queue must know of the limits of task groups beyond its own CPU: the pools of their
//! budgets, which all CPUs share.

use crate::attr::GroupId;
use crate::cpu::CpuId;
use crate::group::Groups;
use crate::limits::pool::Pool;

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
