//! The section of a poll that blocks ([`super::thread`]).

use crate::os::sync::{AtomicU32, AtomicU64, Ordering};
use runyard_engine::time::Nanos;

/// The time for which a section that blocks may compute before it counts as one that does not: as long as the keeper
/// leaves a blocked thread undetected.
pub(super) const SECTION_GRACE: Nanos = Nanos::from_millis(1);

mod state {
    pub(super) const OUTSIDE: u32 = 0;
    /// In a section that waits: our signals must not interrupt it. Set when the section begins, and by the thread that
    /// takes the slot from a section that had computed.
    pub(super) const WAITS: u32 = 1;
    /// In a section that computes: it is stopped as in any poll. Set by the thread that detects it, which may be the
    /// keeper.
    pub(super) const COMPUTES: u32 = 2;
}

/// Whether a thread is in a section that blocks. Any thread may ask.
#[derive(Debug)]
pub(crate) struct Section {
    /// One of [`state`].
    state: AtomicU32,
    /// The CPU time of the thread at which the section has computed for so long that it may be interrupted.
    computes_at: AtomicU64,
    /// The `preempt_count` of the section; of this thread only.
    count: AtomicU32,
}

impl Section {
    pub(super) fn outside() -> Section {
        Section {
            state: AtomicU32::new(state::OUTSIDE),
            computes_at: AtomicU64::new(0),
            count: AtomicU32::new(0),
        }
    }

    /// Begins a section, which waits.
    pub(super) fn begin(&self) {
        self.state.store(state::WAITS, Ordering::SeqCst);
    }

    /// Notes the `preempt_count` of the section.
    pub(super) fn has_count(&self, count: u32) {
        self.count.store(count, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        self.state.store(state::OUTSIDE, Ordering::SeqCst);
    }

    /// Returns whether the thread is in a section.
    pub(crate) fn is_inside(&self) -> bool {
        self.state.load(Ordering::SeqCst) != state::OUTSIDE
    }

    /// Returns whether the thread is in a section that waits, which our signals must not interrupt.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        self.state.load(Ordering::SeqCst) == state::WAITS
    }

    /// Returns whether the thread is in the foreign code of a section, if its `preempt_count` is this.
    pub(super) fn is_foreign(&self, count: u32) -> bool {
        self.is_inside() && self.count.load(Ordering::Relaxed) == count
    }

    /// Returns the CPU time that the thread had used when the section began to wait.
    pub(crate) fn used_as_it_began_to_wait(&self) -> Nanos {
        Nanos(self.computes_at.load(Ordering::SeqCst)).saturating_sub(SECTION_GRACE)
    }

    /// Notes that the section waits from now on, if it had computed. Returns whether the thread is in one that waits.
    pub(super) fn waits_again(&self) -> bool {
        self.change(state::COMPUTES, state::WAITS);
        self.waits()
    }

    /// Notes the CPU time of a thread whose section begins to wait.
    pub(super) fn waits_from(&self, used: Nanos) {
        self.computes_at.store(used.0 + SECTION_GRACE.0, Ordering::SeqCst);
    }

    /// Returns whether a thread that has used this much CPU time has computed in the section.
    pub(super) fn has_computed(&self, used: Nanos) -> bool {
        used.0 >= self.computes_at.load(Ordering::SeqCst)
    }

    /// Notes that the section computes, if it waited. Returns whether it did.
    pub(super) fn computes(&self) -> bool {
        self.change(state::WAITS, state::COMPUTES)
    }

    fn change(&self, from: u32, to: u32) -> bool {
        self.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Returns the state as a number, for a picture.
    pub(super) fn number(&self) -> u32 {
        self.state.load(Ordering::Relaxed)
    }
}
