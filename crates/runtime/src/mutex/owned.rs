//! Guards that share their mutex, and may outlive the code that locked it.

use super::value::{Mutex, TryLockError, wait_for};
use crate::current::turn;
use crate::mutex::lending::{Attempt, count};
use crate::os::locked::OwnedHeld;
use crate::os::sync::Arc;
use crate::protocol::turns::Taker;
use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A future that locks a [`Mutex`] and shares it, from [`Mutex::lock_owned`].
#[must_use = "a mutex is locked only when its future is awaited"]
pub struct LockOwned<T: ?Sized> {
    /// Present until the turn has come.
    mutex: Option<Arc<Mutex<T>>>,
    attempt: Attempt,
}

impl<T: ?Sized> Mutex<T> {
    /// Locks the mutex, with a guard that shares it and may outlive the calling function.
    ///
    /// ```
    /// use runyard::{Runtime, spawn, sync::Mutex};
    /// use std::sync::Arc;
    ///
    /// Runtime::new().block_on(async {
    ///     let sum = Arc::new(Mutex::new(0));
    ///     let mut guard = sum.clone().lock_owned().await;
    ///     spawn(async move { *guard += 1 }).await.unwrap();
    ///     assert_eq!(*sum.lock().await, 1);
    /// });
    /// ```
    pub fn lock_owned(self: Arc<Self>) -> LockOwned<T> {
        LockOwned::new(self)
    }

    /// Locks the mutex as [`Mutex::blocking_lock`], with a guard that shares it.
    pub fn blocking_lock_owned(self: Arc<Self>) -> OwnedMutexGuard<T> {
        wait_for(self.lock_owned())
    }

    /// Locks the mutex as [`Mutex::try_lock`], with a guard that shares it.
    ///
    /// # Errors
    /// If the mutex is locked.
    pub fn try_lock_owned(self: Arc<Self>) -> Result<OwnedMutexGuard<T>, TryLockError> {
        match self.raw.try_take() {
            Some(taker) => Ok(OwnedMutexGuard::new(self, taker)),
            None => Err(TryLockError),
        }
    }
}

impl<T: ?Sized> LockOwned<T> {
    pub(super) fn new(mutex: Arc<Mutex<T>>) -> LockOwned<T> {
        LockOwned { mutex: Some(mutex), attempt: Attempt::new() }
    }
}

impl<T: ?Sized> Future for LockOwned<T> {
    type Output = OwnedMutexGuard<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<OwnedMutexGuard<T>> {
        ready!(turn::proceed(cx));
        let LockOwned { mutex, attempt } = &mut *self;
        let waits_for = mutex.as_ref().expect("the future is not polled after its end");
        let turn = attempt.poll(&waits_for.raw, cx);
        turn.map(|taker| {
            let mutex = mutex.take().expect("it was there just now");
            OwnedMutexGuard::new(mutex, taker)
        })
    }
}

impl<T: ?Sized> Drop for LockOwned<T> {
    fn drop(&mut self) {
        if let Some(mutex) = &self.mutex {
            self.attempt.give_up(&mutex.raw);
        }
    }
}

impl<T: ?Sized> fmt::Debug for LockOwned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockOwned").field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

/// A guard of a locked [`Mutex`] that shares it, from [`Mutex::lock_owned`]. The mutex is unlocked when the guard is
/// dropped.
///
/// ```
/// use runyard::Runtime;
/// use runyard::sync::Mutex;
/// use std::sync::Arc;
///
/// let count = Arc::new(Mutex::new(0));
/// Runtime::new().block_on(async {
///     let mut guard = count.clone().lock_owned().await;
///     *guard += 1;
/// });
/// assert_eq!(*count.blocking_lock(), 1);
/// ```
#[must_use = "a mutex is locked while its guard lives"]
pub struct OwnedMutexGuard<T: ?Sized> {
    taker: Taker,
    /// Present until the guard is dropped.
    held: Option<OwnedHeld<Mutex<T>, T>>,
}

impl<T: ?Sized> OwnedMutexGuard<T> {
    pub(super) fn new(mutex: Arc<Mutex<T>>, taker: Taker) -> OwnedMutexGuard<T> {
        let held = OwnedHeld::take(mutex, |mutex| &mutex.value);
        let held = held.expect("one taker at a time has its turn");
        count(taker, 1);
        OwnedMutexGuard { taker, held: Some(held) }
    }

    /// Returns the mutex that is locked.
    pub fn mutex(this: &Self) -> &Arc<Mutex<T>> {
        this.held.as_ref().expect("a guard has the value").owner()
    }
}

impl<T: ?Sized> Deref for OwnedMutexGuard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect("a guard has the value")
    }
}

impl<T: ?Sized> DerefMut for OwnedMutexGuard<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("a guard has the value")
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for OwnedMutexGuard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for OwnedMutexGuard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&**self, f)
    }
}

impl<T: ?Sized> Drop for OwnedMutexGuard<T> {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            let mutex = held.end();
            count(self.taker, -1);
            mutex.raw.release(self.taker);
        }
    }
}
