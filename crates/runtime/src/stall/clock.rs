//! For how long a poll has had its CPU: the time since it began, without that in which it was stopped or in a
//! section that the program announced.
//!
//! The worker writes, in its signal handler too; the thread that looks for stalls reads at any moment. What that reads
//! may be short of the truth by what is changed meanwhile, never above it. All is written only if the runtime has a
//! callback for stalls.

use crate::os::sync::{AtomicU64, AtomicUsize, Ordering};
use runyard_engine::time::{Nanos, Time};
use std::ops::Range;

/// The clock of a worker's polls.
#[derive(Debug, Default)]
pub(crate) struct PollClock {
    /// When the poll began; 0 while there is none.
    began: AtomicU64,
    /// Since when its clock stands; 0 while that goes.
    halted_at: AtomicU64,
    /// For how long it stood before that.
    halted_for: AtomicU64,
    /// The lowest address of the thread's stack, and where the stack of the poll begins.
    lowest: AtomicUsize,
    top: AtomicUsize,
}

/// A poll, as it was seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// When it began, which tells it from all others of its worker.
    pub(super) began: u64,
    /// For how long it has had its CPU.
    pub(super) lasted: Nanos,
    /// Whether its clock goes.
    pub(super) goes: bool,
}

impl PollClock {
    /// The worker has a new thread, of which the stack has this lowest address; `None` if that is not known.
    pub(crate) fn has_stack(&self, lowest: Option<usize>) {
        // Until a poll begins on this stack, nothing of it is known.
        self.top.store(0, Ordering::Relaxed);
        let lowest = lowest.unwrap_or(usize::MAX);
        self.lowest.store(lowest, Ordering::Relaxed);
    }

    /// A poll begins, of which the stack begins below `top`.
    pub(crate) fn begin(&self, now: Time, top: usize) {
        self.top.store(top, Ordering::Relaxed);
        self.halted_at.store(0, Ordering::Relaxed);
        self.halted_for.store(0, Ordering::Relaxed);
        self.began.store(now.0, Ordering::SeqCst);
    }

    pub(crate) fn end(&self) {
        self.began.store(0, Ordering::Release);
    }

    /// The clock stands from now on. `false` if it does already, and somebody else lets it go on.
    pub(crate) fn halt(&self, now: Time) -> bool {
        let goes = self.halted_at.load(Ordering::Relaxed) == 0;
        if goes {
            self.halted_at.store(now.0, Ordering::Release);
        }
        goes
    }

    /// It goes on. A reader that knows of the one store only takes the poll for shorter than it is.
    pub(crate) fn go_on(&self, now: Time) {
        let since = Time(self.halted_at.load(Ordering::Relaxed));
        let halted = self.halted_for.load(Ordering::Relaxed) + now.since(since).0;
        self.halted_for.store(halted, Ordering::Release);
        self.halted_at.store(0, Ordering::SeqCst);
    }

    /// Which poll there is: when it began.
    pub(crate) fn poll(&self) -> u64 {
        self.began.load(Ordering::SeqCst)
    }

    /// The stack of the poll, and of what runs below it; nothing, if it is not known.
    pub(crate) fn stack(&self) -> Range<usize> {
        self.lowest.load(Ordering::Relaxed)..self.top.load(Ordering::Relaxed)
    }

    /// The poll that there is, if one is there.
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
        assert!(!clock.halt(Time(40)), "it stands already");
        assert_eq!(lasted(&clock, 50), Some((20, false)));
        clock.go_on(Time(60));
        assert_eq!(lasted(&clock, 65), Some((25, true)));
        clock.end();
        assert_eq!(lasted(&clock, 70), None);
        clock.begin(Time(80), 0);
        assert_eq!(lasted(&clock, 90), Some((10, true)), "each poll begins anew");
    }
}
