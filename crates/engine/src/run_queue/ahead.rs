//! Prefetch: reads of the memory that the next events will need, for simulated machines that do not fit into the
//! caches.

use crate::limits::Pools;
use crate::run_queue::RunQueue;
use crate::task::Task;

impl<P> Task<P> {
    /// Reads the fields that a wake-up of the task needs.
    #[inline]
    #[must_use]
    pub fn read_ahead(&self) -> u64 {
        self.id.0 ^ self.runtime.0 ^ self.standing.turn ^ u64::from(self.cpu.0)
    }
}

impl<P, G: Pools> RunQueue<P, G> {
    /// Reads the data that most methods need and that is `hops` pointers away from the queue, so
    /// that it is in the caches. The returned mix of the values has no meaning.
    #[inline]
    #[must_use]
    pub fn read_ahead(&self, hops: u32) -> u64 {
        let there = self.queues().read_ahead(hops);
        if hops > 0 {
            return there;
        }
        let average = self.classes.idle().average().0;
        there ^ average ^ u64::from(self.tick_at.is_some()) ^ self.timers.first().0
    }
}
