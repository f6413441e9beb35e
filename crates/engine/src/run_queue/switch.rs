//! The words of a switch: its reason, the task that had the CPU, and the task that gets it.

use crate::cpu::CpuId;
use crate::event::Left;
use crate::task::{Task, TaskId};

/// Whether the CPU must call [`RunQueue::schedule`](crate::run_queue::RunQueue::schedule).
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resched {
    /// The CPU may continue its task.
    No,
    /// A fair task asks for the CPU of another fair task. A kernel with lazy preemption lets that
    /// task finish its stay in the kernel, until the next tick (`resched_curr_lazy`). Any other host
    /// treats it as [`Resched::Yes`].
    Lazy,
    /// The running task leaves when it is in user mode: its group is throttled, and the kernel
    /// throttles tasks on their way there (`throttle_cfs_rq_work`). A host whose tasks are never in
    /// the kernel treats it as [`Resched::Yes`].
    InUserMode,
    /// The CPU must call it as soon as it can.
    Yes,
}

impl Resched {
    /// Returns whether the CPU must call it, soon or later.
    #[must_use]
    #[inline]
    pub fn is_due(self) -> bool {
        self != Resched::No
    }
}

/// The reason why a task enters a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueue {
    /// The task was blocked, or is new.
    Woken,
    /// The task waited on another CPU and was chosen for this one, where it is important enough to
    /// run at once. It is refused if that is no longer true.
    Pushed,
    /// The task waited on another CPU.
    Moved,
}

/// The state of the task that had the CPU.
#[derive(Debug)]
pub enum Prev<P> {
    /// The task is runnable.
    Preempted(P),
    /// The task is runnable, but other tasks may run first.
    Yielded(P),
    /// The task waits for an event; the host gets it back.
    Blocked(P),
    /// The task has ended; the host gets it back without its payload.
    Exited,
    /// No task had the CPU.
    Idle,
}

impl<P> Prev<P> {
    /// Returns the same as an event for reports; `None` if there was no task.
    #[must_use]
    pub fn left(&self) -> Option<Left> {
        match self {
            Prev::Preempted(_) => Some(Left::Preempted),
            Prev::Yielded(_) => Some(Left::Yielded),
            Prev::Blocked(_) => Some(Left::Blocked),
            Prev::Exited => Some(Left::Exited),
            Prev::Idle => None,
        }
    }
}

/// The reason why a task left its queue at a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The task waits for an event.
    Blocked,
    /// The task has ended.
    Exited,
    /// The task may not stay on this CPU and must be offered to another.
    Evicted,
    /// That CPU asked for the task; the host must offer it there.
    MoveTo(CpuId),
}

/// The result of a switch. The host runs `next` and owns `released`. A `Switch` that is dropped
/// loses a task, so it must be used.
#[must_use]
#[derive(Debug)]
pub struct Switch<P> {
    /// The task that has the CPU now; `None` if the CPU idles.
    pub next: Option<(TaskId, P)>,
    /// The task that left this queue.
    pub released: Option<(Box<Task<P>>, Released)>,
}
