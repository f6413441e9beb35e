//! A mutex of which the runtime knows who has it and who waits.
//!
//! This is the value and its guards, with the names and the promises of tokio's. Whose turn it is:
//! [`crate::protocol::turns`]; what those who wait lend: [`crate::mutex::lending`]. The value has a flag of its own, so that an
//! error in these would be a panic and no unsoundness ([`crate::os::locked`]).

pub(crate) mod guards;
pub(crate) mod lending;
mod owned;

pub use owned::{LockOwned, OwnedMutexGuard};

use crate::mutex::lending::{Attempt, RawMutex, count};
use crate::os::here;
use crate::os::locked::{Held, Locked};
use crate::os::sync::Arc;
use crate::protocol::turns::Taker;
use crate::runtime::Unpark;
use crate::task::builder::blocking;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::thread;

/// A mutual exclusion for tasks, and for threads that are none, with priority inheritance: a task that
/// has it runs as importantly as the best of those who wait for it, and out of the limits of its groups
/// if those who wait are not in them.
///
/// It is handed to the most important of those who wait, and among equals to who came first. A guard
/// may be kept across an await. A panic while it is locked gives it back like any other end.
///
/// A task that waits for another kind of lock, one of the standard library for instance, lends nothing:
/// the runtime does not know who has that.
///
/// ```
/// use runyard::sync::Mutex;
/// use runyard::{Runtime, Task};
///
/// static SUM: Mutex<u32> = Mutex::new(0);
///
/// Runtime::new().block_on(async {
///     let task = Task::builder().fifo(50).spawn(async { *SUM.lock().await += 1 });
///     *SUM.lock().await += 1;
///     task.await.unwrap();
///     assert_eq!(*SUM.lock().await, 2);
/// });
/// ```
pub struct Mutex<T: ?Sized> {
    raw: RawMutex,
    value: Locked<T>,
}

/// Somebody has the mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TryLockError;

impl fmt::Display for TryLockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the mutex is locked")
    }
}

impl Error for TryLockError {}

impl<T> Mutex<T> {
    /// One that is not locked. It takes no memory until somebody has to wait for it.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex { raw: RawMutex::new(), value: Locked::new(value) }
    }

    /// The same as [`Mutex::new`], under the name that it has in tokio.
    pub const fn const_new(value: T) -> Mutex<T> {
        Mutex::new(value)
    }

    /// The value alone.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks it: a future that is ready when the caller's turn has come. Dropping it gives the place in
    /// the queue up.
    pub fn lock(&self) -> Lock<'_, T> {
        Lock { mutex: self, attempt: Attempt::new() }
    }

    /// Locks it, with a guard that may outlive the calling function: it shares the mutex.
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

    /// Locks it where nothing can be awaited: in a function of [`crate::spawn_blocking`], or on a thread
    /// that is no task. Others have the CPU while it waits.
    ///
    /// In the poll of a task it works as well, and keeps the task's thread while it waits; tokio's panics
    /// there.
    ///
    /// ```
    /// let mutex = runyard::sync::Mutex::new(1);
    /// *mutex.blocking_lock() += 1;
    /// assert_eq!(mutex.into_inner(), 2);
    /// ```
    pub fn blocking_lock(&self) -> MutexGuard<'_, T> {
        self.try_lock().unwrap_or_else(|_| wait_for(self.lock()))
    }

    /// The same as [`Mutex::blocking_lock`], with a guard that shares the mutex.
    pub fn blocking_lock_owned(self: Arc<Self>) -> OwnedMutexGuard<T> {
        wait_for(self.lock_owned())
    }

    /// Locks it, unless somebody has it.
    ///
    /// # Errors
    /// If somebody has it.
    ///
    /// ```
    /// let mutex = runyard::sync::Mutex::new(1);
    /// let guard = mutex.try_lock().unwrap();
    /// assert!(mutex.try_lock().is_err());
    /// drop(guard);
    /// assert!(mutex.try_lock().is_ok());
    /// ```
    pub fn try_lock(&self) -> Result<MutexGuard<'_, T>, TryLockError> {
        self.raw.try_take().map(|taker| self.guard(taker)).ok_or(TryLockError)
    }

    /// The same as [`Mutex::try_lock`], with a guard that shares the mutex.
    ///
    /// # Errors
    /// If somebody has it.
    pub fn try_lock_owned(self: Arc<Self>) -> Result<OwnedMutexGuard<T>, TryLockError> {
        match self.raw.try_take() {
            Some(taker) => Ok(OwnedMutexGuard::new(self, taker)),
            None => Err(TryLockError),
        }
    }

    /// The value, which nobody else can have.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    fn guard(&self, taker: Taker) -> MutexGuard<'_, T> {
        let held = self.value.take().expect("one at a time has its turn");
        count(taker, 1);
        MutexGuard { mutex: self, taker, held: Some(held) }
    }
}

/// Waits for a lock on the calling thread.
fn wait_for<G>(lock: impl Future<Output = G>) -> G {
    let waker = Unpark::this_thread();
    let mut lock = pin!(lock);
    loop {
        match lock.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(guard) => return guard,
            Poll::Pending if here::is_paused() => {
                panic!("in virtual time a mutex that is locked is awaited: `lock().await`")
            }
            Poll::Pending => blocking(thread::park),
        }
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Mutex<T> {
        Mutex::new(T::default())
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Mutex<T> {
        Mutex::new(value)
    }
}

/// Shows the value, unless somebody has the mutex. It does not wait for that.
impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut mutex = f.debug_struct("Mutex");
        match self.try_lock() {
            Ok(guard) => mutex.field("data", &&*guard),
            Err(TryLockError) => mutex.field("data", &format_args!("<locked>")),
        };
        mutex.finish()
    }
}

/// Waits for a [`Mutex`].
#[must_use = "a mutex is locked by the future that is awaited"]
pub struct Lock<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    attempt: Attempt,
}

impl<'a, T: ?Sized> Future for Lock<'a, T> {
    type Output = MutexGuard<'a, T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<MutexGuard<'a, T>> {
        let mutex = self.mutex;
        self.attempt.poll(&mutex.raw, cx).map(|taker| mutex.guard(taker))
    }
}

impl<T: ?Sized> Drop for Lock<'_, T> {
    fn drop(&mut self) {
        self.attempt.give_up(&self.mutex.raw);
    }
}

impl<T: ?Sized> fmt::Debug for Lock<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

/// A locked [`Mutex`], which is unlocked when this goes.
#[must_use = "a mutex is locked while its guard lives"]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    taker: Taker,
    /// There until the end.
    held: Option<Held<'a, T>>,
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// The mutex that is locked.
    pub fn mutex(this: &Self) -> &'a Mutex<T> {
        this.mutex
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect("a guard has the value")
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("a guard has the value")
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&**self, f)
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.held = None;
        count(self.taker, -1);
        self.mutex.raw.release(self.taker);
    }
}
