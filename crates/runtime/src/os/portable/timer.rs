//! No timer interrupts a thread here. Workers check for expired timers between two polls, and when they wake from a
//! wait that ends at an expiry.

use super::thread::Tid;
use runyard_engine::time::{Nanos, Time};

/// A place for a timer, which is never made.
#[derive(Debug)]
pub(crate) struct Timer;

/// The clock of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    Monotonic,
    /// The CPU time of the thread that the timer interrupts.
    CpuTime,
}

impl Timer {
    pub(crate) fn none() -> Timer {
        Timer
    }

    /// Returns that no timer can be made.
    pub(crate) fn are_possible(_signal: i32, _many: usize) -> bool {
        false
    }

    /// Refuses to make a timer.
    pub(crate) fn make(&self, _clock: Clock, _thread: Tid, _signal: i32) -> bool {
        false
    }

    pub(crate) fn delete(&self) {}

    pub(crate) fn set_at(&self, _at: Time) {}

    pub(crate) fn set_after(&self, _span: Nanos) {}

    pub(crate) fn stop(&self) {}
}
