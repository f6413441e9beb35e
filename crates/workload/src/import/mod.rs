//! The import of recordings: a recording of a machine by `perf sched script` or ftrace becomes a scenario.
//!
//! Each task of the recording becomes a task of the scenario. It executes as much between the same sleeps, and wakes
//! the same tasks at the same points of its own work. The decisions of the recorded scheduler are left out: the replay
//! decides which task runs where and which one waits. So one factor can be changed and everything else kept.
//!
//! `packed` unpacks a file, `line` reads a line, `parse` a text, `lives` follows tasks through them, `tick` finds the rate of their tick, `program` turns each life into a list of events, and
//! `write` prints those. `tally` only counts. No code here reads a file. The reasons of this design are in `docs/design/import.md`.

mod figures;
mod line;
mod lives;
mod packed;
mod parse;
mod program;
mod record;
mod snapshot;
mod tally;
mod tick;
mod write;

pub use figures::{Recorded, Statistics};
pub use packed::text;
pub use parse::records;
pub use record::{BEGINS, IDLE, Left, Named, Record, What};
pub use tally::{Ran, Tally, tally};

use self::snapshot::Snapshots;
use crate::diagnostic::{Diagnostic, Fault, locate};
use crate::overrides::DeadlinePolicy;
use runyard_engine::cpu::MAX_CPUS;
use runyard_engine::kernel::{Kernel, Model};
use runyard_engine::time::Nanos;

/// The largest wake-up delay of an idle machine, in nanoseconds. A longer delay means that the machine was not idle, or
/// that its records were lost.
const MAX_LATENCY: u64 = 100_000;

/// A recording as a scenario, with its statistics.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The scenario's text, which [`crate::parse`] reads.
    pub scenario: String,
    /// The first invalid lines, in order.
    pub warnings: Vec<Diagnostic>,
    /// What else is odd about the recording, with the places where it shows first.
    pub notes: Vec<Diagnostic>,
    /// The switches that are missing, if any are, with the place of the first record that tells it. A few are usual.
    pub missed: Option<Diagnostic>,
    /// The statistics of the recording.
    pub statistics: Statistics,
    /// The recorded figures of each task of the scenario, in its order.
    pub tasks: Vec<Recorded>,
}

/// Makes a scenario of the recording `text`. `file` is its name in diagnostics.
///
/// # Errors
/// If no line is valid, if less than half of the scheduler's lines are valid, if no switch is recorded, if no task runs, or
/// if a task is SCHED_DEADLINE and that is refused.
pub fn import(file: &str, text: &str) -> Result<Imported, Diagnostic> {
    import_for(file, text, Wanted::default())
}

/// The options of an import.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'s> {
    /// The model of the replay's machine. `None` selects the kernel nearest to the one that the recording names, if it
    /// names one.
    pub model: Option<Model>,
    /// The treatment of SCHED_DEADLINE tasks. A scenario made from a recording has no budgets for them on any host.
    pub deadline: DeadlinePolicy,
    /// The name and the text of a file of snapshots, which `docs/guides/snapshot.sh` makes beside the recorder.
    pub snapshot: Option<(&'s str, &'s str)>,
    /// Whether a recording is taken of which less than half of the scheduler's lines are valid.
    pub partly: bool,
    /// The number of CPUs of the replay's machine. `None` takes the recorded number.
    pub cpus: Option<u32>,
    /// The rate of the tick, in hertz. `None` reads it from the recording.
    pub tick_hz: Option<u32>,
}

/// Does the same as [`import`] with options.
///
/// # Errors
/// As [`import`].
pub fn import_for(file: &str, text: &str, wanted: Wanted<'_>) -> Result<Imported, Diagnostic> {
    let Wanted { model, deadline, snapshot, partly, cpus, tick_hz } = wanted;
    let failed = |fault| Err(locate(file, text, vec![fault]).remove(0));
    let mut recording = parse::recording(text);
    if let Some(fault) = refused(&mut recording, partly) {
        return failed(fault);
    }
    let first_deadline = recording.first_deadline();
    let (_, has_wakeups) = recording.has();
    let parse::Recording { records, skipped, scheduler, unread, lost, .. } = recording;
    let (mut notes, release, faults) = (recording.notes, recording.release, recording.faults);
    let mut lives = lives::follow(&records, lost == 0);
    lives.cpus = cpus.unwrap_or(lives.cpus.max(recording.cpus.min(MAX_CPUS as u32)));
    let snapshots = snapshot.map(|(file, text)| Snapshots::read(file, text)).transpose()?;
    let snapshots = snapshots.unwrap_or_default();
    let seats = snapshots.seats(&lives);
    let programs = program::programs(&lives, &seats);
    if programs.is_empty() {
        return failed(Fault::new(Fault::NOWHERE, "no task runs in it"));
    }
    let deadline_tasks = programs.iter().map(|program| u32::from(program.is_deadline())).sum();
    if deadline_tasks > 0 && deadline != DeadlinePolicy::AsFifo {
        let what = "a task of SCHED_DEADLINE, whose budget is not recorded; with --deadline-as-fifo such tasks \
                    become SCHED_FIFO ones of priority 99";
        return failed(Fault::new(first_deadline.unwrap_or(Fault::NOWHERE), what));
    }
    notes.extend(gaps(&lives, has_wakeups));
    if unread * 10 > scheduler {
        let what = format!("{unread} of {scheduler} lines of the scheduler make no sense");
        notes.push(Fault::new(faults.first().map_or(Fault::NOWHERE, |fault| fault.at), what));
    }
    let statistics = Statistics {
        events: records.len() as u64,
        skipped: skipped as u64,
        lost,
        missed: lives.missed.number,
        cpus: lives.cpus,
        span: Nanos(lives.end - lives.begin),
        latency: Nanos(lives.latency().min(MAX_LATENCY)),
        model: model.or(release.and_then(Kernel::nearest).map(Model::named)),
        tick_hz: tick_hz.or_else(|| lives.beats.rate()),
        deadline_tasks,
    };
    let recorded = |program: &program::Program| {
        let life = &lives.all[program.life];
        Recorded {
            name: program.name.clone(),
            comm: life.comm.clone(),
            runtime: Nanos(life.ran),
            wait: Nanos(life.waited),
            sleep: Nanos(life.slept),
            wakeups: life.wakeups,
            switches: life.switches,
            migrations: life.migrations,
            delays: life.delays.iter().map(|&delay| Nanos(delay)).collect(),
            wants_more: life.wants_more,
            charged: (life.charged > 0).then_some(Nanos(life.charged)),
        }
    };
    let tasks: Vec<_> = programs.iter().map(recorded).collect();
    let groups = snapshots.groups(programs.iter().map(|program| &program.seat));
    let scenario = write::scenario(file, &statistics, &groups, (&programs, &tasks));
    let missed = "switches were not recorded, and put where they must have been";
    let missed = first_of(lives.missed, missed).into_iter().collect();
    let [warnings, notes, mut missed] =
        [faults, notes, missed].map(|faults| locate(file, text, faults));
    Ok(Imported { scenario, warnings, notes, missed: missed.pop(), statistics, tasks })
}

/// Returns why a recording is refused.
fn refused(recording: &mut parse::Recording<'_>, partly: bool) -> Option<Fault> {
    let first = || Some(recording.faults.first()?.at);
    let (has_switches, _) = recording.has();
    let parse::Recording { records, scheduler, unread, .. } = recording;
    match () {
        () if records.is_empty() && !recording.faults.is_empty() => {
            Some(recording.faults.swap_remove(0))
        }
        () if records.is_empty() => Some(Fault::new(Fault::NOWHERE, "there is no event in it")),
        () if *unread * 2 > *scheduler && !partly => {
            let what = format!(
                "{unread} of {scheduler} lines of the scheduler make no sense; --partly imports the others"
            );
            Some(Fault::new(first().unwrap_or(Fault::NOWHERE), what))
        }
        () if !has_switches => Some(Fault::new(
            Fault::NOWHERE,
            "no `sched_switch` is in it, so nothing says when a task ran; `perf sched record` records it, and so does \
             `trace-cmd record -e sched_switch -e sched_waking -e sched_wakeup_new`",
        )),
        () => None,
    }
}

/// Returns what the records do not tell.
fn gaps(lives: &lives::Lives, has_wakeups: bool) -> Vec<Fault> {
    let mut gaps = Vec::new();
    if !has_wakeups {
        let what = "no wake-up is in it (`sched_waking`): nothing says who ended a sleep and how long a task then waited, \
                    so each sleep ends at its recorded time";
        gaps.push(Fault::new(Fault::NOWHERE, what));
    }
    gaps.extend(first_of(lives.twice, "times a task had two CPUs at once"));
    gaps
}

/// Returns the number of gaps of one kind, with the place of the first.
fn first_of(gaps: lives::Gaps, what: &str) -> Option<Fault> {
    let first = gaps.first?;
    Some(Fault::new(first, format!("{} {what}; here the first", gaps.number)))
}
