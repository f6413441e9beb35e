//! Reading ahead in the queues of one CPU ([`crate::run_queue::RunQueue::read_ahead`]).

use crate::limits::Pools;
use crate::run_queue::class::Queues;
use crate::task::Task;

impl<P, G: Pools> Queues<P, G> {
    #[inline]
    pub(in crate::run_queue) fn read_ahead(&self, hops: u32) -> u64 {
        let (places, curr) = (self.tasks.places(), self.tasks.running());
        match hops {
            0 => {
                let classes = self.fair.read_ahead() ^ u64::from(self.rt.nr());
                let limits = self.limits.next().0 ^ u64::from(self.limits.news().is_any());
                self.site.clock().0 ^ classes ^ limits ^ places.len() as u64
            }
            1 => {
                let free = places.next_free().map_or(0, u64::from);
                let task = curr.map_or(0, |at| u64::from(places.get(at).is_some()));
                free ^ task ^ curr.map_or(0, |at| self.fair.read_entity(at))
            }
            2 => {
                let free = places.next_free().map_or(0, |at| self.fair.read_entity(at));
                free ^ self.tasks.curr().map_or(0, Task::read_ahead)
            }
            _ => 0,
        }
    }
}
