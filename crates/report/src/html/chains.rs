//! The chains of a run, and the slowest tokens of each.

use super::data::drawn_chains;
use super::table::{ROWS, Table, moment, section};
use crate::chains::SlowReport;
use crate::column::{Scale, spanned};
use crate::report::Report;
use crate::text::busiest;
use crate::units::span;

/// The number of tokens of a chain that are shown.
const SLOWEST: usize = 3;

const NOTE: &str = "From the wake-up of the first task, by those that it woke, to the end of the last one's work. A token \
                    that a newer one overtook is dropped.";

const SLOWEST_NOTE: &str = "When the slowest tokens began, and how long each task had them.";

/// The part of the page about chains; empty for a run without chains.
pub(super) fn chains(report: &Report) -> String {
    if report.chains.is_empty() {
        return String::new();
    }
    let shown = busiest(&report.chains, ROWS, |chain| chain.count);
    let rows: Vec<_> = shown.iter().map(|&chain| (chain, Scale::default())).collect();
    let table = Table::of("chains", &rows).end(report.chains.len().saturating_sub(ROWS), "chain");
    let mut slowest = Table::new("slowest", &["chain", "tasks", "at", "took"], 2);
    for chain in shown {
        for slow in chain.worst.iter().take(SLOWEST) {
            let at = (Some(slow.at_ns), moment(slow.at_ns));
            slowest.row(&[&chain.name, &hops(slow)], &[at, spanned(Some(slow.latency_ns))]);
        }
    }
    let chart = match drawn_chains(report).is_empty() {
        true => "",
        false => {
            "<ul class=legend id=chain-latency-legend></ul>\n<div class=chart id=chain-latency></div>\n"
        }
    };
    let mut sections = section("Chains", NOTE, &format!("{chart}{table}"));
    if report.chains.iter().any(|chain| !chain.worst.is_empty()) {
        sections.push_str(&section("Slowest tokens", SLOWEST_NOTE, &slowest.end(0, "token")));
    }
    sections
}

/// The tasks of a token, each with the time that it had the token.
fn hops(slow: &SlowReport) -> String {
    let hops = slow.hops_with_ends();
    let hops =
        hops.map(|(hop, end)| format!("{} {}", hop.task, span(end.saturating_sub(hop.at_ns))));
    hops.collect::<Vec<_>>().join(", ")
}
