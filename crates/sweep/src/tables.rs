//! The lists of one report as tables: a row for each task, CPU, task group, chain and so on, under the names of the
//! JSON.
//!
//! The fields of an object in a row have the object's name, an underscore and their own name. Lists in a row are left
//! out. A table has the same columns for every report.

use crate::cell::{Cell, flat};
use crate::gather::{batch, common, unsaid};
use arrow_array::builder::{Int64Builder, ListBuilder, StringBuilder, StructBuilder};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Fields, Schema};
use runyard_report::{
    CauseTimes, ChainReport, Changed, Changes, CookieReport, CpuReport, Figure, GroupReport,
    Judged, LimitReport, Report, SeriesReport, TaskReport, Verdict, WorstReport,
};
use serde::Serialize;
use std::sync::Arc;

/// The number of rows of a table that are shown.
const SHOWN: usize = 40;

/// Waits whose causes are known, as an example.
const WAITS: Option<CauseTimes> = Some(CauseTimes::NONE);

/// The table of task instances.
///
/// ```
/// use runyard_report::{Report, TaskReport};
///
/// let report = Report { tasks: vec![TaskReport::default()], ..Report::default() };
/// let tasks = runyard_sweep::tables::tasks(&report);
/// assert_eq!(tasks.num_rows(), 1);
/// assert!(tasks.column_by_name("wakeup_latency_p99_ns").is_some());
/// assert!(tasks.column_by_name("waits_throttled").is_some());
/// ```
#[must_use]
pub fn tasks(report: &Report) -> RecordBatch {
    table(&TaskReport { waits: WAITS, ..TaskReport::default() }, &report.tasks)
}

/// The table of CPUs.
#[must_use]
pub fn cpus(report: &Report) -> RecordBatch {
    table(&CpuReport { waits: WAITS, ..CpuReport::default() }, &report.cpus)
}

/// The table of task groups. A group without a limit has no values in the columns of the limit.
#[must_use]
pub fn groups(report: &Report) -> RecordBatch {
    let limit = Some(LimitReport::default());
    table(&GroupReport { limit, waits: WAITS, ..GroupReport::default() }, &report.groups)
}

/// The table of chains.
#[must_use]
pub fn chains(report: &Report) -> RecordBatch {
    table(&ChainReport::default(), &report.chains)
}

/// The table of cookies; its last row is of tasks without a cookie. It has no rows if the scenario has no cookies.
#[must_use]
pub fn cookies(report: &Report) -> RecordBatch {
    table(&CookieReport::default(), &report.cookies)
}

/// A step of a series as a row.
#[derive(Serialize)]
struct StepRow<'r> {
    kind: &'r str,
    name: &'r str,
    at_ns: u64,
    count: u64,
    p50_ns: Figure,
    p99_ns: Figure,
    max_ns: Figure,
}

/// Latencies over time: a row for each step of each thread, task group and chain. `at_ns` is the beginning of the step.
///
/// ```
/// use runyard_report::{Report, SeriesReport};
///
/// let one = SeriesReport { count: vec![3], p50_ns: vec![Some(5)], p99_ns: vec![Some(9)], max_ns: vec![Some(9)], ..SeriesReport::default() };
/// let report = Report { series: vec![one], ..Report::default() };
/// assert_eq!(runyard_sweep::tables::series(&report).num_rows(), 1);
/// ```
#[must_use]
pub fn series(report: &Report) -> RecordBatch {
    let row = |it: &SeriesReport, step: usize| {
        let at_ns = report.from_ns + step as u64 * it.step_ns;
        let (kind, name, count) = (it.kind.as_str(), it.name.as_str(), it.count[step]);
        let [p50_ns, p99_ns, max_ns] = [&it.p50_ns, &it.p99_ns, &it.max_ns].map(|all| all[step]);
        flat(&StepRow { kind, name, at_ns, count, p50_ns, p99_ns, max_ns })
    };
    let some = Some(0);
    let example = StepRow {
        kind: "",
        name: "",
        at_ns: 0,
        count: 0,
        p50_ns: some,
        p99_ns: some,
        max_ns: some,
    };
    let all =
        report.series.iter().flat_map(|it| (0..it.count.len()).map(move |step| row(it, step)));
    rows(&flat(&example), all)
}

/// A point of a distribution as a row.
#[derive(Serialize)]
struct PointRow<'r> {
    kind: &'r str,
    name: &'r str,
    latency_ns: u64,
    count: u64,
}

/// The distributions of latencies: of the wake-ups of each thread, all instances together, and of each chain. A row has a
/// latency, and the number of those that it stands for.
///
/// ```
/// use runyard_report::{ChainReport, Report};
///
/// let chain = ChainReport { points: vec![(5, 2), (9, 1)], ..ChainReport::default() };
/// let report = Report { chains: vec![chain], ..Report::default() };
/// assert_eq!(runyard_sweep::tables::distributions(&report).num_rows(), 2);
/// ```
#[must_use]
pub fn distributions(report: &Report) -> RecordBatch {
    let threads = report.latencies.iter().map(|it| ("task", &it.name, &it.points));
    let chains = report.chains.iter().map(|it| ("chain", &it.name, &it.points));
    let points = threads.chain(chains).flat_map(|(kind, name, points)| {
        let row = move |&(latency_ns, count)| flat(&PointRow { kind, name, latency_ns, count });
        points.iter().map(row)
    });
    rows(&flat(&PointRow { kind: "", name: "", latency_ns: 0, count: 0 }), points)
}

/// The differences between two sides, figure by figure.
#[must_use]
pub fn changes(changes: &Changes) -> RecordBatch {
    let number = Some(0.0);
    let example = Changed { difference: number, lo: number, hi: number, ..Changed::default() };
    table(&example, &changes.figures())
}

/// The figures that are asked for, each with its verdict.
#[must_use]
pub fn judged(changes: &Changes) -> RecordBatch {
    let number = Some(0.0);
    let example = Judged {
        before: number,
        after: number,
        difference: number,
        lo: number,
        hi: number,
        p: number,
        verdict: Some(Verdict::Same),
        seeds_needed: Some(0),
        ..Judged::default()
    };
    table(&example, changes.judged())
}

/// The worst wake-ups of each task, the longest first, under the task's name. `ran` lists the tasks that ran meanwhile
/// on the CPU where the task waited, each with its time.
#[must_use]
pub fn worst(report: &Report) -> RecordBatch {
    let all = || report.tasks.iter().flat_map(|task| task.worst.iter().map(move |it| (task, it)));
    let row = |task: &str, worst: &WorstReport| {
        let mut row = vec![("task".to_owned(), Cell::text(task))];
        row.extend(flat(worst));
        row
    };
    let example = row("", &WorstReport::default());
    let scalars = rows(&example, all().map(|(task, worst)| row(&task.name, worst)));
    let pairs =
        |worst: &WorstReport| worst.ran.iter().map(|it| (it.task.clone(), it.ns as i64)).collect();
    let ran = ran(all().map(|(_, worst)| pairs(worst)));
    let mut fields: Vec<_> = scalars.schema().fields().iter().cloned().collect();
    fields.push(Arc::new(Field::new("ran", ran.data_type().clone(), true)));
    let columns = scalars.columns().iter().cloned().chain([ran]).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
        .expect("each column has a row for each wake-up")
}

/// The first rows of a table of so many `rows` for an HTML document, out of its first batch. Lists are left out.
///
/// # Panics
/// If the batch has more rows.
#[must_use]
pub fn html(table: &RecordBatch, rows: usize) -> String {
    let titles: Vec<String> =
        table.schema().fields().iter().map(|field| field.name().clone()).collect();
    let text = |column: &Arc<dyn Array>, at| {
        Cell::of(column, at).map_or_else(|| "...".to_owned(), |cell| cell.to_string())
    };
    let row = |at| table.columns().iter().map(|column| text(column, at)).collect();
    let shown = table.num_rows().min(SHOWN);
    let texts: Vec<Vec<String>> = (0..shown).map(row).collect();
    let rest = match rows - shown {
        0 => String::new(),
        rest => format!("<p>and {rest} more rows</p>\n"),
    };
    runyard_report::html::texts(&titles, &texts) + &rest
}

/// A column of lists: in each row tasks, and the nanoseconds for which each of them ran.
pub fn ran(all: impl Iterator<Item = Vec<(String, i64)>>) -> Arc<dyn Array> {
    let fields = Fields::from(vec![
        Field::new("task", DataType::Utf8, true),
        Field::new("ns", DataType::Int64, true),
    ]);
    let mut lists = ListBuilder::new(StructBuilder::from_fields(fields, 0));
    for row in all {
        let tasks = lists.values();
        for (name, ns) in row {
            let task = tasks.field_builder::<StringBuilder>(0).expect("the first is a text");
            task.append_value(name);
            let time = tasks.field_builder::<Int64Builder>(1).expect("the second is a number");
            time.append_value(ns);
            tasks.append(true);
        }
        lists.append(true);
    }
    Arc::new(lists.finish())
}

/// A table of `all`, which has the columns of `example` even if `all` is empty.
fn table<T: Serialize>(example: &T, all: &[T]) -> RecordBatch {
    rows(&flat(example), all.iter().map(|one| flat(one)))
}

fn rows(example: &[(String, Cell)], all: impl Iterator<Item = Vec<(String, Cell)>>) -> RecordBatch {
    let mut columns: Vec<Vec<Cell>> = vec![Vec::new(); example.len()];
    for row in all {
        let mut cells = row.into_iter().peekable();
        for ((name, _), column) in example.iter().zip(&mut columns) {
            // An object that a row lacks has one empty field instead of several.
            let own = cells.next_if(|(own, _)| own == name);
            if own.is_none() {
                cells.next_if(|(own, _)| name.starts_with(&format!("{own}_")));
            }
            column.push(own.map_or(Cell::Null, |(_, cell)| cell));
        }
    }
    let field = |((name, example), column): (&(String, Cell), &Vec<Cell>)| {
        let known = column.iter().chain([example]).fold(None, common);
        Field::new(name, known.unwrap_or_else(|| unsaid(name)), true)
    };
    let fields: Vec<Field> = example.iter().zip(&columns).map(field).collect();
    batch(&Arc::new(Schema::new(fields)), &columns)
}
