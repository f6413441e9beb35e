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
use crate::limits::Pools;
use crate::run_queue::RunQueue;
use crate::task::{QueueIndex, TaskId};
use crate::time::{Nanos, Time};

impl<P, G: Pools> RunQueue<P, G> {
    /// Returns the CPU time that the tasks of a group, and those of the groups below, used on this
    /// CPU until `now`, in the life of the group.
    pub fn used_in(&mut self, now: Time, group: GroupId) -> Nanos {
        self.charge_until(now);
        let below = self.time.by_group().filter(|&(id, _)| self.site().is_within(id, group));
        below.fold(Nanos::ZERO, |sum, (_, used)| sum + used)
    }

    /// Returns the task at `at` and the CPU time that it was charged in its life until `now`.
    pub fn used_by(&mut self, now: Time, at: QueueIndex) -> Option<(TaskId, Nanos)> {
        let task = self.at(now).queues().tasks().get(at)?;
        Some((task.id, task.runtime))
    }

    /// Charges the running task until `now`, so that the usage in the queue is up to date.
    pub fn charge_until(&mut self, now: Time) {
        let _ = self.at(now);
        self.time.update();
    }

    /// Charges a group, and those above it, for CPU time of its tasks after they lost the CPU: they
    /// ran before the host could stop them. Returns whether one of these groups has no budget left.
    pub fn charge_unpicked(&mut self, now: Time, group: GroupId, span: Nanos) -> bool {
        self.time.add_unpicked(group, span);
        self.classes.queues_mut().charge_unpicked(now, group, span)
    }
}
