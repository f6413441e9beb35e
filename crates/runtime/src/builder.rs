//! How tasks are started, and what is asked for them: before they start and later.

use crate::group::Group;
use crate::os;
use crate::primitives::{Arc, Ordering, lock};
use crate::runtime::current;
use crate::shared::{NewTask, Shared};
use crate::task::{self, Asked, Cell, JoinHandle};
use crate::time::nanos;
use crate::worker::Worker;
use runyard_engine::attr::{Attr, GroupId, LatencyNice, Nice, Policy, RtPrio, Slice};
use runyard_engine::task::{Change, TaskId, Update};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// A task, by whoever wants to know or change something about it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Task {
    pub(crate) cell: Arc<Cell>,
}

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
    pub fn current() -> Task {
        let cell = current_cell().expect("this is called in a task");
        Task { cell }
    }

    /// Its number, unique in its runtime: its name in the events of an [`crate::Observer`].
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.cell.id
    }

    /// Its name, if it was given one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.cell.name.as_deref()
    }

    /// The policy that was asked for it last.
    #[must_use]
    pub fn policy(&self) -> Policy {
        task::without_preemption(|| lock(&self.cell.asked).policy)
    }

    /// Gives it another policy, wherever it is: one that runs and is less important now than
    /// somebody who waits loses its CPU.
    pub fn set_policy(&self, policy: Policy) {
        self.cell.ask(|asked| asked.policy = policy);
        self.change(Change { policy: Some(policy), ..Change::default() });
        task::without_preemption(|| self.cell.stands_differently());
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
        self.cell.shared.has_heirs.store(true, Ordering::Release);
    }

    /// The latency nice value that was asked for it last.
    #[must_use]
    pub fn latency_nice(&self) -> LatencyNice {
        task::without_preemption(|| lock(&self.cell.asked).latency_nice)
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
        self.cell.shared.has_heirs.store(true, Ordering::Release);
        self.change(Change { latency_nice: Some(nice), ..Change::default() });
        self.cell.tell_change();
        Ok(())
    }

    /// The slice that was asked for it last, if one was.
    #[must_use]
    pub fn slice(&self) -> Option<Slice> {
        task::without_preemption(|| lock(&self.cell.asked).slice)
    }

    /// Gives it a slice of its own, or takes it back: see [`TaskBuilder::slice`].
    pub fn set_slice(&self, slice: Option<Slice>) {
        self.cell.ask(|asked| asked.slice = slice);
        self.cell.shared.has_heirs.store(true, Ordering::Release);
        self.change(Change { slice: slice.into(), ..Change::default() });
    }

    /// The task group that was asked for it last, if any.
    #[must_use]
    pub fn group(&self) -> Option<Group> {
        task::without_preemption(|| lock(&self.cell.membership).group.clone())
    }

    /// Brings it to another task group, or to none, wherever it is. What it used so far stays with those
    /// that it leaves.
    ///
    /// # Panics
    /// If the group is another runtime's.
    pub fn set_group<'a>(&self, group: impl Into<Option<&'a Group>>) {
        let group = group.into().cloned();
        assert_same_runtime(group.as_ref(), &self.cell.shared);
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
        task::without_preemption(|| self.cell.shared.change(&self.cell.control, change));
    }
}

/// The cell of the task in whose poll the calling code is.
pub(crate) fn current_cell() -> Option<Arc<Cell>> {
    os::local::task(|task| task.cloned())
}

/// The latency nice value itself, if the tasks of the runtime may ask for it.
fn allowed(shared: &Shared, asked: LatencyNice) -> Result<LatencyNice, LatencyNiceError> {
    let lowest = shared.lowest_latency_nice;
    if asked < lowest { Err(LatencyNiceError { asked, lowest }) } else { Ok(asked) }
}

fn assert_same_runtime(group: Option<&Group>, shared: &Arc<Shared>) {
    assert!(
        group.is_none_or(|group| group.is_in(shared)),
        "a task and its group are of one runtime"
    );
}

/// Why a task or a group does not get the latency nice value that was asked for it: the owner of its runtime allows
/// none that is as low.
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
#[derive(Clone, Debug, Default)]
pub struct TaskBuilder {
    policy: Option<Policy>,
    cpus: Option<Vec<usize>>,
    slack: Option<Duration>,
    latency_nice: Option<LatencyNice>,
    slice: Option<Slice>,
    reset_on_fork: bool,
    /// Kept is the group of the task that spawns it.
    group: Update<Group>,
    name: Option<String>,
}

impl TaskBuilder {
    /// Its policy. SCHED_OTHER at nice 0 if not said.
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

    /// The runtime's CPUs on which it may run, counted from 0. While it is polled its thread is bound to the CPUs
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
    /// ([`crate::Builder::features`]); where fair tasks are scheduled by CFS it is kept and has no effect.
    ///
    /// # Panics
    /// If it is not in 0.1..=100 ms.
    #[must_use]
    pub fn slice(mut self, slice: Duration) -> TaskBuilder {
        self.slice = Some(Slice::new(nanos(slice)).expect("a slice is in 0.1..=100 ms"));
        self
    }

    /// Tasks that it spawns inherit nothing of it but its task group and its timer slack: they begin with
    /// latency nice 0 and without a slice of their own, unless they ask for others.
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

    /// Starts the task in the runtime of the calling code.
    ///
    /// # Panics
    /// If the calling code belongs to no runtime, the affinity has no CPU of it, the group is another's,
    /// or the latency nice value is below its lowest ([`crate::Builder::min_latency_nice`]).
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
    pub fn spawn_blocking<T: Send + 'static>(
        self,
        function: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        self.spawn(async move { function() })
    }

    pub(crate) fn spawn_in<F>(self, shared: &Arc<Shared>, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let mut attr = Attr::normal(shared.all().clone());
        attr.policy = self.policy.unwrap_or(attr.policy);
        let spawner = spawner(shared);
        if let Some(asked) = asked_of(spawner.as_deref())
            && !asked.reset_on_fork
        {
            (attr.latency_nice, attr.slice) = (asked.latency_nice, asked.slice);
        }
        let inherited = spawner.as_ref().map_or(Attr::DEFAULT_SLACK, |cell| cell.slack.asked());
        let slack = self.slack.map_or(inherited, nanos);
        if let Some(nice) = self.latency_nice {
            attr.latency_nice = allowed(shared, nice).unwrap_or_else(|error| panic!("{error}"));
        }
        attr.slice = self.slice.or(attr.slice);
        let group = match self.group {
            Update::Keep => group_of(spawner.as_deref()),
            asked => asked.applied_to(None),
        };
        assert_same_runtime(group.as_ref(), shared);
        attr.group = group.as_ref().map_or(GroupId::ROOT, Group::id);
        if (self.latency_nice, self.slice, self.slack) != (None, None, None) {
            shared.has_heirs.store(true, Ordering::Release);
        }
        let has_affinity = self.cpus.is_some();
        if let Some(cpus) = self.cpus {
            attr.affinity = shared.cpus_among(cpus);
        }
        let (reset_on_fork, name, serves) = (self.reset_on_fork, self.name, false);
        let new = NewTask { attr, slack, reset_on_fork, group, has_affinity, name, serves };
        shared.spawn(future, new)
    }
}

/// The task that spawns another now, if it may have anything to inherit and is one of the same runtime:
/// the owner of another allows other values.
fn spawner(shared: &Arc<Shared>) -> Option<Arc<Cell>> {
    let has_heirs = shared.has_heirs.load(Ordering::Acquire);
    has_heirs.then(current_cell).flatten().filter(|cell| Arc::ptr_eq(&cell.shared, shared))
}

/// What was asked for the task that spawns another now.
fn asked_of(spawner: Option<&Cell>) -> Option<Asked> {
    spawner.map(|cell| task::without_preemption(|| *lock(&cell.asked)))
}

/// The group of a task that is spawned now, unless it is told another.
fn group_of(spawner: Option<&Cell>) -> Option<Group> {
    spawner.and_then(|cell| task::without_preemption(|| lock(&cell.membership).group.clone()))
}

/// Starts a task in the runtime of the calling code.
///
/// # Panics
/// If the calling code belongs to no runtime.
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    Task::builder().spawn(future)
}

/// Runs a function that computes for long, or blocks: a task with one long poll.
///
/// # Panics
/// If the calling code belongs to no runtime.
pub fn spawn_blocking<T: Send + 'static>(
    function: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    Task::builder().spawn_blocking(function)
}

/// Runs a function that is going to block, in a task: the CPU goes to others at once, and the runtime sends
/// no signal that could interrupt what the function waits for; only one that was on its way when the function
/// began may still come. Without this the runtime finds out that the thread
/// blocks after one to two milliseconds, and waits that the kernel does not restart after a signal
/// (`nanosleep`, `poll`, `epoll_wait`, any with a timeout) may end early with `EINTR`.
pub fn blocking<R>(function: impl FnOnce() -> R) -> R {
    os::local::section(function, Worker::blocking)
}

/// Runs a section in which the task is not stopped: a few microseconds under a lock that others
/// spin or block on, say. Who wanted its CPU meanwhile gets it at the end. Short sections only:
/// nobody, however important, runs on this CPU before that.
pub fn without_preemption<R>(section: impl FnOnce() -> R) -> R {
    task::without_preemption(section)
}

/// Wakes others, in a task that goes on for long afterwards without an await: they are brought to
/// an idle CPU, or preempt the task, now. Else a fair task that is woken by another waits for the
/// end of the waker's poll, if that is over within 200 us, which spares most of them a signal and a
/// switch.
pub fn wake_at_once<R>(wakes: impl FnOnce() -> R) -> R {
    os::local::section(wakes, Worker::wake_at_once)
}

/// Lets others run.
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
