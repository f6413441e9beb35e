//! The calls from this folder into the modules above it.
//!
//! No file here names a module above. Those modules implement [`Calls`] for [`Above`] instead. The compiler resolves
//! each call, so it costs as much as a direct one.

use std::ops::Range;

/// A set of the kernel's signals: signal n is bit n - 1.
pub(crate) type Signals = u64;

/// The modules above this folder.
pub(crate) struct Above;

/// The functions that this folder calls in the modules above.
pub(crate) trait Calls {
    /// The place for the copy of a stack.
    type Copied;

    /// Runs `section` on the calling thread, which is not stopped in it.
    fn without_preemption<R>(section: impl FnOnce() -> R) -> R;

    /// Returns whether the calling thread is a worker in own code, or holds the steering of a thread. A section that
    /// blocks does not count.
    fn is_in_own_code() -> bool;

    /// Reacts to the doorbell of the calling thread, in the signal handler. `deaf_to` are the signals that could not
    /// have interrupted this thread. `copy` is called first if the poll is reported as a stall. Its arguments are the
    /// place for the copy, the numbers of the worker and of the poll, and the stack of the poll.
    fn rung<C: FnOnce(&Self::Copied, u32, u64, Range<usize>)>(
        at_unsafe_point: bool,
        deaf_to: Signals,
        copy: C,
    );
}

/// Runs a section of the runtime's own code. A worker is not stopped in it.
#[inline]
pub(crate) fn without_preemption<R>(section: impl FnOnce() -> R) -> R {
    Above::without_preemption(section)
}
