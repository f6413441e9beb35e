//! `runyard compare`: compares two saved reports, before and after; or two scenarios, with several seeds each.
//!
//! With `--seeds` the arguments are scenarios, which are run. Without it they are saved reports. A scenario may be
//! compared with itself when `--before` and `--after` name the difference; both take the options of `sim`.

use crate::exit::Done;
use crate::interrupt::Interrupt;
use crate::options::{self, HostOptions};
use crate::output;
use crate::page::PageOptions;
use crate::progress::RunsProgress;
use clap::{Args, Parser};
use runyard_outcome::Failure;
use runyard_outcome::stderr::say;
use runyard_report::NOISE;
use runyard_sweep::{Comparison, SEEDS, Side, Text, compare, pool};
use std::io::{IsTerminal, Write, stdout};

/// The arguments of `runyard compare`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The report before: the output of --json, as a file or `-` for standard input. With --seeds, a scenario.
    before: String,
    /// The report after. With --seeds, a scenario; it may be the same one.
    #[arg(required_unless_present = "seeds")]
    after: Option<String>,
    /// Run both scenarios with the seeds 1 to N, and separate changes from noise.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(SEEDS))]
    seeds: Option<u64>,
    /// With --seeds: options of `sim` for both sides, as "--cpus 4 --duration 5s".
    #[arg(
        long,
        value_name = "OPTIONS",
        requires = "seeds",
        allow_hyphen_values = true,
        default_value = ""
    )]
    both: String,
    /// With --seeds: options of `sim` for the side before only, as "--kernel 6.1".
    #[arg(
        long = "before",
        value_name = "OPTIONS",
        requires = "seeds",
        allow_hyphen_values = true,
        default_value = "",
        id = "options_before"
    )]
    options_before: String,
    /// With --seeds: options of `sim` for the side after only, as "--feature NO_RT_PULL --set tasks.web.run=300".
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
    let saved = |file: &str| Ok(Text { file: file.to_owned(), text: options::text(file)? });
    show(&Comparison::of_reports(&saved(before)?, &saved(after)?)?, page)
}

fn show(comparison: &Comparison, page: &PageOptions) -> Result<Done, Failure> {
    let page = page.open()?;
    let text = comparison.text();
    let text = if stdout().is_terminal() { dimmed(&text) } else { text };
    output::report(|out| out.write_all(text.as_bytes()))?;
    if let Some(page) = page {
        page.write(|out| out.write_all(comparison.html().as_bytes()))?;
    }
    Ok(Done::Well)
}

/// The text, with the lines of noise in grey for a terminal.
fn dimmed(text: &str) -> String {
    let dim = |line: &str| match line.ends_with(NOISE) {
        true => format!("\x1b[2m{line}\x1b[0m\n"),
        false => format!("{line}\n"),
    };
    text.lines().map(dim).collect()
}

fn compare_scenarios(arguments: &Arguments, seeds: u64) -> Result<Done, Failure> {
    let Arguments { before, both, options_before, options_after, page, .. } = arguments;
    let after = arguments.after.as_ref().unwrap_or(before);
    let old = side(before, both, ("--before", options_before), None)?;
    // Standard input can be read only once.
    let read = (before == after).then_some(old.text());
    let new = side(after, both, ("--after", options_after), read)?;
    let interrupt = Interrupt::expect();
    let mut shown = RunsProgress::new(2 * seeds as usize);
    let compared =
        compare(&[old, new], (seeds, pool::cores()), &|| interrupt.came(), |done| shown.look(done));
    drop(shown);
    let compared = compared?;
    if interrupt.came() {
        say(format_args!("interrupted after {} of {seeds} pairs of runs", compared.pairs));
    }
    if let Some(comparison) = &compared.comparison {
        show(comparison, page)?;
    }
    Ok(interrupt.done(Done::Well))
}

/// The parser of one side's options.
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
    let side = Side::new(Text { file: file.to_owned(), text }, own, &host.simulated())?;
    for warning in side.warnings() {
        say(format_args!("warning: {warning}"));
    }
    Ok(side)
}
