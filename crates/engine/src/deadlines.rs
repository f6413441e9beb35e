//! A priority queue of deadlines, for the timers of one CPU.
//!
//! A heap of four children a node in one array. A timer is mostly armed for later than those that are
//! there, and cancelled before it is due: both happen near the leaves, at constant cost on average,
//! and only an expiry goes from the root down, over half as many levels as a binary heap has. Whoever
//! owns an entry is told where it is, so that it is removed without a search.
//!
//! Rejected, with figures in `docs/design/timers.md`: the leftist heaps of [`crate::heap`], whose nodes
//! lie anywhere; balanced trees, which pay for an order that nobody walks.
//!
//! Invariants ([`Deadlines::check`]): no entry is due before its parent; owners know their places.

use crate::time::Time;

/// Children of a node.
const ARITY: usize = 4;

/// Where an entry is.
pub type Place = u32;

/// Of equal deadlines the one that was given first comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    /// When.
    pub at: Time,
    /// The how-manieth was given.
    pub nth: u64,
}

impl Deadline {
    /// Later than any other.
    pub const NEVER: Deadline = Deadline { at: Time::MAX, nth: u64::MAX };

    /// In one word, as two comparisons in one.
    pub(crate) fn key(self) -> u128 {
        u128::from(self.at.0) << 64 | u128::from(self.nth)
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    deadline: Deadline,
    owner: u32,
}

/// Deadlines, each with an owner that has a number.
#[derive(Debug, Default)]
pub struct Deadlines {
    entries: Vec<Entry>,
}

impl Deadlines {
    /// The first deadline, and whose it is.
    #[inline]
    #[must_use]
    pub fn first(&self) -> Option<(Deadline, u32)> {
        self.entries.first().map(|entry| (entry.deadline, entry.owner))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a deadline; says where entries are now, and whether it is the first. Allocates, if there
    /// never were as many.
    #[inline(always)]
    pub fn insert(
        &mut self,
        deadline: Deadline,
        owner: u32,
        moved: impl FnMut(u32, Place),
    ) -> bool {
        let entry = Entry { deadline, owner };
        self.entries.push(entry);
        self.rise(self.entries.len() - 1, entry, moved) == 0
    }

    /// Removes the entry at a place; says where others are now.
    ///
    /// # Panics
    /// If there is none.
    #[inline(always)]
    pub fn remove(&mut self, place: Place, moved: impl FnMut(u32, Place)) {
        let at = place as usize;
        let last = self.entries.pop().expect("somebody is there");
        if at < self.entries.len() {
            self.put(at, last, moved);
        } else {
            assert_eq!(at, self.entries.len(), "somebody is at the place");
        }
    }

    /// Gives the entry at a place another deadline; says where entries are now.
    pub fn change(&mut self, place: Place, deadline: Deadline, moved: impl FnMut(u32, Place)) {
        let at = place as usize;
        let entry = Entry { deadline, owner: self.entries[at].owner };
        self.put(at, entry, moved);
    }

    /// The first owner, by deadline, that `accepts`, of those with deadlines until `last`.
    #[must_use]
    pub fn find(&self, last: Time, accepts: impl Fn(u32) -> bool) -> Option<(Deadline, u32)> {
        let mut best = None;
        self.search(0, last, &accepts, &mut best);
        best.map(|entry: Entry| (entry.deadline, entry.owner))
    }

    /// As deep as the heap is, which is logarithmic.
    fn search(
        &self,
        at: usize,
        last: Time,
        accepts: &impl Fn(u32) -> bool,
        best: &mut Option<Entry>,
    ) {
        let Some(&entry) = self.entries.get(at) else { return };
        let later = best.is_some_and(|best| best.deadline.key() < entry.deadline.key());
        if entry.deadline.at > last || later {
            return;
        }
        if accepts(entry.owner) {
            *best = Some(entry);
            return;
        }
        for child in ARITY * at + 1..=ARITY * at + ARITY {
            self.search(child, last, accepts, best);
        }
    }

    /// Puts an entry at or near a place that is free for it.
    #[inline(always)]
    fn put(&mut self, at: usize, entry: Entry, moved: impl FnMut(u32, Place)) {
        let parent = at.wrapping_sub(1) / ARITY;
        if at > 0 && entry.deadline.key() < self.entries[parent].deadline.key() {
            let _ = self.rise(at, entry, moved);
        } else {
            self.sink(at, entry, moved);
        }
    }

    /// Puts an entry where it belongs, between a place that is free and the root; where that is.
    #[inline(always)]
    fn rise(&mut self, mut at: usize, entry: Entry, mut moved: impl FnMut(u32, Place)) -> usize {
        while at > 0 {
            let parent = (at - 1) / ARITY;
            let above = self.entries[parent];
            if above.deadline.key() <= entry.deadline.key() {
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

    /// The same, between a place that is free and the leaves.
    fn sink(&mut self, mut at: usize, entry: Entry, mut moved: impl FnMut(u32, Place)) {
        loop {
            let begin = ARITY * at + 1;
            let end = (begin + ARITY).min(self.entries.len());
            let Some(children) = self.entries.get(begin..end) else { break };
            let Some(&(mut first)) = children.first() else { break };
            let mut nth = 0;
            for (other, &child) in children.iter().enumerate().skip(1) {
                if child.deadline.key() < first.deadline.key() {
                    (first, nth) = (child, other);
                }
            }
            if entry.deadline.key() <= first.deadline.key() {
                break;
            }
            self.entries[at] = first;
            moved(first.owner, at as Place);
            at = begin + nth;
        }
        self.entries[at] = entry;
        moved(entry.owner, at as Place);
    }

    /// Asserts the structure, and calls `visit` for each entry: its deadline, its owner, its place.
    ///
    /// # Panics
    /// If it is broken.
    pub fn check(&self, mut visit: impl FnMut(Deadline, u32, Place)) {
        for (at, entry) in self.entries.iter().enumerate() {
            let parent = &self.entries[at.saturating_sub(1) / ARITY];
            assert!(parent.deadline <= entry.deadline, "place {at} is in order");
            visit(entry.deadline, entry.owner, at as Place);
        }
    }
}
