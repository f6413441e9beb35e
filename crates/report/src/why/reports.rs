//! The worst wake-ups of a task in a report.

use super::cause::Cause;
use serde::{Deserialize, Serialize};

/// One of the longest waits of a task. The `ran` spans and `others_ns` sum to `latency_ns`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorstReport {
    /// The instant from which the task could have run: its timer was to expire, its waker called, or it was started.
    pub at_ns: u64,
    /// The time from then to its first instruction.
    pub latency_ns: u64,
    /// The CPU on which the wake-up put it.
    pub cpu: usize,
    /// The cause of the largest part of the wait; `None` if the host cannot know it.
    pub cause: Option<Cause>,
    /// The tasks that executed meanwhile on the CPU where it waited: those with the most time, the longest first.
    pub ran: Vec<RanReport>,
    /// The rest of the latency: other tasks, the scheduler's own work, idle time, the time before the wake-up, and time
    /// that is forgotten.
    pub others_ns: u64,
}

/// A task that executed while another one waited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RanReport {
    /// Its name in the scenario; with a number if it has several instances.
    pub task: String,
    /// The time that it executed.
    pub ns: u64,
}

/// A wait from its beginning to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The same wait in the report.
    pub worst: WorstReport,
    /// Its parts, in order; together they are the whole wait.
    pub parts: Vec<PartReport>,
}

/// A part of a wait without a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartReport {
    /// Its beginning.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
    /// The CPU on which the task waited; `None` before it was woken.
    pub cpu: Option<usize>,
    /// The activity of that CPU; `None` before the task was woken, and where it is forgotten.
    pub doing: Option<DoingReport>,
    /// The task that executed there.
    pub task: Option<String>,
    /// The cause of the wait.
    pub cause: Option<Cause>,
    /// The task group without budget, if that is the cause.
    pub group: Option<String>,
    /// A CPU that could have run the task, if that is the cause.
    pub free_cpu: Option<usize>,
}

/// The activity of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DoingReport {
    /// None.
    Idle,
    /// None, since its core runs another cookie.
    ForcedIdle,
    /// The scheduler's work.
    Scheduler,
    /// It executes a task.
    Task,
}
