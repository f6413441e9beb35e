//! From a file to a scenario.

use super::figures::{Recorded, Statistics};
use super::lives::{self, Gaps, Lives};
use super::program::{self, Program};
use super::reading::{Format, Reading};
use super::snapshot::Snapshots;
use super::{packed, write};
use crate::diagnostic::{Diagnostic, Place};
use crate::overrides::{DeadlinePolicy, Window};
use runyard_engine::cpu::MAX_CPUS;
use runyard_engine::kernel::{Kernel, Model};
use runyard_engine::time::Nanos;
use std::io::Read;

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
    /// Whether a recording is taken of which less than half of the scheduler's lines are valid, or one that breaks off.
    pub partly: bool,
    /// The number of CPUs of the replay's machine. `None` takes the recorded number.
    pub cpus: Option<u32>,
    /// The rate of the tick, in hertz. `None` reads it from the recording.
    pub tick_hz: Option<u32>,
}

/// A recording, as far as it could be read: the lives of its tasks, and what is odd about it.
#[derive(Debug)]
pub struct Recording {
    /// What was read, without the records.
    reading: Reading,
    events: u64,
    lives: Lives,
    /// The number of CPUs of the recorded machine.
    cpus: u32,
    first_deadline: Option<u32>,
    has_switches: bool,
    has_wakeups: bool,
}

impl Recording {
    /// Reads a recording. `file` is its name in diagnostics. It may be a text, perhaps in a page of systrace, or a trace
    /// of Perfetto, each perhaps compressed by gzip or zstd. Only a part of it is taken if `part` says so. Its moments
    /// count from the first event of the scheduler in the file.
    ///
    /// The text is not kept, so a long one needs less memory than it has bytes.
    ///
    /// ```
    /// use runyard_workload::Window;
    /// use runyard_workload::import::{Recording, Wanted};
    ///
    /// let text = "a-7 [000] d..2. 1.5: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> \
    ///     next_comm=b next_pid=8 next_prio=120\n\
    ///     b-8 [000] d..2. 1.7: sched_switch: prev_comm=b prev_pid=8 prev_prio=120 prev_state=S ==> \
    ///     next_comm=swapper/0 next_pid=0 next_prio=120\n";
    /// let mut recording = Recording::read("a.txt", text.as_bytes(), Window::default()).unwrap();
    /// assert_eq!(recording.import(Wanted::default()).unwrap().tasks[0].name, "b-8");
    ///
    /// let data = &b"PERFILE2..."[..];
    /// let refused = Recording::read("perf.data", data, Window::default()).unwrap_err();
    /// assert!(refused.to_string().contains("perf script --ns --header -i perf.data > recorded.txt"));
    /// ```
    ///
    /// # Errors
    /// If the file is of another kind, with the command that converts it; or if it cannot be read or decompressed.
    pub fn read(file: &str, from: impl Read, part: Window) -> Result<Recording, Diagnostic> {
        let mut reading = packed::read(file, from, part)?;
        let (has_switches, has_wakeups) = reading.has();
        let first_deadline = reading.first_deadline();
        let records = std::mem::take(&mut reading.records);
        let lives = lives::follow(&records, reading.lost == 0);
        let cpus = lives.cpus.max(reading.cpus.min(MAX_CPUS as u32));
        let events = records.len() as u64;
        Ok(Recording { reading, events, lives, cpus, first_deadline, has_switches, has_wakeups })
    }

    /// Makes a scenario of the recording. It may be called again with other options.
    ///
    /// # Errors
    /// If no line is valid, if less than half of the scheduler's lines are valid, if the file breaks off, if no switch is
    /// recorded, if no task runs, or if a task is SCHED_DEADLINE and that is refused.
    pub fn import(&mut self, wanted: Wanted<'_>) -> Result<Imported, Diagnostic> {
        let Wanted { model, deadline, snapshot, partly, cpus, tick_hz } = wanted;
        if let Some(refused) = self.refused(partly) {
            return Err(refused);
        }
        self.lives.cpus = cpus.unwrap_or(self.cpus);
        let (reading, lives) = (&self.reading, &self.lives);
        let snapshots = snapshot.map(|(file, text)| Snapshots::read(file, text)).transpose()?;
        let snapshots = snapshots.unwrap_or_default();
        let seats = snapshots.seats(lives);
        let programs = program::programs(lives, &seats);
        if programs.is_empty() {
            return Err(reading.nowhere("no task runs in it"));
        }
        let deadline_tasks = programs.iter().map(|program| u32::from(program.is_deadline())).sum();
        if deadline_tasks > 0 && deadline != DeadlinePolicy::AsFifo {
            let what = "a task of SCHED_DEADLINE, whose budget is not recorded; with --deadline-as-fifo such tasks \
                        become SCHED_FIFO ones of priority 99";
            return Err(reading.at(self.first_deadline.unwrap_or(1), 1, what));
        }
        let release = reading.release.as_deref();
        let statistics = Statistics {
            events: self.events,
            skipped: reading.skipped,
            lost: reading.lost,
            missed: lives.missed.number,
            cpus: lives.cpus,
            span: Nanos(lives.end - lives.begin),
            delays: lives.latencies.delays(),
            model: model.or(release.and_then(Kernel::nearest).map(Model::named)),
            tick_hz: tick_hz.or_else(|| lives.beats.rate()),
            deadline_tasks,
        };
        let recorded = |program: &Program| recorded(program, lives);
        let tasks: Vec<_> = programs.iter().map(recorded).collect();
        let groups = snapshots.groups(programs.iter().map(|program| &program.seat));
        let scenario = write::scenario(&reading.file, &statistics, &groups, (&programs, &tasks));
        let missed = "switches were not recorded, and put where they must have been";
        let missed = self.first_of(lives.missed, missed);
        let (warnings, notes) = (reading.faults.clone(), self.notes());
        Ok(Imported { scenario, warnings, notes, missed, statistics, tasks })
    }

    /// Returns why the recording is refused.
    fn refused(&self, partly: bool) -> Option<Diagnostic> {
        let Reading { faults, scheduler, unread, broken, outside, format, .. } = &self.reading;
        let units = self.units();
        if let (Some(broken), false) = (broken, partly) {
            let what = format!("{}; --partly imports what is before it", broken.what);
            return Some(Diagnostic { what, ..broken.clone() });
        }
        match (self.events, faults.first()) {
            (0, _) if *outside > 0 => {
                let what = format!("none of its {outside} events is in the wanted part");
                Some(self.reading.nowhere(what))
            }
            (0, Some(fault)) => Some(fault.clone()),
            (0, None) if *format == Format::Text => {
                Some(self.reading.nowhere("there is no event in it"))
            }
            (_, Some(fault)) if unread * 2 > *scheduler && !partly => {
                let what = format!(
                    "{unread} of {scheduler} {units} of the scheduler make no sense; --partly imports the others"
                );
                Some(Diagnostic { what, ..fault.clone() })
            }
            _ if !self.has_switches => Some(self.reading.nowhere(match format {
                Format::Text => NO_SWITCH,
                Format::Perfetto => NO_SWITCH_OF_PERFETTO,
            })),
            _ => None,
        }
    }

    /// Returns what is odd about the recording, in the order of places.
    fn notes(&self) -> Vec<Diagnostic> {
        let Reading { scheduler, unread, faults, broken, .. } = &self.reading;
        let mut notes = self.reading.notes.clone();
        if !self.has_wakeups {
            let what = "no wake-up is in it (`sched_waking`): nothing says who ended a sleep and how long a task then waited, \
                        so each sleep ends at its recorded time";
            notes.push(self.reading.nowhere(what));
        }
        notes.extend(self.first_of(self.lives.twice, "times a task had two CPUs at once"));
        if let Some(fault) = faults.first()
            && unread * 10 > *scheduler
        {
            let units = self.units();
            let what = format!("{unread} of {scheduler} {units} of the scheduler make no sense");
            notes.push(Diagnostic { what, ..fault.clone() });
        }
        notes.extend(broken.clone());
        notes.sort_by_key(|note| match note.place {
            Place::Text { line, column, .. } => (line, column),
            Place::Packet { packet, .. } => (packet as usize, 0),
            Place::Setting(_) => (0, 0),
        });
        notes
    }

    /// Returns what a recording of this format has.
    fn units(&self) -> &'static str {
        match self.reading.format {
            Format::Text => "lines",
            Format::Perfetto => "events",
        }
    }

    /// Returns the number of gaps of one kind, with the place of the first.
    fn first_of(&self, gaps: Gaps, what: &str) -> Option<Diagnostic> {
        let what = format!("{} {what}; here the first", gaps.number);
        Some(self.reading.at(gaps.first?, 1, what))
    }
}

/// What is told of a recording without switches.
const NO_SWITCH: &str = "no `sched_switch` is in it, so nothing says when a task ran; `perf sched record` records it, and so does \
    `trace-cmd record -e sched_switch -e sched_waking -e sched_wakeup_new`";
const NO_SWITCH_OF_PERFETTO: &str = "no `sched_switch` is in it, so nothing says when a task ran; the data source `linux.ftrace` records it, \
    with `ftrace_events` \"sched/sched_switch\", \"sched/sched_waking\", \"sched/sched_wakeup_new\"";

/// Returns the recorded figures of a program's task.
fn recorded(program: &Program, lives: &Lives) -> Recorded {
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
}
