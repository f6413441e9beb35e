//! Who waits in a fair queue: the two heaps that both orders keep theirs with.
//!
//! All queues of a CPU share the nodes, so whatever queue an entity joins, its nodes are there.

use crate::fair::{FairQueue, Key};
use crate::group::Groups;
use crate::heap::{Forest, Index};
use crate::run_queue::{Member, RunQueue};
use crate::time::VTime;

impl<P, G: Groups> RunQueue<P, G> {
    #[inline]
    pub(crate) fn insert_waiting(&mut self, level: Option<Index>, at: Index, key: VTime) {
        let key = self.keyed(key);
        let (queue, forest, _) = self.heaps(level);
        forest.insert(&mut queue.waiting, at, key);
    }

    #[inline(never)]
    pub(crate) fn insert_urgent(&mut self, level: Option<Index>, at: Index, key: VTime) {
        let key = self.keyed(key);
        let (queue, _, forest) = self.heaps(level);
        forest.insert(&mut queue.urgent, at, key);
    }

    #[inline]
    fn keyed(&mut self, key: VTime) -> Key {
        self.fair.arrivals += 1;
        (key, self.fair.arrivals)
    }

    /// Takes an entity from those who wait, whichever heaps it is in.
    #[inline]
    pub(crate) fn remove(&mut self, level: Option<Index>, at: Index) {
        let (queue, waiting, urgent) = self.heaps(level);
        if queue.resumes == Some(at) {
            queue.resumes = None;
        }
        if queue.urgent.first().is_some() && urgent.contains(at) {
            urgent.remove(&mut queue.urgent, at);
            if !waiting.contains(at) {
                return;
            }
        }
        waiting.remove(&mut queue.waiting, at);
    }

    pub(crate) fn remove_urgent(&mut self, level: Option<Index>, at: Index) {
        let (queue, _, urgent) = self.heaps(level);
        urgent.remove(&mut queue.urgent, at);
    }

    /// Whether an entity waits in the queue that it is in.
    pub(crate) fn waits(&self, at: Index) -> bool {
        self.fair.forest.contains(at) || self.fair.urgent_forest.contains(at)
    }

    #[inline]
    fn heaps(
        &mut self,
        level: Option<Index>,
    ) -> (&mut FairQueue, &mut Forest<Key>, &mut Forest<Key>) {
        let queue = match level {
            None => &mut self.fair.root,
            Some(at) => match self.members.get_mut(at) {
                Some(Member::Group(group)) => &mut group.queue,
                _ => unreachable!("{at} is a group queue"),
            },
        };
        (queue, &mut self.fair.forest, &mut self.fair.urgent_forest)
    }
}
