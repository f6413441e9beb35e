//! What a report says of a task's worst wake-ups.

use serde::{Deserialize, Serialize};

/// One of the wake-ups of a task that took longest. The `ran` spans and `others_ns` sum to `latency_ns`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorstReport {
    /// Since when the task could have run: when its timer was to expire, its waker called, or it was started.
    pub at_ns: u64,
    /// From then to its first instruction.
    pub latency_ns: u64,
    /// The CPU on which it was put when it was woken.
    pub cpu: usize,
    /// What it waited for most of the time; `None` if the host cannot know it.
    pub cause: Option<Cause>,
    /// Who executed meanwhile on the CPU where it waited: those that did for longest, and first the longest of them.
    pub ran: Vec<RanReport>,
    /// The rest of the latency: other tasks, the scheduler's own work, idle time, what was before the task was woken, and
    /// what was too long ago to be known.
    pub others_ns: u64,
}

/// A task that executed while another one waited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RanReport {
    /// Its name in the scenario; with a number if it has several instances.
    pub task: String,
    /// How long.
    pub ns: u64,
}

/// What a woken task waited for. Where several are the case at a moment, the one that is listed first counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The slack of its timer: it was not woken yet.
    TimerSlack,
    /// The budget of its task group, of a group above that, or of all real-time tasks was used up on its CPU.
    Throttled,
    /// Its CPU was forced idle, or ran what comes after it in the order, as their core ran another cookie.
    CoreCookie,
    /// The scheduler's own work: interrupts, switches, wake-ups, requests to other CPUs, leaving an idle state.
    Cost,
    /// A CPU that it may use was free when it was put on a busy one, and still is.
    Placement,
    /// A CPU that it may use is free and did not take it.
    Balance,
    /// A CPU that it may not use is free, and none that it may.
    Affinity,
    /// Its CPU runs a fair task that comes after it in the order, and keeps its slice.
    ProtectedSlice,
    /// Its CPU runs what the policy puts first.
    Important,
}

/// A wait, told from its begin to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// What the report says of it.
    pub worst: WorstReport,
    /// Its parts, in order; together they are all of it.
    pub parts: Vec<PartReport>,
}

/// A part of a wait in which nothing changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartReport {
    /// When it begins.
    pub from_ns: u64,
    /// When it ends.
    pub to_ns: u64,
    /// The CPU on which the task waited; `None` before it was woken.
    pub cpu: Option<usize>,
    /// What that did; `None` before the task was woken, and where it is not known any more.
    pub doing: Option<DoingReport>,
    /// The task that executed there.
    pub task: Option<String>,
    /// What was waited for.
    pub cause: Option<Cause>,
    /// A CPU that could have run the task, where that is why it is told of.
    pub free_cpu: Option<usize>,
}

/// What a CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DoingReport {
    /// Nothing.
    Idle,
    /// Nothing, as its core runs another cookie.
    ForcedIdle,
    /// The scheduler's work.
    Scheduler,
    /// It executes a task.
    Task,
}
