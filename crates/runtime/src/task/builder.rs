//! How tasks are started, and what is asked for them before they start.

use crate::group::Group;
use crate::os::here;
use crate::os::sync::Arc;
use crate::runtime::current;
use crate::shared::{NewTask, Shared};
use crate::task::{Heritage, JoinHandle, Task};
use crate::time::nanos;
use crate::worker::Worker;
use runyard_engine::attr::{Attr, Cookie, GroupId, LatencyNice, Nice, Policy, RtPrio, Slice};
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::task::Update;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

pub(crate) const ONE_RUNTIME: &str = "a task and its group are of one runtime";

/// The latency nice value itself, if the tasks of the runtime may ask for it.
pub(crate) fn allowed(
    shared: &Shared,
    asked: LatencyNice,
) -> Result<LatencyNice, LatencyNiceError> {
    let lowest = shared.lowest_latency_nice;
    if asked < lowest { Err(LatencyNiceError { asked, lowest }) } else { Ok(asked) }
}

pub(crate) fn is_same_runtime(group: Option<&Group>, shared: &Arc<Shared>) -> bool {
    group.is_none_or(|group| group.is_in(shared))
}

/// Why a task or a group does not get the latency nice value that was asked for it: the owner of its runtime allows
/// none that is as low.
///
/// ```
/// use runyard::{LatencyNice, Runtime, Task, spawn};
///
/// Runtime::builder().min_latency_nice(-5).build().block_on(async {
///     let asks = async { Task::current().set_latency_nice(LatencyNice::MIN) };
///     let error = spawn(asks).await.unwrap().unwrap_err();
///     assert_eq!(error.to_string(), "latency nice -20 is below -5, the lowest that this runtime allows");
/// });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyNiceError {
    pub(crate) asked: LatencyNice,
    pub(crate) lowest: LatencyNice,
}

impl fmt::Display for LatencyNiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (asked, lowest) = (self.asked.get(), self.lowest.get());
        write!(f, "latency nice {asked} is below {lowest}, the lowest that this runtime allows")
    }
}

impl std::error::Error for LatencyNiceError {}

/// What is asked for a task that is about to start.
///
/// What is not said the task has from the task that spawns it: its policy and nice value, latency nice, slice, timer
/// slack, CPUs, task group and cookie, as on Linux. See [`TaskBuilder::reset_on_fork`] for tasks that are not to pass on
/// all of that. A task that is spawned outside of every task begins with the defaults.
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
    /// Kept is the group of the task that spawns it.
    group: Update<Group>,
    name: Option<String>,
    /// Whether it is a blocking function.
    blocks: bool,
}

impl TaskBuilder {
    /// Its policy. That of the task that spawns it if not said, else SCHED_OTHER at nice 0.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> TaskBuilder {
        self.policy = Some(policy);
        self
    }

    /// Real-time, first come first served, at a priority of 1..=99.
    ///
    /// # Panics
    /// If the priority is not one.
    #[must_use]
    pub fn fifo(self, priority: u8) -> TaskBuilder {
        let prio = RtPrio::new(priority.into()).expect("a real-time priority is in 1..=99");
        self.policy(Policy::Fifo(prio))
    }

    /// Fair, at a nice value of -20..=19.
    ///
    /// # Panics
    /// If the nice value is not one.
    #[must_use]
    pub fn nice(mut self, nice: i8) -> TaskBuilder {
        let nice = Nice::new(nice.into()).expect("a nice value is in -20..=19");
        self.policy = Some(match self.policy {
            Some(Policy::Batch(_)) => Policy::Batch(nice),
            _ => Policy::Normal(nice),
        });
        self
    }

    /// The runtime's CPUs on which it may run, counted from 0. Those of the task that spawns it if not said, else
    /// all. While it is polled its thread is bound to the CPUs
    /// of the machine behind these, unless they are all: threads and programs that it starts inherit that.
    #[must_use]
    pub fn affinity(mut self, cpus: impl IntoIterator<Item = usize>) -> TaskBuilder {
        self.cpus = Some(cpus.into_iter().collect());
        self
    }

    /// How much later than asked its timers may expire. That of the task that spawns it if not said, else
    /// 50 us. Real-time tasks have no slack, whatever they pass on.
    #[must_use]
    pub fn slack(mut self, slack: Duration) -> TaskBuilder {
        self.slack = Some(slack);
        self
    }

    /// A latency nice value of -20..=19: the lower it is, the less the task waits beside other fair
    /// tasks, and it gets no more for it. That of the task that spawns it if not said, else 0.
    ///
    /// # Panics
    /// If the value is not one.
    #[must_use]
    pub fn latency_nice(mut self, nice: i8) -> TaskBuilder {
        let nice = LatencyNice::new(nice.into()).expect("a latency nice value is in -20..=19");
        self.latency_nice = Some(nice);
        self
    }

    /// How long the task wants to run at a time, while it is fair: 0.1 to 100 ms. That of the task that
    /// spawns it if not said, else none of its own. It is EEVDF that looks at slices
    /// ([`crate::runtime::experiments`]); where fair tasks are scheduled by CFS it is kept and has no effect.
    ///
    /// # Panics
    /// If it is not in 0.1..=100 ms.
    #[must_use]
    pub fn slice(mut self, slice: Duration) -> TaskBuilder {
        self.slice = Some(Slice::new(nanos(slice)).expect("a slice is in 0.1..=100 ms"));
        self
    }

    /// Its own [cookie](crate::Builder::cookies), or none: then it has that of its task group. Its own is that of the task that
    /// spawns it if not said. Where cookies have no effect ([`crate::Runtime::keeps_cookies`]) it is kept all the same.
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

    /// Tasks that it spawns do not inherit what makes it more important than others, unless they ask for it: a
    /// real-time task spawns tasks of SCHED_OTHER at nice 0, a task with a nice value below 0 spawns tasks at nice 0,
    /// and all of them begin with latency nice 0 and without a slice of their own. The CPUs, the timer slack, the task
    /// group, the cookie, and a policy that is no advantage are inherited all the same. This is `SCHED_RESET_ON_FORK`
    /// of sched(7). It is not inherited itself.
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

    /// The task group that it is in, or none. That of the task that spawns it if not said.
    #[must_use]
    pub fn group<'a>(mut self, group: impl Into<Option<&'a Group>>) -> TaskBuilder {
        self.group = group.into().cloned().into();
        self
    }

    /// A name, for people.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> TaskBuilder {
        self.name = Some(name.into());
        self
    }

    /// With a number after its name, or after `unnamed` if it has none.
    #[cfg(feature = "rayon")]
    pub(crate) fn numbered(self, unnamed: &str, nth: usize) -> TaskBuilder {
        let name = format!("{}-{nth}", self.name.as_deref().unwrap_or(unnamed));
        self.name(name)
    }

    /// Starts the task in the runtime of the calling code.
    ///
    /// # Panics
    /// If the calling code belongs to no runtime, the affinity has no CPU of it, the group is another's,
    /// or the latency nice value is below its lowest ([`crate::Builder::min_latency_nice`]).
    #[track_caller]
    pub fn spawn<F>(self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_in(&current(), future)
    }

    /// Starts a function that computes for long, or blocks: a task with one long poll.
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

    /// For a task with one long poll, that of `function`. Where tasks cooperate, nothing could take the CPU from it, and
    /// it has none while it runs.
    pub(crate) fn for_function<T>(
        mut self,
        function: impl FnOnce() -> T,
    ) -> (TaskBuilder, impl Future<Output = T>) {
        self.blocks = true;
        (self, async move { crate::worker::current::section(function, Worker::function) })
    }

    #[track_caller]
    pub(crate) fn spawn_in<F>(self, shared: &Arc<Shared>, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.try_spawn_in(shared, future).unwrap_or_else(|error| panic!("{error}"))
    }

    /// As [`TaskBuilder::spawn_on`] and [`TaskBuilder::try_spawn_on`].
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
        let inherited = Heritage::here(shared);
        let asked = self.latency_nice.map(|nice| allowed(shared, nice));
        let asked = asked.transpose().map_err(SpawnError::LatencyNice)?;
        let group = self.group.applied_to(inherited.group);
        if !is_same_runtime(group.as_ref(), shared) {
            return Err(SpawnError::Group);
        }
        let affinity = match self.cpus {
            Some(cpus) => Some(
                shared
                    .try_cpus_among(&cpus)
                    .ok_or(SpawnError::Affinity { asked: cpus, cpus: shared.slots.len() })?,
            ),
            None => inherited.affinity,
        };
        let has_affinity = affinity.is_some();
        let slack = self.slack.map_or(inherited.slack, nanos);
        let attr = Attr {
            policy: self.policy.unwrap_or(inherited.policy),
            latency_nice: asked.unwrap_or(inherited.latency_nice),
            slice: self.slice.or(inherited.slice),
            cookie: self.cookie.applied_to(inherited.cookie),
            group: group.as_ref().map_or(GroupId::ROOT, Group::id),
            ..Attr::normal(affinity.unwrap_or_else(|| shared.all().clone()))
        };
        let TaskBuilder { reset_on_fork, name, blocks, .. } = self;
        let serves = false;
        let new = NewTask { attr, slack, reset_on_fork, group, has_affinity, name, serves, blocks };
        Ok(shared.spawn(future, new))
    }
}

/// Why a runtime does not take a task: see [`TaskBuilder::try_spawn_on`].
///
/// ```
/// use runyard::{Runtime, Task};
///
/// let runtime = Runtime::builder().workers(1).build();
/// let refused = Task::builder().affinity([7]).try_spawn_on(async {}, runtime.handle());
/// assert_eq!(refused.unwrap_err().to_string(), "the runtime has 1 CPUs, from 0 on, and none of [7]");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpawnError {
    /// The runtime has none of the CPUs that the task asks for.
    Affinity {
        /// Those.
        asked: Vec<usize>,
        /// How many CPUs the runtime has: they count from 0.
        cpus: usize,
    },
    /// The latency nice value is below the lowest of the runtime.
    LatencyNice(LatencyNiceError),
    /// The task group is another runtime's.
    Group,
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpawnError::Affinity { asked, cpus } => {
                write!(f, "the runtime has {cpus} CPUs, from 0 on, and none of {asked:?}")
            }
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

impl Shared {
    /// Those of `cpus` that this runtime has.
    ///
    /// # Panics
    /// If it has none of them.
    pub(crate) fn cpus_among(&self, cpus: impl IntoIterator<Item = usize>) -> CpuSet {
        let wanted: Vec<_> = cpus.into_iter().collect();
        let here = self.try_cpus_among(&wanted);
        here.unwrap_or_else(|| {
            let all = self.machine.all();
            panic!("the runtime has CPUs {all}, and none of {wanted:?}")
        })
    }

    /// The same, or none if it has none of them.
    pub(crate) fn try_cpus_among(&self, wanted: &[usize]) -> Option<CpuSet> {
        let has = |&&cpu: &&usize| cpu < self.slots.len();
        let here: CpuSet = wanted.iter().filter(has).map(|&cpu| CpuId::at(cpu)).collect();
        (!here.is_empty()).then_some(here)
    }
}

/// Starts a task in the runtime of the calling code. It inherits what the calling task was asked for
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
    Task::builder().spawn(future)
}

/// Runs a function that computes for long, or blocks: a task with one long poll.
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

/// Runs a function that is going to block, in a task: the CPU goes to others at once, and the runtime sends
/// no signal that could interrupt what the function waits for. Without this the runtime finds out that the thread
/// blocks after one to two milliseconds, and waits that the kernel does not restart after a signal
/// (`nanosleep`, `poll`, `epoll_wait`, any with a timeout) may end early with `EINTR`.
///
/// A function that computes all the same is stopped after a millisecond or so of CPU time. It waits for its turn then,
/// and goes on like any task: by its policy, and within the limit of its group. Where it waits after that, it may be
/// interrupted up to three times before the runtime leaves it alone again; so may any wait, once, by a signal that was
/// on its way as the function began.
///
/// ```
/// use runyard::{Runtime, blocking, spawn};
///
/// let status = Runtime::new().block_on(async {
///     spawn(async { blocking(|| std::process::Command::new("true").status()) }).await.unwrap()
/// });
/// assert!(status.unwrap().success());
/// ```
pub fn blocking<R>(function: impl FnOnce() -> R) -> R {
    crate::worker::current::section(function, Worker::blocking)
}

/// Runs a section in which the task is not stopped: a few microseconds under a lock that others
/// spin or block on, say. Who wanted its CPU meanwhile gets it at the end. Short sections only:
/// nobody, however important, runs on this CPU before that.
///
/// ```
/// use runyard::{Runtime, spawn, without_preemption};
/// use std::sync::Mutex;
///
/// static COUNT: Mutex<u32> = Mutex::new(0);
/// Runtime::new().block_on(async {
///     spawn(async { without_preemption(|| *COUNT.lock().unwrap() += 1) }).await.unwrap();
/// });
/// assert_eq!(*COUNT.lock().unwrap(), 1);
/// ```
pub fn without_preemption<R>(section: impl FnOnce() -> R) -> R {
    crate::worker::current::without_preemption(|| here::without_preemption(section))
}

/// Wakes others, in a task that goes on for long afterwards without an await: they are brought to
/// an idle CPU, or preempt the task, now. Else a fair task that is woken by another waits for the
/// end of the waker's poll, if that is over within 200 us, which spares most of them a signal and a
/// switch.
///
/// ```
/// use runyard::{Runtime, spawn, wake_at_once};
///
/// Runtime::new().block_on(async {
///     let waits = spawn(std::future::pending::<()>());
///     spawn(async move { wake_at_once(|| waits.abort()) }).await.unwrap();
/// });
/// ```
pub fn wake_at_once<R>(wakes: impl FnOnce() -> R) -> R {
    crate::worker::current::section(|| here::outside_of_poll(wakes), Worker::wake_at_once)
}

/// Lets others run.
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

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
