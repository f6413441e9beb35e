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

/// The kernel's bits for the state of a task that leaves its CPU.
mod state {
    pub(super) const BLOCKED: u32 = 2;
    pub(super) const EXITED: u32 = 0x10 | 0x20;
    /// Before Linux 4.14 the task is dead, since then it is parked.
    pub(super) const DEAD_OR_PARKED: u32 = 0x40;
    /// The task was preempted: since Linux 4.14, from 4.8 on, from 4.2 on. What these bits are to other kernels is never
    /// seen in a switch.
    pub(super) const PREEMPTED: u32 = 0x100 | 0x1000 | 0x800;
    /// The bit of a preempted task before Linux 4.2. Later it belongs to an idle kernel thread, beside [`BLOCKED`].
    pub(super) const OLD_PREEMPTED: u32 = 0x400;
}

impl Left {
    /// Returns what the kernel's bits say. `parks` says that it is Linux 4.14 or newer.
    pub(super) fn of_bits(bits: u32, parks: bool) -> Left {
        match () {
            () if bits == 0 || bits == state::OLD_PREEMPTED => Left::Ready,
            () if bits & state::PREEMPTED != 0 => Left::Ready,
            () if bits & state::EXITED != 0 => Left::Exited,
            () if bits & state::DEAD_OR_PARKED != 0 && !parks => Left::Exited,
            () if bits & state::BLOCKED != 0 => Left::Blocked,
            () => Left::Asleep,
        }
    }
}

/// What a CPU does at the moment of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// It executes its task.
    Task,
    /// It is in a soft interrupt. Its own task may be the cause, as that of a message to another task of the machine, or a
    /// device, as that of a message from another machine.
    Softirq,
    /// It is in an interrupt of a device or a clock.
    Interrupt,
    /// The recorder does not say it.
    Unknown,
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

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'t> {
    /// The number of its line, counted from 1; in a trace of Perfetto, that of its packet.
    pub place: u32,
    /// The time, in nanoseconds of the recorder's clock.
    pub at: u64,
    /// The number of the CPU.
    pub cpu: u32,
    /// The running task and its name. Both are unknown if perf recorded a task that has ended.
    pub who: Option<(u32, &'t str)>,
    /// What the CPU did.
    pub context: Context,
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
