//! A mutex whose holder and waiters the runtime knows.
//!
//! This file has the value and its guards, with the names and the guarantees of tokio's. The order of the waiters is in
//! [`crate::protocol::turns`], and priority inheritance in [`crate::mutex::lending`]. The value has its own lock flag,
//! so an error in those would be a panic and not unsoundness ([`crate::os::locked`]).

use crate::current::caller;
use crate::current::section::blocking;
use crate::current::turn;
use crate::current::unpark::Unpark;
use crate::mutex::lending::{Attempt, RawMutex, count};
use crate::os::here;
use crate::os::locked::{Held, Locked};
use crate::protocol::turns::Taker;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

/// A mutex for tasks, and for threads that are not tasks, with priority inheritance. A task that holds it is as
/// important as the most important of its waiters. Limits of its own groups do not throttle it if the waiters are
/// outside these groups.
///
/// The mutex is handed to the most important waiter, and among equals to the first. A guard may be kept across an
/// await. A panic while the mutex is locked unlocks it without poisoning.
///
/// A task that waits for another kind of lock, such as one of the standard library, lends nothing, because the runtime
/// does not know that lock's holder.
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
    pub(super) raw: RawMutex,
    pub(super) value: Locked<T>,
}

/// The error of [`Mutex::try_lock`]: the mutex is locked.
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
    /// Makes an unlocked mutex. It allocates no memory until a task must wait for it.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex { raw: RawMutex::new(), value: Locked::new(value) }
    }

    /// Makes an unlocked mutex, as [`Mutex::new`], under the name that this function has in tokio.
    pub const fn const_new(value: T) -> Mutex<T> {
        Mutex::new(value)
    }

    /// Returns the value and drops the mutex.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks the mutex: returns a future that is ready when the caller's turn has come. If it is dropped before, it
    /// leaves the queue.
    pub fn lock(&self) -> Lock<'_, T> {
        Lock { mutex: self, attempt: Attempt::new() }
    }

    /// Locks the mutex where nothing can be awaited: in a function of [`crate::spawn_blocking`], or on a thread that is
    /// not a task. Other tasks have the CPU while it waits.
    ///
    /// It also works in the poll of a task, where tokio's function panics. It then keeps the task's thread while it
    /// waits.
    ///
    /// ```
    /// let mutex = runyard::sync::Mutex::new(1);
    /// *mutex.blocking_lock() += 1;
    /// assert_eq!(mutex.into_inner(), 2);
    /// ```
    pub fn blocking_lock(&self) -> MutexGuard<'_, T> {
        self.try_lock().unwrap_or_else(|_| wait_for(self.lock()))
    }

    /// Locks the mutex, unless it is locked already.
    ///
    /// # Errors
    /// If the mutex is locked.
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

    /// Returns the value. The exclusive reference shows that the mutex is not locked.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    fn guard(&self, taker: Taker) -> MutexGuard<'_, T> {
        let held = self.value.take().expect("one taker at a time has its turn");
        count(taker, 1);
        MutexGuard { mutex: self, taker, held: Some(held) }
    }
}

/// Waits for a lock on the calling thread.
pub(super) fn wait_for<G>(lock: impl Future<Output = G>) -> G {
    let (parker, waker) = Unpark::new();
    let mut lock = pin!(lock);
    loop {
        match lock.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(guard) => return guard,
            Poll::Pending if here::is_paused() => {
                panic!(
                    "a locked mutex cannot be waited for by blocking in virtual time: use `lock().await`"
                )
            }
            Poll::Pending if caller::runs_tasks() => {
                panic!(
                    "a locked mutex cannot be waited for by blocking on the thread that runs the tasks of a runtime: use \
                     `lock().await`"
                )
            }
            Poll::Pending => blocking(|| parker.park()),
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

/// Shows the value, unless the mutex is locked. It does not wait.
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

/// A future that locks a [`Mutex`].
#[must_use = "a mutex is locked only when its future is awaited"]
pub struct Lock<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    attempt: Attempt,
}

impl<'a, T: ?Sized> Future for Lock<'a, T> {
    type Output = MutexGuard<'a, T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<MutexGuard<'a, T>> {
        ready!(turn::proceed(cx));
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

/// A guard of a locked [`Mutex`], which is unlocked when the guard is dropped.
#[must_use = "a mutex is locked while its guard lives"]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    taker: Taker,
    /// Present until the guard is dropped.
    held: Option<Held<'a, T>>,
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// Returns the mutex that is locked.
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
