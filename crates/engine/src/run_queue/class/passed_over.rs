//! Tasks that are passed over: they come first in the order but wait, because the running fair task
//! keeps its CPU while its slice is protected, or until the next tick. These queries explain why a
//! task was late; they change nothing, and no decision uses them.

use crate::limits::Pools;
use crate::run_queue::class::{Classes, Queues};
use crate::run_queue::tasks::Place;
use crate::store::heap::Index;
use crate::task::{QueueIndex, TaskId};

impl<P, G: Pools> Classes<P, G> {
    /// Returns whether the fair task at `at` waits although the running fair task comes after it in
    /// the order, and no switch is due. The answer refers to the time up to which the running task
    /// was charged.
    #[must_use]
    pub fn is_passed_over(&self, at: QueueIndex) -> bool {
        match self.queues.tasks.running().filter(|_| !self.next.is_due()) {
            Some(curr) => self.queues.goes_before(curr, at.0),
            None => false,
        }
    }

    /// Adds to `found` the tasks for which [`Classes::is_passed_over`] is true, of the first few that
    /// compete for the CPU.
    pub fn passed_over(&self, of_first: usize, found: &mut Vec<TaskId>) {
        let Queues { tasks, fair, site, .. } = &self.queues;
        let waits = !self.next.is_due() && self.queues.nr_running() > 1;
        let Some(curr) = tasks.running_fair().filter(|_| waits) else { return };
        for at in fair.competing().take(of_first) {
            if at != curr && fair.is_attached(at) && fair.goes_before(site.now(), curr, at) {
                found.push(tasks.task(at).id);
            }
        }
    }
}

impl<P, G: Pools> Queues<P, G> {
    fn goes_before(&self, curr: Index, at: Index) -> bool {
        let fair = |at: Index| match self.tasks.places().get(at) {
            Some(Place::Task(task)) => task.class().is_fair(),
            _ => false,
        };
        let compete = curr != at && fair(curr) && fair(at) && self.fair.is_attached(at);
        let now = self.site.now();
        compete && self.fair.goes_before(now, curr, at)
    }
}
