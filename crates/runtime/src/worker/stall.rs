//! The report of a worker's polls to the thread that looks for [stalls](crate::stall). Does nothing if there is no such
//! thread.

use crate::os;
use crate::os::sync::Arc;
use crate::stall::{PollClock, Stalls};
use runyard_engine::time::Time;

/// The clock of a thread's polls, and the thread that reads it.
#[derive(Debug)]
pub(crate) struct Clock {
    time: PollClock,
    stalls: Option<Arc<Stalls>>,
}

impl Clock {
    pub(super) fn new(stalls: Option<Arc<Stalls>>) -> Clock {
        Clock { time: PollClock::default(), stalls }
    }

    /// Returns the clock itself.
    pub(crate) fn time(&self) -> &PollClock {
        &self.time
    }

    /// Notes the stack when the thread begins.
    pub(super) fn note_stack(&self) {
        if self.stalls.is_some() {
            self.time.has_stack(os::stack::lowest());
        }
    }

    /// Runs a poll, which begins now.
    #[inline]
    pub(super) fn clocked<R>(&self, now: Time, poll: impl FnOnce() -> R) -> R {
        let Some(stalls) = &self.stalls else { return poll() };
        // Its address is above all data that the poll has on the stack.
        let top = 0_u8;
        self.time.begin(now, (&raw const top).addr());
        stalls.somebody_runs();
        let result = poll();
        self.time.end();
        result
    }

    /// Runs `section` of a poll, which is no stall however long it lasts.
    pub(crate) fn at_length<R>(&self, section: impl FnOnce() -> R) -> R {
        let halted = self.halt();
        let result = section();
        self.go_on(halted);
        result
    }

    /// Stops the clock of the poll. Returns whether the caller has to let it go on. May be called in a signal handler.
    pub(super) fn halt(&self) -> bool {
        self.stalls.is_some() && self.time.halt(os::thread::now())
    }

    /// Lets the clock go on after [`Clock::halt`].
    pub(super) fn go_on(&self, halted: bool) {
        if let Some(stalls) = self.stalls.as_ref().filter(|_| halted) {
            self.time.go_on(os::thread::now());
            stalls.somebody_runs();
        }
    }
}
