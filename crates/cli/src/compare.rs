//! `runyard compare`: two saved reports, before and after.

use crate::exit::Done;
use crate::options;
use crate::output;
use crate::page::PageOptions;
use clap::Args;
use runyard_hosts::Failure;
use runyard_report::html::{self, Run};
use runyard_report::{Changes, Report, SCHEMA};
use std::io::Write;

/// The arguments of `runyard compare`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The report of the run before: what --json printed, a file or `-` for standard input.
    before: String,
    /// The report of the run after.
    after: String,
    #[command(flatten)]
    page: PageOptions,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Done, Failure> {
    let Arguments { before, after, page } = arguments;
    if before == "-" && after == "-" {
        return Err(Failure::input("-: standard input is one report, not two"));
    }
    let (before, after) = (read(before)?, read(after)?);
    let page = page.open()?;
    let changes = Changes::new(&before, &after);
    output::report(|out| out.write_all(changes.render().as_bytes()))?;
    let run = |report| Run { report, stretches: None };
    let both = || html::comparison(run(&before), run(&after));
    if let Some(page) = page {
        page.write(|out| out.write_all(both().as_bytes()))?;
    }
    Ok(Done::Well)
}

fn read(file: &str) -> Result<Report, Failure> {
    let text = options::text(file)?;
    let report = serde_json::from_str(&text).map_err(|error| wrong(file, &text, &error))?;
    let Report { schema, .. } = &report;
    if schema == SCHEMA { Ok(report) } else { Err(another(file, schema)) }
}

/// What is wrong with a text that is no report: with another schema, that; else what the reader
/// stumbled over.
fn wrong(file: &str, text: &str, error: &serde_json::Error) -> Failure {
    if error.is_data()
        && let Ok(value) = serde_json::from_str::<serde_json::Value>(text)
        && let Some(schema) = value.get("schema").and_then(serde_json::Value::as_str)
        && schema != SCHEMA
    {
        return another(file, schema);
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
