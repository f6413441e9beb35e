//! No signal stops a thread here.

use super::thread::Tid;
use crate::os::local;
use crate::stall::PollClock;
use crate::worker::Worker;
use std::ops::Range;

/// What a runtime has for the number of its signal, if not said.
pub(crate) const USUAL: i32 = 0;

/// Signals to which a thread is deaf. None are known.
pub(crate) type Signals = u64;

/// No handler is installed.
pub(crate) fn install(_signal: i32) -> bool {
    false
}

/// Nothing can be taken that nobody has.
pub(crate) fn is_ours(_signal: i32) -> bool {
    true
}

/// The thread hears nothing.
pub(crate) fn ring(_thread: Tid, _signal: i32) {}

/// The calling thread hears as much as before.
pub(crate) fn listen_to(_signal: i32) -> Signals {
    0
}

/// The calling thread hears as much as before.
pub(crate) fn listen_to_nothing() {}

/// What a handler calls is compiled here too, though nobody calls it.
const _: (fn(&Worker, bool, Signals), fn(fn())) = (Worker::rung, local::handling);
const _: fn(&PollClock) -> Range<usize> = PollClock::stack;
