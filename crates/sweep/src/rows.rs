//! A report as rows of a table: one row for the machine, each thread of the scenario, each task group, each cookie and
//! each level of balancing.
//!
//! A million instances of a thread are one row. Their counters are added up, their wake-up latencies are one
//! distribution, and their common values, such as the policy, are those of the first instance. CPUs have no rows; their
//! sums are in the row of the machine, as `cpu_busy_ns`. A report of a single run has a row for each CPU.

use crate::cell::{Cell, flat};
use runyard_report::{
    CauseTimes, ChainReport, CpuReport, GroupReport, MachineReport, Report, TaskReport,
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A row of the table of runs, without the fields that all rows of a run share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The kind of the row: `machine`, `task`, `group`, `cookie`, `balance`.
    pub kind: Cow<'static, str>,
    /// The name of the thread, group and so on; `None` for the machine.
    pub name: Option<String>,
    /// The figures, by their names.
    pub fields: Vec<(String, Cell)>,
}

/// The figures of one thing, or of several things with one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Folded {
    pub(crate) name: String,
    /// The number of things.
    pub(crate) count: i64,
    fields: Vec<Field>,
}

/// One figure of these things.
#[derive(Clone, Debug, PartialEq)]
struct Field {
    name: String,
    /// The sum; or the first value, if a sum has no meaning.
    all: Cell,
    least: Cell,
    most: Cell,
}

/// Whole numbers that have no meaningful sum.
const NO_COUNTERS: [&str; 3] = ["cpu", "priority", "latency_nice"];

/// The common distribution of all instances of a thread.
const LATENCY: &str = "wakeup_latency";

impl Folded {
    fn new(name: &str, fields: Vec<(String, Cell)>) -> Folded {
        let field = |(name, all): (String, Cell)| Field {
            name,
            least: all.clone(),
            most: all.clone(),
            all,
        };
        Folded { name: name.to_owned(), count: 1, fields: fields.into_iter().map(field).collect() }
    }

    /// Adds another thing, which has the same fields.
    fn add(&mut self, fields: Vec<(String, Cell)>) {
        self.count += 1;
        for (field, (name, cell)) in self.fields.iter_mut().zip(fields) {
            debug_assert_eq!(field.name, name, "one type has one list of fields");
            field.add(&cell);
        }
    }

    /// Replaces the sums of single figures by figures of all things together.
    fn replace(&mut self, together: &str, fields: Vec<(String, Cell)>) {
        for (name, cell) in fields {
            let name = format!("{together}_{name}");
            if let Some(field) = self.fields.iter_mut().find(|field| field.name == name) {
                (field.least, field.most, field.all) = (cell.clone(), cell.clone(), cell);
            }
        }
    }

    /// The entry of this name.
    pub(crate) fn find<'f>(all: &'f [Folded], name: &str) -> Option<&'f Folded> {
        all.iter().find(|it| it.name == name)
    }

    fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// A figure of all things together.
    pub(crate) fn all(&self, name: &str) -> Option<&Cell> {
        self.field(name).map(|field| &field.all)
    }

    /// The least of a figure.
    pub(crate) fn least(&self, name: &str) -> Option<&Cell> {
        self.field(name).map(|field| &field.least)
    }

    /// The greatest of a figure.
    pub(crate) fn most(&self, name: &str) -> Option<&Cell> {
        self.field(name).map(|field| &field.most)
    }

    /// The names of the figures, each with an example.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&str, &Cell)> {
        self.fields.iter().map(|field| (&*field.name, &field.all))
    }

    fn row(&self, kind: &'static str) -> Row {
        let instances =
            (kind == "task").then(|| ("instances".to_owned(), Cell::Integer(self.count)));
        let fields = self.fields.iter().map(|field| (field.name.clone(), field.all.clone()));
        Row {
            kind: kind.into(),
            name: Some(self.name.clone()).filter(|_| kind != "machine"),
            fields: instances.into_iter().chain(fields).collect(),
        }
    }
}

impl Field {
    fn add(&mut self, cell: &Cell) {
        let (Cell::Integer(sum), Cell::Integer(one)) = (&self.all, cell) else {
            // A value that one thing lacks is unknown for all of them together.
            if matches!(self.all, Cell::Integer(_)) {
                self.all = Cell::Null;
            }
            return;
        };
        if NO_COUNTERS.contains(&&*self.name) {
            return;
        }
        self.all = Cell::Integer(sum.saturating_add(*one));
        if let (&Cell::Integer(least), &Cell::Integer(most)) = (&self.least, &self.most) {
            (self.least, self.most) =
                (Cell::Integer(least.min(*one)), Cell::Integer(most.max(*one)));
        }
    }
}

/// The figures of a report, by kind of thing.
#[derive(Clone, Debug)]
pub(crate) struct Figures<'r> {
    report: &'r Report,
    pub(crate) machine: Folded,
    pub(crate) tasks: Vec<Folded>,
    pub(crate) groups: Vec<Folded>,
    pub(crate) chains: Vec<Folded>,
}

impl<'r> Figures<'r> {
    pub(crate) fn new(report: &'r Report) -> Figures<'r> {
        Figures {
            report,
            machine: machine(report),
            tasks: threads(report),
            groups: report.groups.iter().map(group).collect(),
            chains: report.chains.iter().map(chain).collect(),
        }
    }

    /// The thread of this name; otherwise the instance of this name.
    pub(crate) fn task(&self, name: &str) -> Option<Cow<'_, Folded>> {
        let thread = Folded::find(&self.tasks, name);
        let instance = || self.report.tasks.iter().find(|task| task.name == name).map(instance);
        thread.map(Cow::Borrowed).or_else(|| instance().map(Cow::Owned))
    }

    /// The rows, in a fixed order.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let mut rows = vec![self.machine.row("machine")];
        rows.extend(self.tasks.iter().map(|it| it.row("task")));
        rows.extend(self.groups.iter().map(|it| it.row("group")));
        rows.extend(self.chains.iter().map(|it| it.row("chain")));
        rows.extend(self.report.cookies.iter().map(|cookie| {
            let name = cookie.name.clone();
            Row { name, ..named(flat(cookie), &["name"], "").row("cookie") }
        }));
        rows.extend(self.report.balance.iter().map(|row| named(flat(row), &[], "").row("balance")));
        rows
    }
}

/// The figures of the machine: its own, the sums over its CPUs, and those of timers and engine. The wall time is left
/// out, since it differs from run to run.
fn machine(report: &Report) -> Folded {
    let mut fields = vec![("duration_ns".to_owned(), Cell::Integer(report.duration_ns as i64))];
    fields.extend(flat(&report.machine));
    let mut cpus = Folded::new("", flat(&report.cpus.first().cloned().unwrap_or_default()));
    report.cpus.iter().skip(1).for_each(|cpu| cpus.add(flat(cpu)));
    // The waits on all CPUs are those of the machine.
    let own = |field: &Field| field.name != "cpu" && !field.name.starts_with("waits");
    let sums = cpus.fields.into_iter().filter(own);
    fields.extend(sums.map(|field| (format!("cpu_{}", field.name), field.all)));
    let mut prefixed = |prefix: &str, part: Vec<(String, Cell)>| {
        fields.extend(part.into_iter().map(|(name, cell)| (format!("{prefix}_{name}"), cell)));
    };
    prefixed("timers", flat(&report.timers));
    prefixed("engine", flat(&report.engine));
    fields.retain(|(name, _)| name != "engine_wall_ns");
    Folded::new("", fields)
}

/// Each thread, in the order of its first instance.
fn threads(report: &Report) -> Vec<Folded> {
    let mut places = BTreeMap::new();
    let mut threads: Vec<Folded> = Vec::new();
    for task in &report.tasks {
        let name = if task.thread.is_empty() { &task.name } else { &task.thread };
        let place = *places.entry(name).or_insert(threads.len());
        let fields = without(flat(task), &["name", "thread"]);
        match threads.get_mut(place) {
            Some(thread) => thread.add(fields),
            None => threads.push(Folded::new(name, fields)),
        }
    }
    for together in &report.latencies {
        if let Some(&place) = places.get(&together.name) {
            threads[place].replace(LATENCY, flat(&together.wakeup_latency));
        }
    }
    threads
}

fn instance(task: &TaskReport) -> Folded {
    named(flat(task), &["name", "thread"], &task.name)
}

fn group(group: &GroupReport) -> Folded {
    // A limit is an object and has columns of its own. A group without a limit has none of them.
    named(flat(group), &["path", "limit"], &group.path)
}

fn chain(chain: &ChainReport) -> Folded {
    named(flat(chain), &["name"], &chain.name)
}

fn named(fields: Vec<(String, Cell)>, out: &[&str], name: &str) -> Folded {
    Folded::new(name, without(fields, out))
}

fn without(mut fields: Vec<(String, Cell)>, out: &[&str]) -> Vec<(String, Cell)> {
    fields.retain(|(name, _)| !out.contains(&&**name));
    fields
}

/// The fields that any report has for each kind, for checks before the first report exists.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) machine: Folded,
    pub(crate) task: Folded,
    pub(crate) group: Folded,
    pub(crate) chain: Folded,
}

impl Known {
    pub(crate) fn new() -> Known {
        let cpus = vec![CpuReport::default()];
        let waits = Some(CauseTimes::default());
        let whole = MachineReport { waits, wasted: waits, ..MachineReport::default() };
        Known {
            machine: machine(&Report { cpus, machine: whole, ..Report::default() }),
            task: instance(&TaskReport { waits, ..TaskReport::default() }),
            group: group(&GroupReport { waits, ..GroupReport::default() }),
            chain: chain(&ChainReport::default()),
        }
    }

    /// Whether a table has a column of this name in any sweep.
    pub(crate) fn has(&self, column: &str) -> bool {
        let all = [&self.machine, &self.task, &self.group, &self.chain];
        column == "instances" || all.iter().any(|it| it.field(column).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runyard_report::{Distribution, LatencyReport};

    fn task(name: &str, runtime_ns: u64, p99_ns: u64) -> TaskReport {
        TaskReport {
            name: name.to_owned(),
            thread: "web".to_owned(),
            priority: 5,
            runtime_ns: Some(runtime_ns),
            wakeup_latency: LatencyReport { p99_ns: Some(p99_ns), ..LatencyReport::default() },
            ..TaskReport::default()
        }
    }

    #[test]
    fn instances_are_one_row() {
        let p99_ns = Some(25);
        let together = Distribution {
            name: "web".to_owned(),
            wakeup_latency: LatencyReport { p99_ns, ..LatencyReport::default() },
            ..Distribution::default()
        };
        let report = Report {
            tasks: vec![task("web-0", 3, 10), task("web-1", 4, 30)],
            latencies: vec![together],
            ..Report::default()
        };
        let figures = Figures::new(&report);
        let web = figures.task("web").unwrap();
        let of = |name: &str| {
            [web.all(name), web.least(name), web.most(name)].map(|it| it.cloned().unwrap())
        };
        assert_eq!(of("runtime_ns"), [7, 3, 4].map(Cell::Integer));
        assert_eq!(web.all("priority"), Some(&Cell::Integer(5)), "that is no counter");
        assert_eq!(web.all("wait_ns"), Some(&Cell::Null));
        assert_eq!(web.all("wakeup_latency_p99_ns"), Some(&Cell::Integer(25)));
        assert_eq!(figures.task("web-1").unwrap().all("runtime_ns"), Some(&Cell::Integer(4)));
        assert_eq!(figures.task("web-2"), None);
        let rows = figures.rows();
        let kinds: Vec<_> = rows.iter().map(|row| (&*row.kind, row.name.as_deref())).collect();
        assert_eq!(kinds, [("machine", None), ("task", Some("web"))]);
        assert_eq!(rows[1].fields[0], ("instances".to_owned(), Cell::Integer(2)));
        assert!(rows[0].fields.iter().all(|(name, _)| name != "engine_wall_ns"));
    }
}
