//! What happens on a host, as one ordered stream: the only thing that reports, traces and checks
//! are made from.
//!
//! A host emits an [`Event`] at the moment at which it happens, in order of time for each CPU.
//! Together they say for every CPU what it does at each moment ([`What::Exec`], [`What::Overhead`],
//! [`What::Idle`], [`What::ForcedIdle`]) and for every task whether it runs, waits or sleeps.

use crate::attr::{Cookie, GroupId, LatencyNice, Policy};
use crate::balance::Balanced;
use crate::cpu::CpuId;
use crate::limits::{Throttled, Throttling};
use crate::task::TaskId;
use crate::time::Time;

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Time,
    /// On which CPU; for a wake-up, the one whose run queue the task entered.
    pub cpu: CpuId,
    /// What.
    pub what: What,
}

/// The kinds of things that happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A task began its life, blocked: its first [`What::Wake`] follows.
    Spawn {
        /// The new task.
        task: TaskId,
    },
    /// A task became runnable.
    Wake {
        /// The woken task.
        task: TaskId,
        /// When its condition came true: the requested expiry of its timer, the waker's call, or
        /// its start. Wake-up latency runs from here to the task's next [`What::Exec`].
        since: Time,
        /// Whose doing it was; `None` for a timer, an interrupt, or somebody who is no task.
        by: Option<TaskId>,
    },
    /// The scheduler took a decision on this CPU.
    Switch {
        /// Who had the CPU, and how it left; `None` if the CPU was idle. A task that was chosen
        /// again is here and in `next`.
        prev: Option<(TaskId, Left)>,
        /// Who has the CPU from now on; `None` for idle.
        next: Option<TaskId>,
    },
    /// From now on the CPU executes instructions of this task.
    Exec {
        /// The running task.
        task: TaskId,
        /// The policy under which it is accounted.
        policy: Policy,
    },
    /// From now on the CPU works for the scheduler: a switch, a wake-up, an interrupt.
    Overhead,
    /// From now on the CPU does nothing, as it has nothing to do.
    Idle,
    /// From now on the CPU does nothing, though tasks wait there: none of them has the cookie of its core
    /// ([`Cookie`]). It may come again with another cookie.
    ForcedIdle {
        /// What the core runs meanwhile: tasks of this cookie, or those that have none.
        cookie: Option<Cookie>,
    },
    /// The CPU took a timer interrupt; the tick is one.
    TimerInterrupt,
    /// A timer that is not the tick was armed.
    TimerArmed,
    /// A timer that is not the tick expired and was run.
    TimerExpired {
        /// Whether only the greedy walk runs it this early.
        greedy: bool,
    },
    /// A timer that is not the tick was cancelled before it expired.
    TimerCancelled,
    /// A task group used up what it may on this CPU: its tasks there wait. `/` stands for all
    /// real-time tasks of the CPU, which RT throttling limits.
    Throttled {
        /// The task group.
        group: GroupId,
    },
    /// A throttled task group may use this CPU again.
    Unthrottled {
        /// The task group.
        group: GroupId,
    },
    /// The CPU compared itself with others, and took what there was too much of elsewhere.
    Balanced(Balanced),
    /// A task's policy, group or latency nice is another from now on.
    Changed {
        /// The task.
        task: TaskId,
        /// Its policy.
        policy: Policy,
        /// Its task group.
        group: GroupId,
        /// Its latency nice.
        latency_nice: LatencyNice,
    },
    /// A task that waits is on its way to this CPU, from the run queue of another. Only hosts that explain why tasks wait
    /// say so.
    Moved {
        /// The task.
        task: TaskId,
    },
    /// A task waits here for a fair one that runs, comes after it in the order of fair tasks and keeps the CPU for now: its
    /// slice is protected, or only a tick ends it. It may be said again. Only hosts that explain why tasks wait say so.
    PassedOver {
        /// The task that waits.
        task: TaskId,
    },
    /// The task's program arrived at a step (see the workload): `step` counts the steps of the
    /// phase, `phase` those of the task.
    Step {
        /// The task.
        task: TaskId,
        /// Which phase of the program.
        phase: u32,
        /// Which step of the phase.
        step: u32,
    },
}

impl From<Throttling> for What {
    fn from(Throttling { what, begins }: Throttling) -> What {
        let group = match what {
            Throttled::RealTime => GroupId::ROOT,
            Throttled::Group(group) => group,
        };
        match begins {
            true => What::Throttled { group },
            false => What::Unthrottled { group },
        }
    }
}

/// How a task left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Against its will; it waits in a run queue.
    Preempted,
    /// By its own will; it waits in a run queue.
    Yielded,
    /// It waits for something to happen.
    Blocked,
    /// For ever.
    Exited,
}
