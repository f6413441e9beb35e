//! The page of one run, of two runs side by side, or of a sweep. Everything is in one file; nothing comes from a
//! network.
//!
//! The tables are in the document itself (`tables.rs`), so they can be read without a script and searched. ECharts
//! draws the charts from figures in the page (`data.rs`, `page.js`). The timeline has a canvas of its own
//! (`timeline.js`). The library is a megabyte of each page. A policy in the page's head forbids loading anything, so
//! the browser itself enforces the promise of one file.
//!
//! The changes of a scenario's timeline are lines over the charts (`changes.js`). Only pages of runs with changes have
//! that script.
//!
//! Rows and distributions have a greatest number, and the timeline has a greatest size, so the size of a page is
//! bounded. Pages are functions of reports: the same reports give the same bytes.
//!
//! Invariant: no text of a user becomes markup. It goes through `escaped` into the document and through `json` into a
//! script element, and the script shows it as text.

mod brief;
mod chains;
mod compared;
mod data;
mod run;
mod sweep;
mod table;
mod tables;
mod tasks;
mod worst;

pub use run::Run;
pub use sweep::{Sweep, SweepColumn, SweepMetric};

use crate::change::Changes;
use crate::report::Report;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
/// What the scripts of all pages share.
const COMMON: &str = include_str!("common.js");
const SCRIPT: &str = include_str!("page.js");
/// The style that the page of a sweep adds.
const SWEEP_STYLE: &str = include_str!("sweep.css");
/// The script of the page of a sweep.
const SWEEP_SCRIPT: &str = include_str!("sweep.js");
/// The style that the page of a run with changes adds.
const CHANGES_STYLE: &str = include_str!("changes.css");
/// The script that the page of a run with changes adds.
const CHANGES_SCRIPT: &str = include_str!("changes.js");
const TIMELINE: &str = include_str!("timeline.js");
/// Apache ECharts; the `README.md` beside it has the version.
const LIBRARY: &str = include_str!("../../vendor/echarts/echarts.min.js");

/// The page of one run.
#[must_use]
pub fn page(run: Run) -> String {
    let title = format!("{} on {}", run.report.scenario, run.report.host);
    write_runs(&title, "", &tables::one(run), &[run])
}

/// A short report as a part of another document: a line about the run, and a table of the tasks by name.
///
/// ```
/// use runyard_report::{Report, html};
///
/// let report = Report { scenario: "a < b".to_owned(), ..Report::default() };
/// assert!(html::brief(&report).contains("a &lt; b"));
/// ```
#[must_use]
pub fn brief(report: &Report) -> String {
    brief::brief(report)
}

/// A text of several lines, as a part of another document.
#[must_use]
pub fn preformatted(text: &str) -> String {
    let escaped: Vec<_> = text.lines().map(table::escaped).collect();
    format!("<pre>{}</pre>\n", escaped.join("\n"))
}

/// A table of texts, as a part of another document.
#[must_use]
pub fn texts(titles: &[String], rows: &[Vec<String>]) -> String {
    brief::table(titles, rows)
}

/// The page of two runs, side by side. With several runs a side, the charts show the first runs, and `changes` has the
/// figures of all runs.
#[must_use]
pub fn comparison(before: Run, after: Run, changes: &Changes) -> String {
    let title = format!("{} and {}", before.report.scenario, after.report.scenario);
    let body = compared::two([before, after], changes);
    write_runs(&title, compared::STYLE, &body, &[before, after])
}

/// The page of a sweep.
#[must_use]
pub fn sweep(sweep: &Sweep) -> String {
    let title = format!("{}, swept", sweep.title);
    let (body, data) = (sweep::body(sweep), sweep::json(sweep));
    write(&Page {
        title: &title,
        style: SWEEP_STYLE,
        body: &body,
        data: &data,
        script: SWEEP_SCRIPT,
    })
}

/// The parts in which pages differ.
struct Page<'p> {
    title: &'p str,
    /// The style that is added to the style of all pages.
    style: &'p str,
    body: &'p str,
    data: &'p str,
    script: &'p str,
}

/// The page of `runs`. A page with changes has their style and script too.
fn write_runs(title: &str, style: &str, body: &str, runs: &[Run]) -> String {
    let data = data::json(runs);
    let (mut style, mut script) = (style.to_owned(), SCRIPT.to_owned());
    if runs.iter().any(|run| !run.report.timeline.is_empty()) {
        style.push_str(CHANGES_STYLE);
        script.push_str(CHANGES_SCRIPT);
    }
    write(&Page { title, style: &style, body, data: &data, script: &script })
}

fn write(it: &Page) -> String {
    let Page { title, style, body, data, script } = *it;
    let parts = [
        ("@title@", &*table::escaped(title)),
        ("@style@", &*format!("{STYLE}{style}")),
        ("@body@", body),
        ("@data@", data),
        ("@library@", LIBRARY),
        ("@common@", COMMON),
        ("@timeline@", TIMELINE),
        ("@script@", script),
    ];
    let mut page = String::with_capacity(LIBRARY.len() + data.len() + body.len() + (32 << 10));
    let mut rest = PAGE;
    // Each place is looked for after the one before it, never in inserted text.
    for (place, part) in parts {
        let (before, after) = rest.split_once(place).expect("the page has all its places in order");
        page.push_str(before);
        page.push_str(part);
        rest = after;
    }
    page + rest
}
