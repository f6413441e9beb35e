//! The only place that names a synchronisation primitive. What the tasks of a run share is under one
//! lock, in `play::world`; the hosts' own bookkeeping and the watchers of a run have the others.

pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
#[cfg(target_os = "linux")]
pub(crate) use std::sync::mpsc;
pub use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use std::sync::PoisonError;
use std::time::Duration;

/// Takes a lock. A panic of one task does not keep the others from being told that all is over.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where threads wait for a change of what is under a lock.
#[derive(Debug, Default)]
pub(crate) struct Changed(std::sync::Condvar);

impl Changed {
    /// Waits for a change; may return for no reason.
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Changed::wait`], for `span` at the most.
    pub(crate) fn wait_for<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        span: Duration,
    ) -> MutexGuard<'a, T> {
        self.0.wait_timeout(guard, span).unwrap_or_else(PoisonError::into_inner).0
    }

    pub(crate) fn tell_all(&self) {
        self.0.notify_all();
    }
}
