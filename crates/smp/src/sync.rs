//! The only place that names a synchronization primitive: that of std, or that of a model checker.
//!
//! `--cfg loom` or `--cfg shuttle` selects it, not a cargo feature. Features are united over a build, and no build may
//! mix the two.

/// Shared ownership uses std's `Arc` everywhere, because no protocol depends on it.
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

/// Takes a lock. A panic under a lock means a broken invariant, so the next owner panics too.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panicked with this lock held")
}
