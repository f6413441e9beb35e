//! The events of a host as one ordered stream. Reports, traces and checks are made from it alone.
//!
//! A host emits an [`Event`] when it happens, in order of time for each CPU. Together the events
//! define the state of every CPU at each moment ([`What::Exec`], [`What::Overhead`],
//! [`What::Idle`], [`What::ForcedIdle`]), and of every task: running, waiting or asleep.

use crate::attr::{Cookie, GroupId, LatencyNice, Policy};
use crate::balance::Balanced;
use crate::cpu::CpuId;
use crate::limits::{Throttled, Throttling};
use crate::task::TaskId;
use crate::time::Time;

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The time.
    pub at: Time,
    /// The CPU. For a wake-up it is that of the run queue that the task entered.
    pub cpu: CpuId,
    /// The kind, with its data.
    pub what: What,
}

/// The kinds of events.
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
        /// The time at which its condition came true: the requested expiry of its timer, the
        /// waker's call, or its start. Wake-up latency runs from here to the task's next
        /// [`What::Exec`].
        since: Time,
        /// The task that woke it; `None` for a timer, an interrupt, or a waker that is not a task.
        by: Option<TaskId>,
    },
    /// The scheduler made a decision on this CPU.
    Switch {
        /// The task that had the CPU, and how it left; `None` if the CPU was idle. A task that was
        /// chosen again is both here and in `next`.
        prev: Option<(TaskId, Left)>,
        /// The task that has the CPU from now on; `None` for idle.
        next: Option<TaskId>,
    },
    /// From now on the CPU executes instructions of this task.
    Exec {
        /// The running task.
        task: TaskId,
        /// The policy under which it is accounted.
        policy: Policy,
    },
    /// From now on the CPU does scheduler work: a switch, a wake-up, an interrupt.
    Overhead,
    /// From now on the CPU is idle, because it has no task.
    Idle,
    /// From now on the CPU is idle although tasks wait there: none of them has the cookie of its
    /// core ([`Cookie`]). The event may be repeated with another cookie.
    ForcedIdle {
        /// The cookie that the core runs meanwhile; `None` for tasks without one.
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
    /// A task group used up its budget on this CPU: its tasks there wait. `/` stands for all
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
    /// The CPU compared its load with others, and pulled tasks if needed.
    Balanced(Balanced),
    /// A task's policy, group or latency nice changed.
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
    /// A waiting task is on its way to this CPU, from the run queue of another. Only hosts that
    /// explain waits emit this.
    Moved {
        /// The task.
        task: TaskId,
    },
    /// A task that was on its way to this CPU is in its run queue. Only hosts that explain waits emit
    /// this.
    Landed {
        /// The task.
        task: TaskId,
    },
    /// A switch of this CPU is due, but its task goes on: it is in the kernel, or the preemption is
    /// lazy. The event may be repeated. Only hosts that explain waits emit it.
    SwitchDue,
    /// A task waits here behind a fair one that comes after it in the order of fair tasks. The
    /// running task keeps the CPU because its slice is protected, or because only a tick ends its
    /// turn. The event may be repeated. Only hosts that explain waits emit it.
    PassedOver {
        /// The task that waits.
        task: TaskId,
    },
    /// A change of the workload's timeline takes place, with its effects after this event. It
    /// concerns no CPU in particular.
    Timeline {
        /// The number of the change, in the order of their times.
        change: u32,
    },
    /// A request came from outside (see the workload). If it wakes or starts a task, that event
    /// follows. It concerns no CPU in particular.
    Arrived {
        /// The number of the arrivals in the scenario.
        arrivals: u32,
        /// Whether there was no room for it.
        refused: bool,
    },
    /// A task reached its periodic timer too late, and goes on without a wait.
    Late {
        /// The task.
        task: TaskId,
        /// The time at which the period began.
        since: Time,
    },
    /// The step at which the task's program arrived takes effect on an object that tasks share.
    /// Only hosts with chains of tasks emit it (see the workload).
    Acts {
        /// The task.
        task: TaskId,
    },
    /// The task's program arrived at a step (see the workload).
    Step {
        /// The task.
        task: TaskId,
        /// The index of the phase in the program.
        phase: u32,
        /// The index of the step in the phase.
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

/// The way in which a task left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The task left involuntarily, and waits in a run queue.
    Preempted,
    /// The task yielded, and waits in a run queue.
    Yielded,
    /// The task waits for an event.
    Blocked,
    /// The task has ended.
    Exited,
}
