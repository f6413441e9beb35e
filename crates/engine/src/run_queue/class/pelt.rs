//! Queries of the averages of load (`PELT`) by other CPUs, and the parts of tasks that wake up
//! elsewhere.

use crate::attr::GroupId;
use crate::fair::averages::{LoadSums, Signal, TaskAverages};
use crate::group::Blocked;
use crate::limits::Pools;
use crate::run_queue::class::Queues;
use crate::store::decay::period_of;
use crate::task::{QueueIndex, Task};
use crate::time::Time;

impl<P, G: Pools> Queues<P, G> {
    /// Withdraws the part of a task from the averages of this CPU. The task is with its host and
    /// about to wake up on a CPU that cannot use that part. [`Task::left_on`] names the CPU to
    /// call. The clock is brought up to `now`, and nothing else changes.
    pub fn withdraw(&mut self, now: Time, task: &mut Task<P>) {
        if task.left_on() == Some(self.site.cpu())
            && let Some(carried) = task.kept.average_mut()
        {
            // All averages here have one clock, although another CPU calls. If it aged only some of
            // them up to its own `now`, a later call with an earlier one would take the part of a
            // member out of a queue as of two instants.
            self.site.advance(now);
            self.fair.withdraw(self.site.now(), self.site.groups(), carried);
        }
    }

    /// Returns the sums of the fair tasks of this CPU at the last change, and the signal that is
    /// added to them since; `None` without `PELT`.
    #[must_use]
    pub fn load_sums(&self) -> Option<(LoadSums, Signal)> {
        self.fair.load_sums()
    }

    /// Returns the averages of a task in the queue; `None` without `PELT`, and for a task that is
    /// not fair.
    #[must_use]
    pub fn task_averages(&self, now: Time, at: QueueIndex) -> Option<TaskAverages> {
        let is_fair = self.tasks.get(at)?.class().is_fair();
        if is_fair { self.fair.task_averages(now.max(self.site.clock()), at.0) } else { None }
    }

    /// Returns the period of the averages that the clock is in ([`Blocked::at`]).
    #[must_use]
    pub fn load_period(&self) -> u64 {
        period_of(self.site.clock())
    }

    /// Returns the load that sleepers left in the empty queues of groups here.
    pub fn blocked_loads(&self) -> impl Iterator<Item = (GroupId, Blocked)> {
        self.fair.group_queues().map(|(group, id)| (group, self.fair.blocked(id)))
    }
}
