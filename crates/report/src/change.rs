//! The differences between two sides: each figure before and after, their ratio, and the verdicts on figures that are
//! asked for.
//!
//! A side is one run, or several runs with different seeds. Tasks, task groups and chains of the same name are
//! compared. The instances of a thread are one row, and so are the tasks that a recording has of one command. A thing
//! that only one side has is shown alone. With several runs a figure is their median, a number of samples their sum, and
//! runs of the same seed are pairs, which give the difference and its interval. Only figures that are asked for are
//! tested ([`crate::judged`]). One run a side tells nothing of noise, so then nothing is called a change.

use crate::balance::{BalanceReport, MOVED, TAKEN};
use crate::chains::ChainReport;
use crate::column::{Columns, add};
use crate::figure::{Figure, LatencyReport, Unit};
use crate::folded::{FoldedTask, folded};
use crate::groups::GroupReport;
use crate::judged::{self, Asked, Judged};
use crate::names::{printable, shortened};
use crate::report::{CpuReport, FORCED_IDLE, Report};
use crate::statistics::{ALPHA, Shift, median, shift};
use crate::text::{self, counted};
use crate::units::{UNKNOWN, count_cell, in_points, percent_cell, ratio_cell, span, span_cell};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The number of rows of a kind in a text.
const TEXT_ROWS: usize = 40;

/// The figures of one run in the form in which they are compared.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// A line that describes the run.
    ran: String,
    facts: Facts,
    machine: Vec<Thing>,
    latencies: Vec<Thing>,
    chains: Vec<Thing>,
    tasks: Vec<Thing>,
    groups: Vec<Thing>,
}

/// The properties of a run apart from its results.
#[derive(Clone, Debug, PartialEq)]
struct Facts {
    host: String,
    scenario: String,
    kernel: Option<String>,
    features: Vec<String>,
    cpus: usize,
    seed: u64,
    duration_ns: u64,
    from_ns: u64,
}

/// A thing that has figures.
#[derive(Clone, Debug)]
struct Thing {
    name: String,
    /// The weight in the choice of rows, if there are too many: heavier things are shown first.
    weight: Figure,
    figures: Vec<Named>,
}

/// The figures of two sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Changes {
    /// The descriptions of the first runs, a line each.
    runs: [String; 2],
    /// The differences between the runs apart from their figures.
    pub(crate) differs: Vec<String>,
    /// The number of runs of each side.
    pub(crate) pairs: usize,
    /// The figures that are asked for.
    pub(crate) judged: Vec<Judged>,
    pub(crate) machine: Row,
    /// The wake-up latencies, all instances of a task together.
    pub(crate) latencies: Vec<Row>,
    pub(crate) chains: Vec<Row>,
    pub(crate) tasks: Vec<Row>,
    pub(crate) groups: Vec<Row>,
}

/// A thing that one side or both sides have.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) name: String,
    weight: Figure,
    pub(crate) changes: Vec<Change>,
}

/// One figure before and after.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Change {
    pub(crate) what: &'static str,
    pub(crate) unit: Unit,
    pub(crate) before: Figure,
    pub(crate) after: Figure,
    /// The value after minus the value before over pairs of runs, if it is not 0 in all of them.
    pub(crate) shift: Option<Shift>,
}

/// A name, a unit and the figure.
type Named = (&'static str, Unit, Figure);

impl Sheet {
    /// The figures of a run.
    #[must_use]
    pub fn new(report: &Report) -> Sheet {
        let tasks = folded(report);
        let thing = |task: &FoldedTask, weight, figures: Vec<Named>| Thing {
            name: task.all.name.clone(),
            weight,
            figures,
        };
        let latency = |task: &FoldedTask| {
            let latency = &task.all.wakeup_latency;
            thing(task, latency.count, latency_figures(latency, "wake-ups"))
        };
        let work = |task: &FoldedTask| thing(task, task.all.runtime_ns, task.all.compared());
        Sheet {
            ran: text::ran_without(report),
            facts: Facts::of(report),
            machine: vec![machine(report)],
            latencies: tasks.iter().map(latency).collect(),
            tasks: tasks.iter().map(work).collect(),
            chains: chains(report),
            groups: groups(report),
        }
    }
}

impl Facts {
    fn of(report: &Report) -> Facts {
        Facts {
            host: report.host.clone(),
            scenario: report.scenario.clone(),
            kernel: report.kernel.clone(),
            features: report.features.clone(),
            cpus: report.machine.cpus,
            seed: report.seed,
            duration_ns: report.duration_ns,
            from_ns: report.from_ns,
        }
    }

    /// The differences to another run, each in some words.
    fn differences(&self, other: &Facts) -> Vec<String> {
        let mut found = Vec::new();
        let mut differ = |what: &str, before: String, after: String| {
            if before != after {
                found.push(format!("{what}{before} -> {after}"));
            }
        };
        let kernel = |it: &Facts| it.kernel.clone().unwrap_or_else(|| UNKNOWN.to_owned());
        differ("", self.scenario.clone(), other.scenario.clone());
        differ("host ", self.host.clone(), other.host.clone());
        differ("kernel ", kernel(self), kernel(other));
        differ("CPUs ", self.cpus.to_string(), other.cpus.to_string());
        differ("", span(self.duration_ns), span(other.duration_ns));
        differ("from ", span(self.from_ns), span(other.from_ns));
        differ("seed ", self.seed.to_string(), other.seed.to_string());
        let only = |one: &Facts, other: &Facts| -> Vec<String> {
            let missing = |name: &&String| !other.features.contains(name);
            one.features.iter().filter(missing).cloned().collect()
        };
        for (word, names) in [("without", only(self, other)), ("with", only(other, self))] {
            if !names.is_empty() {
                found.push(format!("{word} {}", names.join(", ")));
            }
        }
        found.iter().map(|it| printable(it)).collect()
    }
}

impl Changes {
    /// The differences between these two runs.
    #[must_use]
    pub fn new(before: &Report, after: &Report) -> Changes {
        Changes::of([&[Sheet::new(before)], &[Sheet::new(after)]], &[])
    }

    /// The differences between these sides. Runs at the same index are pairs. `told` describes the differences between
    /// the scenarios in words.
    ///
    /// # Panics
    /// If a side has no run, or another number of runs than the other side.
    #[must_use]
    pub fn of(sides: [&[Sheet]; 2], told: &[String]) -> Changes {
        let [before, after] = sides;
        assert!(before.len() == after.len() && !before.is_empty(), "runs are in pairs");
        let rows =
            |part: fn(&Sheet) -> &[Thing]| rows(&sides.map(|side| side.iter().map(part).collect()));
        let machine = rows(|it| &it.machine).remove(0);
        // Most runs have no such moves and no forced idle time. A report without these figures counts as one with
        // zeros.
        let kept = machine.changes.into_iter().filter(|it| {
            let (before, after) = (it.before.unwrap_or(0), it.after.unwrap_or(0));
            match it.what {
                MOVED | TAKEN => before != after || it.shift.is_some(),
                FORCED_IDLE => before.max(after) > 0,
                _ => true,
            }
        });
        let mut differs = before[0].facts.differences(&after[0].facts);
        differs.extend(told.iter().map(|it| printable(it)));
        Changes {
            runs: [before[0].ran.clone(), after[0].ran.clone()],
            differs,
            pairs: before.len(),
            judged: Vec::new(),
            machine: Row { changes: kept.collect(), ..machine },
            latencies: rows(|it| &it.latencies),
            chains: rows(|it| &it.chains),
            tasks: rows(|it| &it.tasks),
            groups: rows(|it| &it.groups),
        }
    }

    /// The same changes with verdicts on these figures.
    #[must_use]
    pub fn judging(self, asked: &[Asked]) -> Changes {
        Changes { judged: judged::judged(asked), ..self }
    }

    /// The descriptions of the first run before and of the first run after.
    #[must_use]
    pub fn sides(&self) -> [&str; 2] {
        self.runs.each_ref().map(String::as_str)
    }

    /// The differences between the sides apart from their figures, in words.
    #[must_use]
    pub fn differs(&self) -> &[String] {
        &self.differs
    }

    /// The number of runs of each side.
    #[must_use]
    pub fn pairs(&self) -> usize {
        self.pairs
    }

    /// The figures that are asked for.
    #[must_use]
    pub fn judged(&self) -> &[Judged] {
        &self.judged
    }

    /// Notes on the basis and the limits of the comparison, a line each.
    pub(crate) fn notes(&self) -> Vec<String> {
        if self.pairs == 1 {
            let only = "One run each: differences may be noise. To tell, compare the scenarios with --seeds 20.";
            return vec![only.to_owned()];
        }
        let rows = [&self.latencies, &self.chains, &self.tasks, &self.groups];
        let mut rows = rows.into_iter().flatten().chain([&self.machine]);
        if !rows.any(Row::differs) {
            return vec![format!(
                "{} seeds a side, in pairs: all figures are as before.",
                self.pairs
            )];
        }
        let mut notes = vec![format!(
            "{} seeds a side, in pairs; a figure is the median of its runs, or their sum where that is said. A \
                 difference is the median one (Hodges and Lehmann) with its 95 % interval.",
            self.pairs
        )];
        let tested = self.judged.iter().filter(|it| it.p.is_some()).count();
        if tested > 0 {
            notes.push(format!(
                "p is that of Wilcoxon's signed-rank test, corrected for the {} (Holm). From {ALPHA} on it may be noise.",
                counted(tested as u64, "judged figure") + if tested == 1 { " that differs" } else { " that differ" },
            ));
        }
        notes
    }

    /// The changes as text that ends with a line end. Unchanged figures are left out, except those of the machine.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = self.render_judged();
        text.push('\n');
        text.push_str(&self.section("machine", &[&self.machine], |_| true));
        let all: [(&str, &str, &[Row]); 4] = [
            ("wake-up latency", "distribution", &self.latencies),
            ("chain", "chain", &self.chains),
            ("task", "task", &self.tasks),
            ("task group", "task group", &self.groups),
        ];
        for (what, noun, rows) in all.into_iter().filter(|(_, _, rows)| !rows.is_empty()) {
            let found: Vec<_> = rows.iter().filter(|row| row.differs()).collect();
            let same = rows.len() - found.len();
            text.push('\n');
            let shown = heaviest(&found, TEXT_ROWS);
            if !shown.is_empty() {
                let changed = |change: &Change| change.differs() || change.unit == Unit::Samples;
                text.push_str(&self.section(what, &shown, changed));
            }
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

    /// The description of the sides, and the figures that are asked for, as text that ends with a line end.
    #[must_use]
    pub fn render_judged(&self) -> String {
        let [before, after] = &self.runs;
        let mut text = format!("before: {before}\nafter:  {after}\n");
        if !self.differs.is_empty() {
            wrap(&mut text, &format!("differs: {}", self.differs.join("; ")));
        }
        self.notes().iter().for_each(|note| wrap(&mut text, note));
        if !self.judged.is_empty() {
            text.push('\n');
            text.push_str(&judged::render(&self.judged));
        }
        text
    }

    /// A table with a line for each change that `shown` accepts.
    fn section(&self, title: &str, rows: &[&Row], shown: impl Fn(&Change) -> bool) -> String {
        let mut header = vec![title, "", "before", "after", "ratio"];
        if self.pairs > 1 {
            header.extend(["difference", "95 % interval"]);
        }
        let mut table = text::table(&header, 2);
        for row in rows {
            // Only the first figure of a thing has its name.
            let mut name = shortened(&row.name);
            for change in row.changes.iter().filter(|change| shown(change)) {
                let mut cells = vec![
                    std::mem::take(&mut name),
                    change.named(self.pairs),
                    change.cell(change.before),
                    change.cell(change.after),
                    change.ratio(),
                ];
                if self.pairs > 1 {
                    cells.extend(change.shift_cells());
                }
                table.add_row(cells);
            }
        }
        table.trim_fmt() + "\n"
    }
}

/// The width of a line of words.
const LINE_WIDTH: usize = 100;

fn wrap(text: &mut String, words: &str) {
    let mut width = 0;
    for word in words.split(' ') {
        let long = word.chars().count();
        if width > 0 && width + 1 + long > LINE_WIDTH {
            text.push_str("\n  ");
            width = 2;
        } else if width > 0 {
            text.push(' ');
            width += 1;
        }
        text.push_str(word);
        width += long;
    }
    text.push('\n');
}

impl Row {
    fn differs(&self) -> bool {
        self.changes.iter().any(|change| change.unit != Unit::Samples && change.differs())
    }
}

impl Change {
    /// Whether the figure differs between before and after in any pair.
    fn differs(&self) -> bool {
        self.before != self.after || self.shift.is_some()
    }

    /// The name of the figure. A sum over several runs says so.
    pub(crate) fn named(&self, pairs: usize) -> String {
        match self.unit {
            Unit::Samples if pairs > 1 => format!("{} (sum)", self.what),
            _ => self.what.to_owned(),
        }
    }

    /// The figure before or after, for a column.
    pub(crate) fn cell(&self, figure: Figure) -> String {
        match self.unit {
            Unit::Delay | Unit::Span => span_cell(figure),
            Unit::Count | Unit::Samples => count_cell(figure),
            Unit::Share => match percent_cell(figure, 1_000_000) {
                unknown if unknown == UNKNOWN => unknown,
                percent => percent + " %",
            },
        }
    }

    /// The value after divided by the value before.
    pub(crate) fn ratio(&self) -> String {
        ratio_cell(self.before, self.after)
    }

    /// The difference and its interval.
    fn shift_cells(&self) -> [String; 2] {
        let Some(shift) = &self.shift else { return [UNKNOWN, UNKNOWN].map(str::to_owned) };
        [self.difference(shift.estimate), self.interval(shift)]
    }

    /// A difference with its sign.
    pub(crate) fn difference(&self, difference: f64) -> String {
        let shown = self.cell(Some(difference.abs().round() as u64));
        let sign = match difference.round() {
            it if it < 0.0 => "-",
            it if it > 0.0 => "+",
            _ => "",
        };
        format!("{sign}{}", in_points(shown.trim_end().to_owned()))
    }

    /// The interval of the difference.
    pub(crate) fn interval(&self, shift: &Shift) -> String {
        shift.interval.map_or_else(
            || UNKNOWN.to_owned(),
            |(low, high)| format!("{} to {}", self.difference(low), self.difference(high)),
        )
    }
}

/// The `most` rows with the greatest weight, in their order.
pub(crate) fn heaviest<'a>(rows: &[&'a Row], most: usize) -> Vec<&'a Row> {
    text::busiest(rows, most, |row| row.weight).into_iter().copied().collect()
}

/// The figures of the machine itself, and the sums of those of its balance and of its CPUs.
fn machine(report: &Report) -> Thing {
    let mut figures = report.machine.compared();
    // Unknown without passes, since older reports do not have them.
    let no_pass = BalanceReport::default();
    let unknown = no_pass.compared().into_iter().map(|(what, unit, _)| (what, unit, None));
    figures.extend(summed(&report.balance).unwrap_or_else(|| unknown.collect()));
    let no_cpu = CpuReport { forced_idle_ns: Some(0), ..CpuReport::default() };
    figures.extend(summed(&report.cpus).unwrap_or_else(|| no_cpu.compared()));
    Thing { name: String::new(), weight: None, figures }
}

/// The sum of each figure over these rows; `None` without a row.
fn summed<T: Columns>(rows: &[T]) -> Option<Vec<Named>> {
    rows.iter().map(T::compared).reduce(|mut all, one| {
        all.iter_mut().zip(one).for_each(|((_, _, all), (_, _, one))| add(all, one));
        all
    })
}

fn chains(report: &Report) -> Vec<Thing> {
    let thing = |chain: &ChainReport| {
        let mut figures = latency_figures(&chain.latency, "tokens");
        figures.extend(chain.compared());
        Thing { name: chain.name.clone(), weight: chain.count, figures }
    };
    report.chains.iter().map(thing).collect()
}

fn groups(report: &Report) -> Vec<Thing> {
    let thing = |group: &GroupReport| Thing {
        name: group.path.clone(),
        weight: group.runtime_ns,
        figures: group.compared(),
    };
    report.groups.iter().map(thing).collect()
}

fn latency_figures(latency: &LatencyReport, samples: &'static str) -> Vec<Named> {
    vec![
        (samples, Unit::Samples, latency.count),
        ("p50", Unit::Delay, latency.p50_ns),
        ("p99", Unit::Delay, latency.p99_ns),
        ("p99.9", Unit::Delay, latency.p999_ns),
        ("max", Unit::Delay, latency.max_ns),
    ]
}

/// Brings together things of the same name in any run: first in the order of the first run before, then the others.
fn rows(sides: &[Vec<&[Thing]>; 2]) -> Vec<Row> {
    let mut order: Vec<&Thing> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for thing in sides.iter().flatten().copied().flatten() {
        places.entry(&thing.name).or_insert_with(|| {
            order.push(thing);
            order.len() - 1
        });
    }
    let runs = sides[0].len();
    let mut found: Vec<[Vec<Option<&Thing>>; 2]> =
        vec![[vec![None; runs], vec![None; runs]]; order.len()];
    for (side, all) in sides.iter().enumerate() {
        for (run, things) in all.iter().enumerate() {
            for thing in *things {
                found[places[&*thing.name]][side][run] = Some(thing);
            }
        }
    }
    order.into_iter().zip(&found).map(|(first, sides)| row(first, sides)).collect()
}

fn row(first: &Thing, sides: &[Vec<Option<&Thing>>; 2]) -> Row {
    let change = |(at, (what, unit, _)): (usize, &Named)| {
        let figure = |thing: &Option<&Thing>| thing.and_then(|thing| thing.figures.get(at)?.2);
        let all = |side: usize| sides[side].iter().map(figure).collect::<Vec<Figure>>();
        change(what, *unit, &[all(0), all(1)])
    };
    let things = sides.iter().flatten().flatten();
    Row {
        name: first.name.clone(),
        weight: things.map(|thing| thing.weight).max().flatten(),
        changes: first.figures.iter().enumerate().map(change).collect(),
    }
}

fn change(what: &'static str, unit: Unit, sides: &[Vec<Figure>; 2]) -> Change {
    let known = |side: &[Figure]| side.iter().flatten().map(|&it| it as f64).collect::<Vec<f64>>();
    let together = |side: &[Figure]| match unit {
        Unit::Samples => side.iter().copied().flatten().reduce(u64::saturating_add),
        _ if side.len() == 1 => side[0],
        _ => median(known(side)).map(|it| it.round() as u64),
    };
    let pairs = sides[0].iter().zip(&sides[1]);
    let differences =
        pairs.filter_map(|(before, after)| Some((*after)? as f64 - (*before)? as f64));
    let differences: Vec<f64> = differences.collect();
    let differs =
        sides[0].len() > 1 && unit != Unit::Samples && differences.iter().any(|&it| it != 0.0);
    Change {
        what,
        unit,
        before: together(&sides[0]),
        after: together(&sides[1]),
        shift: if differs { shift(&differences) } else { None },
    }
}
