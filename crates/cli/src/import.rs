//! `runyard import`: makes a scenario of a real machine's recording.

use crate::exit::Done;
use crate::names::KERNELS;
use crate::options;
use crate::output::{self, OutFile};
use crate::progress;
use clap::Args;
use runyard_engine::kernel::Model;
use runyard_engine::time::Nanos;
use runyard_outcome::Failure;
use runyard_outcome::stderr::say;
use runyard_report::{Histogram, LatencyReport};
use runyard_workload::import::{Imported, Recording, Statistics, Wanted};
use runyard_workload::{DeadlinePolicy, Window, moment};
use serde_json::{Value, json};
use std::io::Write;

/// A recording, and what the command line says about the recorded machine.
#[derive(Debug, Args)]
pub(crate) struct Source {
    /// The text of `perf script`, `trace-cmd report` or ftrace, the page of systrace, or the trace of Perfetto. It may be
    /// compressed by gzip or zstd; `-` is standard input.
    #[arg(value_name = "RECORDING")]
    pub(crate) file: String,
    /// The ticks a second of the recorded machine, in place of those that the recording shows.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(24..=100_000))]
    tick_hz: Option<u32>,
    /// Turn SCHED_DEADLINE tasks into SCHED_FIFO tasks of priority 99, without a budget. Otherwise they are refused.
    #[arg(long)]
    deadline_as_fifo: bool,
    /// Snapshots of the recorded machine, which docs/guides/snapshot.sh makes: task groups, policies, CPUs of tasks.
    #[arg(long, value_name = "FILE")]
    snapshot: Option<String>,
    /// Take a recording of which less than half of the scheduler's lines make sense, or a trace that breaks off.
    #[arg(long)]
    partly: bool,
    /// Take the recording only from this moment on, as 30s. Moments count from its first event of the scheduler.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    from: Option<Nanos>,
    /// Take the recording only up to this moment.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Nanos>,
}

impl Source {
    /// The treatment of SCHED_DEADLINE.
    pub(crate) fn deadline(&self) -> DeadlinePolicy {
        match self.deadline_as_fifo {
            true => DeadlinePolicy::AsFifo,
            false => DeadlinePolicy::Refused,
        }
    }

    /// Reads the recording.
    pub(crate) fn read(&self) -> Result<Recording, Failure> {
        let part = Window { from: self.from, until: self.until };
        if self.until.is_some_and(|until| until <= self.from.unwrap_or_default()) {
            return Err(Failure::input("--until is not after --from, or not after the begin"));
        }
        let from = options::opened(&self.file)?;
        let _shown = progress::of("reading the recording");
        Recording::read(&self.file, from, part).map_err(Failure::input)
    }

    /// Imports the recording for a machine with this kernel and this number of CPUs, if they are not the recorded ones.
    /// Oddities of the recording go to standard error.
    pub(crate) fn import(
        &self,
        recording: &mut Recording,
        model: Option<Model>,
        cpus: Option<u32>,
    ) -> Result<Imported, Failure> {
        let snapshot = self.snapshot.as_ref().map(|file| Ok((file.as_str(), options::text(file)?)));
        let snapshot = snapshot.transpose()?;
        let wanted = Wanted {
            snapshot: snapshot.as_ref().map(|(file, text)| (*file, text.as_str())),
            model,
            deadline: self.deadline(),
            partly: self.partly,
            cpus,
            tick_hz: self.tick_hz,
        };
        let imported = recording.import(wanted).map_err(Failure::input)?;
        if cpus.is_none() {
            tell(&imported);
        }
        Ok(imported)
    }
}

/// The arguments of `runyard import`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: Source,
    /// Write the scenario to this file. Otherwise it goes to standard output, unless --json is given.
    #[arg(long, value_name = "FILE")]
    out: Option<OutFile>,
    /// The kernel of the replay, in place of the recording's.
    #[arg(long, value_name = "NAME", value_parser = KERNELS)]
    kernel: Option<Model>,
    /// Print only the figures of each recorded task, as JSON on standard output.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Done, Failure> {
    let mut recording = arguments.source.read()?;
    let imported = arguments.source.import(&mut recording, arguments.kernel, None)?;
    drop(recording);
    let scenario = imported.scenario.as_bytes();
    if let Some(file) = &arguments.out {
        file.open()?.write(|out| out.write_all(scenario))?;
    }
    match (arguments.json, &arguments.out) {
        (true, _) => output::report(|out| writeln!(out, "{:#}", figures(&imported)))?,
        (false, None) => output::report(|out| out.write_all(scenario))?,
        (false, Some(_)) => {}
    }
    Ok(Done::Well)
}

/// Reports the oddities of the recording, and its size.
fn tell(imported: &Imported) {
    for warning in &imported.warnings {
        say(format_args!("skipped: {warning}"));
    }
    for note in imported.notes.iter().chain(&imported.missed) {
        say(format_args!("warning: {note}"));
    }
    let Statistics { events, skipped, lost, cpus, span, model, tick_hz, .. } = imported.statistics;
    let warn = |number: u64, what: &str| {
        if number > 0 {
            say(format_args!("warning: {number} {what}"));
        }
    };
    warn(skipped, "lines make no sense and were skipped");
    warn(lost, "events were lost by the recorder");
    let deadline = imported.statistics.deadline_tasks;
    warn(deadline.into(), "tasks of the deadline policy became SCHED_FIFO of priority 99");
    if let Some(model) = model {
        say(format_args!("the replay goes by kernel {model}"));
    }
    match tick_hz {
        Some(hz) => say(format_args!("the tick comes {hz} times a second")),
        None => say("warning: the rate of the tick is unknown; --tick-hz sets it"),
    }
    let (tasks, millis) = (imported.tasks.len(), (span.0 + 500_000) / 1_000_000);
    say(format_args!("{events} events in {millis} ms; tasks: {tasks}; CPUs: {cpus}"));
}

/// The figures of the recording, under the names of a report.
fn figures(imported: &Imported) -> Value {
    let task = |task: &runyard_workload::import::Recorded| {
        json!({
            "name": task.name,
            "runtime_ns": task.runtime.0,
            "wait_ns": task.wait.0,
            "sleep_ns": task.sleep.0,
            "wakeups": task.wakeups,
            "switches": task.switches,
            "migrations": task.migrations,
            "wakeup_latency": latency(&task.delays),
            "charged_ns": task.charged.map(|charged| charged.0),
        })
    };
    let statistics = &imported.statistics;
    json!({
        "schema": "runyard.import/1",
        "duration_ns": statistics.span.0,
        "cpus": statistics.cpus,
        "tick_hz": statistics.tick_hz,
        "events": statistics.events,
        "skipped": statistics.skipped,
        "lost": statistics.lost,
        "missed_switches": statistics.missed,
        "tasks": imported.tasks.iter().map(task).collect::<Vec<_>>(),
    })
}

/// The figures that a report has for these wake-ups.
fn latency(delays: &[Nanos]) -> LatencyReport {
    let mut latencies = Histogram::default();
    delays.iter().for_each(|&delay| latencies.record(delay));
    LatencyReport::new(&latencies)
}
