//! What the CPUs, the tasks and the groups of a runtime have done, at a moment.
//!
//! Here is what users see. How it is collected: [`collect`]. How it is shown: [`show`]. How it is published
//! through the crate `metrics`: the module `publish`, which is there with the feature `metrics`.
//!
//! The engine counts ([`runyard_engine::account`]); nothing is counted twice. So the numbers of the CPUs are those
//! of the tasks and of [`Snapshot::ended`]. Page: docs/design/watching.md.

mod collect;
#[cfg(feature = "metrics")]
mod publish;
mod show;

pub(crate) use collect::Groups;

use runyard_engine::account::Account;
use runyard_engine::attr::Policy;
use runyard_engine::task::TaskId;
use std::time::Duration;

/// What a runtime has done until a moment: [`Runtime::snapshot`](crate::Runtime::snapshot).
///
/// Each CPU is looked at for itself, a moment after the one before; what is said of one CPU and of the tasks that
/// are there is of the same instant. While nothing runs, the numbers of all CPUs are those of all tasks and of
/// [`Snapshot::ended`] together.
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
    /// For how long the runtime has been there.
    pub uptime: Duration,
    /// Whether all [`Counts`] are counted ([`Builder::statistics`](crate::Builder::statistics)). If not, only
    /// [`Counts::run`] is, and the others are zero.
    pub statistics: bool,
    /// The CPUs, in their order.
    pub cpus: Vec<CpuSnapshot>,
    /// The tasks that are not over, in the order in which they were spawned.
    pub tasks: Vec<TaskSnapshot>,
    /// The groups, in the order of their paths.
    pub groups: Vec<GroupSnapshot>,
    /// What the tasks did that are over.
    pub ended: Counts,
    /// The kernel threads that run tasks, those that wait to do so, and those that tasks keep.
    pub threads: usize,
    /// Those of them that were stopped in the middle of a poll and wait to go on.
    pub stopped_threads: usize,
    /// The task that has waited longest for a CPU, if any waits.
    pub oldest_wait: Option<OldestWait>,
}

/// Numbers that only grow. Of a task: since it was spawned. Of a CPU: of all that ran there. All but the first are
/// zero without [`Builder::statistics`](crate::Builder::statistics).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// CPU time that was charged. What a poll uses while it has lost its CPU to others, as it blocks in the
    /// kernel, is not in it.
    pub run: Duration,
    /// Time of waiting for a CPU, of the waits that are over. On a CPU: of those that ended there.
    pub wait: Duration,
    /// How often a task came to a CPU that had run another before, or none.
    pub switches: u64,
    /// How often a task came to another CPU than the one where it ran last.
    pub migrations: u64,
    /// How often a task lost its CPU without asking for that.
    pub preemptions: Preemptions,
}

/// How often tasks lost their CPU without asking for that, by the cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Preemptions {
    /// A more important task came: a real-time one of a better priority, or any where a SCHED_IDLE one ran.
    pub important: u64,
    /// Its turn was over, and that of a task began that is as important.
    pub turn: u64,
    /// A limit was reached: that of a group, or the one of all real-time tasks.
    pub limit: u64,
    /// It was moved to another CPU: it may not stay on this one, or another one asked for it.
    pub moved: u64,
}

/// A CPU of the runtime.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CpuSnapshot {
    /// Which one, from 0.
    pub cpu: usize,
    /// Who runs there; nobody if it is idle.
    pub running: Option<TaskId>,
    /// How many tasks wait there.
    pub waiting: usize,
    /// What was done there.
    pub counts: Counts,
}

/// A task that is not over.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TaskSnapshot {
    /// Its number.
    pub id: TaskId,
    /// The name that it was given.
    pub name: Option<String>,
    /// The policy that was asked for it last.
    pub policy: Policy,
    /// The path of its group, if it is in one.
    pub group: Option<String>,
    /// What it does at the moment.
    pub state: TaskState,
    /// The CPU where it runs, waits, or did so last.
    pub cpu: usize,
    /// For how long it has waited for a CPU by now, if it does. This is not yet in its counts.
    pub waits: Option<Duration>,
    /// What it did. All is zero while it is [moving](TaskState::Moving).
    pub counts: Counts,
}

/// What a task does at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TaskState {
    /// It has a CPU.
    Running,
    /// It waits for a CPU, to be polled.
    Waiting,
    /// It waits for a CPU in the middle of a poll, on a kernel thread of its own.
    Stopped,
    /// It waits for something else: it awaits.
    Blocked,
    /// Its poll blocks in the kernel, and others have its CPU.
    InKernel,
    /// It waits for a kernel thread: the system refuses some.
    AwaitsThread,
    /// It was on its way from one of these to another, and was not found.
    Moving,
}

/// A task group.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GroupSnapshot {
    /// The names of the groups above it and its own, as [`Group::path`](crate::Group::path) has them.
    pub path: String,
    /// How many tasks are in it and in the groups below.
    pub tasks: usize,
    /// What these did in their lives, and those that ended in it and below. A task that goes to another group
    /// takes its numbers along, but for the CPU time: that is the time which tasks used while they were in the group,
    /// as [`Group::usage`](crate::Group::usage) has it.
    pub counts: Counts,
}

/// The task that has waited longest for a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OldestWait {
    /// Which task.
    pub task: TaskId,
    /// The name that it was given.
    pub name: Option<String>,
    /// Where it waits.
    pub cpu: usize,
    /// For how long by now.
    pub waits: Duration,
}

impl Preemptions {
    /// For whatever cause.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.important + self.turn + self.limit + self.moved
    }
}

impl TaskState {
    /// One word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            TaskState::Running => "running",
            TaskState::Waiting => "waiting",
            TaskState::Stopped => "stopped",
            TaskState::Blocked => "blocked",
            TaskState::InKernel => "in-kernel",
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
