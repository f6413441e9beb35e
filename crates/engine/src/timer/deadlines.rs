//! A priority queue of deadlines, for the timers of one CPU.
//!
//! A heap of four children a node in one array. A timer is mostly armed for later than those that are
//! there, and cancelled before it is due: both happen near the leaves, at constant cost on average,
//! and only an expiry goes from the root down, over half as many levels as a binary heap has. Whoever
//! owns an entry is told where it is, so that it is removed without a search.
//!
//! Rejected, with figures in `docs/design/timers.md`: the leftist heaps of the run queue, whose nodes
//! lie anywhere; balanced trees, which pay for an order that nobody walks.
//!
//! Invariants ([`Deadlines::check`]): no entry is due before its parent; owners know their places.

use crate::store::move_into;
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
    /// Sequence number; breaks ties.
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

/// What [`Deadlines::find`] looks for, and has found.
struct Search<'a, F> {
    last: Time,
    accepts: &'a mut F,
    best: Option<Entry>,
    beyond: Time,
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

    /// None yet, with room for so many.
    pub(crate) fn with_room(len: usize) -> Deadlines {
        Deadlines { entries: Vec::with_capacity(len) }
    }

    /// Whether another can be added without memory being taken.
    pub(crate) fn has_room(&self) -> bool {
        self.entries.len() < self.entries.capacity()
    }

    /// Has the room of another from now on, if that is more, and leaves its own there. Allocates nothing.
    pub(crate) fn grow_into(&mut self, room: &mut Deadlines) {
        move_into(&mut self.entries, &mut room.entries);
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

    /// The first owner, by deadline, that `accepts`, of those with deadlines until `last`. If there is
    /// none: the first deadline after `last`.
    pub fn find(
        &self,
        last: Time,
        mut accepts: impl FnMut(u32) -> bool,
    ) -> Result<(Deadline, u32), Time> {
        let mut search = Search { last, accepts: &mut accepts, best: None, beyond: Time::MAX };
        self.search(0, &mut search);
        search.best.map(|entry| (entry.deadline, entry.owner)).ok_or(search.beyond)
    }

    /// As deep as the heap is, which is logarithmic.
    fn search<F: FnMut(u32) -> bool>(&self, at: usize, search: &mut Search<'_, F>) {
        let Some(&entry) = self.entries.get(at) else { return };
        let later = search.best.is_some_and(|best| best.deadline.key() < entry.deadline.key());
        if entry.deadline.at > search.last {
            search.beyond = search.beyond.min(entry.deadline.at);
        } else if !later && (search.accepts)(entry.owner) {
            search.best = Some(entry);
        } else if !later {
            for child in ARITY * at + 1..=ARITY * at + ARITY {
                self.search(child, search);
            }
        }
    }

    /// Whose the deadlines are, in no particular order.
    pub fn owners(&self) -> impl Iterator<Item = u32> {
        self.entries.iter().map(|entry| entry.owner)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
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
