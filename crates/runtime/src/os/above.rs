//! The calls that this folder makes upward.
//!
//! No file here names a file of a room above. The rooms above implement [`Calls`] for [`Above`] instead. The compiler
//! resolves each call, so it costs as much as a direct one.

use crate::os::stack::Copied;
use std::ops::Range;

/// Signals of the kernel: number n is bit n - 1.
pub(crate) type Signals = u64;

/// The rooms above this folder.
pub(crate) struct Above;

/// The functions that this folder calls in the rooms above.
pub(crate) trait Calls {
    /// Runs `section` on the calling thread, which is not stopped in it.
    fn without_preemption<R>(section: impl FnOnce() -> R) -> R;

    /// Whether the calling thread is a worker in own code. A section that blocks is none.
    fn is_in_own_code() -> bool;

    /// The doorbell of the calling thread was rung. Runs in the signal handler. `deaf_to` are the signals that could not
    /// have interrupted this thread. `copy` is called first if the poll is reported as a stall: with the place for the
    /// copy, the number of the worker, that of the poll, and the stack of the poll.
    fn rung<C: FnOnce(&Copied, u32, u64, Range<usize>)>(
        at_unsafe_point: bool,
        deaf_to: Signals,
        copy: C,
    );
}
