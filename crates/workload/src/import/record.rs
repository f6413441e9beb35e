//! The events of a recording, whatever recorder wrote them.

/// The number of the idle task, on every CPU.
pub const IDLE: u32 = 0;

/// The note in a trace that says when the run of a scenario begins, before the number of nanoseconds of
/// CLOCK_MONOTONIC. `runyard linux` writes it.
pub const BEGINS: &str = "runyard: the run begins at ";

/// A task as an event names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<'t> {
    /// The name of the thread.
    pub comm: &'t str,
    /// Its number.
    pub tid: u32,
    /// The kernel's priority: 0 to 99 real-time, where a lower number precedes; 100 to 139 fair; below 0 deadline.
    pub prio: i32,
}

/// The state of a task that leaves its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The task is runnable.
    Ready,
    /// The task sleeps.
    Asleep,
    /// The task sleeps without reacting to signals, mostly for a device.
    Blocked,
    /// The task has ended.
    Exited,
}

/// A kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What<'t> {
    /// A CPU goes from one task to another.
    Switch {
        /// The task that had the CPU.
        prev: Named<'t>,
        /// The state in which it left.
        left: Left,
        /// The task that has it now.
        next: Named<'t>,
    },
    /// A wake-up, as the waker records it.
    Waking(Named<'t>),
    /// A woken task becomes runnable, as the CPU of its queue records it.
    Wakeup(Named<'t>),
    /// A task is runnable for the first time.
    New(Named<'t>),
    /// The kernel charged a task for so many nanoseconds up to now.
    Charged {
        /// The number of the thread.
        tid: u32,
        /// The CPU time, in nanoseconds.
        nanos: u64,
    },
    /// A note of [`runyard linux`](BEGINS): its run begins at this time, by CLOCK_MONOTONIC.
    Begins(u64),
    /// Any other event that names the running task.
    Other,
}

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'t> {
    /// The place of its line in the text, in bytes.
    pub place: usize,
    /// The time, in nanoseconds of the recorder's clock.
    pub at: u64,
    /// The number of the CPU.
    pub cpu: u32,
    /// The running task and its name. Both are unknown if perf recorded a task that has ended.
    pub who: Option<(u32, &'t str)>,
    /// Whether this happened in an interrupt, as far as the line says.
    pub interrupt: bool,
    /// Whether the kernel is asked to reschedule this CPU at this moment, as far as the line says.
    pub resched: bool,
    /// What happened.
    pub what: What<'t>,
}

impl Record<'_> {
    /// Returns whether it names a task of the policy SCHED_DEADLINE.
    pub(super) fn names_deadline(&self) -> bool {
        let is_deadline = |task: &Named<'_>| task.prio < 0;
        match &self.what {
            What::Switch { prev, next, .. } => is_deadline(prev) || is_deadline(next),
            What::Waking(task) | What::Wakeup(task) | What::New(task) => is_deadline(task),
            What::Charged { .. } | What::Begins(_) | What::Other => false,
        }
    }
}
