//! The task groups of a machine: their tree, their weights, and their load over all CPUs.

use crate::sync::{AtomicU64, Ordering};
use runyard_engine::attr::{GroupId, Weight};
use runyard_engine::group::Groups;

/// What a machine is told of a task group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupSpec {
    /// Its parent, which comes before it; the root is its own.
    pub parent: GroupId,
    /// Its share among its siblings.
    pub weight: Weight,
}

impl GroupSpec {
    /// The root, which is always the first.
    pub const ROOT: GroupSpec = GroupSpec { parent: GroupId::ROOT, weight: Weight::NICE_0 };
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
    /// If the first is not the root, or a parent does not come before its child.
    pub(crate) fn new(specs: &[GroupSpec]) -> GroupTable {
        assert_eq!(specs.first().map(|root| root.parent), Some(GroupId::ROOT), "the root is first");
        let ordered = specs.iter().enumerate().skip(1).all(|(at, spec)| spec.parent.index() < at);
        assert!(ordered, "a parent comes before its children");
        GroupTable(specs.iter().map(|&spec| Group { spec, load: AtomicU64::new(0) }).collect())
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

    fn exchange_load(&self, group: GroupId, old: u64, new: u64) -> u64 {
        let delta = new.wrapping_sub(old);
        let load = &self.0[group.index()].load;
        load.fetch_add(delta, Ordering::AcqRel).wrapping_add(delta)
    }
}
