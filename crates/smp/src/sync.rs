//! The only place that names a synchronisation primitive: std's, or a model checker's.
//!
//! Chosen by `--cfg loom` or `--cfg shuttle`, never by a cargo feature: features add up over a
//! build, and no build may mix the two.

/// Shared ownership is std's everywhere: nothing is decided by it.
pub(crate) use std::sync::Arc;

#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence},
};
#[cfg(shuttle)]
pub(crate) use shuttle::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence},
};
#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence},
};

/// Takes a lock. A panic under a lock is a broken invariant: whoever comes next panics too.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panicked with this lock held")
}
