//! A task, by whoever wants to know or change something about it.
//!
//! Three types have parts of that. [`Task`] is a name only, for what concerns the task that runs or that is about to
//! start. A [`TaskHandle`] may ask and change everything. An [`AbortHandle`] may end the task and do nothing else,
//! so it can be given to others. (Rejected: one type for all three, called `Task`. Engineers know that name as
//! that of a handle which waits for the result, and which cancels the task when it is dropped.)

use super::cell::Cell;
use crate::group::Group;
use crate::os::sync::{Arc, lock};
use crate::task::builder::{LatencyNiceError, ONE_RUNTIME, TaskBuilder, allowed, is_same_runtime};
use crate::time::nanos;
use crate::worker::current::without_preemption;
use runyard_engine::attr::{Cookie, LatencyNice, Policy, Slice};
use runyard_engine::cpu::CpuId;
use runyard_engine::task::{Change, TaskId};
use std::time::Duration;

/// What concerns the task that runs, or one that is about to start. No value of it exists.
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
    /// A task to be started, with a policy of its own.
    #[must_use]
    pub fn builder() -> TaskBuilder {
        TaskBuilder::default()
    }

    /// The task that the calling code belongs to.
    ///
    /// # Panics
    /// If it belongs to none.
    #[must_use]
    pub fn current() -> TaskHandle {
        let cell = current_cell().expect("this is called in a task");
        TaskHandle { cell }
    }
}

/// A task, by whoever wants to know or change something about it. Cheap to clone. It outlives the task, and keeps
/// nothing running.
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
    /// Its number, unique in its runtime: its name in the events of an [`crate::Observer`].
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.cell.id
    }

    /// Its name, if it was given one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.cell.name()
    }

    /// The policy that was asked for it last.
    #[must_use]
    pub fn policy(&self) -> Policy {
        without_preemption(|| lock(&self.cell.asked).policy)
    }

    /// Gives it another policy, wherever it is: one that runs and is less important now than
    /// somebody who waits loses its CPU.
    pub fn set_policy(&self, policy: Policy) {
        self.cell.ask(|asked| asked.policy = policy);
        self.change(Change { policy: Some(policy), ..Change::default() });
        without_preemption(|| self.cell.stands_differently());
        self.cell.tell_change();
    }

    /// Lets it run on these of the runtime's CPUs, counted from 0; it leaves another at once.
    ///
    /// While it is polled its thread is bound to the CPUs of the machine behind these, unless they are all:
    /// threads and programs that it starts inherit that. In a poll that goes on meanwhile the thread is bound
    /// at once if the task asks for itself, else when it was stopped the next time.
    ///
    /// # Panics
    /// If the runtime has none of them.
    pub fn set_affinity(&self, cpus: impl IntoIterator<Item = usize>) {
        let affinity = self.cell.shared.cpus_among(cpus);
        self.cell.note_affinity(&affinity);
        self.change(Change { affinity: Some(affinity), ..Change::default() });
    }

    /// Those of the runtime's CPUs on which it may run, counted from 0.
    #[must_use]
    pub fn affinity(&self) -> Vec<usize> {
        let shared = &self.cell.shared;
        let own = without_preemption(|| self.cell.affinity());
        own.as_ref().unwrap_or(shared.all()).iter().map(CpuId::index).collect()
    }

    /// What it used so far. It is the engine's account, so it is as exact as what is charged to a task: what the task
    /// computed while the runtime took it for blocked is not in it.
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

    /// How much later than asked its timers may expire: none while it is real-time.
    #[must_use]
    pub fn slack(&self) -> Duration {
        Duration::from_nanos(self.cell.slack.of_timers().0)
    }

    /// How much later than asked its timers may expire, from the next one that it arms on, and those of
    /// the tasks that it spawns from now on. A real-time task has no slack, but keeps this for them and
    /// for when it is fair.
    pub fn set_slack(&self, slack: Duration) {
        self.cell.slack.ask(nanos(slack));
        self.cell.note_heritage();
    }

    /// The latency nice value that was asked for it last.
    #[must_use]
    pub fn latency_nice(&self) -> LatencyNice {
        without_preemption(|| lock(&self.cell.asked).latency_nice)
    }

    /// Gives it another latency nice value, wherever it is: a lower one makes it wait less beside other
    /// fair tasks, without getting more.
    ///
    /// # Errors
    /// If the value is below the lowest of the runtime ([`crate::Builder::min_latency_nice`]); the
    /// task keeps the one that it has.
    pub fn set_latency_nice(&self, nice: LatencyNice) -> Result<(), LatencyNiceError> {
        let nice = allowed(&self.cell.shared, nice)?;
        self.cell.ask(|asked| asked.latency_nice = nice);
        self.change(Change { latency_nice: Some(nice), ..Change::default() });
        self.cell.tell_change();
        Ok(())
    }

    /// The slice that was asked for it last, if one was.
    #[must_use]
    pub fn slice(&self) -> Option<Slice> {
        without_preemption(|| lock(&self.cell.asked).slice)
    }

    /// Gives it a slice of its own, or takes it back: see [`TaskBuilder::slice`].
    pub fn set_slice(&self, slice: Option<Slice>) {
        self.cell.ask(|asked| asked.slice = slice);
        self.change(Change { slice: slice.into(), ..Change::default() });
    }

    /// The [cookie](crate::Builder::cookies) of its own that was asked for it last, if one was.
    #[must_use]
    pub fn cookie(&self) -> Option<Cookie> {
        self.cell.cookie()
    }

    /// Gives it a cookie of its own, or takes it back, wherever it is. One that runs beside a task with another cookie from
    /// then on loses its CPU, or the other does.
    pub fn set_cookie(&self, cookie: impl Into<Option<Cookie>>) {
        let cookie = cookie.into();
        self.cell.note_cookie(cookie);
        self.change(Change { cookie: cookie.into(), ..Change::default() });
    }

    /// The task group that was asked for it last, if any.
    #[must_use]
    pub fn group(&self) -> Option<Group> {
        self.cell.group()
    }

    /// Brings it to another task group, or to none, wherever it is. What it used so far stays with those
    /// that it leaves.
    ///
    /// # Panics
    /// If the group is another runtime's.
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

    /// Whether the task is over: then its result is there.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.cell.is_over()
    }

    fn change(&self, change: Change) {
        without_preemption(|| self.cell.shared.change(&self.cell, change));
    }
}

/// The cell of the task in whose poll the calling code is.
pub(crate) fn current_cell() -> Option<Arc<Cell>> {
    crate::task::current::task(|task| task.cloned())
}

/// What a task used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskUsage {
    /// CPU time.
    pub used: Duration,
}

/// A handle that can end a task and do nothing else. Cheap to clone; it outlives the task.
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

    /// As [`TaskHandle::is_finished`].
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.task.is_finished()
    }

    /// As [`TaskHandle::id`].
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.task.id()
    }
}
