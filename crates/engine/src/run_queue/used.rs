//! How much CPU time each group used on one CPU. The questions about it are in [`super::usage`].

use crate::attr::GroupId;
use crate::time::Nanos;

/// CPU time that was used on one CPU, by the group of the task.
#[derive(Debug)]
pub(super) struct Used {
    by_group: Vec<Nanos>,
    /// The group of the task that was picked last.
    group: GroupId,
    /// How much the CPU had charged when all of it was in `by_group`. What it charged since is `group`'s.
    settled: Nanos,
    /// CPU time in `by_group` that tasks used without being picked, after they had lost the CPU.
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

    /// Makes room for so many groups. Allocates.
    pub(super) fn grow(&mut self, groups: usize) {
        self.by_group.resize(groups.max(self.by_group.len()), Nanos::ZERO);
    }

    /// The group whose CPU time follows.
    #[inline]
    pub(super) fn group(&self) -> GroupId {
        self.group
    }

    /// So much was charged on this CPU until now. The CPU time of another group follows.
    #[inline]
    pub(super) fn settle(&mut self, charged: Nanos, next: GroupId) {
        let since = charged.0 - self.settled.0;
        self.add(self.group, Nanos(since));
        (self.group, self.settled) = (next, charged);
    }

    /// Tasks of a group used so much without being picked.
    pub(super) fn add_unpicked(&mut self, group: GroupId, span: Nanos) {
        self.add(group, span);
        self.unpicked += span;
    }

    #[inline]
    fn add(&mut self, group: GroupId, span: Nanos) {
        let used = &mut self.by_group[group.index()];
        *used = Nanos(used.0 + span.0);
    }

    /// A group goes: another one has what it used.
    pub(super) fn pass_on(&mut self, group: GroupId, to: GroupId) {
        let used = std::mem::take(&mut self.by_group[group.index()]);
        self.add(to, used);
    }

    /// The groups that used anything, which are there, and what they used.
    pub(super) fn all(&self) -> impl Iterator<Item = (GroupId, Nanos)> {
        let all = self.by_group.iter().enumerate().filter(|&(_, &used)| used > Nanos::ZERO);
        all.map(|(at, &used)| (GroupId(at as u32), used))
    }

    /// What they used together.
    pub(super) fn in_all(&self) -> Nanos {
        self.settled + self.unpicked
    }
}
