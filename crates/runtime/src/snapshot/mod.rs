//! Snapshots: the state of the CPUs, the tasks and the groups of a runtime at one moment, with their totals.
//!
//! This file has the types that users see. [`collect`] collects a snapshot, and [`show`] prints it. The module
//! `publish`, with the feature `metrics`, publishes it through the crate `metrics`.
//!
//! The engine keeps all counters ([`runyard_engine::account`]), and each event is counted once. So the numbers of the
//! CPUs are the sum of those of the tasks and [`Snapshot::ended`]. The design is in docs/design/watching.md.

mod collect;
#[cfg(feature = "metrics")]
mod publish;
mod show;

pub(crate) use collect::Groups;

use crate::group::quota::CpuQuota;
use runyard_engine::account::Account;
use runyard_engine::attr::Policy;
use runyard_engine::task::TaskId;
use std::time::Duration;

/// The state of a runtime at one moment, and its totals so far: the result of
/// [`Runtime::snapshot`](crate::Runtime::snapshot).
///
/// The CPUs are read one after the other. The data of one CPU and of the tasks on it are of the same instant. While no
/// task runs, the numbers of all CPUs are the sum of those of all tasks and [`Snapshot::ended`].
///
/// Its `Display` is a table for people, with a line for each CPU, group and task. Programs read the fields.
///
/// ```
/// use runyard::{Runtime, Task};
///
/// let runtime = Runtime::builder().workers(1).statistics(true).build();
/// runtime.block_on(async {
///     Task::builder().name("sums").spawn(async { (0..1_000_u64).sum::<u64>() }).await.unwrap()
/// });
/// let snapshot = runtime.snapshot();
/// let switches: u64 = snapshot.cpus.iter().map(|cpu| cpu.counts.switches).sum();
/// assert!(switches >= 1);
/// assert!(snapshot.to_string().starts_with("runyard"));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// Time since the start of the runtime.
    pub uptime: Duration,
    /// Whether all [`Counts`] are kept ([`Builder::statistics`](crate::Builder::statistics)). If not, only
    /// [`Counts::run`] is, and the others are zero.
    pub statistics: bool,
    /// The limit of CPU time of the process, if it has one.
    pub quota: Option<CpuQuota>,
    /// The CPUs, in their order.
    pub cpus: Vec<CpuSnapshot>,
    /// The tasks that are not over, in the order in which they were spawned.
    pub tasks: Vec<TaskSnapshot>,
    /// The groups, in the order of their paths.
    pub groups: Vec<GroupSnapshot>,
    /// Totals of the tasks that are over.
    pub ended: Counts,
    /// Number of kernel threads that run tasks, that wait to do so, and that tasks keep.
    pub threads: usize,
    /// Number of these threads that were stopped in the middle of a poll and wait to go on.
    pub stopped_threads: usize,
    /// The task that has waited longest for a CPU, if any waits.
    pub oldest_wait: Option<OldestWait>,
    /// The kernel threads that cannot be asked for their CPU, because a task has blocked the runtime's signal there.
    pub deaf: Vec<DeafThread>,
}

/// Counters that only grow. Those of a task count since it was spawned, and those of a CPU count all tasks that ran
/// there. All but the first are zero without [`Builder::statistics`](crate::Builder::statistics).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// CPU time charged. It omits the time that a poll uses after it has lost its CPU to others because it blocks in
    /// the kernel.
    pub run: Duration,
    /// Time of waiting for a CPU, in waits that are over. For a CPU: in waits that ended there.
    pub wait: Duration,
    /// Number of times that a task got a CPU which had run another task before, or none.
    pub switches: u64,
    /// Number of times that a task got another CPU than the one on which it ran last.
    pub migrations: u64,
    /// Number of times that a task lost its CPU involuntarily.
    pub preemptions: Preemptions,
}

/// Number of times that tasks lost their CPU involuntarily, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Preemptions {
    /// A more important task became runnable: a real-time task of a higher priority, or any other task while a
    /// SCHED_IDLE task ran.
    pub important: u64,
    /// Its turn was over, and an equally important task had its turn.
    pub turn: u64,
    /// A limit was reached: that of a group, or the one of all real-time tasks.
    pub limit: u64,
    /// It was moved to another CPU, because it may not stay on this one or another CPU asked for it.
    pub moved: u64,
}

/// A CPU of the runtime.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CpuSnapshot {
    /// The number of the CPU, counted from 0.
    pub cpu: usize,
    /// Whether it runs tasks. If not, the process has no CPU of the machine for it, or no whole CPU in its quota
    /// ([`Builder::workers`](crate::Builder::workers)).
    pub online: bool,
    /// The task that runs there; none if the CPU is idle.
    pub running: Option<TaskId>,
    /// Number of tasks that wait there.
    pub waiting: usize,
    /// Totals of the tasks while they were there.
    pub counts: Counts,
}

/// A task that is not over.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TaskSnapshot {
    /// Its number.
    pub id: TaskId,
    /// The task's name, if it has one.
    pub name: Option<String>,
    /// The policy that was last asked for the task.
    pub policy: Policy,
    /// The path of its group, if it is in one.
    pub group: Option<String>,
    /// The state of the task.
    pub state: TaskState,
    /// The CPU on which it runs or waits, or did so last.
    pub cpu: usize,
    /// Time for which it has waited for a CPU so far, if it waits. Its counts do not include this yet.
    pub waits: Option<Duration>,
    /// Its totals. All are zero while it is [moving](TaskState::Moving).
    pub counts: Counts,
}

/// The state of a task at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TaskState {
    /// It has a CPU.
    Running,
    /// It waits for a CPU, to be polled.
    Waiting,
    /// It waits for a CPU in the middle of a poll, on a kernel thread of its own.
    Stopped,
    /// It awaits something other than a CPU.
    Blocked,
    /// Its poll blocks in the kernel, and other tasks have its CPU.
    InKernel,
    /// Its poll runs on a thread that [cannot be asked](DeafThread) for its CPU, and other tasks have that.
    Deaf,
    /// It waits for a kernel thread, because the system refuses more.
    AwaitsThread,
    /// It changed from one of these states to another, and was not found.
    Moving,
}

/// A task group.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GroupSnapshot {
    /// The names of the groups above it and its own, as [`Group::path`](crate::Group::path) returns them.
    pub path: String,
    /// Number of tasks in it and in the groups below.
    pub tasks: usize,
    /// Totals of these tasks since they were spawned, and of those that ended in the group and below. A task that moves
    /// to another group takes its totals along, except the CPU time. That is the time which tasks used while they were
    /// in the group, as in [`Group::usage`](crate::Group::usage).
    pub counts: Counts,
}

/// A kernel thread that cannot be asked for its CPU until its poll is over.
///
/// Other tasks have its CPU of the runtime, and the kernel gives it one of its own. Its group is charged for that.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeafThread {
    /// The kernel's number of the thread.
    pub thread: i32,
    /// The task that it polls.
    pub task: TaskId,
    /// The task's name, if it has one.
    pub name: Option<String>,
}

/// The task that has waited longest for a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OldestWait {
    /// The number of the task.
    pub task: TaskId,
    /// The task's name, if it has one.
    pub name: Option<String>,
    /// The CPU on which it waits.
    pub cpu: usize,
    /// Time for which it has waited so far.
    pub waits: Duration,
}

impl Preemptions {
    /// Returns the sum over all causes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.important + self.turn + self.limit + self.moved
    }
}

impl TaskState {
    /// Returns one word for the state.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            TaskState::Running => "running",
            TaskState::Waiting => "waiting",
            TaskState::Stopped => "stopped",
            TaskState::Blocked => "blocked",
            TaskState::InKernel => "in-kernel",
            TaskState::Deaf => "deaf",
            TaskState::AwaitsThread => "awaits-thread",
            TaskState::Moving => "moving",
        }
    }
}

impl From<Account> for Counts {
    fn from(account: Account) -> Counts {
        let Account { run, wait, switches, migrations, preemptions } = account;
        let runyard_engine::account::Preemptions { important, turn, limit, moved } = preemptions;
        Counts {
            run: Duration::from_nanos(run.0),
            wait: Duration::from_nanos(wait.0),
            switches,
            migrations,
            preemptions: Preemptions { important, turn, limit, moved },
        }
    }
}
