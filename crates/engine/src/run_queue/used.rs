//! The CPU time that each group used on one CPU. The queries are in [`super::usage`].

use crate::attr::GroupId;
use crate::time::Nanos;

/// CPU time used on one CPU, by the group of the task.
#[derive(Debug)]
pub(super) struct Used {
    by_group: Vec<Nanos>,
    /// The group of the task that was picked last.
    group: GroupId,
    /// The total charge of the CPU at the time when all of it was in `by_group`. Later charges
    /// belong to `group`.
    settled: Nanos,
    /// The part of `by_group` that tasks used after they had lost the CPU.
    unpicked: Nanos,
}

impl Used {
    pub(super) fn new() -> Used {
        Used {
            by_group: Vec::new(),
            group: GroupId::ROOT,
            settled: Nanos::ZERO,
            unpicked: Nanos::ZERO,
        }
    }

    /// Makes room for this many groups. Allocates.
    pub(super) fn grow(&mut self, groups: usize) {
        self.by_group.resize(groups.max(self.by_group.len()), Nanos::ZERO);
    }

    /// Returns the group to which the following CPU time belongs.
    #[inline]
    pub(super) fn group(&self) -> GroupId {
        self.group
    }

    /// Adds the charges up to the total `charged` to the current group. The following CPU time
    /// belongs to `next`.
    #[inline]
    pub(super) fn settle(&mut self, charged: Nanos, next: GroupId) {
        let since = charged.0 - self.settled.0;
        self.add(self.group, Nanos(since));
        (self.group, self.settled) = (next, charged);
    }

    /// Adds CPU time that tasks of a group used after they had lost the CPU.
    pub(super) fn add_unpicked(&mut self, group: GroupId, span: Nanos) {
        self.add(group, span);
        self.unpicked += span;
    }

    #[inline]
    fn add(&mut self, group: GroupId, span: Nanos) {
        let used = &mut self.by_group[group.index()];
        *used = Nanos(used.0 + span.0);
    }

    /// Moves the usage of a removed group to another one.
    pub(super) fn pass_on(&mut self, group: GroupId, to: GroupId) {
        let used = std::mem::take(&mut self.by_group[group.index()]);
        self.add(to, used);
    }

    /// Returns the groups that used any CPU time, and the CPU time of each.
    pub(super) fn all(&self) -> impl Iterator<Item = (GroupId, Nanos)> {
        let all = self.by_group.iter().enumerate().filter(|&(_, &used)| used > Nanos::ZERO);
        all.map(|(at, &used)| (GroupId(at as u32), used))
    }

    /// Returns the sum over all groups.
    pub(super) fn in_all(&self) -> Nanos {
        self.settled + self.unpicked
    }
}
