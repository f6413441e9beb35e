//! The only file that names a synchronisation primitive. One lock in `play::world` protects the shared state of a run's
//! tasks. The other locks protect the hosts' bookkeeping and the watchers of a run.

pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
#[cfg(target_os = "linux")]
pub(crate) use std::sync::mpsc;
pub use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use std::sync::PoisonError;
use std::time::Duration;

/// Takes a lock. A poisoned lock is taken too, so that after a task's panic the other tasks still learn of the end.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A condition variable: threads wait for a change of the data under a lock.
#[derive(Debug, Default)]
pub(crate) struct Changed(std::sync::Condvar);

impl Changed {
    /// Waits for a change; may return without one.
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// Like [`Changed::wait`], for at most `span`.
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
