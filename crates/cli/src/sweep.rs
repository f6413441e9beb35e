//! `runyard sweep`: runs a scenario over settings and seeds.

use crate::exit::Done;
use crate::interrupt::Interrupt;
use crate::options;
use crate::output;
use crate::progress::RunsProgress;
use crate::ray;
use crate::window::WindowOptions;
use clap::{Args, ValueEnum};
use runyard_outcome::Failure;
use runyard_outcome::stderr::say;
use runyard_sweep::{Folder, Plan, Text, pool};
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The arguments of `runyard sweep`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The specification: a JSON file, or `-` for standard input. It names its scenario relative to its own folder.
    spec: String,
    /// The folder of the tables runs.parquet, summary.csv and index.html.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The number of runs at once; otherwise as many as this machine has CPUs.
    #[arg(long, value_name = "N", conflicts_with = "backend")]
    jobs: Option<NonZeroUsize>,
    /// The place of the runs: on the Ray cluster that RAY_ADDRESS names, or on a new one of this machine alone. It
    /// needs a Python with the packages `runyard` and Ray: python3, or the one that RUNYARD_PYTHON names.
    #[arg(long, value_enum)]
    backend: Option<Backend>,
    /// Run each point with more seeds, ten at a time, until the 95 % interval of each metric's mean is at most so wide,
    /// from end to end, in per cent of the mean; up to 1,000 seeds. A number of seeds in SPEC is then the least one.
    #[arg(long, value_name = "PERCENT", value_parser = percent, conflicts_with = "backend")]
    precision: Option<f64>,
    #[command(flatten)]
    window: WindowOptions,
    /// Continue the sweep in DIR, if there is one.
    #[arg(long)]
    resume: bool,
}

/// The places of runs outside this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Backend {
    /// On a Ray cluster.
    Ray,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Done, Failure> {
    let Arguments { spec, out, resume, .. } = arguments;
    if let Some(Backend::Ray) = arguments.backend {
        if arguments.window.is_given() {
            return Err(Failure::input("--backend ray: from and until are keys of SPEC"));
        }
        return ray::sweep(spec, out, *resume);
    }
    let text = Text { file: spec.clone(), text: options::text(spec)? };
    let mut plan = Plan::new(text, |name| scenario(spec, name)).map_err(Failure::input)?;
    if arguments.window.is_given() {
        plan = plan.with_window(arguments.window.window()).map_err(Failure::input)?;
    }
    if let Some(precision) = arguments.precision {
        let precise = plan.with_precision(precision / 100.0);
        plan =
            precise.map_err(|what| Failure::Input(format!("{spec}:1:1: --precision: {what}")))?;
    }
    for warning in plan.warnings() {
        say(format_args!("warning: {warning}"));
    }
    let plan = Arc::new(plan);
    let mut folder = Folder::open(out, plan.clone(), *resume)?;
    let jobs = arguments.jobs.map_or_else(pool::cores, NonZeroUsize::get);
    let interrupt = Interrupt::expect();
    let mut shown = RunsProgress::new(plan.runs());
    let mut reached = 0;
    let complete = folder.run(jobs, &|| interrupt.came(), |progress| {
        reached = progress.done;
        shown.look(reached);
    })?;
    drop(shown);
    let dir = out.display();
    if !complete {
        let precision =
            arguments.precision.map_or_else(String::new, |it| format!(" --precision {it}%"));
        say(format_args!(
            "stopped after {reached} of {} runs; --resume goes on: runyard sweep {spec} --out {dir}{precision} --resume",
            plan.runs()
        ));
        return Ok(interrupt.done(Done::Well));
    }
    let finished = folder.finish()?;
    output::report(|out| out.write_all(finished.table.as_bytes()))?;
    if let Some((failed, reason)) = finished.failed {
        say(format_args!("{failed} of {} runs failed: {reason}", plan.runs()));
    }
    if let (Some(precision), 1..) = (arguments.precision, finished.wide) {
        let (wide, most) = (finished.wide, finished.seeds.end());
        say(format_args!("intervals wider than {precision} % after {most} seeds: {wide}"));
    }
    let seeds = match finished.seeds.into_inner() {
        (least, most) if least == most => most.to_string(),
        (least, most) => format!("{least} to {most}"),
    };
    say(format_args!(
        "{} points, {seeds} seeds: {dir}/index.html, {dir}/summary.csv, {dir}/runs.parquet",
        plan.points(),
    ));
    Ok(Done::Well)
}

/// Reads a number of per cent above 0, as `5%`.
fn percent(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').and_then(|number| number.trim_end().parse().ok());
    percent
        .filter(|it: &f64| *it > 0.0 && it.is_finite())
        .ok_or_else(|| "it is a width as 5%".to_owned())
}

/// The text of the scenario that a specification names, read from the specification's folder.
fn scenario(spec: &str, name: &str) -> Result<Text, String> {
    let folder = if spec == "-" { None } else { Path::new(spec).parent() };
    let file = folder.map_or_else(|| PathBuf::from(name), |folder| folder.join(name));
    let file = file.to_string_lossy().into_owned();
    match options::scenario_text(&file) {
        Ok(text) => Ok(Text { file, text }),
        Err(Failure::Input(what) | Failure::Refused(what)) => {
            let begins = [options::cannot_read(&file), format!("{file}:1:1: ")];
            let rest = begins.iter().find_map(|begin| what.strip_prefix(begin));
            Err(rest.unwrap_or(&what).to_owned())
        }
    }
}
