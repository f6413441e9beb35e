//! What differs between two runs: each figure before and after, and their ratio.
//!
//! Tasks and task groups of the same name belong together; one that only one run has stands
//! against nothing.

use crate::balance::BalanceReport;
use crate::figure::{Figure, LatencyReport, sum};
use crate::groups::LimitReport;
use crate::report::Report;
use crate::text::{self, counted, shortened};
use crate::units::{UNKNOWN, count_cell, percent_cell, ratio_cell, span_cell};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How many tasks and how many task groups are told of in a text.
const TEXT_ROWS: usize = 40;

/// The figures of two runs, side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// What the runs were, each in a line.
    runs: [String; 2],
    pub(crate) machine: Row,
    /// Wake-up latencies, all instances of a task together.
    pub(crate) latencies: Vec<Row>,
    pub(crate) tasks: Vec<Row>,
    pub(crate) groups: Vec<Row>,
}

/// One thing that both runs have, or one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// The more, the sooner it is shown if there are too many.
    weight: Figure,
    pub(crate) changes: Vec<Change>,
}

/// One figure before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) what: &'static str,
    pub(crate) unit: Unit,
    pub(crate) before: Figure,
    pub(crate) after: Figure,
}

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Nanoseconds of which fewer are better.
    Delay,
    /// Nanoseconds.
    Span,
    /// Things.
    Count,
    /// Parts of a million.
    Share,
}

impl Changes {
    /// What differs between these two.
    #[must_use]
    pub fn new(before: &Report, after: &Report) -> Changes {
        let machine = machine_figures(before).into_iter().zip(machine_figures(after));
        let change = |((what, unit, before), (_, _, after)): (Named, Named)| Change {
            what,
            unit,
            before,
            after,
        };
        let moves = balance_figures(before).into_iter().zip(balance_figures(after)).map(change);
        // Most runs have no such moves. A report that does not tell of any is as one without.
        let moves = moves.filter(|it| it.before.unwrap_or(0) != it.after.unwrap_or(0));
        let forced = [forced_idle(before)].into_iter().zip([forced_idle(after)]).map(change);
        let forced = forced.filter(|it| it.before.max(it.after) > Some(0));
        let machine = machine.map(change).chain(moves).chain(forced);
        Changes {
            runs: [text::ran_without(before), text::ran_without(after)],
            machine: Row { name: String::new(), weight: None, changes: machine.collect() },
            latencies: rows(
                [&before.latencies, &after.latencies],
                |it| (&it.name, it.wakeup_latency.count),
                |it| latency_figures(&it.wakeup_latency).to_vec(),
            ),
            tasks: rows(
                [&before.tasks, &after.tasks],
                |task| (&task.name, task.runtime_ns),
                |task| {
                    let own = [
                        ("runtime", Unit::Span, task.runtime_ns),
                        ("wait", Unit::Delay, task.wait_ns),
                    ];
                    let [p50, p99, _, max] = latency_figures(&task.wakeup_latency);
                    own.into_iter().chain([p50, p99, max]).collect()
                },
            ),
            groups: rows(
                [&before.groups, &after.groups],
                |group| (&group.path, group.runtime_ns),
                |group| {
                    vec![
                        ("runtime", Unit::Span, group.runtime_ns),
                        ("limit", Unit::Share, group.limit.as_ref().map(share_of_a_cpu)),
                        ("throttled", Unit::Count, group.nr_throttled),
                        ("of its periods", Unit::Share, group.throttled_share()),
                        ("throttled for", Unit::Delay, group.throttled_ns),
                        ("bursts", Unit::Count, group.nr_bursts),
                        ("borrowed", Unit::Span, group.borrowed_ns),
                    ]
                },
            ),
        }
    }

    /// The changes as text that ends with a line end. Figures that stayed as they were are left
    /// out, but for the machine's.
    #[must_use]
    pub fn render(&self) -> String {
        let [before, after] = &self.runs;
        let mut text = format!("before: {before}\nafter:  {after}\n\n");
        text.push_str(&section("machine", &[&self.machine], |_| true));
        let all: [(&str, &[Row]); 3] = [
            ("wake-up latency", &self.latencies),
            ("task", &self.tasks),
            ("task group", &self.groups),
        ];
        for (what, rows) in all.into_iter().filter(|(_, rows)| !rows.is_empty()) {
            let changed = |change: &Change| change.before != change.after;
            let differs = |row: &&Row| row.changes.iter().any(changed);
            let found: Vec<_> = rows.iter().filter(differs).collect();
            let same = rows.len() - found.len();
            text.push('\n');
            let shown = heaviest(&found, TEXT_ROWS);
            if !shown.is_empty() {
                text.push_str(&section(what, &shown, changed));
            }
            let noun = if what == "wake-up latency" { "distribution" } else { what };
            let mut rest = |n: usize, how: &str| {
                if n > 0 {
                    writeln!(text, "{} {how}", counted(n as u64, noun))
                        .expect("a string takes all");
                }
            };
            rest(found.len() - shown.len(), "less busy that differ too");
            rest(same, "as before");
        }
        text
    }
}

impl Change {
    /// The figure before or after, for a column.
    pub(crate) fn cell(&self, figure: Figure) -> String {
        match self.unit {
            Unit::Delay | Unit::Span => span_cell(figure),
            Unit::Count => count_cell(figure),
            Unit::Share => match percent_cell(figure, 1_000_000) {
                unknown if unknown == UNKNOWN => unknown,
                percent => percent + " %",
            },
        }
    }

    /// After over before.
    pub(crate) fn ratio(&self) -> String {
        ratio_cell(self.before, self.after)
    }
}

/// The `most` rows with the greatest weight, in their order.
pub(crate) fn heaviest<'a>(rows: &[&'a Row], most: usize) -> Vec<&'a Row> {
    text::busiest(rows, most, |row| row.weight).into_iter().copied().collect()
}

/// A name, a unit and the figure.
type Named = (&'static str, Unit, Figure);

fn machine_figures(report: &Report) -> [Named; 5] {
    let machine = &report.machine;
    let millionths = |share: f64| (share.clamp(0.0, 1.0) * 1e6).round() as u64;
    [
        ("utilization", Unit::Share, machine.utilization.map(millionths)),
        ("switches", Unit::Count, machine.switches),
        ("preemptions", Unit::Count, machine.preemptions),
        ("migrations", Unit::Count, machine.migrations),
        ("timer interrupts", Unit::Count, machine.timer_interrupts),
    ]
}

/// What balancing moved; unknown without passes, as older reports do not tell of any.
fn balance_figures(report: &Report) -> [Named; 2] {
    let all = |count: fn(&BalanceReport) -> u64| {
        (!report.balance.is_empty()).then(|| report.balance.iter().map(count).sum())
    };
    [
        ("moved by balance", Unit::Count, all(|row| row.moved)),
        ("taken by balance", Unit::Count, all(|row| row.taken)),
    ]
}

/// How long CPUs were forced idle; unknown to older reports.
fn forced_idle(report: &Report) -> Named {
    ("forced idle", Unit::Delay, sum(&report.cpus, |cpu| cpu.forced_idle_ns))
}

/// A limit in parts of a million of one CPU.
fn share_of_a_cpu(limit: &LimitReport) -> u64 {
    let millionths = u128::from(limit.runtime_us) * 1_000_000;
    let share = millionths.checked_div(u128::from(limit.period_us)).unwrap_or(0);
    u64::try_from(share).unwrap_or(u64::MAX)
}

fn latency_figures(latency: &LatencyReport) -> [Named; 4] {
    [
        ("p50", Unit::Delay, latency.p50_ns),
        ("p99", Unit::Delay, latency.p99_ns),
        ("p99.9", Unit::Delay, latency.p999_ns),
        ("max", Unit::Delay, latency.max_ns),
    ]
}

/// Brings together what has the same name in both, in the order of the first, then what only the
/// second has. `key` is the name and the weight.
fn rows<'a, T: 'a>(
    [before, after]: [&'a [T]; 2],
    key: impl Fn(&'a T) -> (&'a String, Figure),
    figures: impl Fn(&'a T) -> Vec<Named>,
) -> Vec<Row> {
    let mut later: BTreeMap<_, _> = after.iter().map(|it| (key(it).0, it)).collect();
    let row = |before: Option<&'a T>, after: Option<&'a T>| {
        let some = before.or(after).expect("one of them has it");
        let weight = |it: Option<&'a T>| it.and_then(|it| key(it).1);
        let known = |it: Option<&'a T>| it.map(&figures).unwrap_or_default();
        let (old, new) = (known(before), known(after));
        let figure = |of: &[Named], at: usize| of.get(at).and_then(|&(_, _, figure)| figure);
        let change = |(at, (what, unit, _)): (usize, Named)| Change {
            what,
            unit,
            before: figure(&old, at),
            after: figure(&new, at),
        };
        Row {
            name: key(some).0.clone(),
            weight: weight(before).max(weight(after)),
            changes: figures(some).into_iter().enumerate().map(change).collect(),
        }
    };
    let mut rows: Vec<_> = before.iter().map(|it| row(Some(it), later.remove(key(it).0))).collect();
    let only_after = after.iter().filter(|it| later.contains_key(key(it).0));
    rows.extend(only_after.map(|it| row(None, Some(it))));
    rows
}

/// A table with a line for each change that `shown` lets through.
fn section(title: &str, rows: &[&Row], shown: impl Fn(&Change) -> bool) -> String {
    let mut table = text::table(&[title, "", "before", "after", "ratio"], 2);
    for row in rows {
        // The name stands at the first of its figures only.
        let mut name = shortened(&row.name);
        for change in row.changes.iter().filter(|change| shown(change)) {
            table.add_row([
                std::mem::take(&mut name),
                change.what.to_owned(),
                change.cell(change.before),
                change.cell(change.after),
                change.ratio(),
            ]);
        }
    }
    table.trim_fmt() + "\n"
}
