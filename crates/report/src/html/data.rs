//! The figures that a page's script draws, as JSON within the page.

use super::run::Run;
use super::table::ROWS;
use crate::figure::Figure;
use crate::report::{Report, Timed};
use crate::series::{Distribution, HistoryReport};
use crate::stretches::Stretches;
use crate::text::busiest;
use serde::Serialize;

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
    latencies: Vec<&'a Distribution>,
    timeline: Option<&'a Stretches>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    changes: &'a [Timed],
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
        latencies: drawn_latencies(run.report),
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

/// The changes of the scenario's timeline that are shown: the first ones, up to the limit of rows.
pub(super) fn shown_changes(report: &Report) -> &[Timed] {
    &report.timeline[..report.timeline.len().min(ROWS)]
}
