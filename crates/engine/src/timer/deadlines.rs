//! A priority queue of deadlines, for the timers of one CPU.
//!
//! Most timers are armed for later than the existing ones, and are cancelled before they are due.
//! In a heap in one array both operations happen near the leaves.
//!
//! Rejected, with figures in `docs/design/timers.md`: the leftist heaps of the run queue, whose
//! nodes are scattered in memory; and balanced trees, which maintain an order that no walk needs.

use crate::store::array_heap::{ArrayHeap, Precede};
use crate::time::Time;

pub use crate::store::array_heap::Place;

/// A deadline. Of equal deadlines the older one comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    /// The time.
    pub at: Time,
    /// Sequence number; breaks ties.
    pub nth: u64,
}

impl Deadline {
    /// A deadline later than any other.
    pub const NEVER: Deadline = Deadline { at: Time::MAX, nth: u64::MAX };

    /// Returns both fields in one word, for a single comparison.
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

/// Deadlines, each with a numbered owner.
pub type Deadlines = ArrayHeap<Deadline>;

/// The criteria and the result of [`Deadlines::find`].
struct Search<'a, F> {
    last: Time,
    accepts: &'a mut F,
    best: Option<(Deadline, u32)>,
    beyond: Time,
}

impl Deadlines {
    /// Returns the first owner, by deadline, that `accepts`, of those with deadlines until `last`.
    /// If there is none, the error is the first deadline after `last`.
    pub fn find(
        &self,
        last: Time,
        mut accepts: impl FnMut(u32) -> bool,
    ) -> Result<(Deadline, u32), Time> {
        let mut search = Search { last, accepts: &mut accepts, best: None, beyond: Time::MAX };
        self.search(0, &mut search);
        search.best.ok_or(search.beyond)
    }

    /// The recursion is as deep as the heap, which is logarithmic.
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
