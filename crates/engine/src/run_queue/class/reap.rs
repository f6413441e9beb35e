//! The removal of empty group queues.
//!
//! A queue stays for a while after its last member left. A group that soon returns finds its queue,
//! and with it the state of its entity. A queue can be removed once its entity would be placed the
//! same if it were made anew. Each call examines the next queue in turn.

use crate::limits::Pools;
use crate::run_queue::class::Queues;

/// The number of group queues on a CPU above which several are examined at a time. Up to that
/// number, groups that return after a while find their queue, as in the kernel. More of them cost
/// memory and cache: 32 queues take about 18 KB.
pub(super) const MANY_GROUP_QUEUES: usize = 32;

/// The number of further group queues that are then examined, each time that a queue is made and at
/// each tick. If only one was examined, 10,000 groups on 1,024 CPUs had 369 queues a CPU after 4
/// million wake-ups, and all but one of them could have been removed.
const REAPED_OF_MANY: u32 = 4;

impl<P, G: Pools> Queues<P, G> {
    /// Removes an empty group queue that would be placed the same if it were made anew, or several
    /// if there are many.
    pub(super) fn reap(&mut self) {
        self.reap_one();
        if self.fair.nr_group_queues() > MANY_GROUP_QUEUES {
            (0..REAPED_OF_MANY).for_each(|_| self.reap_one());
        }
    }

    /// Removes the group queue whose turn it is, if it can be removed.
    fn reap_one(&mut self) {
        let now = self.site.now();
        let rests = |id| self.limits.is_at_rest(self.site.clock(), id);
        if let Some(id) = self.fair.next_to_reap(now, rests) {
            self.remove_queue(id);
        }
    }
}
