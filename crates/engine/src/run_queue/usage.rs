//! How much CPU time tasks and groups used, with or without a limit.
//!
//! Each CPU counts by the group of the task that runs, and not for the groups above that; a question about a group is
//! answered by a sum over those below it. The CPU time of a group that is removed is counted for its parent from then
//! on.
//!
//! A charge adds nothing here. The CPU knows how much it charged in all, and a group is given its part when the turn
//! of another one comes: between tasks of one group, or of none, a switch pays for one comparison.
//!
//! A question has the running task charged first: on a tickless CPU nobody else may do so for a long time.
//!
//! Rejected: to add each charge to its group. It took each charge six instructions, also when nobody asked.

use crate::attr::GroupId;
use crate::ensure::ensure;
use crate::limits::Pools;
use crate::run_queue::RunQueue;
use crate::task::{QueueIndex, TaskId};
use crate::time::{Nanos, Time};

impl<P, G: Pools> RunQueue<P, G> {
    /// CPU time that the tasks of a group, and those of the groups below, used on this CPU until `now`, in the
    /// group's life.
    pub fn used_in(&mut self, now: Time, group: GroupId) -> Nanos {
        self.charge_until(now);
        let below = self.used_by_groups().filter(|&(id, _)| self.is_within(id, group));
        below.fold(Nanos::ZERO, |sum, (_, used)| sum + used)
    }

    /// The groups whose tasks used CPU time here, and how much of it, as of the last [`RunQueue::charge_until`]; what
    /// the tasks of groups below used is not in it.
    pub fn used_by_groups(&self) -> impl Iterator<Item = (GroupId, Nanos)> {
        self.used.all()
    }

    /// The task at `at`, and the CPU time that it was charged in its life until `now`.
    pub fn used_by(&mut self, now: Time, at: QueueIndex) -> Option<(TaskId, Nanos)> {
        self.advance(now);
        self.get(at).map(|task| (task.id, task.runtime))
    }

    /// Charges the running task until `now`, so that what the queue says of it is up to date.
    pub fn charge_until(&mut self, now: Time) {
        self.advance(now);
        self.settle_usage(self.used.group());
    }

    /// How much was charged on this CPU.
    pub(super) fn charged_in_all(&self) -> Nanos {
        self.metered.charged(self.charged)
    }

    /// The CPU time that was charged until now has its groups; the time that follows is that of `next`.
    #[inline(never)]
    pub(super) fn settle_usage(&mut self, next: GroupId) {
        let charged = self.charged_in_all();
        self.used.settle(charged, next);
    }

    /// A group goes.
    pub(super) fn pass_on_usage(&mut self, group: GroupId) {
        self.settle_usage(self.used.group());
        self.used.pass_on(group, self.groups.parent(group));
    }

    pub(super) fn check_usage(&self) {
        let idle = self.idle_since.is_none_or(|since| since == self.charged);
        ensure!(
            self,
            idle,
            "it is idle since {:?}, and charged until {}",
            self.idle_since,
            self.charged
        );
        let all = self.used_by_groups().fold(Nanos::ZERO, |sum, (_, used)| sum + used);
        let known = self.used.in_all();
        ensure!(self, all == known, "groups used {all:?} of {known:?}");
        let group = self.curr.map(|curr| self.task(curr).attr.group);
        let has_time = group.is_none_or(|group| group == self.used.group());
        ensure!(
            self,
            has_time,
            "the CPU time is that of {:?}, not of {group:?}",
            self.used.group()
        );
    }

    /// Whether a group is another or below it.
    fn is_within(&self, mut group: GroupId, other: GroupId) -> bool {
        while group != other && group != GroupId::ROOT {
            group = self.groups.parent(group);
        }
        group == other
    }
}
