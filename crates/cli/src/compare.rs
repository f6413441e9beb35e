//! `runyard compare`: compares two saved reports, before and after; or two scenarios, with several seeds each.
//!
//! Two reports are compared as they are. Scenarios are run, and the figures that are asked for are judged. A scenario may
//! be compared with itself when `--before` and `--after` name the difference; both take the options of `sim`.
//!
//! `--fail-if` is for checks of a build: it gives the exit code 1 only if a condition certainly fails.

use crate::exit::Done;
use crate::interrupt::Interrupt;
use crate::options::{self, HostOptions};
use crate::output;
use crate::page::PageOptions;
use crate::progress::RunsProgress;
use crate::window::WindowOptions;
use clap::{Args, Parser};
use runyard_outcome::Failure;
use runyard_outcome::stderr::say;
use runyard_report::NOISE;
use runyard_sweep::{
    Asking, Comparison, Condition, Is, Metric, SEEDS, Side, Text, USUAL_SEEDS, compare, is_report,
    pool,
};
use std::io::{IsTerminal, Write, stdout};

/// The arguments of `runyard compare`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The scenario before, or the report before (the output of --json): a file, or `-` for standard input.
    before: String,
    /// The scenario after, or the report after; otherwise the same scenario.
    after: Option<String>,
    /// Run both scenarios with the seeds 1 to N; otherwise 1 to 20.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(SEEDS))]
    seeds: Option<u64>,
    /// Judge this figure only, as "p99(chains.request.latency)"; repeatable. Each further figure takes more seeds.
    #[arg(long = "metric", value_name = "METRIC")]
    metrics: Vec<Metric>,
    /// Exit with code 1 if the condition fails, as "p99(chains.request.latency) > +10%" does if the whole 95 % interval
    /// of the change is above; repeatable.
    #[arg(long, value_name = "CONDITION")]
    fail_if: Vec<Condition>,
    /// Exit with code 1 also if a condition is undecided with so few seeds.
    #[arg(long, requires = "fail_if")]
    strict: bool,
    /// Print only the differences, as JSON on standard output.
    #[arg(long)]
    json: bool,
    /// Options of `sim` for both scenarios, as "--cpus 4 --duration 5s".
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true, default_value = "")]
    both: String,
    /// Options of `sim` for the scenario before only, as "--kernel 6.1".
    #[arg(
        long = "before",
        value_name = "OPTIONS",
        allow_hyphen_values = true,
        default_value = "",
        id = "options_before"
    )]
    options_before: String,
    /// Options of `sim` for the scenario after only, as "--feature NO_RT_PULL --set tasks.web.run=300".
    #[arg(
        long = "after",
        value_name = "OPTIONS",
        allow_hyphen_values = true,
        default_value = "",
        id = "options_after"
    )]
    options_after: String,
    #[command(flatten)]
    window: WindowOptions,
    #[command(flatten)]
    page: PageOptions,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Done, Failure> {
    let Arguments { before, after, .. } = arguments;
    let text = if arguments.asks_for_runs() { options::scenario_text } else { options::text };
    let read = |file: &str| Ok(Text { file: file.to_owned(), text: text(file)? });
    if before == "-" && after.as_deref() == Some("-") {
        return Err(Failure::input("-: standard input is one of both, not two"));
    }
    let old = read(before)?;
    // Standard input can be read only once.
    let new = match after {
        Some(after) if after != before => read(after)?,
        _ => old.clone(),
    };
    if !arguments.asks_for_runs() && [&old, &new].into_iter().any(|it| is_report(&it.text)) {
        return show(&Comparison::of_reports(&old, &new)?, arguments);
    }
    compare_scenarios(arguments, [old, new])
}

impl Arguments {
    /// Whether an option needs runs, which reports do not have.
    fn asks_for_runs(&self) -> bool {
        let options = [&self.both, &self.options_before, &self.options_after];
        self.seeds.is_some()
            || self.after.is_none()
            || !self.metrics.is_empty()
            || !self.fail_if.is_empty()
            || self.window.is_given()
            || options.into_iter().any(|options| !options.is_empty())
    }
}

fn show(comparison: &Comparison, arguments: &Arguments) -> Result<Done, Failure> {
    let page = arguments.page.open()?;
    let text = match arguments.json {
        true => comparison.to_json(),
        false if stdout().is_terminal() => dimmed(&comparison.text()),
        false => comparison.text(),
    };
    output::report(|out| out.write_all(text.as_bytes()))?;
    if let Some(page) = page {
        page.write(|out| out.write_all(comparison.html().as_bytes()))?;
    }
    let breaks = |is| is == Is::Failed || (is == Is::Undecided && arguments.strict);
    let mut broken = comparison.outcomes().iter().filter(|it| breaks(it.is)).peekable();
    let done = if broken.peek().is_some() { Done::Broken } else { Done::Well };
    if arguments.json {
        broken.for_each(say);
    }
    Ok(done)
}

/// The text, with the lines of noise in grey for a terminal.
fn dimmed(text: &str) -> String {
    let dim = |line: &str| match line.ends_with(NOISE) {
        true => format!("\x1b[2m{line}\x1b[0m\n"),
        false => format!("{line}\n"),
    };
    text.lines().map(dim).collect()
}

fn compare_scenarios(arguments: &Arguments, [old, new]: [Text; 2]) -> Result<Done, Failure> {
    let Arguments { both, window, options_before, options_after, .. } = arguments;
    let both = (both.as_str(), *window);
    let sides = [
        side(old, both, ("--before", options_before))?,
        side(new, both, ("--after", options_after))?,
    ];
    let asking = Asking {
        seeds: arguments.seeds.unwrap_or(USUAL_SEEDS),
        jobs: pool::cores(),
        metrics: arguments.metrics.clone(),
        conditions: arguments.fail_if.clone(),
    };
    let interrupt = Interrupt::expect();
    let mut shown = RunsProgress::new(2 * asking.seeds as usize);
    let compared = compare(&sides, &asking, &|| interrupt.came(), |done| shown.look(done));
    drop(shown);
    let compared = compared?;
    if interrupt.came() {
        say(format_args!("interrupted after {} of {} pairs of runs", compared.pairs, asking.seeds));
    }
    let done = compared.comparison.map_or(Ok(Done::Well), |it| show(&it, arguments))?;
    Ok(interrupt.done(done))
}

/// The parser of one side's options.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct SideOptions {
    #[command(flatten)]
    host: HostOptions,
    #[command(flatten)]
    window: WindowOptions,
}

fn side(
    scenario: Text,
    (both, window): (&str, WindowOptions),
    (option, own): (&str, &str),
) -> Result<Side, Failure> {
    let words = |option: &str, text: &str| {
        shlex::split(text)
            .ok_or_else(|| Failure::Input(format!("{option} {text:?}: a quote is not closed")))
    };
    let own = words(option, own)?;
    let all = [vec![scenario.file.clone()], words("--both", both)?, own.clone()].concat();
    let side = SideOptions::try_parse_from(all).map_err(|error| {
        let what = error.to_string();
        let what = what.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        Failure::Input(format!("{option} or --both: {what}"))
    })?;
    if let Some(odd) = side.host.unfit_for_several() {
        return Err(Failure::Input(format!("{option} or --both: {odd} is of one run")));
    }
    let side = Side::new(scenario, own, &side.window.over(window.over(side.host.simulated())))?;
    for warning in side.warnings() {
        say(format_args!("warning: {warning}"));
    }
    Ok(side)
}
