//! The figures that a page's script draws, as JSON within the page.

use super::run::Run;
use super::table::ROWS;
use crate::chains::ChainReport;
use crate::course::SeriesReport;
use crate::figure::{Figure, LatencyReport};
use crate::report::{Report, Timed};
use crate::series::{Distribution, HistoryReport};
use crate::stretches::Stretches;
use crate::text::busiest;
use serde::Serialize;
use std::cmp::Reverse;

/// The number of distributions that are drawn; of more, those of the tasks with the most wake-ups.
const DISTRIBUTIONS: usize = 12;

/// The script's names of two runs.
const LABELS: [&str; 2] = ["before", "after"];

#[derive(Serialize)]
struct Data<'a> {
    runs: Vec<Drawn<'a>>,
}

#[derive(Serialize)]
struct Drawn<'a> {
    label: &'a str,
    duration_ns: u64,
    from_ns: u64,
    cpus: usize,
    cpus_per_node: usize,
    history: Option<&'a HistoryReport>,
    latencies: Vec<Curve<'a>>,
    chains: Vec<Curve<'a>>,
    series: Vec<&'a SeriesReport>,
    timeline: Option<&'a Stretches>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    changes: &'a [Timed],
}

/// A distribution, as the script draws it.
#[derive(Serialize)]
struct Curve<'a> {
    name: &'a str,
    latency: &'a LatencyReport,
    points: &'a [(u64, u64)],
}

impl<'a> Curve<'a> {
    fn of_task(it: &'a Distribution) -> Curve<'a> {
        Curve { name: &it.name, latency: &it.wakeup_latency, points: &it.points }
    }

    fn of_chain(it: &'a ChainReport) -> Curve<'a> {
        Curve { name: &it.name, latency: &it.latency, points: &it.points }
    }
}

/// The figures of `runs`. The text contains no `<`, so nothing in it ends a script element.
pub(super) fn json<'a>(runs: &[Run<'a>]) -> String {
    let drawn = |(run, label): (&Run<'a>, &'a str)| Drawn {
        label,
        duration_ns: run.report.duration_ns,
        from_ns: run.report.from_ns,
        cpus: run.report.machine.cpus,
        cpus_per_node: run.report.machine.cpus_per_node(),
        history: run.report.history.as_ref(),
        latencies: drawn_latencies(run.report).into_iter().map(Curve::of_task).collect(),
        chains: drawn_chains(run.report).into_iter().map(Curve::of_chain).collect(),
        series: drawn_series(run.report),
        timeline: run.stretches,
        changes: shown_changes(run.report),
    };
    let data = Data { runs: runs.iter().zip(LABELS).map(drawn).collect() };
    let json = serde_json::to_string(&data).expect("figures are JSON");
    json.replace('<', "\\u003c")
}

/// The distributions that are drawn: of tasks that woke up, up to the limit.
pub(super) fn drawn_latencies(report: &Report) -> Vec<&Distribution> {
    let woken: Vec<_> = report.latencies.iter().filter(|it| !it.points.is_empty()).collect();
    let count = |it: &&Distribution| -> Figure { it.wakeup_latency.count };
    busiest(&woken, DISTRIBUTIONS, count).into_iter().copied().collect()
}

/// The chains whose distributions are drawn: those with tokens that ended, up to the limit.
pub(super) fn drawn_chains(report: &Report) -> Vec<&ChainReport> {
    let ended: Vec<_> = report.chains.iter().filter(|it| !it.points.is_empty()).collect();
    busiest(&ended, DISTRIBUTIONS, |it| it.count).into_iter().copied().collect()
}

/// The latencies over time that are drawn: of the chains, then of those with the most, up to the limit.
pub(super) fn drawn_series(report: &Report) -> Vec<&SeriesReport> {
    let mut all: Vec<_> = report.series.iter().collect();
    all.sort_by_key(|it| (it.kind != "chain", Reverse(it.count.iter().sum::<u64>())));
    all.truncate(DISTRIBUTIONS);
    all
}

/// The changes of the scenario's timeline that are shown: the first ones, up to the limit of rows.
pub(super) fn shown_changes(report: &Report) -> &[Timed] {
    &report.timeline[..report.timeline.len().min(ROWS)]
}
