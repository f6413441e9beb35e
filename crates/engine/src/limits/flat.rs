//! A machine of sibling groups below the root, for tests: without limits, or with one whose first group has the kernel's
//! bandwidth.

use crate::attr::{GroupId, LatencyNice, Weight};
use crate::group::Groups;
use crate::limits::Pools;
use crate::limits::bandwidth::CfsBandwidth;
use std::cell::RefCell;

/// The number of groups, and the bandwidth of the first.
#[derive(Debug)]
pub(crate) struct Flat<B = ()>(pub(crate) u32, pub(crate) B);

impl<B> Groups for Flat<B> {
    fn count(&self) -> usize {
        1 + self.0 as usize
    }

    fn parent(&self, _: GroupId) -> GroupId {
        GroupId::ROOT
    }

    fn weight(&self, _: GroupId) -> Weight {
        Weight::NICE_0
    }

    fn is_idle(&self, _: GroupId) -> bool {
        false
    }

    fn latency_nice(&self, _: GroupId) -> LatencyNice {
        LatencyNice::ZERO
    }

    fn exchange_load(&self, _: GroupId, _: u64, new: u64) -> u64 {
        new
    }
}

impl Pools for Flat {}

impl Pools for Flat<RefCell<CfsBandwidth>> {
    fn has_limit(&self, group: GroupId) -> bool {
        group == GroupId(1)
    }

    fn is_limited(&self, group: GroupId) -> bool {
        self.has_limit(group)
    }

    fn has_bandwidth(&self, group: GroupId) -> bool {
        self.has_limit(group)
    }

    fn with_bandwidth<R>(
        &self,
        group: GroupId,
        act: impl FnOnce(&mut CfsBandwidth) -> R,
    ) -> Option<R> {
        self.has_limit(group).then(|| act(&mut self.1.borrow_mut()))
    }
}
