//! Whether the calling thread runs the tasks of a runtime in its `block_on`, or calls the blocking functions of one
//! ([`crate::single`]).
//!
//! The words are initialised at compile time and have no destructor, so they may be read at any time.

use crate::os::local::counted;
use std::cell::Cell;

thread_local! {
    /// The number of runtimes whose tasks the thread runs, one within a task of the other.
    static RUNS: Cell<u32> = const { Cell::new(0) };
    /// The runtime of which the thread calls blocking functions; 0 for none.
    static HELPS: Cell<u64> = const { Cell::new(0) };
}

/// Returns a number that no other living thread has. It is never 0.
pub(crate) fn mark() -> usize {
    RUNS.with(|word| std::ptr::from_ref(word).addr())
}

/// Runs `body`, which runs tasks.
pub(crate) fn running<R>(body: impl FnOnce() -> R) -> R {
    counted(&RUNS, body)
}

/// Returns whether the calling thread runs tasks of a runtime in its `block_on`.
pub(crate) fn runs_tasks() -> bool {
    RUNS.get() > 0
}

/// Makes the calling thread one that calls the blocking functions of this runtime, until it ends.
pub(crate) fn be_helper(runtime: u64) {
    HELPS.set(runtime);
}

/// Returns whether the calling thread calls the blocking functions of this runtime.
pub(crate) fn is_helper(runtime: u64) -> bool {
    HELPS.get() == runtime
}
