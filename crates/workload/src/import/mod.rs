//! Recordings to scenarios: what `perf sched script` or ftrace saw of a machine, as a workload.
//!
//! Each task of the recording becomes a task of the scenario, which executes as much between the
//! same sleeps, and wakes whom it woke at the same points of its own work. What a scheduler decided
//! is left out: who ran where and who waited is for the replay to say. So one thing can be changed
//! and everything else kept.
//!
//! `parse` reads lines, `lives` follows tasks through them, `program` makes each life a list of events,
//! `write` puts those down. Nothing here reads a file. Why it is done so: `docs/design/import.md`.

mod lives;
mod parse;
mod program;
mod write;

use crate::diagnostic::{Fault, locate};
use crate::{DeadlinePolicy, Diagnostic};
use runyard_engine::kernel::{Kernel, Model};
use runyard_engine::time::Nanos;

/// A machine that wakes later than this, in nanoseconds, was not idle, or lost what it recorded.
const MAX_LATENCY: u64 = 100_000;

/// A recording as a scenario, and what it was like.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The scenario's text, which [`crate::parse`] takes.
    pub scenario: String,
    /// The first lines that make no sense, in order.
    pub warnings: Vec<Diagnostic>,
    /// How it went.
    pub statistics: Statistics,
    /// What the recording says of each task of the scenario, in its order.
    pub tasks: Vec<Recorded>,
}

/// What a recording was like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Lines that are events.
    pub events: u64,
    /// Lines that make no sense.
    pub skipped: u64,
    /// Events that the recorder says it lost.
    pub lost: u64,
    /// Switches that are not in the recording, but must have been.
    pub missed: u64,
    /// How many CPUs are in it.
    pub cpus: u32,
    /// From the first event to the last.
    pub span: Nanos,
    /// How long the machine took from a wake-up to the woken task's first instruction, where no
    /// policy had a say.
    pub latency: Nanos,
    /// What the replay's machine is a model of, if anybody said that.
    pub model: Option<Model>,
    /// Tasks of the policy SCHED_DEADLINE, which became SCHED_FIFO ones.
    pub deadline_tasks: u32,
}

/// What a recording says of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its name in the scenario.
    pub name: String,
    /// How long it had a CPU.
    pub runtime: Nanos,
    /// How long it was runnable without one.
    pub wait: Nanos,
    /// How long it slept.
    pub sleep: Nanos,
    /// How often it was woken.
    pub wakeups: u64,
    /// How long it waited each time that it was woken and came to a CPU after that, in order.
    pub delays: Vec<Nanos>,
    /// What the kernel charged it for, if the recording has `sched_stat_runtime`.
    pub charged: Option<Nanos>,
}

/// Makes a scenario of the recording `text`. `file` is what the diagnostics call it.
///
/// # Errors
/// If no line makes sense, if no task runs, or if one is SCHED_DEADLINE and that is refused.
pub fn import(file: &str, text: &str) -> Result<Imported, Diagnostic> {
    import_for(file, text, Wanted::default())
}

/// What is wanted of an import.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// What the replay's machine is a model of; else of the kernel that is nearest to the one that the recording names,
    /// if it names one.
    pub model: Option<Model>,
    /// What becomes of tasks that were SCHED_DEADLINE. A scenario has no budgets for them, on any host.
    pub deadline: DeadlinePolicy,
}

/// As [`import`], as it is wanted.
///
/// # Errors
/// As [`import`].
pub fn import_for(file: &str, text: &str, wanted: Wanted) -> Result<Imported, Diagnostic> {
    let Wanted { model, deadline } = wanted;
    let failed = |fault| Err(locate(file, text, vec![fault]).remove(0));
    let recording = parse::recording(text);
    let parse::Recording { records, skipped, mut faults, lost, release, first_deadline } =
        recording;
    if records.is_empty() {
        let nothing = || Fault::new(Fault::NOWHERE, "there is no event in it");
        return failed(if faults.is_empty() { nothing() } else { faults.swap_remove(0) });
    }
    let lives = lives::follow(&records);
    let programs = program::programs(&lives);
    if programs.is_empty() {
        return failed(Fault::new(Fault::NOWHERE, "no task runs in it"));
    }
    let deadline_tasks = programs.iter().map(|program| u32::from(program.is_deadline())).sum();
    if deadline_tasks > 0 && deadline != DeadlinePolicy::AsFifo {
        let what = "a task of SCHED_DEADLINE, whose budget is not recorded; with --deadline-as-fifo such tasks \
                    become SCHED_FIFO ones of priority 99";
        return failed(Fault::new(first_deadline.unwrap_or(Fault::NOWHERE), what));
    }
    let statistics = Statistics {
        events: records.len() as u64,
        skipped: skipped as u64,
        lost,
        missed: lives.missed,
        cpus: lives.cpus,
        span: Nanos(lives.end - lives.begin),
        latency: Nanos(lives.latency().min(MAX_LATENCY)),
        model: model.or(release.and_then(Kernel::nearest).map(Model::named)),
        deadline_tasks,
    };
    let recorded = |program: &program::Program| {
        let life = &lives.all[program.life];
        Recorded {
            name: program.name.clone(),
            runtime: Nanos(life.ran),
            wait: Nanos(life.waited),
            sleep: Nanos(life.slept),
            wakeups: life.wakeups,
            delays: life.delays.iter().map(|&delay| Nanos(delay)).collect(),
            charged: (life.charged > 0).then_some(Nanos(life.charged)),
        }
    };
    let tasks: Vec<_> = programs.iter().map(recorded).collect();
    let scenario = write::scenario(file, &statistics, &programs, &tasks);
    Ok(Imported { scenario, warnings: locate(file, text, faults), statistics, tasks })
}
