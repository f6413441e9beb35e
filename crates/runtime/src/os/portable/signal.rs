//! No signal stops a thread here.

use super::thread::Tid;
use crate::os::above::{Above, Calls};
use crate::os::local;
use crate::os::stack::Copied;
use std::ops::Range;

/// None are known here.
pub(crate) use crate::os::above::Signals;

/// What a runtime has for the number of its signal, if not said.
pub(crate) const USUAL: i32 = 0;

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
type Copy = fn(&Copied, u32, u64, Range<usize>);
const _: (fn(bool, Signals, Copy), fn(fn())) = (Above::rung, local::handling);
