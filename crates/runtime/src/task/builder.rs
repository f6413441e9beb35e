//! The start of tasks, and the attributes with which they start.

use crate::crew::host_cpus::{none_of, numbers};
use crate::current::runtime::{current, on_worker};
use crate::current::turn;
use crate::group::latency_nice::{LatencyNiceError, allowed};
use crate::group::{Group, ONE_RUNTIME, is_same_runtime};
use crate::os::sync::Arc;
use crate::shared::Shared;
use crate::single;
use crate::task::{Cell, Heritage, JoinHandle, Kind, NewTask, Task};
use runyard_engine::attr::{Attr, Cookie, GroupId, LatencyNice, Nice, Policy, RtPrio, Slice};
use runyard_engine::task::Update;
use runyard_engine::time::Nanos;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// The attributes of a task that is about to start.
///
/// As on Linux, a task inherits each attribute that is not set from the task that spawns it: the policy and nice value,
/// latency nice, slice, timer slack, CPUs, task group and cookie. [`TaskBuilder::reset_on_fork`] limits this for the
/// tasks that a task spawns. A task that is spawned outside of every task begins with the defaults.
///
/// ```
/// use runyard::{Runtime, Task};
/// use std::time::Duration;
///
/// let runtime = Runtime::new();
/// let tenant = runtime.group("tenant").create().unwrap();
/// let report = Task::builder()
///     .name("report")
///     .nice(10)
///     .group(&tenant)
///     .slack(Duration::from_millis(5))
///     .spawn_on(async { 7 }, runtime.handle());
/// assert_eq!(runtime.block_on(report).unwrap(), 7);
/// ```
#[derive(Clone, Debug, Default)]
pub struct TaskBuilder {
    policy: Option<Policy>,
    cpus: Option<Vec<usize>>,
    slack: Option<Duration>,
    latency_nice: Option<LatencyNice>,
    slice: Option<Slice>,
    cookie: Update<Cookie>,
    reset_on_fork: bool,
    /// By default, the group of the spawning task.
    group: Update<Group>,
    name: Option<String>,
    kind: Kind,
}

impl Task {
    /// Returns a builder for a task with its own policy and other attributes.
    #[must_use]
    pub fn builder() -> TaskBuilder {
        TaskBuilder::default()
    }
}

impl TaskBuilder {
    /// Sets the policy. The default is the policy of the spawning task, or SCHED_OTHER at nice 0 without one.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> TaskBuilder {
        self.policy = Some(policy);
        self
    }

    /// Sets the policy SCHED_FIFO (real-time, first come first served) with a priority of 1..=99.
    ///
    /// # Panics
    /// If the priority is not in 1..=99.
    #[must_use]
    #[track_caller]
    pub fn fifo(self, priority: u8) -> TaskBuilder {
        let prio = RtPrio::new(priority.into()).expect("a real-time priority must be in 1..=99");
        self.policy(Policy::Fifo(prio))
    }

    /// Sets the policy SCHED_OTHER (fair) with a nice value of -20..=19.
    ///
    /// # Panics
    /// If the nice value is not in -20..=19.
    #[must_use]
    #[track_caller]
    pub fn nice(mut self, nice: i8) -> TaskBuilder {
        let nice = Nice::new(nice.into()).expect("a nice value must be in -20..=19");
        self.policy = Some(match self.policy {
            Some(Policy::Batch(_)) => Policy::Batch(nice),
            _ => Policy::Normal(nice),
        });
        self
    }

    /// Sets the CPUs of the runtime on which the task may run, counted from 0. The default is the CPUs of the spawning
    /// task, or all CPUs without one. While the task is polled, its thread is bound to the machine's CPUs behind these,
    /// unless they are all of them. Threads and programs that the task starts inherit that binding. Of more than
    /// 65,536 numbers the first count: no machine has more CPUs.
    ///
    /// The affinity acts within the CPUs of the process ([`TaskHandle::set_affinity`](crate::TaskHandle::set_affinity)).
    #[must_use]
    pub fn affinity(mut self, cpus: impl IntoIterator<Item = usize>) -> TaskBuilder {
        self.cpus = Some(numbers(cpus));
        self
    }

    /// Sets the timer slack: how much later than requested the timers of the task may expire. The default is the slack
    /// of the spawning task, or 50 us without one. Timers of a real-time task have no slack.
    #[must_use]
    pub fn slack(mut self, slack: Duration) -> TaskBuilder {
        self.slack = Some(slack);
        self
    }

    /// Sets the latency nice value, in -20..=19. With a lower value, the task waits less beside other fair tasks, but
    /// gets no more CPU time. The default is the value of the spawning task, or 0 without one.
    ///
    /// # Panics
    /// If the value is not in -20..=19.
    #[must_use]
    #[track_caller]
    pub fn latency_nice(mut self, nice: i8) -> TaskBuilder {
        let nice = LatencyNice::new(nice.into()).expect("a latency nice value must be in -20..=19");
        self.latency_nice = Some(nice);
        self
    }

    /// Sets how long the task wants to run at a time while it is fair, in 0.1..=100 ms. The default is the slice of the
    /// spawning task, or none without one. Only EEVDF uses slices ([`crate::runtime::experiments`]). Under CFS the
    /// value is stored, but has no effect.
    ///
    /// # Panics
    /// If the slice is not in 0.1..=100 ms.
    #[must_use]
    #[track_caller]
    pub fn slice(mut self, slice: Duration) -> TaskBuilder {
        self.slice = Some(Slice::new(Nanos::from(slice)).expect("a slice must be in 0.1..=100 ms"));
        self
    }

    /// Sets the task's own [cookie](crate::Builder::cookies). A task without its own cookie has that of its task group.
    /// The default is the own cookie of the spawning task. If cookies have no effect
    /// ([`crate::Runtime::keeps_cookies`]), the value is stored nevertheless.
    ///
    /// ```
    /// use runyard::{Cookie, Runtime, Task, spawn};
    ///
    /// let cookie = || async { Task::current().cookie() };
    /// Runtime::new().block_on(async {
    ///     let tenant = Task::builder().cookie(Cookie::new(7)).spawn(async move {
    ///         (spawn(cookie()).await.unwrap(), Task::builder().cookie(None).spawn(cookie()).await.unwrap())
    ///     });
    ///     assert_eq!(tenant.await.unwrap(), (Cookie::new(7), None));
    /// });
    /// ```
    #[must_use]
    pub fn cookie(mut self, cookie: impl Into<Option<Cookie>>) -> TaskBuilder {
        self.cookie = cookie.into().into();
        self
    }

    /// Sets whether tasks that this task spawns start without its scheduling advantages, unless they ask for them. This
    /// is `SCHED_RESET_ON_FORK` of sched(7), and is itself not inherited.
    ///
    /// A real-time task then spawns tasks of SCHED_OTHER at nice 0, and a task with a nice value below 0 spawns tasks
    /// at nice 0. All of them begin with latency nice 0 and without their own slice. The CPUs, the timer slack, the
    /// task group, the cookie, and a policy that is no advantage are still inherited.
    ///
    /// ```
    /// use runyard::{Nice, Policy, Runtime, Task, spawn};
    ///
    /// let policy = || async { Task::current().policy() };
    /// Runtime::new().block_on(async {
    ///     let control = Task::builder().fifo(50).reset_on_fork().spawn(async move {
    ///         spawn(policy()).await.unwrap()
    ///     });
    ///     assert_eq!(control.await.unwrap(), Policy::Normal(Nice::default()));
    ///     let report = Task::builder().policy(Policy::Idle).spawn(async move {
    ///         spawn(policy()).await.unwrap()
    ///     });
    ///     assert_eq!(report.await.unwrap(), Policy::Idle);
    /// });
    /// ```
    #[must_use]
    pub fn reset_on_fork(mut self) -> TaskBuilder {
        self.reset_on_fork = true;
        self
    }

    /// Sets the task group of the task, or none. The default is the group of the spawning task.
    #[must_use]
    pub fn group<'a>(mut self, group: impl Into<Option<&'a Group>>) -> TaskBuilder {
        self.group = group.into().cloned().into();
        self
    }

    /// Sets the name of the task, for reports and traces.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> TaskBuilder {
        self.name = Some(name.into());
        self
    }

    /// Appends a number to the name, or to `unnamed` if there is none.
    #[cfg(feature = "rayon")]
    pub(crate) fn numbered(self, unnamed: &str, nth: usize) -> TaskBuilder {
        let name = format!("{}-{nth}", self.name.as_deref().unwrap_or(unnamed));
        self.name(name)
    }

    /// Starts the task in the runtime of the calling code.
    ///
    /// # Panics
    /// If the calling code belongs to no runtime, the runtime has none of the task's CPUs, the group belongs to another
    /// runtime, or the latency nice value is below the lowest of the runtime ([`crate::Builder::min_latency_nice`]).
    #[track_caller]
    pub fn spawn<F>(self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_in(&current(), future)
    }

    /// Runs a function that computes for long, or blocks, as a task with one long poll.
    ///
    /// # Panics
    /// As [`TaskBuilder::spawn`].
    #[track_caller]
    pub fn spawn_blocking<T: Send + 'static>(
        self,
        function: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let (builder, future) = self.for_function(function);
        builder.spawn(future)
    }

    /// Returns the builder and the future of a task with one long poll, that of `function`. Without preemption such a
    /// task has no CPU while it runs, because the runtime could not take the CPU from it. Where all tasks run on one
    /// thread, the task waits for a helper thread that calls the function.
    pub(crate) fn for_function<T: Send + 'static>(
        mut self,
        function: impl FnOnce() -> T + Send + 'static,
    ) -> (TaskBuilder, impl Future<Output = T> + Send + 'static) {
        self.kind = Kind::Function;
        (self, async move {
            let function = move || turn::without(function);
            let on_one_thread = |cell: &&Arc<Cell>| cell.shared.scheduler.single().is_some();
            let shared = crate::current::task::task(|task| {
                task.filter(on_one_thread).map(|cell| cell.shared.clone())
            });
            if let Some(shared) = shared {
                return single::call(shared, function).await;
            }
            // As any poll, if polls can be stopped, otherwise as a section that blocks.
            crate::current::worker::section(function, |worker, function| {
                match worker.thread.is_preempted() {
                    true => worker.poll.clock().at_length(function),
                    false => worker.blocking(function),
                }
            })
        })
    }

    #[track_caller]
    pub(crate) fn spawn_in<F>(self, shared: &Arc<Shared>, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        match self.try_spawn_in(shared, future) {
            Ok(task) => task,
            Err(error) => panic!("{error}"),
        }
    }

    /// Starts the task in `shared`, for [`TaskBuilder::spawn_on`] and [`TaskBuilder::try_spawn_on`].
    #[track_caller]
    pub(crate) fn try_spawn_in<F>(
        self,
        shared: &Arc<Shared>,
        future: F,
    ) -> Result<JoinHandle<F::Output>, SpawnError>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let inherited = Heritage::here(shared.number);
        let asked = self.latency_nice.map(|nice| allowed(shared.bounds.lowest_latency_nice, nice));
        let asked = asked.transpose().map_err(SpawnError::LatencyNice)?;
        let group = self.group.applied_to(inherited.group);
        if !is_same_runtime(group.as_ref(), shared) {
            return Err(SpawnError::Group);
        }
        let affinity = match self.cpus {
            Some(cpus) => Some(shared.scheduler.crew().cpus().among(&cpus).ok_or_else(|| {
                SpawnError::Affinity { asked: cpus, cpus: shared.scheduler.crew().slots().len() }
            })?),
            None => inherited.affinity,
        };
        let has_affinity = affinity.is_some();
        let slack = self.slack.map_or(inherited.slack, Nanos::from);
        let attr = Attr {
            policy: self.policy.unwrap_or(inherited.policy),
            latency_nice: asked.unwrap_or(inherited.latency_nice),
            slice: self.slice.or(inherited.slice),
            cookie: self.cookie.applied_to(inherited.cookie),
            group: group.as_ref().map_or(GroupId::ROOT, Group::id),
            ..Attr::normal(
                affinity.unwrap_or_else(|| shared.scheduler.all(&shared.registry).clone()),
            )
        };
        let TaskBuilder { reset_on_fork, name, kind, .. } = self;
        let new = NewTask { attr, slack, reset_on_fork, group, has_affinity, name, kind };
        Ok(shared.spawn(future, new))
    }
}

/// The reason why a runtime does not accept a task; see [`TaskBuilder::try_spawn_on`].
///
/// ```
/// use runyard::{Runtime, Task};
///
/// let runtime = Runtime::builder().workers(1).build();
/// let refused = Task::builder().affinity([7]).try_spawn_on(async {}, runtime.handle());
/// assert_eq!(refused.unwrap_err().to_string(), "the runtime has 1 CPUs, numbered from 0, and none of the CPUs [7]");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpawnError {
    /// The runtime has none of the CPUs that the task asks for.
    Affinity {
        /// The CPUs that the task asks for.
        asked: Vec<usize>,
        /// Number of CPUs of the runtime, which count from 0.
        cpus: usize,
    },
    /// The latency nice value is below the lowest of the runtime.
    LatencyNice(LatencyNiceError),
    /// The task group belongs to another runtime.
    Group,
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpawnError::Affinity { asked, cpus } => f.write_str(&none_of(*cpus, asked)),
            SpawnError::LatencyNice(error) => error.fmt(f),
            SpawnError::Group => f.write_str(ONE_RUNTIME),
        }
    }
}

impl std::error::Error for SpawnError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SpawnError::LatencyNice(error) => Some(error),
            SpawnError::Affinity { .. } | SpawnError::Group => None,
        }
    }
}

/// Starts a task in the runtime of the calling code. The task inherits the attributes of the calling task
/// ([`TaskBuilder`]).
///
/// ```
/// use runyard::{Runtime, spawn};
///
/// let seven = Runtime::new().block_on(async {
///     let task = spawn(async { 7 });
///     task.await.unwrap()
/// });
/// assert_eq!(seven, 7);
/// ```
///
/// # Panics
/// If the calling code belongs to no runtime.
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let mut waiting = Some(future);
    let spawned = on_worker(|shared| shared.spawn_plain(&mut waiting));
    match (spawned, waiting) {
        (Some(task), _) => task,
        (None, Some(future)) => current().spawn_heir(future),
        (None, None) => unreachable!("a future that was not spawned waits"),
    }
}

/// Runs a function that computes for long, or blocks, as a task with one long poll.
///
/// ```
/// use runyard::{Runtime, spawn_blocking};
///
/// let sum = Runtime::new().block_on(async {
///     spawn_blocking(|| (0..1_000_000_u64).sum::<u64>()).await.unwrap()
/// });
/// assert_eq!(sum, 499_999_500_000);
/// ```
///
/// # Panics
/// If the calling code belongs to no runtime.
#[track_caller]
pub fn spawn_blocking<T: Send + 'static>(
    function: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    Task::builder().spawn_blocking(function)
}

/// Lets other tasks run before the calling task goes on.
///
/// ```
/// use runyard::{Runtime, spawn, yield_now};
///
/// Runtime::builder().workers(1).build().block_on(async {
///     let steps = spawn(async {
///         for _ in 0..3 {
///             yield_now().await;
///         }
///     });
///     steps.await.unwrap();
/// });
/// ```
pub async fn yield_now() {
    Yield(false).await;
}

struct Yield(bool);

impl Future for Yield {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
