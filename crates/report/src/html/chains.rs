//! The chains of a run, and the slowest tokens of each.

use super::table::{ROWS, Table, counted_cell, moment, section, spanned};
use crate::chains::{ChainReport, SlowReport};
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
    let titles = ["chain", "count", "dropped", "missed", "p50", "p90", "p99", "p99.9", "max"];
    let mut table = Table::new("chains", &titles, 1);
    let mut slowest = Table::new("slowest", &["chain", "tasks", "at", "took"], 2);
    for chain in busiest(&report.chains, ROWS, |chain| chain.count) {
        let ChainReport { name, count, dropped, missed, latency, worst } = chain;
        let counts = [*count, *dropped, *missed].map(counted_cell);
        let spans =
            [latency.p50_ns, latency.p90_ns, latency.p99_ns, latency.p999_ns, latency.max_ns];
        table.row(&[name], &[&counts[..], &spans.map(spanned)].concat());
        for slow in worst.iter().take(SLOWEST) {
            let at = (Some(slow.at_ns), moment(slow.at_ns));
            slowest.row(&[name, &hops(slow)], &[at, spanned(Some(slow.latency_ns))]);
        }
    }
    let table = table.end(report.chains.len().saturating_sub(ROWS), "chain");
    let mut sections = section("Chains", NOTE, &table);
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
