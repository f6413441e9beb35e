//! No signal stops a thread here.

use super::stack::Copied;
use super::thread::Tid;
use crate::os::above::{Above, Calls};
use crate::os::local;
use std::ops::Range;

/// The signals that a thread blocks. None are known here.
pub(crate) use crate::os::above::Signals;

/// The number of a runtime's signal if the program sets none.
pub(crate) const USUAL: i32 = 0;

/// Refuses: no handler is installed.
pub(crate) fn install(_signal: i32) -> bool {
    false
}

/// Returns that the handler was not replaced: there is none.
pub(crate) fn is_ours(_signal: i32) -> bool {
    true
}

/// Sends no signal.
pub(crate) fn ring(_thread: Tid, _signal: i32) {}

/// Changes no signal mask.
pub(crate) fn listen_to(_signal: i32) -> Signals {
    0
}

/// Changes no signal mask.
pub(crate) fn listen_to_nothing() {}

/// Keeps the functions that a handler would call compiled here too, although nothing calls them.
type Copy = fn(&Copied, u32, u64, Range<usize>);
const _: (fn(bool, Signals, Copy), fn(fn())) = (Above::rung, local::handling);
