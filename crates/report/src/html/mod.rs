//! A page of one run, or of two side by side: everything in one file, nothing from a network.
//!
//! The tables are in the document as it is written (`tables.rs`), so they can be read without a
//! script and searched for; charts are drawn by ECharts from figures that the page carries
//! (`data.rs`, `page.js`). The library is a megabyte of each page. A policy in the page's head
//! forbids it to load anything, so the browser itself holds the promise of one file.
//!
//! What is shown of a run is bounded, so a page is: rows, distributions and stretches each have a
//! greatest number. Pages are functions of reports: the same reports make the same bytes.
//!
//! Invariant: no text of a user is a part of the markup. It goes through `escaped` into the
//! document, through `json` into a script element, and the script shows it as text.

mod data;
mod run;
mod tables;

pub use run::Run;

use crate::change::Changes;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Apache ECharts; `README.md` beside it says which.
const LIBRARY: &str = include_str!("../../vendor/echarts/echarts.min.js");

/// The page of one run.
#[must_use]
pub fn page(run: Run) -> String {
    let title = format!("{} on {}", run.report.scenario, run.report.host);
    write(&title, &tables::one(run), &[run])
}

/// The page of two runs, side by side.
#[must_use]
pub fn comparison(before: Run, after: Run) -> String {
    let title = format!("{} and {}", before.report.scenario, after.report.scenario);
    let changes = Changes::new(before.report, after.report);
    write(&title, &tables::two(before, after, &changes), &[before, after])
}

fn write(title: &str, body: &str, runs: &[Run]) -> String {
    let data = data::json(runs);
    let parts = [
        ("@title@", &*tables::escaped(title)),
        ("@style@", STYLE),
        ("@body@", body),
        ("@data@", &data),
        ("@library@", LIBRARY),
        ("@script@", SCRIPT),
    ];
    let mut page = String::with_capacity(LIBRARY.len() + data.len() + body.len() + (32 << 10));
    let mut rest = PAGE;
    // Each place is looked for behind the one before it, never in what was put in.
    for (place, part) in parts {
        let (before, after) = rest.split_once(place).expect("the page has all its places in order");
        page.push_str(before);
        page.push_str(part);
        rest = after;
    }
    page + rest
}
