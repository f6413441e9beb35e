//! A set of tasks whose results are taken in the order in which the tasks end.
//!
//! Each task of a set has a [`Notice`], which is the waker of its [`JoinHandle`]. The notice of a task that is over and not
//! yet taken is in the set's queue. The notice of a new task is enqueued at once, because only a poll of its handle
//! registers the waker.
//!
//! Rejected: a loop over all handles in each poll, because its cost is quadratic in their number. Also rejected: a
//! channel to which each task sends its result, because a task that is aborted before its first poll sends none.

use super::handle::AbortHandle;
use super::join::{JoinError, JoinHandle};
use super::notices::{Notice, Queue};
use crate::current::turn;
use crate::deferred::careful::LastCareful;
use crate::os::harmless::harmless;
use crate::os::sync::Arc;
use crate::task::builder::{spawn, spawn_blocking};
use runyard_engine::task::TaskId;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::task::{Context, Poll, Wake, Waker, ready};

/// A set of tasks with results of one type, which are taken in the order in which the tasks end. If the set is dropped,
/// its tasks are aborted.
///
/// Tasks that end at the same moment on two CPUs may come in either order, also if one has seen that the other
/// [is finished](JoinHandle::is_finished).
///
/// ```
/// use runyard::{JoinSet, Runtime, Task};
///
/// Runtime::new().block_on(async {
///     let mut set = JoinSet::new();
///     for n in 0..10 {
///         set.spawn(async move { n });
///     }
///     // A task with attributes of its own.
///     set.add(Task::builder().fifo(5).spawn(async { 10 }));
///     let mut sum = 0;
///     while let Some(result) = set.join_next().await {
///         sum += result.unwrap();
///     }
///     assert_eq!(sum, 55);
/// });
/// ```
pub struct JoinSet<T> {
    members: Vec<Option<Member<T>>>,
    /// The free places of `members`.
    free: Vec<usize>,
    queue: Arc<Queue>,
    careful: LastCareful,
}

struct Member<T> {
    handle: JoinHandle<T>,
    notice: Arc<Notice>,
    waker: Waker,
}

impl<T> JoinSet<T> {
    /// Returns an empty set.
    #[must_use]
    pub fn new() -> JoinSet<T> {
        JoinSet {
            members: Vec::new(),
            free: Vec::new(),
            queue: Arc::default(),
            careful: LastCareful::default(),
        }
    }

    /// Returns the number of tasks whose results have not been taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len() - self.free.len()
    }

    /// Returns whether the set has no tasks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a task that was started elsewhere, for example by [`crate::Task::builder`] with other attributes. If the
    /// set is dropped, this task is aborted as well.
    ///
    /// # Panics
    /// If the result of the task was taken already.
    #[track_caller]
    pub fn add(&mut self, handle: JoinHandle<T>) -> AbortHandle {
        assert!(!handle.is_taken(), "the result of the task was taken already");
        let abort = handle.abort_handle();
        let at = self.free.pop().unwrap_or(self.members.len());
        let notice = Notice::new(at, &self.queue);
        let waker = Waker::from(notice.clone());
        // A waiter for the set polls the new task.
        notice.wake_by_ref();
        let member = Some(Member { handle, notice, waker });
        match self.members.get_mut(at) {
            Some(place) => *place = member,
            None => self.members.push(member),
        }
        abort
    }

    /// Ends every task at its next await. Their results, most of them [cancelled](JoinError::is_cancelled), remain to
    /// be taken.
    pub fn abort_all(&mut self) {
        self.members.iter().flatten().for_each(|member| member.handle.abort());
    }

    /// Empties the set and lets its tasks go on.
    pub fn detach_all(&mut self) {
        self.free.clear();
        drop(std::mem::take(&mut self.members));
        while self.queue.pop().is_some() {}
    }

    /// Waits until one of the tasks is over, and returns its result. Returns `None` if the set is empty. If this future
    /// is dropped while it waits, no result is lost.
    ///
    /// # Errors
    /// If the task panicked or was cancelled.
    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        poll_fn(|cx| self.poll_join_next(cx)).await
    }

    /// Waits for a task as [`JoinSet::join_next`], and also returns the task's number.
    ///
    /// # Errors
    /// If the task panicked or was cancelled. [`JoinError::id`] returns its number.
    pub async fn join_next_with_id(&mut self) -> Option<Result<(TaskId, T), JoinError>> {
        poll_fn(|cx| self.poll_join_next_with_id(cx)).await
    }

    /// Returns the result of a task that is over, if there is one.
    ///
    /// # Errors
    /// If the task panicked or was cancelled.
    pub fn try_join_next(&mut self) -> Option<Result<T, JoinError>> {
        self.take_ready().map(|(_, result)| result)
    }

    /// Returns a result as [`JoinSet::try_join_next`], with the task's number.
    ///
    /// # Errors
    /// If the task panicked or was cancelled. [`JoinError::id`] returns its number.
    pub fn try_join_next_with_id(&mut self) -> Option<Result<(TaskId, T), JoinError>> {
        self.take_ready().map(|(id, result)| result.map(|value| (id, value)))
    }

    /// Polls for a result as [`JoinSet::join_next`]. If no task is over, the waker of `cx` is woken when one is.
    pub fn poll_join_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, JoinError>>> {
        self.poll_ready(cx).map(|ready| ready.map(|(_, result)| result))
    }

    /// Polls for a result as [`JoinSet::poll_join_next`], and also returns the task's number.
    pub fn poll_join_next_with_id(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<(TaskId, T), JoinError>>> {
        let with_id = |(id, result): (_, Result<T, _>)| result.map(|value| (id, value));
        self.poll_ready(cx).map(|ready| ready.map(with_id))
    }

    /// Waits for all tasks, and returns their results in the order in which the tasks ended.
    ///
    /// # Panics
    /// If a task was cancelled. If a task panicked, with the same payload. The other tasks are then aborted.
    pub async fn join_all(mut self) -> Vec<T> {
        let mut results = Vec::with_capacity(self.len());
        while let Some(result) = self.join_next().await {
            results.push(result.unwrap_or_else(|error| match error.try_into_panic() {
                Ok(payload) => resume_unwind(payload),
                Err(cancelled) => panic!("{cancelled}"),
            }));
        }
        results
    }

    /// Aborts all tasks, and waits until they are over. Their results are dropped.
    pub async fn shutdown(&mut self) {
        self.abort_all();
        while let Some(result) = self.join_next().await {
            harmless(|| drop(result));
        }
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Option<(TaskId, Result<T, JoinError>)>> {
        ready!(turn::proceed(cx));
        loop {
            if let Some(ready) = self.take_ready() {
                return Poll::Ready(Some(ready));
            }
            if self.is_empty() {
                return Poll::Ready(None);
            }
            if self.queue.wait(self.careful.of(cx.waker())) {
                return Poll::Pending;
            }
        }
    }

    /// Takes the result of the first task that has one.
    fn take_ready(&mut self) -> Option<(TaskId, Result<T, JoinError>)> {
        while let Some(notice) = self.queue.pop() {
            let at = notice.at();
            let member = self.members.get_mut(at).and_then(Option::as_mut);
            // After the result of a task was taken, a late notice of it may still arrive, and another member may have
            // its place.
            let member = member.filter(|member| Arc::ptr_eq(&member.notice, &notice));
            let Some(Member { handle, waker, .. }) = member else { continue };
            if let Poll::Ready(result) = handle.poll_by(waker) {
                let id = handle.id();
                self.members[at] = None;
                self.free.push(at);
                return Some((id, result));
            }
        }
        None
    }
}

impl<T: Send + 'static> JoinSet<T> {
    /// Starts a task in the runtime of the calling code, as [`spawn`] does, and adds it.
    ///
    /// # Panics
    /// If the calling code belongs to no runtime.
    #[track_caller]
    pub fn spawn<F>(&mut self, future: F) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
    {
        self.add(spawn(future))
    }

    /// Runs a function that computes for long, or blocks, as [`spawn_blocking`] does, and adds its task.
    ///
    /// # Panics
    /// If the calling code belongs to no runtime.
    #[track_caller]
    pub fn spawn_blocking(&mut self, function: impl FnOnce() -> T + Send + 'static) -> AbortHandle {
        self.add(spawn_blocking(function))
    }
}

impl<T> Default for JoinSet<T> {
    fn default() -> JoinSet<T> {
        JoinSet::new()
    }
}

impl<T> fmt::Debug for JoinSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinSet").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Starts a task for each future, and returns the set of them.
impl<T: Send + 'static, F: Future<Output = T> + Send + 'static> FromIterator<F> for JoinSet<T> {
    fn from_iter<I: IntoIterator<Item = F>>(futures: I) -> JoinSet<T> {
        let mut set = JoinSet::new();
        set.extend(futures);
        set
    }
}

/// Starts a task for each future, and adds it.
///
/// ```
/// use runyard::{JoinSet, Runtime};
///
/// let mut results = Runtime::new().block_on(async {
///     let mut set = JoinSet::new();
///     set.extend((0..3).map(|n| async move { 2 * n }));
///     set.join_all().await
/// });
/// results.sort();
/// assert_eq!(results, [0, 2, 4]);
/// ```
impl<T: Send + 'static, F: Future<Output = T> + Send + 'static> Extend<F> for JoinSet<T> {
    fn extend<I: IntoIterator<Item = F>>(&mut self, futures: I) {
        futures.into_iter().for_each(|future| {
            self.spawn(future);
        });
    }
}

impl<T> Drop for JoinSet<T> {
    fn drop(&mut self) {
        self.abort_all();
        self.queue.close();
    }
}
