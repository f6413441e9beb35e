//! The figures that a page's script draws, as JSON within the page.

use super::run::Run;
use super::table::ROWS;
use crate::chains::ChainReport;
use crate::course::SeriesReport;
use crate::figure::{Figure, LatencyReport};
use crate::report::{Report, Timed};
use crate::series::{CpuHistory, Distribution, HistoryReport};
use crate::stretches::Stretches;
use crate::text::busiest;
use crate::why::Cause;
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
    history: Option<Busy<'a>>,
    latencies: Vec<Curve<'a>>,
    chains: Vec<Curve<'a>>,
    series: Vec<&'a SeriesReport>,
    timeline: Option<&'a Stretches>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    changes: &'a [Timed],
}

/// The work of the machine over time, and how busy each CPU was in each step: in thousandths, which take a third of the
/// characters of nanoseconds.
#[derive(Serialize)]
struct Busy<'a> {
    step_ns: u64,
    rt_ns: &'a [u64],
    normal_ns: &'a [u64],
    idle_policy_ns: &'a [u64],
    overhead_ns: &'a [u64],
    cpus: Vec<Vec<u64>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waits: Vec<CauseSteps<'a>>,
}

/// The waits of all tasks by one cause over time.
#[derive(Serialize)]
struct CauseSteps<'a> {
    name: &'a str,
    ns: &'a [u64],
}

impl<'a> Busy<'a> {
    fn of(history: &'a HistoryReport, duration_ns: u64) -> Busy<'a> {
        let HistoryReport { step_ns, rt_ns, normal_ns, idle_policy_ns, overhead_ns, .. } = history;
        let wide =
            |step: usize| duration_ns.saturating_sub(step as u64 * step_ns).min(*step_ns).max(1);
        let share = |(step, &ns): (usize, &u64)| ns.saturating_mul(1_000) / wide(step);
        let lane = |cpu: &CpuHistory| cpu.busy_ns.iter().enumerate().map(share).collect();
        let cpus = history.cpus.iter().map(lane).collect();
        let steps =
            |(cause, ns): (&Cause, &'a Vec<u64>)| CauseSteps { name: cause.entry().name, ns };
        let waits = history.waits.iter().flatten().map(steps).collect();
        Busy { step_ns: *step_ns, rt_ns, normal_ns, idle_policy_ns, overhead_ns, cpus, waits }
    }
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
        history: run.report.history.as_ref().map(|it| Busy::of(it, run.report.duration_ns)),
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
