//! The only place that names a synchronisation primitive and the futex below it: those of std and the kernel, or those
//! of a model checker.

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

/// Takes a lock. The runtime never panics under one of its locks unless an invariant is broken.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panicked with this lock held")
}

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
        loom::thread::yield_now();
    }
}

#[cfg(loom)]
pub(crate) fn futex_wake(_: &AtomicU32) {
    loom::thread::yield_now();
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

/// Lets other threads run.
#[cfg(not(loom))]
pub(crate) fn let_others_run() {
    std::thread::yield_now();
}

#[cfg(loom)]
pub(crate) fn let_others_run() {
    loom::thread::yield_now();
}
