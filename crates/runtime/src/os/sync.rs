//! The only place that names a synchronisation primitive: those of std, or those of a model checker.

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
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
};
#[cfg(not(loom))]
pub(crate) use std::sync::mpsc;
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard, OnceLock,
    atomic::{
        AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence, fence,
    },
    mpsc::{Receiver, RecvTimeoutError, channel},
};

/// Only the sign of a forked child needs it.
#[cfg(all(not(loom), target_os = "linux", not(runyard_portable)))]
pub(crate) use std::sync::atomic::AtomicPtr;

#[cfg(loom)]
pub(crate) use loom::thread::yield_now;
#[cfg(not(loom))]
pub(crate) use std::thread::yield_now;

/// Takes a lock. The runtime never panics under one of its locks unless an invariant is broken.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    const WHOLE: &str = "no thread panicked with this lock held";
    #[cfg(not(loom))]
    match mutex.try_lock() {
        Err(std::sync::TryLockError::WouldBlock) => {
            crate::os::errno::kept(|| mutex.lock()).expect(WHOLE)
        }
        done => done.expect(WHOLE),
    }
    #[cfg(loom)]
    mutex.lock().expect(WHOLE)
}
