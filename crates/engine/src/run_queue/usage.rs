//! The CPU time that tasks and groups used, with or without a limit.
//!
//! Each CPU counts by the group of the running task only, and not for the groups above. The usage
//! of a group is the sum over the groups below it. The CPU time of a removed group is counted for
//! its parent from then on.
//!
//! A charge adds nothing here. The CPU knows the total of its charges, and a group gets its part
//! when another group's turn comes. So a switch between tasks of one group, or of none, costs one
//! comparison.
//!
//! A query charges the running task first: on a tickless CPU that may not happen otherwise for a
//! long time.
//!
//! Rejected: adding each charge to its group. Each charge took six instructions more, also without
//! any query.

use crate::attr::GroupId;
use crate::ensure::ensure;
use crate::limits::Pools;
use crate::run_queue::RunQueue;
use crate::task::{QueueIndex, TaskId};
use crate::time::{Nanos, Time};

impl<P, G: Pools> RunQueue<P, G> {
    /// Returns the CPU time that the tasks of a group, and those of the groups below, used on this
    /// CPU until `now`, in the life of the group.
    pub fn used_in(&mut self, now: Time, group: GroupId) -> Nanos {
        self.charge_until(now);
        let below = self.used_by_groups().filter(|&(id, _)| self.site.is_within(id, group));
        below.fold(Nanos::ZERO, |sum, (_, used)| sum + used)
    }

    /// Returns the groups whose tasks used CPU time here, and the CPU time of each, as of the last
    /// [`RunQueue::charge_until`]. The CPU time of the groups below is not included.
    pub fn used_by_groups(&self) -> impl Iterator<Item = (GroupId, Nanos)> {
        self.used.all()
    }

    /// Returns the task at `at` and the CPU time that it was charged in its life until `now`.
    pub fn used_by(&mut self, now: Time, at: QueueIndex) -> Option<(TaskId, Nanos)> {
        self.advance(now);
        self.tasks.get(at).map(|task| (task.id, task.runtime))
    }

    /// Charges the running task until `now`, so that the usage in the queue is up to date.
    pub fn charge_until(&mut self, now: Time) {
        self.advance(now);
        self.settle_usage(self.used.group());
    }

    /// Returns the total that was charged on this CPU.
    pub(super) fn charged_in_all(&self) -> Nanos {
        self.metered.charged(self.charged)
    }

    /// Adds the CPU time that was charged until now to its group; the following time belongs to
    /// `next`.
    #[inline(never)]
    pub(super) fn settle_usage(&mut self, next: GroupId) {
        let charged = self.charged_in_all();
        self.used.settle(charged, next);
    }

    /// Hands the usage of a removed group to its parent.
    pub(super) fn pass_on_usage(&mut self, group: GroupId) {
        self.settle_usage(self.used.group());
        self.used.pass_on(group, self.site.groups().parent(group));
    }

    pub(super) fn check_usage(&self) {
        let idle = self.idle_since.is_none_or(|since| since == self.charged);
        ensure!(
            self,
            idle,
            "the CPU is idle since {:?}, and charged until {}",
            self.idle_since,
            self.charged
        );
        let all = self.used_by_groups().fold(Nanos::ZERO, |sum, (_, used)| sum + used);
        let known = self.used.in_all();
        ensure!(self, all == known, "groups used {all:?} of {known:?}");
        let group = self.tasks.running().map(|curr| self.tasks.task(curr).attr.group);
        let has_time = group.is_none_or(|group| group == self.used.group());
        ensure!(
            self,
            has_time,
            "the CPU time is that of {:?}, not of {group:?}",
            self.used.group()
        );
    }
}
