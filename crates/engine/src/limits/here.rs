//! What a CPU needs to call the pools of groups.

use crate::attr::GroupId;
use crate::cpu::CpuId;
use crate::limits::Pools;
use crate::limits::pool::Grant;
use crate::time::Time;

/// The time, the CPU and the pools, for calls of pools.
#[derive(Debug)]
pub(crate) struct Here<'a, G> {
    pub(crate) now: Time,
    pub(crate) cpu: CpuId,
    pub(crate) pools: &'a G,
}

impl<G: Pools> Here<'_, G> {
    pub(crate) fn draw(&self, group: GroupId, waits: bool) -> Grant {
        let drawn =
            self.pools.with_pool(group, self.cpu, |pool| pool.draw(self.now, self.cpu, waits));
        drawn.unwrap_or(Grant::UNLIMITED)
    }

    pub(crate) fn give_back(&self, group: GroupId, grant: Grant) -> Option<CpuId> {
        self.pools.with_pool(group, self.cpu, |pool| pool.give_back(self.now, grant)).flatten()
    }

    /// Returns a CPU that waits for budget that is available, after `told` others were notified.
    pub(crate) fn waiting(&self, group: GroupId, told: u32) -> Option<CpuId> {
        self.pools.with_pool(group, self.cpu, |pool| pool.who_waits(self.now, told)).flatten()
    }

    /// Notes that this CPU no longer waits for budget of a group.
    pub(crate) fn forget(&self, group: GroupId) {
        self.pools.with_pool(group, self.cpu, |pool| pool.forget(self.cpu));
    }

    /// Returns when there is budget again; `None` if there is now.
    pub(crate) fn next_refill(&self, group: GroupId) -> Option<Time> {
        self.pools.with_pool(group, self.cpu, |pool| pool.next_refill(self.now)).flatten()
    }
}
