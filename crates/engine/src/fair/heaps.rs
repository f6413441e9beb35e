//! The entities that wait in fair queues: the two heaps with which both orders keep theirs.
//!
//! All queues of a CPU share the nodes, so whatever queue an entity joins, its nodes are there.

use crate::store::heap::{Forest, Heap, Index};
use crate::time::VTime;

/// The key of a heap, a virtual time; of equals the one that came first is first.
type Key = (VTime, u64);

/// The heaps of one queue.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// By vruntime: all that wait; in EEVDF those that are not eligible, as far as is known.
    pub(crate) all: Heap,
    /// Those that may go before the first of the others: in CFS the latency-sensitive ones, which are
    /// among the others as well, by vruntime and offset; in EEVDF, by deadline, those that were
    /// eligible when that was looked at.
    pub(crate) urgent: Heap,
}

/// The nodes of the heaps of all queues.
#[derive(Debug)]
pub(crate) struct Heaps {
    all: Forest<Key>,
    urgent: Forest<Key>,
    /// Orders equal keys by arrival.
    arrivals: u64,
}

impl Heaps {
    pub(crate) fn new() -> Heaps {
        Heaps { all: Forest::new(), urgent: Forest::new(), arrivals: 0 }
    }

    /// Makes room for the entities `0..len`. Allocates.
    pub(crate) fn grow(&mut self, len: usize) {
        self.all.grow(len);
        self.urgent.grow(len);
    }

    /// As [`Heaps::grow`], to the room of others, of which the memory is used. Allocates nothing.
    pub(crate) fn grow_into(&mut self, room: &mut Heaps) {
        self.all.grow_into(&mut room.all);
        self.urgent.grow_into(&mut room.urgent);
    }

    #[inline]
    pub(crate) fn insert(&mut self, queue: &mut Waiting, at: Index, key: VTime) {
        let key = self.keyed(key);
        self.all.insert(&mut queue.all, at, key);
    }

    #[inline(never)]
    pub(crate) fn insert_urgent(&mut self, queue: &mut Waiting, at: Index, key: VTime) {
        let key = self.keyed(key);
        self.urgent.insert(&mut queue.urgent, at, key);
    }

    #[inline]
    fn keyed(&mut self, key: VTime) -> Key {
        self.arrivals += 1;
        (key, self.arrivals)
    }

    /// Takes an entity from those that wait, whichever heaps it is in.
    #[inline]
    pub(crate) fn remove(&mut self, queue: &mut Waiting, at: Index) {
        if queue.urgent.first().is_some() && self.urgent.contains(at) {
            self.urgent.remove(&mut queue.urgent, at);
            if !self.all.contains(at) {
                return;
            }
        }
        self.all.remove(&mut queue.all, at);
    }

    pub(crate) fn remove_urgent(&mut self, queue: &mut Waiting, at: Index) {
        self.urgent.remove(&mut queue.urgent, at);
    }

    /// Whether an entity waits in the queue that it is in.
    pub(crate) fn waits(&self, at: Index) -> bool {
        self.all.contains(at) || self.urgent.contains(at)
    }

    /// Whether an entity is in the heap of all, for checks.
    pub(crate) fn waits_with_all(&self, at: Index) -> bool {
        self.all.contains(at)
    }

    pub(crate) fn is_urgent(&self, at: Index) -> bool {
        self.urgent.contains(at)
    }

    /// The vruntime by which an entity waits that is not only among the urgent ones.
    pub(crate) fn key(&self, at: Index) -> VTime {
        self.all.key(at).0
    }

    /// The entity that would be first of a queue without the first.
    pub(crate) fn second(&self, queue: &Waiting) -> Option<Index> {
        self.all.second(&queue.all)
    }

    /// Each entity that waits in a queue, once, in no order of keys.
    pub(crate) fn iter(&self, queue: &Waiting) -> impl Iterator<Item = Index> {
        let all = std::iter::successors(queue.all.first(), |&at| self.all.after(at));
        let urgent = std::iter::successors(queue.urgent.first(), |&at| self.urgent.after(at));
        all.chain(urgent.filter(|&at| !self.all.contains(at)))
    }

    /// Asserts the structure and calls `visit` with each entity of either heap, its key, and whether it
    /// stands among the urgent ones.
    pub(crate) fn check(&self, queue: &Waiting, mut visit: impl FnMut(Index, VTime, bool)) {
        self.all.check(&queue.all, |at| visit(at, self.all.key(at).0, false));
        self.urgent.check(&queue.urgent, |at| visit(at, self.urgent.key(at).0, true));
    }
}
