//! The waiting entities of fair queues, in the two heaps that both orders use.
//!
//! The root queue, which most switches concern, has an array for each heap. The queues of groups
//! share their nodes, so an entity has its nodes whatever group it joins.

use crate::fair::entity::QueueId;
use crate::store::array_heap::{ArrayHeap, Place, Precede};
use crate::store::column::Column;
use crate::store::heap::{Forest, Heap, Index};
use crate::time::VTime;
use std::cmp::Ordering;

/// The key of a heap: a virtual time. Equal keys are ordered by arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) at: VTime,
    pub(crate) arrival: u64,
}

impl Key {
    /// Returns the distance behind another key, in one word. It may wrap, as a virtual time may.
    #[inline]
    fn behind(self, other: Key) -> i128 {
        let word = |key: Key| u128::from(key.at.0) << 64 | u128::from(key.arrival);
        word(self).wrapping_sub(word(other)).cast_signed()
    }
}

impl Precede for Key {
    #[inline]
    fn precedes(self, other: Key) -> bool {
        self.behind(other) < 0
    }
}

impl PartialOrd for Key {
    #[inline]
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    #[inline]
    fn cmp(&self, other: &Key) -> Ordering {
        self.behind(*other).cmp(&0)
    }
}

/// The waiting entities of the root queue, in one order.
#[derive(Debug)]
struct RootHeap {
    heap: ArrayHeap<Key>,
    /// The place of each entity in the heap, by its index.
    places: Column<Place>,
}

/// The value in [`RootHeap::places`] of an entity that is not in the heap.
const NOWHERE: Place = Place::MAX;

impl Default for RootHeap {
    fn default() -> RootHeap {
        RootHeap { heap: ArrayHeap::default(), places: Column::new(NOWHERE) }
    }
}

impl RootHeap {
    #[inline]
    fn contains(&self, at: Index) -> bool {
        self.places.get(at).is_some_and(|&place| place != NOWHERE)
    }

    fn after(&self, at: Index) -> Option<Index> {
        self.heap.get(self.places[at] as usize + 1).map(|(_, at)| at)
    }

    #[inline(always)]
    fn insert(&mut self, at: Index, key: Key) {
        let place = *self.places.cover(at);
        assert!(place == NOWHERE, "entity {at} waits nowhere else");
        self.heap.insert(key, at, |at, place| self.places[at] = place);
    }

    #[inline(always)]
    fn remove(&mut self, at: Index) {
        let place = std::mem::replace(&mut self.places[at], NOWHERE);
        self.heap.remove(place, |at, place| self.places[at] = place);
    }
}

/// The waiting entities of all queues in one order: a heap for each queue.
#[derive(Debug, Default)]
struct Ordered {
    root: RootHeap,
    /// The heaps, by queue; that of the root is not used.
    groups: Vec<Heap>,
    nodes: Forest<Key>,
}

impl Ordered {
    fn grow(&mut self, entities: usize, queues: usize) {
        self.root.heap.grow(entities);
        self.root.places.grow(entities);
        self.groups.resize_with(queues.max(self.groups.len()), Heap::default);
        self.nodes.grow(entities);
    }

    fn grow_into(&mut self, room: &mut Ordered) {
        self.root.heap.grow_into(&mut room.root.heap);
        self.root.places.grow_into(&mut room.root.places);
        self.nodes.grow_into(&mut room.nodes);
    }

    #[inline(always)]
    fn insert(&mut self, id: QueueId, at: Index, key: Key) {
        match id {
            QueueId::ROOT => self.root.insert(at, key),
            _ => self.insert_in_group(id, at, key),
        }
    }

    #[inline(never)]
    fn insert_in_group(&mut self, id: QueueId, at: Index, key: Key) {
        self.nodes.insert(&mut self.groups[id.index()], at, key);
    }

    #[inline(always)]
    fn remove(&mut self, id: QueueId, at: Index) {
        match id {
            QueueId::ROOT => self.root.remove(at),
            _ => self.nodes.remove(&mut self.groups[id.index()], at),
        }
    }

    #[inline]
    fn contains(&self, id: QueueId, at: Index) -> bool {
        match id {
            QueueId::ROOT => self.root.contains(at),
            _ => self.nodes.contains(at),
        }
    }

    #[inline]
    fn first(&self, id: QueueId) -> Option<Index> {
        match id {
            QueueId::ROOT => self.root.heap.first().map(|(_, at)| at),
            _ => self.groups[id.index()].first(),
        }
    }

    /// Returns the key of the first entity.
    #[inline]
    fn least(&self, id: QueueId) -> Option<Key> {
        match id {
            QueueId::ROOT => self.root.heap.first().map(|(key, _)| key),
            _ => self.groups[id.index()].first().map(|at| self.nodes.key(at)),
        }
    }

    fn second(&self, id: QueueId) -> Option<Index> {
        match id {
            QueueId::ROOT => self.root.heap.second().map(|(_, at)| at),
            _ => self.nodes.second(&self.groups[id.index()]),
        }
    }

    fn iter(&self, id: QueueId) -> impl Iterator<Item = Index> {
        std::iter::successors(self.first(id), move |&at| self.after(id, at))
    }

    /// Returns the entity after `at`. Starting at the first, this visits each entity of a queue
    /// once, in no order of keys.
    fn after(&self, id: QueueId, at: Index) -> Option<Index> {
        match id {
            QueueId::ROOT => self.root.after(at),
            _ => self.nodes.after(at),
        }
    }

    fn check(&self, id: QueueId, mut visit: impl FnMut(Index, VTime)) {
        let RootHeap { heap, places } = &self.root;
        if id != QueueId::ROOT {
            let heap = &self.groups[id.index()];
            return self.nodes.check(heap, |at| visit(at, self.nodes.key(at).at));
        }
        heap.check(|key, at, place| {
            assert_eq!(places[at], place, "entity {at} knows its place");
            visit(at, key.at);
        });
        let placed = places.iter().filter(|&&place| place != NOWHERE).count();
        assert_eq!(placed, heap.len(), "an entity with a place is in the heap");
    }
}

/// The heaps of all queues.
#[derive(Debug, Default)]
pub(crate) struct Heaps {
    /// By vruntime: all waiting entities; in EEVDF those that are not eligible, as far as is known.
    all: Ordered,
    /// The entities that may go before the first of the others. In CFS these are the
    /// latency-sensitive ones, by vruntime and offset; they are also in `all`. In EEVDF these are,
    /// by deadline, those that were eligible when last tested.
    urgent: Ordered,
    /// Orders equal keys by arrival.
    arrivals: u64,
}

impl Heaps {
    /// Reads the data for an insertion into the heaps of the root, for
    /// [`crate::run_queue::RunQueue::read_ahead`].
    #[inline]
    pub(crate) fn read_ahead(&self) -> u64 {
        self.arrivals ^ (self.all.root.heap.len() ^ self.urgent.root.heap.len()) as u64
    }

    /// Makes room for the entities `0..entities` and for `queues` queues. Allocates.
    pub(crate) fn grow(&mut self, entities: usize, queues: usize) {
        self.all.grow(entities, queues);
        self.urgent.grow(entities, queues);
    }

    /// Like [`Heaps::grow`], up to the room for entities in `room`, whose memory is used. Allocates
    /// nothing.
    pub(crate) fn grow_into(&mut self, room: &mut Heaps) {
        self.all.grow_into(&mut room.all);
        self.urgent.grow_into(&mut room.urgent);
    }

    /// Inserts an entity that waits in a queue, at this vruntime.
    #[inline(always)]
    pub(crate) fn insert(&mut self, id: QueueId, at: Index, vruntime: VTime) {
        let key = self.keyed(vruntime);
        self.all.insert(id, at, key);
    }

    /// Inserts an entity among the urgent ones of a queue.
    #[inline(always)]
    pub(crate) fn insert_urgent(&mut self, id: QueueId, at: Index, key: VTime) {
        let key = self.keyed(key);
        self.urgent.insert(id, at, key);
    }

    #[inline]
    fn keyed(&mut self, at: VTime) -> Key {
        self.arrivals += 1;
        Key { at, arrival: self.arrivals }
    }

    /// Removes an entity from the waiting ones of a queue, whichever heaps it is in.
    #[inline(always)]
    pub(crate) fn remove(&mut self, id: QueueId, at: Index) {
        if self.first_urgent(id).is_some() && self.urgent.contains(id, at) {
            self.urgent.remove(id, at);
            if !self.all.contains(id, at) {
                return;
            }
        }
        self.all.remove(id, at);
    }

    pub(crate) fn remove_urgent(&mut self, id: QueueId, at: Index) {
        self.urgent.remove(id, at);
    }

    /// Returns whether an entity waits in a queue.
    pub(crate) fn waits(&self, id: QueueId, at: Index) -> bool {
        self.all.contains(id, at) || self.urgent.contains(id, at)
    }

    /// For checks: returns whether an entity is in the heap of all.
    pub(crate) fn waits_with_all(&self, id: QueueId, at: Index) -> bool {
        self.all.contains(id, at)
    }

    pub(crate) fn is_urgent(&self, id: QueueId, at: Index) -> bool {
        self.urgent.contains(id, at)
    }

    /// Returns the first of a queue by vruntime.
    #[inline]
    pub(crate) fn first(&self, id: QueueId) -> Option<Index> {
        self.all.first(id)
    }

    /// Returns the vruntime of the first.
    #[inline]
    pub(crate) fn least(&self, id: QueueId) -> Option<VTime> {
        self.all.least(id).map(|key| key.at)
    }

    /// Returns the first of the urgent entities of a queue.
    #[inline]
    pub(crate) fn first_urgent(&self, id: QueueId) -> Option<Index> {
        self.urgent.first(id)
    }

    /// Returns the second of a queue by vruntime.
    pub(crate) fn second(&self, id: QueueId) -> Option<Index> {
        self.all.second(id)
    }

    /// Returns each waiting entity of a queue once, in no order of keys.
    pub(crate) fn iter(&self, id: QueueId) -> impl Iterator<Item = Index> {
        let urgent = self.urgent.iter(id).filter(move |&at| !self.all.contains(id, at));
        self.all.iter(id).chain(urgent)
    }

    /// Asserts the structure, and calls `visit` with each entity of either heap, its key, and
    /// whether it is among the urgent ones.
    pub(crate) fn check(&self, id: QueueId, mut visit: impl FnMut(Index, VTime, bool)) {
        self.all.check(id, |at, key| visit(at, key, false));
        self.urgent.check(id, |at, key| visit(at, key, true));
    }
}
