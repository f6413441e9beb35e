//! Waiting for a word, and the barrier between threads: the kernel's, or a model's.

#[cfg(not(loom))]
use crate::os::sync::compiler_fence;
#[cfg(loom)]
use crate::os::sync::fence;
use crate::os::sync::{AtomicU32, Ordering, yield_now};

/// Waits until `word` is not `expected` any more; may return for no reason.
#[cfg(not(loom))]
pub(crate) fn futex_wait(word: &AtomicU32, expected: u32) {
    crate::os::futex::wait(word, expected, None);
}

#[cfg(not(loom))]
pub(crate) fn futex_wake(word: &AtomicU32) {
    crate::os::futex::wake(word);
}

/// The model's futex waits by letting others go first.
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

/// Keeps the order of the accesses of this thread before and after it, for threads that call [`barrier_for_all`] meanwhile.
#[cfg(not(loom))]
#[inline]
pub(crate) fn barrier_for_own() {
    compiler_fence(Ordering::SeqCst);
}

/// Has all threads of the process keep the order of their accesses before and after it. It takes some microseconds.
#[cfg(not(loom))]
pub(crate) fn barrier_for_all() {
    crate::os::barrier::pass();
}

/// Asks the kernel for such a barrier.
#[cfg(not(loom))]
pub(crate) fn prepare_barrier() {
    crate::os::barrier::prepare();
}

#[cfg(loom)]
pub(crate) fn prepare_barrier() {}

/// Whether there is such a barrier.
#[cfg(not(loom))]
pub(crate) fn barrier_is_there() -> bool {
    crate::os::barrier::is_there()
}

/// In a model each thread has its own.
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

/// Lets others run.
pub(crate) fn let_others_run() {
    yield_now();
}
