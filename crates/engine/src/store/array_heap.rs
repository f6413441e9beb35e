//! A priority queue in one array: a heap with four children a node.
//!
//! It suits queues that have an array of their own: the timers of a CPU, and the root queue of fair
//! tasks. A new key is mostly later than the existing ones, and a removed entry is mostly near the
//! leaves or first. Insertion, and removal near the leaves, have constant cost on average. Only the
//! removal of the first goes down from the root, over half as many levels as in a binary heap. Each
//! entry has an owner. The owner is notified of the entry's place, so an entry is removed without a
//! search.
//!
//! Invariants ([`ArrayHeap::check`]): no entry precedes its parent; owners know their places.

use crate::store::move_into;

/// The number of children of a node.
const ARITY: usize = 4;

/// The index of an entry.
pub type Place = u32;

#[derive(Clone, Copy, Debug)]
struct Entry<K> {
    key: K,
    owner: u32,
}

/// A key of a heap.
pub trait Precede: Copy {
    /// Returns whether it precedes another. No two keys of a heap are equal.
    fn precedes(self, other: Self) -> bool;
}

/// Keys in a heap, each with a numbered owner.
#[derive(Debug)]
pub struct ArrayHeap<K> {
    entries: Vec<Entry<K>>,
}

impl<K> Default for ArrayHeap<K> {
    fn default() -> ArrayHeap<K> {
        ArrayHeap { entries: Vec::new() }
    }
}

impl<K: Precede> ArrayHeap<K> {
    /// Returns the first key and its owner.
    #[inline]
    #[must_use]
    pub fn first(&self) -> Option<(K, u32)> {
        self.get(0)
    }

    /// Returns the second key and its owner.
    pub(crate) fn second(&self) -> Option<(K, u32)> {
        self.first_below(0).and_then(|at| self.get(at))
    }

    /// Returns whether it has no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the owners of the keys, in no particular order.
    pub fn owners(&self) -> impl Iterator<Item = u32> {
        self.entries.iter().map(|entry| entry.owner)
    }

    /// Returns an empty heap with room for `len` keys.
    pub(crate) fn with_room(len: usize) -> ArrayHeap<K> {
        ArrayHeap { entries: Vec::with_capacity(len) }
    }

    /// Makes room for `len` keys. Allocates.
    pub(crate) fn grow(&mut self, len: usize) {
        self.entries.reserve_exact(len.saturating_sub(self.entries.len()));
    }

    /// Returns whether another key can be added without an allocation.
    pub(crate) fn has_room(&self) -> bool {
        self.entries.len() < self.entries.capacity()
    }

    /// Takes over the room of `room` if that is larger, and leaves its own there. Allocates
    /// nothing.
    pub(crate) fn grow_into(&mut self, room: &mut ArrayHeap<K>) {
        move_into(&mut self.entries, &mut room.entries);
    }

    /// Returns the key at a place and its owner.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<(K, u32)> {
        self.entries.get(at).map(|entry| (entry.key, entry.owner))
    }

    /// Returns the places below one; they need not all be in use.
    pub(crate) fn below(at: usize) -> std::ops::Range<usize> {
        ARITY * at + 1..ARITY * at + 1 + ARITY
    }

    /// Adds a key; reports the new places of entries by `moved`. Returns whether the key is the
    /// first. Allocates if there never were as many.
    #[inline(always)]
    pub fn insert(&mut self, key: K, owner: u32, moved: impl FnMut(u32, Place)) -> bool {
        let entry = Entry { key, owner };
        self.entries.push(entry);
        self.rise(self.entries.len() - 1, entry, moved) == 0
    }

    /// Removes the entry at a place; reports the new places of others by `moved`.
    ///
    /// # Panics
    /// If there is no entry.
    #[inline(always)]
    pub fn remove(&mut self, place: Place, moved: impl FnMut(u32, Place)) {
        let at = place as usize;
        let last = self.entries.pop().expect("the heap has an entry");
        if at < self.entries.len() {
            self.put(at, last, moved);
        } else {
            assert_eq!(at, self.entries.len(), "the place has an entry");
        }
    }

    /// Changes the key of the entry at a place; reports the new places of entries by `moved`.
    pub fn change(&mut self, place: Place, key: K, moved: impl FnMut(u32, Place)) {
        let at = place as usize;
        let entry = Entry { key, owner: self.entries[at].owner };
        self.put(at, entry, moved);
    }

    /// Puts an entry at or near a place that is free for it.
    #[inline(always)]
    fn put(&mut self, at: usize, entry: Entry<K>, moved: impl FnMut(u32, Place)) {
        let parent = at.wrapping_sub(1) / ARITY;
        if at > 0 && entry.key.precedes(self.entries[parent].key) {
            let _ = self.rise(at, entry, moved);
        } else {
            self.sink(at, entry, moved);
        }
    }

    /// Puts an entry in order between a free place and the root; returns its place.
    #[inline(always)]
    fn rise(&mut self, mut at: usize, entry: Entry<K>, mut moved: impl FnMut(u32, Place)) -> usize {
        while at > 0 {
            let parent = (at - 1) / ARITY;
            let above = self.entries[parent];
            if !entry.key.precedes(above.key) {
                break;
            }
            self.entries[at] = above;
            moved(above.owner, at as Place);
            at = parent;
        }
        self.entries[at] = entry;
        moved(entry.owner, at as Place);
        at
    }

    /// Puts an entry in order between a free place and the leaves.
    fn sink(&mut self, mut at: usize, entry: Entry<K>, mut moved: impl FnMut(u32, Place)) {
        while let Some(below) = self.first_below(at) {
            let first = self.entries[below];
            if !first.key.precedes(entry.key) {
                break;
            }
            self.entries[at] = first;
            moved(first.owner, at as Place);
            at = below;
        }
        self.entries[at] = entry;
        moved(entry.owner, at as Place);
    }

    /// Returns the place of the first of the entries below one.
    #[inline(always)]
    fn first_below(&self, at: usize) -> Option<usize> {
        let begin = ARITY * at + 1;
        let children = self.entries.get(begin..)?;
        let precedes = |one: usize, other: usize| children[one].key.precedes(children[other].key);
        let first = |one, other| if precedes(other, one) { other } else { one };
        let nth = match children.len() {
            0 => return None,
            1 => 0,
            2 => first(0, 1),
            3 => first(first(0, 1), 2),
            // This applies to all but one of the nodes that have children.
            _ => first(first(0, 1), first(2, 3)),
        };
        Some(begin + nth)
    }

    /// Asserts the structure, and calls `visit` with each entry: its key, its owner, its place.
    ///
    /// # Panics
    /// If it is broken.
    pub fn check(&self, mut visit: impl FnMut(K, u32, Place)) {
        for (at, entry) in self.entries.iter().enumerate() {
            let parent = &self.entries[at.saturating_sub(1) / ARITY];
            assert!(!entry.key.precedes(parent.key), "place {at} is in order");
            visit(entry.key, entry.owner, at as Place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    impl Precede for u32 {
        fn precedes(self, other: u32) -> bool {
            self < other
        }
    }

    proptest! {
        /// Each step concerns one owner: its entry is added, gets another key, or is removed; or
        /// the first entry is removed.
        #[test]
        fn a_heap_behaves_like_a_sorted_set(
            steps in prop::collection::vec((0..64_u32, 0..1_000_u32, 0..4_u32), 0..300),
        ) {
            let mut heap = ArrayHeap::default();
            let mut model = BTreeMap::new();
            let mut places = [None; 64];
            for (owner, key, kind) in steps {
                let key = 64 * key + owner;
                let place: Option<Place> = places[owner as usize];
                let had = model.iter().find(|&(_, &other)| other == owner).map(|(&key, _)| key);
                let moved = |owner: u32, place| places[owner as usize] = Some(place);
                match (kind, place) {
                    (0, _) => {
                        let first = heap.first();
                        prop_assert_eq!(first, model.pop_first());
                        if let Some((_, owner)) = first {
                            heap.remove(0, moved);
                            places[owner as usize] = None;
                        }
                    }
                    (1, Some(place)) => {
                        heap.remove(place, moved);
                        places[owner as usize] = None;
                        model.remove(&had.unwrap());
                    }
                    (_, Some(place)) => {
                        heap.change(place, key, moved);
                        model.remove(&had.unwrap());
                        model.insert(key, owner);
                    }
                    (_, None) => {
                        model.insert(key, owner);
                        let first = heap.insert(key, owner, moved);
                        prop_assert_eq!(first, model.first_key_value() == Some((&key, &owner)));
                    }
                }
                let mut seen = BTreeMap::new();
                heap.check(|key, owner, place| {
                    assert_eq!(places[owner as usize], Some(place), "{owner} knows its place");
                    seen.insert(key, owner);
                });
                prop_assert_eq!(&seen, &model);
                let nth = |nth| model.iter().nth(nth).map(|(&key, &owner)| (key, owner));
                prop_assert_eq!((heap.first(), heap.second()), (nth(0), nth(1)));
            }
        }
    }
}
