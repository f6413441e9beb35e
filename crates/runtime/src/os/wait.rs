//! Waits for a word, and a barrier between threads: those of the kernel, or those of a model.

#[cfg(not(loom))]
use crate::os::sync::compiler_fence;
#[cfg(loom)]
use crate::os::sync::fence;
use crate::os::sync::{AtomicU32, Ordering, yield_now};

/// Waits until `word` is no longer `expected`. May return spuriously.
#[cfg(not(loom))]
pub(crate) fn futex_wait(word: &AtomicU32, expected: u32) {
    crate::os::futex::wait(word, expected, None);
}

#[cfg(not(loom))]
pub(crate) fn futex_wake(word: &AtomicU32) {
    crate::os::futex::wake(word);
}

/// Waits by letting other threads of the model run.
#[cfg(loom)]
pub(crate) fn futex_wait(word: &AtomicU32, expected: u32) {
    if word.load(Ordering::SeqCst) == expected {
        yield_now();
    }
}

#[cfg(loom)]
pub(crate) fn futex_wake(_: &AtomicU32) {
    yield_now();
}

/// Orders the calling thread's accesses before and after this point, for threads that call [`barrier_for_all`].
#[cfg(not(loom))]
#[inline]
pub(crate) fn barrier_for_own() {
    compiler_fence(Ordering::SeqCst);
}

/// Makes every thread of the process pass a full barrier. It takes some microseconds.
#[cfg(not(loom))]
pub(crate) fn barrier_for_all() {
    crate::os::barrier::pass();
}

/// Registers for this barrier with the kernel.
#[cfg(not(loom))]
pub(crate) fn prepare_barrier() {
    crate::os::barrier::prepare();
}

#[cfg(loom)]
pub(crate) fn prepare_barrier() {}

/// Returns whether the barrier exists.
#[cfg(not(loom))]
pub(crate) fn barrier_is_there() -> bool {
    crate::os::barrier::is_there()
}

/// In a model, each thread has a barrier of its own.
#[cfg(loom)]
pub(crate) fn barrier_for_own() {
    fence(Ordering::SeqCst);
}

#[cfg(loom)]
pub(crate) fn barrier_for_all() {
    fence(Ordering::SeqCst);
}

#[cfg(loom)]
pub(crate) fn barrier_is_there() -> bool {
    true
}

/// Lets other threads run.
pub(crate) fn let_others_run() {
    yield_now();
}
