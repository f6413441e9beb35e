//! A priority queue of deadlines, for the timers of one CPU.
//!
//! A timer is mostly armed for later than those that are there, and cancelled before it is due. In a heap
//! in one array both happen near the leaves.
//!
//! Rejected, with figures in `docs/design/timers.md`: the leftist heaps of the run queue, whose nodes
//! lie anywhere; balanced trees, which pay for an order that nobody walks.

use crate::store::array_heap::{ArrayHeap, Precede};
use crate::time::Time;

pub use crate::store::array_heap::Place;

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

impl Precede for Deadline {
    #[inline]
    fn precedes(self, other: Deadline) -> bool {
        self.key() < other.key()
    }
}

/// Deadlines, each with an owner that has a number.
pub type Deadlines = ArrayHeap<Deadline>;

/// What [`Deadlines::find`] looks for, and has found.
struct Search<'a, F> {
    last: Time,
    accepts: &'a mut F,
    best: Option<(Deadline, u32)>,
    beyond: Time,
}

impl Deadlines {
    /// The first owner, by deadline, that `accepts`, of those with deadlines until `last`. If there is
    /// none: the first deadline after `last`.
    pub fn find(
        &self,
        last: Time,
        mut accepts: impl FnMut(u32) -> bool,
    ) -> Result<(Deadline, u32), Time> {
        let mut search = Search { last, accepts: &mut accepts, best: None, beyond: Time::MAX };
        self.search(0, &mut search);
        search.best.ok_or(search.beyond)
    }

    /// As deep as the heap is, which is logarithmic.
    fn search<F: FnMut(u32) -> bool>(&self, at: usize, search: &mut Search<'_, F>) {
        let Some((deadline, owner)) = self.get(at) else { return };
        let later = search.best.is_some_and(|(best, _)| best.precedes(deadline));
        if deadline.at > search.last {
            search.beyond = search.beyond.min(deadline.at);
        } else if !later && (search.accepts)(owner) {
            search.best = Some((deadline, owner));
        } else if !later {
            for child in Deadlines::below(at) {
                self.search(child, search);
            }
        }
    }
}
