//! A handle of a runtime, which spawns tasks in it from any thread.
//!
//! A handle does not keep its runtime alive; only the [`Runtime`](crate::Runtime) does. A handle remains safe to use
//! after the runtime has ended. A task that it then spawns is refused: the future is dropped at once, and its
//! [`JoinHandle`] is ready and reports a cancelled task. `Registry::enroll` describes how a spawn synchronizes with the
//! end of a runtime.
//!
//! Invariant: no method of a handle waits for a runtime that has ended.

use crate::current::runtime::{self, Entered, TryCurrentError};
use crate::group::GroupBuilder;
use crate::os::sync::Arc;
use crate::runtime::block_on;
use crate::shared::Shared;
use crate::task::builder::{SpawnError, TaskBuilder};
use crate::task::{AbortHandle, JoinHandle, JoinSet, Task};
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;

/// A handle with which code spawns tasks in a runtime. It is cheap to clone, and may go to any thread.
///
/// A handle does not keep its runtime alive. It may still be used when the runtime has [ended](crate::Runtime#the-end).
/// Tasks that it spawns are then cancelled before they begin, and no call waits or panics.
///
/// ```
/// use runyard::{Handle, Runtime};
///
/// let runtime = Runtime::new();
/// let handle: Handle = runtime.handle().clone();
/// let elsewhere = std::thread::spawn(move || handle.block_on(handle.spawn(async { 7 })));
/// assert_eq!(elsewhere.join().unwrap().unwrap(), 7);
/// ```
#[derive(Clone)]
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
}

impl Handle {
    /// Returns a handle of the runtime that the calling code belongs to. That is the runtime of the task or of
    /// `block_on`, or the one that was [entered](Handle::enter) last.
    ///
    /// # Panics
    /// If the calling code belongs to no runtime.
    ///
    /// ```
    /// use runyard::{Handle, Runtime, spawn};
    ///
    /// let seven = Runtime::new().block_on(async {
    ///     let handle = spawn(async { Handle::current() }).await.unwrap();
    ///     handle.spawn(async { 7 }).await.unwrap()
    /// });
    /// assert_eq!(seven, 7);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn current() -> Handle {
        Handle { shared: runtime::current() }
    }

    /// Returns a handle of the runtime that the calling code belongs to, as [`Handle::current`] does, without a panic.
    ///
    /// # Errors
    /// If the calling code belongs to no runtime.
    ///
    /// ```
    /// use runyard::{Handle, Runtime};
    ///
    /// assert!(Handle::try_current().unwrap_err().is_missing_context());
    /// assert!(Runtime::new().block_on(async { Handle::try_current() }).is_ok());
    /// ```
    pub fn try_current() -> Result<Handle, TryCurrentError> {
        runtime::try_current().map(|shared| Handle { shared })
    }

    /// Makes this the runtime of the calling thread until the guard is dropped. `spawn`, `time::sleep` and
    /// [`Handle::current`] then use it. Guards nest, and may be dropped in any order: the newest remaining one counts.
    ///
    /// A guard cannot go to another thread, so a future that holds one across an `await` cannot be spawned.
    ///
    /// ```
    /// use runyard::{Runtime, spawn};
    ///
    /// let runtime = Runtime::new();
    /// let task = {
    ///     let _guard = runtime.handle().enter();
    ///     spawn(async { 7 })
    /// };
    /// assert_eq!(runtime.block_on(task).unwrap(), 7);
    /// ```
    ///
    /// ```compile_fail,E0277
    /// # let runtime = runyard::Runtime::new();
    /// runtime.spawn(async {
    ///     let _guard = runyard::Handle::current().enter();
    ///     runyard::yield_now().await;
    /// });
    /// ```
    pub fn enter(&self) -> EnterGuard<'_> {
        EnterGuard { _entered: Entered::enter(&self.shared), handle: PhantomData }
    }

    /// Starts a task with the default policy. [`TaskBuilder::spawn_on`] starts one with other attributes.
    ///
    /// If the runtime is ending or has ended, the future is dropped at once, and the [`JoinHandle`] reports a cancelled
    /// task.
    ///
    /// ```
    /// use runyard::Runtime;
    ///
    /// let runtime = Runtime::new();
    /// let handle = runtime.handle().clone();
    /// assert_eq!(runtime.block_on(handle.spawn(async { 7 })).unwrap(), 7);
    /// drop(runtime);
    /// let refused = handle.block_on(handle.spawn(async { 7 }));
    /// assert!(refused.is_err_and(|error| error.is_cancelled()));
    /// ```
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.shared.spawn_heir(future)
    }

    /// Runs a function that computes for long, or blocks, as a task with one long poll.
    ///
    /// If the runtime is ending or has ended, the function is dropped without being called.
    ///
    /// ```
    /// use runyard::Runtime;
    ///
    /// let runtime = Runtime::new();
    /// let file = runtime.handle().spawn_blocking(|| std::fs::read("/proc/self/status"));
    /// assert!(runtime.block_on(file).unwrap().is_ok());
    /// ```
    #[track_caller]
    pub fn spawn_blocking<T: Send + 'static>(
        &self,
        function: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        Task::builder().spawn_blocking_on(function, self)
    }

    /// Returns a builder for a task group without a parent group, as [`Runtime::group`](crate::Runtime::group).
    ///
    /// ```
    /// use runyard::{GroupError, Handle, Limit, Task};
    ///
    /// #[runyard::main]
    /// async fn main() -> Result<(), GroupError> {
    ///     let limit = Limit::percent_of_machine(20.0);
    ///     let trial = Handle::current().group("trial").limit(limit).create()?;
    ///     assert_eq!(Task::builder().group(&trial).spawn(async { 7 }).await.unwrap(), 7);
    ///     Ok(())
    /// }
    /// ```
    #[must_use]
    pub fn group(&self, name: impl Into<String>) -> GroupBuilder {
        GroupBuilder::new(&self.shared, name)
    }

    /// Runs a future on the calling thread until it is ready, as [`Runtime::block_on`](crate::Runtime::block_on). If
    /// the runtime has ended, or ends meanwhile, the future goes on: tasks that it spawns are cancelled, and its timers
    /// still expire.
    ///
    /// ```
    /// use runyard::{Runtime, time};
    /// use std::time::Duration;
    ///
    /// let handle = Runtime::new().handle().clone();
    /// // The runtime has ended.
    /// handle.block_on(time::sleep(Duration::from_millis(1)));
    /// ```
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        block_on(&self.shared, future)
    }

    /// Returns the number of the runtime, which no other runtime of the process has.
    ///
    /// ```
    /// use runyard::{Handle, Runtime};
    ///
    /// let [one, other] = [Runtime::new(), Runtime::new()];
    /// assert_ne!(one.handle().id(), other.handle().id());
    /// assert_eq!(one.block_on(async { Handle::current().id() }), one.handle().id());
    /// ```
    #[must_use]
    pub fn id(&self) -> RuntimeId {
        RuntimeId(self.shared.id)
    }

    /// Returns the name of the runtime, if its [builder](crate::Builder::name) gave it one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.shared.name.as_deref()
    }

    /// Returns the state of the CPUs, the tasks and the groups, as [`Runtime::snapshot`](crate::Runtime::snapshot).
    #[must_use]
    pub fn snapshot(&self) -> crate::Snapshot {
        self.shared.snapshot()
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, name) = (self.shared.id, &self.shared.name);
        f.debug_struct("Handle").field("id", &id).field("name", name).finish_non_exhaustive()
    }
}

/// The number of a runtime, which no other runtime of the process has ([`Handle::id`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuntimeId(u64);

impl fmt::Display for RuntimeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A guard: until it is dropped, the calling thread belongs to a runtime. See [`Handle::enter`].
///
/// If a guard is forgotten (`std::mem::forget`), its thread stays in that runtime for as long as the thread lives.
#[must_use = "the runtime is left when the guard is dropped"]
#[derive(Debug)]
pub struct EnterGuard<'a> {
    _entered: Entered,
    handle: PhantomData<&'a Handle>,
}

impl TaskBuilder {
    /// Starts the task in the runtime of `handle`, regardless of the runtime that the calling code belongs to.
    ///
    /// # Panics
    /// If the runtime has none of the task's CPUs, the group belongs to another runtime, or the latency nice value is
    /// below the lowest of the runtime. [`TaskBuilder::try_spawn_on`] returns these as errors.
    ///
    /// ```
    /// use runyard::{Runtime, Task};
    ///
    /// let runtime = Runtime::new();
    /// let handle = runtime.handle().clone();
    /// let alarm = std::thread::spawn(move || {
    ///     Task::builder().fifo(50).name("alarm").spawn_on(async { Task::current().policy() }, &handle)
    /// });
    /// let policy = runtime.block_on(alarm.join().unwrap()).unwrap();
    /// assert_eq!(policy.to_string(), "SCHED_FIFO");
    /// ```
    #[track_caller]
    pub fn spawn_on<F>(self, future: F, handle: &Handle) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_in(&handle.shared, future)
    }

    /// Runs a function as a task with one long poll, as [`TaskBuilder::spawn_blocking`], in the runtime of `handle`.
    ///
    /// # Panics
    /// As [`TaskBuilder::spawn_on`].
    ///
    /// ```
    /// use runyard::{Runtime, Task};
    ///
    /// let runtime = Runtime::new();
    /// let sum = Task::builder().nice(10).spawn_blocking_on(|| (1..=10).sum::<u32>(), runtime.handle());
    /// assert_eq!(runtime.block_on(sum).unwrap(), 55);
    /// ```
    #[track_caller]
    pub fn spawn_blocking_on<T: Send + 'static>(
        self,
        function: impl FnOnce() -> T + Send + 'static,
        handle: &Handle,
    ) -> JoinHandle<T> {
        let (builder, future) = self.for_function(function);
        builder.spawn_on(future, handle)
    }

    /// Starts the task as [`TaskBuilder::spawn_on`], and returns an error where that panics. This is for attributes
    /// that may be wrong, such as those of a configuration file. [`Handle::try_current`] returns the runtime of the
    /// calling code.
    ///
    /// # Errors
    /// The reason why the runtime does not accept such a task. The future is then dropped. A runtime that has ended is
    /// no error: the task is cancelled, as it may be at any later moment.
    ///
    /// ```
    /// use runyard::{Runtime, SpawnError, Task};
    ///
    /// let runtime = Runtime::builder().workers(1).build();
    /// let builder = Task::builder().affinity([7]);
    /// let refused = builder.try_spawn_on(async {}, runtime.handle());
    /// assert!(matches!(refused, Err(SpawnError::Affinity { .. })));
    /// ```
    #[track_caller]
    pub fn try_spawn_on<F>(
        self,
        future: F,
        handle: &Handle,
    ) -> Result<JoinHandle<F::Output>, SpawnError>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.try_spawn_in(&handle.shared, future)
    }
}

impl<T: Send + 'static> JoinSet<T> {
    /// Starts a task as [`JoinSet::spawn`], in the runtime of `handle`.
    ///
    /// ```
    /// use runyard::{JoinSet, Runtime};
    ///
    /// let runtime = Runtime::new();
    /// let mut set = JoinSet::new();
    /// set.spawn_on(async { 7 }, runtime.handle());
    /// assert_eq!(runtime.block_on(set.join_all()), [7]);
    /// ```
    pub fn spawn_on<F>(&mut self, future: F, handle: &Handle) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
    {
        self.add(handle.spawn(future))
    }

    /// Runs a function as [`JoinSet::spawn_blocking`], in the runtime of `handle`.
    ///
    /// ```
    /// use runyard::{JoinSet, Runtime};
    ///
    /// let runtime = Runtime::new();
    /// let mut set = JoinSet::new();
    /// set.spawn_blocking_on(|| 7, runtime.handle());
    /// assert_eq!(runtime.block_on(set.join_all()), [7]);
    /// ```
    pub fn spawn_blocking_on(
        &mut self,
        function: impl FnOnce() -> T + Send + 'static,
        handle: &Handle,
    ) -> AbortHandle {
        self.add(handle.spawn_blocking(function))
    }
}
