//! The figures of a recording: those of the whole, and those of each task.

use runyard_engine::kernel::Model;
use runyard_engine::time::Nanos;

/// The statistics of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The number of lines that are events.
    pub events: u64,
    /// The number of invalid lines.
    pub skipped: u64,
    /// The number of events that the recorder reports as lost.
    pub lost: u64,
    /// The number of switches that are not in the recording, but must have happened.
    pub missed: u64,
    /// The number of CPUs of the recorded machine.
    pub cpus: u32,
    /// The time from the first event to the last.
    pub span: Nanos,
    /// The machine's delays from a wake-up to the woken task's first instruction, in cases that no policy decides.
    pub delays: Delays,
    /// The model of the replay's machine, if the caller or the recording gives one.
    pub model: Option<Model>,
    /// The rate of the tick, in hertz, if the caller gives one or the recording tells it.
    pub tick_hz: Option<u32>,
    /// The number of tasks of the policy SCHED_DEADLINE, which became SCHED_FIFO ones.
    pub deadline_tasks: u32,
}

/// The delays of a machine, which are costs of the scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// From a request to another CPU to its interrupt.
    pub ipi: Nanos,
    /// From the moment at which a timer is due to its interrupt.
    pub timer: Nanos,
    /// What an idle CPU adds to these.
    pub idle_exit: Nanos,
}

/// The recorded figures of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The task's name in the scenario.
    pub name: String,
    /// The name of the thread in the recording, which several tasks may have.
    pub comm: String,
    /// The time with a CPU.
    pub runtime: Nanos,
    /// The time in which it was runnable without a CPU.
    pub wait: Nanos,
    /// The time asleep.
    pub sleep: Nanos,
    /// The number of wake-ups. The begin counts.
    pub wakeups: u64,
    /// The number of times that it got a CPU.
    pub switches: u64,
    /// The number of times that it got another CPU than the last time.
    pub migrations: u64,
    /// The delay from each wake-up to a CPU, in order.
    pub delays: Vec<Nanos>,
    /// Whether it was runnable when the recording ended. It goes on in a replay.
    pub wants_more: bool,
    /// The CPU time that the kernel charged, if the recording has `sched_stat_runtime`.
    pub charged: Option<Nanos>,
}
