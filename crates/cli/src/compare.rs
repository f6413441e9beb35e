//! `runyard compare`: two saved reports, before and after; or two scenarios, with several seeds each.
//!
//! `--seeds` says which: with it the arguments are scenarios that are run, without it reports that were saved. A scenario
//! may be compared with itself, when `--before` and `--after` say what is different; they take the options of `sim`.

use crate::exit::Done;
use crate::interrupt::Interrupt;
use crate::options::{self, HostOptions};
use crate::output;
use crate::page::PageOptions;
use crate::progress::RunsProgress;
use crate::scenarios;
use clap::{Args, Parser};
use runyard_hosts::Failure;
use runyard_hosts::stderr::say;
use runyard_report::html::{self, Run};
use runyard_report::{Changes, NOISE, Report, SCHEMA, Sheet};
use runyard_sweep::{pool, report};
use runyard_workload::Scenario;
use std::io::{IsTerminal, Write, stdout};

/// The arguments of `runyard compare`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The report of the run before: what --json printed, a file or `-` for standard input. With --seeds a scenario.
    before: String,
    /// The report of the run after. With --seeds a scenario, or the same one.
    #[arg(required_unless_present = "seeds")]
    after: Option<String>,
    /// Run both scenarios with the seeds 1 to N, and tell changes from noise.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: Option<u64>,
    /// With --seeds: options of `sim` for the runs of both sides, as "--cpus 4 --duration 5s".
    #[arg(
        long,
        value_name = "OPTIONS",
        requires = "seeds",
        allow_hyphen_values = true,
        default_value = ""
    )]
    both: String,
    /// With --seeds: options of `sim` for the runs before only, as "--kernel 6.1".
    #[arg(
        long = "before",
        value_name = "OPTIONS",
        requires = "seeds",
        allow_hyphen_values = true,
        default_value = "",
        id = "options_before"
    )]
    options_before: String,
    /// With --seeds: options of `sim` for the runs after only, as "--feature NO_RT_PULL --set tasks.web.run=300".
    #[arg(
        long = "after",
        value_name = "OPTIONS",
        requires = "seeds",
        allow_hyphen_values = true,
        default_value = "",
        id = "options_after"
    )]
    options_after: String,
    #[command(flatten)]
    page: PageOptions,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Done, Failure> {
    let after = arguments.after.as_ref().unwrap_or(&arguments.before);
    let is_twice = arguments.before == "-" && after == "-";
    match arguments.seeds {
        Some(seeds) if is_twice && arguments.after.is_none() => compare_scenarios(arguments, seeds),
        _ if is_twice => Err(Failure::input("-: standard input is one of both, not two")),
        Some(seeds) => compare_scenarios(arguments, seeds),
        None => compare_reports((&arguments.before, after), &arguments.page),
    }
}

fn compare_reports((before, after): (&str, &str), page: &PageOptions) -> Result<Done, Failure> {
    let (before, after) = (read(before)?, read(after)?);
    show([&before, &after], &Changes::new(&before, &after), page)
}

fn show(runs: [&Report; 2], changes: &Changes, page: &PageOptions) -> Result<Done, Failure> {
    let page = page.open()?;
    let text = changes.render();
    let text = if stdout().is_terminal() { dimmed(&text) } else { text };
    output::report(|out| out.write_all(text.as_bytes()))?;
    let [before, after] = runs.map(|report| Run { report, stretches: None });
    if let Some(page) = page {
        page.write(|out| out.write_all(html::comparison(before, after, changes).as_bytes()))?;
    }
    Ok(Done::Well)
}

/// A text whose lines of noise are grey on a terminal.
fn dimmed(text: &str) -> String {
    let dim = |line: &str| match line.ends_with(NOISE) {
        true => format!("\x1b[2m{line}\x1b[0m\n"),
        false => format!("{line}\n"),
    };
    text.lines().map(dim).collect()
}

/// One side of a comparison.
struct Side {
    name: String,
    text: String,
    options: Vec<String>,
    scenario: Scenario,
}

fn compare_scenarios(arguments: &Arguments, seeds: u64) -> Result<Done, Failure> {
    let Arguments { before, both, options_before, options_after, page, .. } = arguments;
    let after = arguments.after.as_ref().unwrap_or(before);
    let old = side(before, both, ("--before", options_before), None)?;
    // Standard input is read once.
    let read = (before == after).then_some(&*old.text);
    let new = side(after, both, ("--after", options_after), read)?;
    let sides = [old, new];
    let runs: Vec<usize> = (0..2 * seeds as usize).collect();
    let mut sheets: Vec<Option<Sheet>> = vec![None; runs.len()];
    let mut first: [Option<Report>; 2] = [None, None];
    let mut failure = None;
    let interrupt = Interrupt::expect();
    let stop = || interrupt.came();
    let (mut shown, mut done) = (RunsProgress::new(runs.len()), 0);
    // Both sides of a pair are next to each other.
    let work = |_: &mut (), run: usize| {
        let side = &sides[run % 2];
        let report = report((&side.name, &side.scenario), run as u64 / 2 + 1, &stop).transpose()?;
        Some(report.map(|report| (Sheet::new(&report), (run < 2).then_some(report))))
    };
    pool::each((pool::cores(), &runs), &stop, work, |run, result| {
        done += 1;
        shown.look(done);
        match result {
            Ok((sheet, report)) => {
                sheets[run] = Some(sheet);
                if let Some(report) = report {
                    first[run] = Some(report);
                }
            }
            Err(what) => failure = Some(Failure::Input(what)),
        }
        failure.is_none()
    });
    drop(shown);
    failure.map_or(Ok(()), Err)?;
    // Of a comparison that was interrupted these are the pairs that are complete.
    let pairs =
        sheets.chunks_exact(2).filter_map(|pair| Some([pair[0].clone()?, pair[1].clone()?]));
    let (old, new): (Vec<_>, Vec<_>) = pairs.map(|[old, new]| (old, new)).unzip();
    if interrupt.came() {
        say(format_args!("interrupted after {} of {seeds} pairs of runs", old.len()));
    }
    if let [Some(before), Some(after)] = &first {
        show([before, after], &Changes::of([&old, &new], &told(&sides)), page)?;
    }
    Ok(interrupt.done(Done::Well))
}

/// The differences of the sides as they were asked for: options, and values of the files.
fn told(sides: &[Side; 2]) -> Vec<String> {
    let [before, after] = sides;
    let mut told = scenarios::differences(&before.text, &after.text);
    if before.options != after.options {
        let shown = |side: &Side| match side.options.is_empty() {
            true => "no option".to_owned(),
            false => side.options.join(" "),
        };
        told.push(format!("{} -> {}", shown(before), shown(after)));
    }
    told
}

/// The parser of the options of a side.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct SideOptions {
    #[command(flatten)]
    host: HostOptions,
}

fn side(
    file: &str,
    both: &str,
    (option, own): (&str, &str),
    read: Option<&str>,
) -> Result<Side, Failure> {
    let words = |option: &str, text: &str| {
        shlex::split(text)
            .ok_or_else(|| Failure::Input(format!("{option} {text:?}: a quote is not closed")))
    };
    let own = words(option, own)?;
    let all = [vec![file.to_owned()], words("--both", both)?, own.clone()].concat();
    let host = SideOptions::try_parse_from(all).map_err(|error| {
        let what = error.to_string();
        let what = what.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        Failure::Input(format!("{option} or --both: {what}"))
    })?;
    let host = host.host;
    if let Some(odd) = host.unfit_for_several() {
        return Err(Failure::Input(format!("{option} or --both: {odd} is of one run")));
    }
    let text = read.map_or_else(|| options::scenario_text(file), |text| Ok(text.to_owned()))?;
    if is_report(&text) {
        let what = "a report; --seeds runs scenarios, and reports are compared without it";
        return Err(Failure::Input(format!("{file}:1:1: {what}")));
    }
    let parsed = host.parse(&text)?;
    for warning in &parsed.warnings {
        say(format_args!("warning: {warning}"));
    }
    Ok(Side { name: host.name(), text, options: own, scenario: parsed.scenario })
}

/// Whether a text is a saved report.
fn is_report(text: &str) -> bool {
    let start = text.trim_start().strip_prefix('{').map(str::trim_start);
    start.is_some_and(|text| text.starts_with("\"schema\""))
}

fn read(file: &str) -> Result<Report, Failure> {
    let text = options::text(file)?;
    let report = serde_json::from_str(&text).map_err(|error| wrong(file, &text, &error))?;
    let Report { schema, .. } = &report;
    if schema == SCHEMA { Ok(report) } else { Err(another(file, schema)) }
}

/// The error that a text is no report: it names the other schema, or says how scenarios are compared, or has the words of the
/// reader.
fn wrong(file: &str, text: &str, error: &serde_json::Error) -> Failure {
    if error.is_data()
        && let Ok(value) = serde_json::from_str::<serde_json::Value>(text)
    {
        match value.get("schema").and_then(serde_json::Value::as_str) {
            Some(schema) if schema != SCHEMA => return another(file, schema),
            None if value.get("tasks").is_some_and(serde_json::Value::is_object) => {
                let what = "no report but a scenario: --seeds 20 runs and compares scenarios";
                return Failure::Input(format!("{file}:1:1: {what}"));
            }
            _ => {}
        }
    }
    let (line, column) = (error.line().max(1), error.column().max(1));
    let what = error.to_string();
    let what = what.rsplit_once(" at line ").map_or(&*what, |(what, _)| what);
    Failure::input(format_args!("{file}:{line}:{column}: no report: {what}"))
}

fn another(file: &str, schema: &str) -> Failure {
    /// More of a name says no more.
    const SHOWN: usize = 60;
    let schema: String = schema.chars().take(SHOWN).collect();
    Failure::input(format_args!("{file}:1:1: its schema is {schema:?}, not {SCHEMA:?}"))
}
