//! The only place that names a synchronisation primitive, and the futex under them: std's and the
//! kernel's, or a model checker's.

pub(crate) use std::sync::Arc;
#[cfg(not(loom))]
pub(crate) use std::sync::Weak;

#[cfg(loom)]
pub(crate) use loom::cell::UnsafeCell;
#[cfg(not(loom))]
pub(crate) use std::cell::UnsafeCell;

#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};
#[cfg(not(loom))]
pub(crate) use std::sync::mpsc;
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Mutex, MutexGuard, OnceLock,
    atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence},
    mpsc::{Receiver, channel},
};

/// Takes a lock. A panic under a lock of the runtime is a broken invariant of it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panicked with this lock held")
}

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
        loom::thread::yield_now();
    }
}

#[cfg(loom)]
pub(crate) fn futex_wake(_: &AtomicU32) {
    loom::thread::yield_now();
}

/// Keeps what this thread does before from what it does after, for threads that call [`barrier_for_all`] meanwhile.
#[cfg(not(loom))]
#[inline]
pub(crate) fn barrier_for_own() {
    compiler_fence(Ordering::SeqCst);
}

/// All threads of the process keep what they did before from what they do after. It takes some microseconds.
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
    loom::sync::atomic::fence(Ordering::SeqCst);
}

#[cfg(loom)]
pub(crate) fn barrier_for_all() {
    loom::sync::atomic::fence(Ordering::SeqCst);
}

#[cfg(loom)]
pub(crate) fn barrier_is_there() -> bool {
    true
}

/// Lets others run.
#[cfg(not(loom))]
pub(crate) fn let_others_run() {
    std::thread::yield_now();
}

#[cfg(loom)]
pub(crate) fn let_others_run() {
    loom::thread::yield_now();
}
