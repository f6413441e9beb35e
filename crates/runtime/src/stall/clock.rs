//! The clock of a poll: the time since it began, without the time in which it was stopped or in a section that the
//! program announced.
//!
//! The worker writes it, also in its signal handler. The thread that detects stalls reads it at any moment. A value
//! that it reads may be too small by a concurrent change, but never too large. The clock is written only if the runtime
//! has a stall callback.

use crate::os::sync::{AtomicU64, AtomicUsize, Ordering};
use runyard_engine::time::{Nanos, Time};
use std::ops::Range;

/// The clock of a worker's polls.
#[derive(Debug, Default)]
pub(crate) struct PollClock {
    /// Start of the poll, in nanoseconds; 0 while there is none.
    began: AtomicU64,
    /// Time at which the clock was halted; 0 while it runs.
    halted_at: AtomicU64,
    /// Nanoseconds for which the clock stood still in earlier halts.
    halted_for: AtomicU64,
    /// The lowest address of the thread's stack. `top` is the address where the stack of the poll begins.
    lowest: AtomicUsize,
    top: AtomicUsize,
}

/// The state of a poll at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Start of the poll, which identifies it among all polls of its worker.
    pub(super) began: u64,
    /// Time for which it has had its CPU.
    pub(super) lasted: Nanos,
    /// Whether its clock runs.
    pub(super) goes: bool,
}

impl PollClock {
    /// Sets the lowest stack address of the worker's new thread; `None` if it is unknown.
    pub(crate) fn has_stack(&self, lowest: Option<usize>) {
        // Until a poll begins on this stack, its range is unknown.
        self.top.store(0, Ordering::Relaxed);
        let lowest = lowest.unwrap_or(usize::MAX);
        self.lowest.store(lowest, Ordering::Relaxed);
    }

    /// Starts the clock of a poll. The stack of the poll begins below `top`.
    pub(crate) fn begin(&self, now: Time, top: usize) {
        self.top.store(top, Ordering::Relaxed);
        self.halted_at.store(0, Ordering::Relaxed);
        self.halted_for.store(0, Ordering::Relaxed);
        self.began.store(now.0, Ordering::SeqCst);
    }

    pub(crate) fn end(&self) {
        self.began.store(0, Ordering::Release);
    }

    /// Halts the clock. Returns `false` if it is halted already; then other code resumes it.
    pub(crate) fn halt(&self, now: Time) -> bool {
        let goes = self.halted_at.load(Ordering::Relaxed) == 0;
        if goes {
            self.halted_at.store(now.0, Ordering::Release);
        }
        goes
    }

    /// Resumes the clock. A reader that sees only one of the two stores gets a time that is too short.
    pub(crate) fn go_on(&self, now: Time) {
        let since = Time(self.halted_at.load(Ordering::Relaxed));
        let halted = self.halted_for.load(Ordering::Relaxed) + now.since(since).0;
        self.halted_for.store(halted, Ordering::Release);
        self.halted_at.store(0, Ordering::SeqCst);
    }

    /// Returns the start of the current poll, which identifies it.
    pub(crate) fn poll(&self) -> u64 {
        self.began.load(Ordering::SeqCst)
    }

    /// Returns the stack range of the poll and its callees. It is empty if it is unknown.
    pub(crate) fn stack(&self) -> Range<usize> {
        self.lowest.load(Ordering::Relaxed)..self.top.load(Ordering::Relaxed)
    }

    /// Returns the current poll, if there is one.
    pub(super) fn read(&self, now: Time) -> Option<Seen> {
        let began = self.poll();
        let halted_at = self.halted_at.load(Ordering::SeqCst);
        let halted_for = self.halted_for.load(Ordering::SeqCst);
        if began == 0 || self.poll() != began {
            return None;
        }
        let until = if halted_at > 0 { Time(halted_at) } else { now };
        let lasted = until.since(Time(began)).saturating_sub(Nanos(halted_for));
        Some(Seen { began, lasted, goes: halted_at == 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lasted(clock: &PollClock, now: u64) -> Option<(u64, bool)> {
        clock.read(Time(now)).map(|seen| (seen.lasted.0, seen.goes))
    }

    #[test]
    fn time_in_which_the_clock_stands_does_not_count() {
        let clock = PollClock::default();
        assert_eq!(lasted(&clock, 5), None);
        clock.begin(Time(10), 0);
        assert_eq!(lasted(&clock, 30), Some((20, true)));
        assert!(clock.halt(Time(30)));
        assert!(!clock.halt(Time(40)), "it is halted already");
        assert_eq!(lasted(&clock, 50), Some((20, false)));
        clock.go_on(Time(60));
        assert_eq!(lasted(&clock, 65), Some((25, true)));
        clock.end();
        assert_eq!(lasted(&clock, 70), None);
        clock.begin(Time(80), 0);
        assert_eq!(lasted(&clock, 90), Some((10, true)), "each poll begins anew");
    }
}
