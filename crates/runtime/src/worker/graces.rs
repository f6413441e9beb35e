//! The graces of a thread that is let go on: at unsafe points, and without a slot.
//!
//! This thread reads and writes them, in its signal handler too. Who takes its slot also ends a grace.

use super::thread::Thread;
use crate::os;
use crate::os::sync::{AtomicU32, AtomicU64, Ordering};
use runyard_engine::time::Nanos;

/// The grace of a thread that was interrupted at an unsafe point: it may hold the allocator's lock (H4), so it goes on
/// for this time. Most such locks are held for less than the first grace. Each later grace is twice as long, up to the
/// longest. With shorter graces the signals would take most of the time.
const FIRST_GRACE: Nanos = Nanos::from_micros(5);
const LONGEST_GRACE: Nanos = Nanos::from_micros(30);

/// The CPU time that a thread may use in all graces together, however late their timers are: some 250 graces. If a task
/// holds such a lock 95 % of the time, all these samples hit that with a probability of four in 10^6. Then the task is
/// stopped there all the same, and the keeper lets it go on if another thread waits. The limit is not on the wall's
/// clock: a thread would be stopped with the lock because others had its CPU.
const GRACES: Nanos = Nanos::from_millis(10);

/// The graces of a thread.
#[derive(Debug)]
pub(crate) struct Graces {
    /// The number of graces at an unsafe point.
    nr: AtomicU32,
    /// The CPU time of the thread before the first of these graces.
    used_before: AtomicU64,
    /// The CPU time of the thread, and its number of waits, when it was last let go on.
    used: AtomicU64,
    waits: AtomicU64,
    /// The CPU time up to which it goes on without a slot. The thread that takes the slot writes it too.
    until: AtomicU64,
}

impl Graces {
    pub(super) fn new() -> Graces {
        Graces {
            nr: AtomicU32::new(0),
            used_before: AtomicU64::new(0),
            used: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            until: AtomicU64::new(0),
        }
    }

    /// Resets the fields before a thread is started for the worker: observations of an earlier thread do not apply to
    /// it.
    pub(super) fn begin_anew(&self) {
        self.until.store(0, Ordering::SeqCst);
        self.used.store(0, Ordering::SeqCst);
        self.waits.store(0, Ordering::SeqCst);
    }

    /// The number of graces at an unsafe point.
    pub(super) fn nr(&self) -> u32 {
        self.nr.load(Ordering::Relaxed)
    }

    /// Forgets the graces at an unsafe point.
    #[inline]
    pub(super) fn forget(&self) {
        self.nr.store(0, Ordering::Relaxed);
    }

    /// Returns how long a thread at an unsafe point may go on; `None` if it has used up its graces, or hardly ran
    /// during the last one.
    pub(super) fn next(&self) -> Option<Nanos> {
        let (nr, used) = (self.nr(), os::thread::own_cpu_time().0);
        if nr == 0 {
            self.used_before.store(used, Ordering::Relaxed);
        } else if self.stands_still() || !self.are_left() {
            return None;
        }
        self.nr.store(nr + 1, Ordering::Relaxed);
        self.let_go(used);
        Some(self.last())
    }

    fn last(&self) -> Nanos {
        grace(self.nr())
    }

    /// Returns whether the thread may have more graces.
    pub(super) fn are_left(&self) -> bool {
        os::thread::own_cpu_time().0 - self.used_before.load(Ordering::Relaxed) < GRACES.0
    }

    /// Notes the CPU time that the thread had used when it was interrupted, as it is let go on.
    fn let_go(&self, used: u64) {
        self.used.store(used, Ordering::Relaxed);
        self.waits.store(os::thread::nr_own_waits(), Ordering::Relaxed);
    }

    /// Returns whether the thread has hardly run since its last grace began, or began to wait again.
    pub(super) fn stands_still(&self) -> bool {
        self.stands_still_for(self.last())
    }

    /// Returns whether the thread has hardly run since it was last let go on for `grace`, or began to wait again. CPU
    /// time alone does not show this: the signal and the restarted call take as much as a grace.
    fn stands_still_for(&self, grace: Nanos) -> bool {
        let used = os::thread::own_cpu_time().0 - self.used.load(Ordering::Relaxed);
        used < grace.0 / 2 || os::thread::nr_own_waits() != self.waits.load(Ordering::Relaxed)
    }

    /// Lets the thread go on without a slot until it has used `more` CPU time after `used`. Called by the thread that
    /// takes the slot, as the thread waits.
    pub(super) fn go_on_when_it_runs(&self, used: Nanos, more: Nanos) {
        self.used.store(used.0, Ordering::Relaxed);
        self.until.store(used.0 + more.0, Ordering::Relaxed);
    }

    /// Lets the calling thread go on without a slot until it has used `grace` more CPU time.
    fn go_on(&self, grace: Nanos) {
        let used = os::thread::own_cpu_time().0;
        self.let_go(used);
        self.until.store(used + grace.0, Ordering::Relaxed);
    }

    /// Ends the time without a slot.
    pub(super) fn end(&self) {
        self.until.store(0, Ordering::Relaxed);
    }

    /// Returns what a thread without a slot does now.
    pub(super) fn without_slot(&self) -> Going {
        let until = self.until.load(Ordering::Relaxed);
        let used = os::thread::own_cpu_time().0;
        if used >= until {
            return Going::Over;
        }
        if self.stands_still_for(LONGEST_GRACE) {
            return Going::Waits;
        }
        self.let_go(used);
        Going::For(Nanos(until - used))
    }

    /// Lets the calling thread go on without a slot for the grace that its rescuer set.
    pub(super) fn go_on_without_slot(&self, thread: &Thread) {
        let grace = Nanos(thread.baton().grace());
        thread.reading().runs_without_slot();
        self.go_on(grace);
        thread.alarm.ring_after(grace);
    }
}

/// The state of a thread that was let go on without a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Going {
    /// Its grace is used up.
    Over,
    /// It has hardly run since the last check: it blocks, and must not be interrupted again before it runs.
    Waits,
    /// It may use that much more CPU time.
    For(Nanos),
}

/// Returns the length of the grace of this number, from 1.
fn grace(number: u32) -> Nanos {
    let doubled = number.saturating_sub(1).min(LONGEST_GRACE.0.ilog2());
    Nanos(FIRST_GRACE.0 << doubled).min(LONGEST_GRACE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graces_grow_up_to_the_longest() {
        let micros = |number| grace(number).0 / 1_000;
        assert_eq!([1, 2, 3, 4, 5, 1_000].map(micros), [5, 10, 20, 30, 30, 30]);
    }
}
