//! Prefetch: reads of the memory that the next events will need, for simulated machines that do not fit into the
//! caches.

use super::RunQueue;
use crate::limits::Pools;
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
        let curr = self.tasks.running();
        match hops {
            0 => {
                let own = self.site.clock().0 ^ self.avg_idle.0 ^ u64::from(self.tick_at.is_some());
                let classes = self.fair.read_ahead() ^ u64::from(self.rt.nr());
                let limits = self.limits.next().0 ^ u64::from(self.has_news());
                own ^ classes ^ limits ^ self.tasks.places().len() as u64 ^ self.timers.first().0
            }
            1 => {
                let free = self.tasks.places().next_free().map_or(0, u64::from);
                let task = curr.map_or(0, |at| u64::from(self.tasks.places().get(at).is_some()));
                free ^ task ^ curr.map_or(0, |at| self.fair.read_entity(at))
            }
            2 => {
                let free =
                    self.tasks.places().next_free().map_or(0, |at| self.fair.read_entity(at));
                free ^ self.tasks.curr().map_or(0, Task::read_ahead)
            }
            _ => 0,
        }
    }
}
