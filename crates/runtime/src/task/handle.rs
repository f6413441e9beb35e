//! Handles that inspect or change a task.
//!
//! Three types cover this. [`Task`] has no values, and holds the functions that concern the running task or a task
//! about to start. A [`TaskHandle`] may inspect and change everything. An [`AbortHandle`] may only end the task, so it
//! can be given to other code. Rejected: one type called `Task` for all three. In other libraries that name is a handle
//! that waits for the result, and cancels the task when it is dropped.

use super::cell::Cell;
use crate::crew::host_cpus::{none_of, numbers};
use crate::group::latency_nice::{LatencyNiceError, allowed};
use crate::group::{Group, ONE_RUNTIME, is_same_runtime};
use crate::os::above::without_preemption;
use crate::os::sync::{Arc, lock};
use runyard_engine::attr::{Cookie, LatencyNice, Policy, Slice};
use runyard_engine::cpu::CpuId;
use runyard_engine::task::{Change, TaskId};
use runyard_engine::time::Nanos;
use std::time::Duration;

/// Functions that concern the running task, or a task about to start. The type has no values.
///
/// ```
/// use runyard::{Runtime, Task};
///
/// Runtime::new().block_on(async {
///     let handle = Task::builder().nice(5).name("report").spawn(async {
///         Task::current().name().map(str::to_owned)
///     });
///     assert_eq!(handle.await.unwrap().as_deref(), Some("report"));
/// });
/// ```
#[derive(Debug)]
pub enum Task {}

impl Task {
    /// Returns a handle of the task that the calling code belongs to. Only in a runtime
    /// [on the calling thread](crate::Builder::new_current_thread) the future of `block_on` is one.
    ///
    /// # Panics
    /// If it belongs to none.
    #[must_use]
    #[track_caller]
    pub fn current() -> TaskHandle {
        Task::try_current().expect("Task::current was called outside of every task")
    }

    /// Does the same as [`Task::current`], and returns `None` outside of every task. It is for code that may run there, such
    /// as a destructor, a logger or a thread of the program's.
    ///
    /// ```
    /// use runyard::{Runtime, Task, spawn};
    ///
    /// let id = || Task::try_current().map(|task| task.id());
    /// assert_eq!(id(), None);
    /// let task = Runtime::new().block_on(async move { spawn(async move { id() }).await });
    /// assert!(task.unwrap().is_some());
    /// ```
    #[must_use]
    pub fn try_current() -> Option<TaskHandle> {
        crate::current::task::current().map(|cell| TaskHandle { cell })
    }
}

/// A handle that inspects and changes a task. It is cheap to clone, outlives the task, and keeps nothing running.
///
/// ```
/// use runyard::{Runtime, Task, time};
/// use std::time::Duration;
///
/// let runtime = Runtime::new();
/// let sleeper = runtime.spawn(time::sleep(Duration::from_secs(1_000)));
/// let task = sleeper.task().clone();
/// assert!(!task.is_finished());
/// task.abort();
/// assert!(runtime.block_on(sleeper).unwrap_err().is_cancelled());
/// assert!(task.is_finished());
/// ```
#[derive(Clone, Debug)]
pub struct TaskHandle {
    pub(crate) cell: Arc<Cell>,
}

impl TaskHandle {
    /// Returns the task's number, which is unique in its runtime and identifies it in the events of an
    /// [`crate::Observer`].
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.cell.id
    }

    /// Returns the task's name, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.cell.name()
    }

    /// Returns the policy that was last asked for the task.
    #[must_use]
    pub fn policy(&self) -> Policy {
        without_preemption(|| lock(&self.cell.asked).policy)
    }

    /// Gives the task another policy, in any state of the task. If the task runs, and a waiting task is now more
    /// important, it loses its CPU.
    pub fn set_policy(&self, policy: Policy) {
        self.cell.ask(|asked| asked.policy = policy);
        self.change(Change { policy: Some(policy), ..Change::default() });
        without_preemption(|| self.cell.stands_differently());
        self.cell.tell_change();
    }

    /// Restricts the task to these of the runtime's CPUs, counted from 0. The task leaves any other CPU at once.
    ///
    /// While the task is polled, its thread is bound to the machine's CPUs behind these, unless they are all of them.
    /// Threads and programs that the task starts inherit that binding. If the call comes from the task's own poll, the
    /// thread is bound at once. If a poll is in progress elsewhere, the thread is bound when it has next been stopped.
    ///
    /// The affinity acts within the CPUs of the process, which `taskset` or a cpuset may change. While the process has none
    /// of these CPUs, the task runs on all that the process has, as the kernel does it; the runtime says so once.
    ///
    /// # Panics
    /// If the runtime has none of these CPUs.
    #[track_caller]
    pub fn set_affinity(&self, cpus: impl IntoIterator<Item = usize>) {
        let (asked, crew) = (numbers(cpus), self.cell.shared.scheduler.crew());
        let Some(affinity) = crew.cpus().among(&asked) else {
            panic!("{}", none_of(crew.slots().len(), &asked))
        };
        self.cell.note_affinity(&affinity);
        self.change(Change { affinity: Some(affinity), ..Change::default() });
    }

    /// Returns the CPUs of the runtime on which the task may run, counted from 0.
    #[must_use]
    pub fn affinity(&self) -> Vec<usize> {
        let shared = &self.cell.shared;
        let own = without_preemption(|| self.cell.affinity());
        own.as_ref()
            .unwrap_or(shared.scheduler.all(&shared.registry))
            .iter()
            .map(CpuId::index)
            .collect()
    }

    /// Returns the CPU time that the task has used so far. This is the engine's account, and as exact as the engine's
    /// charges. Time that the task computed while the runtime treated it as blocked is not included.
    ///
    /// ```
    /// use runyard::{Runtime, Task};
    /// use std::time::{Duration, Instant};
    ///
    /// let runtime = Runtime::new();
    /// let computes = runtime.spawn(async {
    ///     let began = Instant::now();
    ///     while began.elapsed() < Duration::from_millis(5) {}
    /// });
    /// let task = computes.task().clone();
    /// runtime.block_on(computes).unwrap();
    /// assert!(task.usage().used > Duration::ZERO);
    /// ```
    #[must_use]
    pub fn usage(&self) -> TaskUsage {
        TaskUsage { used: Duration::from_nanos(self.cell.used().0) }
    }

    /// Returns the timer slack: how much later than requested the task's timers may expire. It is zero while the task
    /// is real-time.
    #[must_use]
    pub fn slack(&self) -> Duration {
        Duration::from_nanos(self.cell.slack.of_timers().0)
    }

    /// Sets the timer slack: how much later than requested the task's timers may expire. It applies to the timers that
    /// the task arms from now on, and to the tasks that it spawns from now on. A real-time task has no slack, but keeps
    /// the value for these tasks and for when it is fair.
    pub fn set_slack(&self, slack: Duration) {
        self.cell.slack.ask(Nanos::from(slack));
        self.cell.note_heritage();
    }

    /// Returns the latency nice value that was last asked for the task.
    #[must_use]
    pub fn latency_nice(&self) -> LatencyNice {
        without_preemption(|| lock(&self.cell.asked).latency_nice)
    }

    /// Gives the task another latency nice value, in any state of the task. With a lower value it waits less beside
    /// other fair tasks, but gets no more CPU time.
    ///
    /// # Errors
    /// If the value is below the lowest of the runtime ([`crate::Builder::min_latency_nice`]). The task then keeps its
    /// value.
    pub fn set_latency_nice(&self, nice: LatencyNice) -> Result<(), LatencyNiceError> {
        let nice = allowed(self.cell.shared.bounds.lowest_latency_nice, nice)?;
        self.cell.ask(|asked| asked.latency_nice = nice);
        self.change(Change { latency_nice: Some(nice), ..Change::default() });
        self.cell.tell_change();
        Ok(())
    }

    /// Returns the slice that was last asked for the task, if any.
    #[must_use]
    pub fn slice(&self) -> Option<Slice> {
        without_preemption(|| lock(&self.cell.asked).slice)
    }

    /// Gives the task its own slice, or removes it. See [`TaskBuilder::slice`](crate::TaskBuilder::slice).
    pub fn set_slice(&self, slice: Option<Slice>) {
        self.cell.ask(|asked| asked.slice = slice);
        self.change(Change { slice: slice.into(), ..Change::default() });
    }

    /// Returns the own [cookie](crate::Builder::cookies) that was last asked for the task, if any.
    #[must_use]
    pub fn cookie(&self) -> Option<Cookie> {
        self.cell.cookie()
    }

    /// Gives the task its own cookie, or removes it, in any state of the task. If it now runs beside a task with
    /// another cookie, one of the two loses its CPU.
    pub fn set_cookie(&self, cookie: impl Into<Option<Cookie>>) {
        let cookie = cookie.into();
        self.cell.note_cookie(cookie);
        self.change(Change { cookie: cookie.into(), ..Change::default() });
    }

    /// Returns the task group that was last asked for the task, if any.
    #[must_use]
    pub fn group(&self) -> Option<Group> {
        self.cell.group()
    }

    /// Moves the task to another task group, or to none, in any state of the task. The CPU time that it has used so far
    /// stays with its old groups.
    ///
    /// # Panics
    /// If the group belongs to another runtime.
    #[track_caller]
    pub fn set_group<'a>(&self, group: impl Into<Option<&'a Group>>) {
        let group = group.into().cloned();
        assert!(is_same_runtime(group.as_ref(), &self.cell.shared), "{ONE_RUNTIME}");
        self.cell.move_to_group(group);
        self.cell.tell_change();
    }

    /// Ends the task at its next await, unless it is over by then.
    pub fn abort(&self) {
        self.cell.abort();
    }

    /// Returns whether the task is over. Its result is then available.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.cell.is_over()
    }

    fn change(&self, change: Change) {
        without_preemption(|| self.cell.shared.scheduler.change(&self.cell, change));
    }
}

/// The resources that a task has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskUsage {
    /// CPU time charged to the task.
    pub used: Duration,
}

/// A handle that can only end a task. It is cheap to clone, and outlives the task.
///
/// ```
/// use runyard::{Runtime, spawn};
///
/// Runtime::new().block_on(async {
///     let endless = spawn(std::future::pending::<()>());
///     let end = endless.abort_handle();
///     end.abort();
///     assert!(endless.await.unwrap_err().is_cancelled());
///     assert!(end.is_finished());
/// });
/// ```
#[derive(Clone, Debug)]
pub struct AbortHandle {
    task: TaskHandle,
}

impl AbortHandle {
    pub(crate) fn new(task: TaskHandle) -> AbortHandle {
        AbortHandle { task }
    }

    /// Ends the task at its next await, unless it is over by then.
    pub fn abort(&self) {
        self.task.abort();
    }

    /// Returns whether the task is over, as [`TaskHandle::is_finished`].
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.task.is_finished()
    }

    /// Returns the task's number, as [`TaskHandle::id`].
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.task.id()
    }
}
