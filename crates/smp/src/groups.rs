//! The task groups of a machine: their tree, their weights, and their load over all CPUs.

use crate::sync::{AtomicU64, Ordering};
use runyard_engine::attr::{GroupId, LatencyNice, Weight};
use runyard_engine::group::Groups;
use runyard_engine::limit::Limit;

/// What a machine is told of a task group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupSpec {
    /// Its parent, which comes before it; the root is its own.
    pub parent: GroupId,
    /// Its share among its siblings. Of an idle group it is [`Weight::IDLE`], whatever stands here,
    /// as setting `cpu.idle` forces it in the kernel (`sched_group_set_idle`).
    pub weight: Weight,
    /// Whether it is idle ([`Groups::is_idle`]). The root is not.
    pub idle: bool,
    /// How soon its tasks want to run beside its siblings ([`Groups::latency_nice`]). The root's is 0.
    pub latency_nice: LatencyNice,
    /// What it may use at the most. The root has none.
    pub limit: Option<Limit>,
}

impl GroupSpec {
    /// The root, which is always the first.
    pub const ROOT: GroupSpec = GroupSpec {
        parent: GroupId::ROOT,
        weight: Weight::NICE_0,
        idle: false,
        latency_nice: LatencyNice::ZERO,
        limit: None,
    };
}

/// The groups, by [`GroupId`].
#[derive(Debug)]
pub struct GroupTable(Box<[Group]>);

#[derive(Debug)]
struct Group {
    spec: GroupSpec,
    /// The sum of what the CPUs contribute; each adds and subtracts with its own lock held.
    load: AtomicU64,
}

impl GroupTable {
    /// # Panics
    /// If the first is not the root, the root is idle, or a parent does not come before its child.
    pub(crate) fn new(specs: &[GroupSpec]) -> GroupTable {
        assert_eq!(specs.first().map(|root| root.parent), Some(GroupId::ROOT), "the root is first");
        assert!(!specs[0].idle, "the root is not idle");
        let ordered = specs.iter().enumerate().skip(1).all(|(at, spec)| spec.parent.index() < at);
        assert!(ordered, "a parent comes before its children");
        let group = |&spec: &GroupSpec| {
            let weight = if spec.idle { Weight::IDLE } else { spec.weight };
            Group { spec: GroupSpec { weight, ..spec }, load: AtomicU64::new(0) }
        };
        GroupTable(specs.iter().map(group).collect())
    }

    /// The load of a group over all CPUs.
    #[must_use]
    pub fn load(&self, group: GroupId) -> u64 {
        self.0[group.index()].load.load(Ordering::Acquire)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = GroupId> {
        (0..self.0.len()).map(|at| GroupId(at as u32))
    }
}

impl Groups for GroupTable {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn parent(&self, group: GroupId) -> GroupId {
        self.0[group.index()].spec.parent
    }

    fn weight(&self, group: GroupId) -> Weight {
        self.0[group.index()].spec.weight
    }

    fn is_idle(&self, group: GroupId) -> bool {
        self.0[group.index()].spec.idle
    }

    fn latency_nice(&self, group: GroupId) -> LatencyNice {
        self.0[group.index()].spec.latency_nice
    }

    fn exchange_load(&self, group: GroupId, old: u64, new: u64) -> u64 {
        let delta = new.wrapping_sub(old);
        let load = &self.0[group.index()].load;
        load.fetch_add(delta, Ordering::AcqRel).wrapping_add(delta)
    }
}
