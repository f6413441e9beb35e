//! `runyard reproduce`: the founding experiments, before and after, beside the published figures.
//!
//! Each experiment gives [`Claim`]s; what is printed and what is written as JSON are views of them.

use crate::Failure;
use crate::output;
use crate::rt_migrate::{self, Experiment, MAX_LATE, Round};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;
use runyard_engine::features::{Feature, Features};
use runyard_engine::time::Nanos;
use runyard_report::{Claim, Claims};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

/// The arguments of `runyard reproduce`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Which; all of them if none is named.
    #[arg(value_name = "EXPERIMENT")]
    experiments: Vec<Name>,
    /// On which host.
    #[arg(long, value_enum)]
    host: Option<Host>,
    /// As long as the original: every run with its own seed, none may fail.
    #[arg(long)]
    soak: bool,
    /// Print the claims as JSON on standard output, and nothing else there.
    #[arg(long)]
    json: bool,
    /// Write `reproduce.json` and the text of each experiment into this folder as well.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Name {
    RtMigrate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Host {
    /// In virtual time.
    Sim,
}

/// How many runs the founding document reports without a failure.
const SOAK_RUNS: u64 = 6_500;

/// The seeds of a short run.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=20;

/// An experiment that was run: its claims, and what a person wants to see.
struct Reproduced {
    experiment: runyard_report::Experiment,
    text: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let all = [Name::RtMigrate];
    let wanted = &arguments.experiments;
    let mut reproduced = Vec::new();
    for name in all.iter().filter(|name| wanted.is_empty() || wanted.contains(name)) {
        let one = match name {
            Name::RtMigrate => rt_migrate(arguments.soak)?,
        };
        if !arguments.json {
            output::report(|out| out.write_all(one.text.as_bytes()))?;
        }
        reproduced.push(one);
    }
    if let Some(folder) = &arguments.out {
        write(folder, &reproduced)
            .map_err(|error| Failure::Refused(format!("{}: {error}", folder.display())))?;
    }
    let claims = Claims::new(reproduced.into_iter().map(|one| one.experiment).collect());
    if arguments.json {
        output::report(|out| out.write_all(json(&claims).as_bytes()))?;
    }
    if claims.hold() { Ok(()) } else { Err(Failure::Broken) }
}

fn json(claims: &Claims) -> String {
    serde_json::to_string_pretty(claims).expect("claims are plain data") + "\n"
}

fn write(folder: &std::path::Path, reproduced: &[Reproduced]) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for Reproduced { experiment, text } in reproduced {
        std::fs::write(folder.join(format!("{}-{}.txt", experiment.name, experiment.host)), text)?;
    }
    let all = reproduced.iter().map(|one| one.experiment.clone()).collect();
    std::fs::write(folder.join("reproduce.json"), json(&Claims::new(all)))
}

/// What many runs come to.
#[derive(Debug, Default)]
struct Tally {
    runs: u64,
    rounds: usize,
    failed: usize,
    latest_important: Nanos,
    latest_least: Nanos,
    violations: usize,
    /// The first round, and the first failed one, with their numbers within the run.
    first: Option<(usize, Round)>,
    first_failed: Option<(usize, Round)>,
}

impl Tally {
    fn of(experiment: &Experiment, seed: u64, check: bool) -> Result<Tally, Failure> {
        let run = experiment.run(seed, check)?;
        let numbered = || run.rounds.iter().cloned().enumerate();
        let mut failed = numbered().filter(|(_, round)| !rt_migrate::passes(round));
        let first_failed = failed.next();
        Ok(Tally {
            runs: 1,
            rounds: run.rounds.len(),
            failed: usize::from(first_failed.is_some()) + failed.count(),
            latest_important: rt_migrate::latest_important_start(&run.rounds),
            latest_least: run.rounds.iter().map(|round| round[0].start).max().unwrap_or_default(),
            violations: run.violations,
            first: numbered().next(),
            first_failed,
        })
    }

    /// Of several runs, in the order of their seeds.
    fn merge(self, later: Tally) -> Tally {
        Tally {
            runs: self.runs + later.runs,
            rounds: self.rounds + later.rounds,
            failed: self.failed + later.failed,
            latest_important: self.latest_important.max(later.latest_important),
            latest_least: self.latest_least.max(later.latest_least),
            violations: self.violations + later.violations,
            first: self.first.or(later.first),
            first_failed: self.first_failed.or(later.first_failed),
        }
    }

    /// The runs of all `seeds`, on all cores.
    fn all(
        experiment: &Experiment,
        seeds: std::ops::RangeInclusive<u64>,
    ) -> Result<Tally, Failure> {
        let short = seeds == SEEDS;
        let bar = if short { ProgressBar::hidden() } else { bar(*seeds.end()) };
        let tally = seeds
            .into_par_iter()
            .map(|seed| Tally::of(experiment, seed, short))
            .inspect(|_| bar.inc(1))
            .try_reduce(Tally::default, |a, b| Ok(a.merge(b)));
        bar.finish_and_clear();
        tally
    }

    fn failed_percent(&self) -> f64 {
        percent(self.failed as f64 / self.rounds as f64)
    }
}

fn bar(runs: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} runs, {eta} left");
    ProgressBar::new(runs).with_style(style.expect("the template is right"))
}

fn rt_migrate(soak: bool) -> Result<Reproduced, Failure> {
    let features = Features::default();
    let passive = features.without(Feature::RtPush).without(Feature::RtPull);
    let before = Tally::all(&Experiment::new(passive), SEEDS)?;
    let seeds = if soak { 1..=SOAK_RUNS } else { SEEDS };
    let after = Tally::all(&Experiment::new(features), seeds)?;
    let span = 20_000.0;
    let claims = vec![
        Claim {
            what: "latest start of a thread that is not the least important".to_owned(),
            unit: "us".to_owned(),
            published_before: Some(20_041.0),
            published_after: Some(61.0),
            before: Some(micros(before.latest_important)),
            after: Some(micros(after.latest_important)),
            holds: micros(before.latest_important) >= span && after.latest_important < MAX_LATE,
        },
        Claim {
            what: "latest start of the least important thread".to_owned(),
            unit: "us".to_owned(),
            published_before: None,
            published_after: Some(20_060.0),
            before: Some(micros(before.latest_least)),
            after: Some(micros(after.latest_least)),
            holds: (span..span + micros(MAX_LATE)).contains(&micros(after.latest_least)),
        },
        Claim {
            what: "rounds in which a thread waited for a less important one".to_owned(),
            unit: "%".to_owned(),
            published_before: None,
            published_after: Some(0.0),
            before: Some(before.failed_percent()),
            after: Some(after.failed_percent()),
            holds: before.failed > 0 && after.failed == 0,
        },
        Claim {
            what: "runs of 50 rounds without a failure".to_owned(),
            unit: "runs".to_owned(),
            published_before: None,
            published_after: Some(SOAK_RUNS as f64),
            before: None,
            after: Some(after.runs as f64),
            holds: after.failed == 0 && after.violations == 0,
        },
    ];
    let (name, host) = ("rt-migrate".to_owned(), "sim".to_owned());
    let experiment = runyard_report::Experiment { name, host, claims };
    let text = text(&experiment.table(), &before, &after);
    Ok(Reproduced { experiment, text })
}

fn text(table: &str, before: &Tally, after: &Tally) -> String {
    let mut text =
        "rt-migrate on sim: 4 CPUs, 5 SCHED_FIFO threads of priorities 2 to 6, released \
                    together 50 times a run\n\n"
            .to_owned();
    text.push_str(table);
    let example = |name: &str, tally: &Option<(usize, Round)>, text: &mut String| {
        let Some((at, round)) = tally else { return };
        let _ = writeln!(text, "\n{name}, us (the least important thread first)");
        text.push_str(&as_printed(*at, round));
    };
    example("before: a round that failed", &before.first_failed, &mut text);
    example("after: a round", &after.first_failed.clone().or(after.first.clone()), &mut text);
    let _ = writeln!(
        text,
        "\nbefore: NO_RT_PUSH NO_RT_PULL, {} of {} rounds failed; after: {} of {} in {} runs\n",
        before.failed, before.rounds, after.failed, after.rounds, after.runs
    );
    text
}

/// A round as the original prints it, with CPU time instead of loops.
fn as_printed(number: usize, round: &Round) -> String {
    let row = |of: fn(&rt_migrate::Lap) -> Nanos| {
        let cells = round.iter().map(|lap| format!("{:>8}", of(lap).0 / 1_000));
        cells.collect::<String>()
    };
    let (starts, ends, work) = (row(|lap| lap.start), row(|lap| lap.end), row(|lap| lap.work));
    format!("{number:>6}:{starts}\n   len:{ends}\n   CPU:{work}\n")
}

/// To a tenth, which is more than the documents give.
fn micros(span: Nanos) -> f64 {
    (span.0 as f64 / 100.0).round() / 10.0
}

fn percent(part: f64) -> f64 {
    (part * 10_000.0).round() / 100.0
}
