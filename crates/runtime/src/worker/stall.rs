//! The report of a worker's polls to the thread that looks for [stalls](crate::stall). Does nothing if there is no such
//! thread.

use super::Worker;
use crate::os;
use runyard_engine::time::Time;

impl Worker {
    /// Notes the stack when the thread of this worker begins.
    pub(super) fn note_stack(&self) {
        if self.shared.observation.stalls.is_some() {
            self.poll.clock.has_stack(os::stack::lowest());
        }
    }

    /// Runs a poll, which begins now.
    #[inline]
    pub(super) fn clocked<R>(&self, now: Time, poll: impl FnOnce() -> R) -> R {
        let Some(stalls) = &self.shared.observation.stalls else { return poll() };
        // Its address is above all data that the poll has on the stack.
        let top = 0_u8;
        self.poll.clock.begin(now, (&raw const top).addr());
        stalls.somebody_runs();
        let result = poll();
        self.poll.clock.end();
        result
    }

    /// Runs `section` of a poll, which is no stall however long it lasts.
    pub(crate) fn at_length<R>(&self, section: impl FnOnce() -> R) -> R {
        let halted = self.halt_clock();
        let result = section();
        self.go_on_clock(halted);
        result
    }

    /// Stops the clock of the poll. Returns whether the caller has to let it go on. May be called in a signal handler.
    pub(super) fn halt_clock(&self) -> bool {
        self.shared.observation.stalls.is_some() && self.poll.clock.halt(os::thread::now())
    }

    /// Lets the clock go on after [`Worker::halt_clock`].
    pub(super) fn go_on_clock(&self, halted: bool) {
        if let Some(stalls) = self.shared.observation.stalls.as_ref().filter(|_| halted) {
            self.poll.clock.go_on(os::thread::now());
            stalls.somebody_runs();
        }
    }
}
