//! Reading ahead in a fair queue ([`crate::run_queue::RunQueue::read_ahead`]).

use crate::fair::Fair;
use crate::fair::tree::Queue;
use crate::store::heap::Index;

impl Fair {
    /// Reads the fields of the class that most methods need.
    #[inline]
    pub(crate) fn read_ahead(&self) -> u64 {
        let Queue { clock, nr_tasks, .. } = self.root();
        let rest =
            self.idle_load ^ u64::from(self.nr_throttled) ^ u64::from(self.company.is_some());
        clock.0 ^ u64::from(*nr_tasks) ^ rest ^ self.tree.heaps.read_ahead()
    }

    /// Reads the fields of an entity that most methods need.
    #[inline]
    pub(crate) fn read_entity(&self, at: Index) -> u64 {
        let entity =
            self.tree.get(at).map_or(0, |entity| entity.vruntime.0 ^ u64::from(entity.weight));
        entity ^ u64::from(self.lists.links.contains(at))
    }
}
