//! The document of a page: the run, the figures, the tables, and the places for charts.

use super::data::{drawn_latencies, drawn_series, shown_changes};
use super::run::Run;
use super::table::{ROWS, TAKES_ALL, Table, escaped, section};
use super::{chains, tasks, worst};
use crate::column::{Cell, Columns, Place, Scale, counted as counted_cell, spanned};
use crate::cookies::CookieReport;
use crate::figure::{Figure, LatencyReport, sum};
use crate::folded::folded;
use crate::groups::GroupReport;
use crate::report::{MachineReport, Report};
use crate::series::Distribution;
use crate::stretches::{COARSEST, Stretches};
use crate::text::{busiest, counted, ran_without};
use crate::units::{UNKNOWN, percent_cell, rate_cell, span, span_cell};
use crate::why::{Cause, CauseTimes};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The number of violations that are shown.
const VIOLATIONS: usize = 10;

/// The explanation of the balance table's columns.
const BALANCE_NOTE: &str = "How often CPUs compared themselves with others: passes that found \
                            balance, only tasks that may not run there, or none that fits; the \
                            others moved tasks that waited. Taken are running ones, after failures.";

/// The explanation of the cookie table's columns.
const COOKIES_NOTE: &str = "What the tasks that began with a cookie ran, and how long CPUs were forced idle because \
                            their cores ran tasks of it, while others waited there.";

/// The explanation of the table of waits.
const WAITS_NOTE: &str = "How long tasks were runnable without a CPU, by cause, after a wake-up and in the middle of a run; and \
                          how much idle CPU time they could have used, by what kept them from it.";

/// The explanation of the limit table's columns.
const LIMITS_NOTE: &str = "Who drew the budget of a limited task group, and where it had to wait.";

/// The explanation of latencies over time.
const COURSE_NOTE: &str = "Of chains from beginning to end; of tasks, and of all tasks in a group, from wake-up to first \
                           instruction.";

/// The explanation of the waits over time.
const CAUSES_NOTE: &str = "How many tasks were runnable without a CPU, by cause. The areas of a cause add up to its waits.";

/// The document of one run.
pub(super) fn one(run: Run) -> String {
    let report = run.report;
    let mut body = format!(
        "<header>\n<h1>{}</h1>\n<p class=quiet>{}</p>\n{}</header>\n{}",
        escaped(&report.scenario),
        said(report),
        changes(report),
        violations(report),
    );
    body.push_str(&cards(report));
    body.push_str(&utilization(&[run]));
    body.push_str(&course(&[run]));
    body.push_str(&causes(&[run]));
    body.push_str(&latencies(&[run]));
    body.push_str(&timelines(&[run]));
    body.push_str(&chains::chains(report));
    body.push_str(&worst::longest(report));
    let scale = Scale::of(report);
    body.push_str(&section("Tasks", "", &tasks::table(report)));
    body.push_str(&waits(report));
    if !report.groups.is_empty() {
        let runtime = |group: &GroupReport| group.runtime_ns;
        let groups = busiest_table("groups", (&report.groups, scale), runtime, "task group");
        body.push_str(&section("Task groups", "", &groups));
        body.push_str(&limited_cpus(&report.groups));
    }
    if !report.cookies.is_empty() {
        let runtime = |cookie: &CookieReport| cookie.runtime_ns;
        let table = busiest_table("cookies", (&report.cookies, scale), runtime, "cookie");
        body.push_str(&section("Cookies", COOKIES_NOTE, &table));
    }
    if !report.balance.is_empty() {
        let rows: Vec<_> = report.balance.iter().map(|row| (row, scale)).collect();
        let table = Table::of("balance", &rows).end(0, "level");
        body.push_str(&section("Balance", BALANCE_NOTE, &table));
    }
    body + FOOTER
}

pub(super) const FOOTER: &str = "<footer>Made by runyard; charts by Apache ECharts. Percentiles are within \
                      1 %. A dash stands for what the host cannot know.</footer>\n";

/// The line about the run, and about features that are off.
pub(super) fn said(report: &Report) -> String {
    escaped(&ran_without(report))
}

/// The list of the changes of the scenario's timeline; empty if the run has none.
pub(super) fn changes(report: &Report) -> String {
    if report.timeline.is_empty() {
        return String::new();
    }
    let shown = shown_changes(report);
    let mut text = "<div class=changes>Changes\n<ul>\n".to_owned();
    for it in shown {
        writeln!(text, "<li>{} {}</li>", it.at, escaped(&it.change)).expect(TAKES_ALL);
    }
    if let rest @ 1.. = report.timeline.len() - shown.len() {
        writeln!(text, "<li>and {} later</li>", counted(rest as u64, "change")).expect(TAKES_ALL);
    }
    text + "</ul></div>\n"
}

pub(super) fn violations(report: &Report) -> String {
    if report.violations.is_empty() {
        return String::new();
    }
    let found = counted(report.violations.len() as u64, "violation");
    let mut text = format!("<div class=broken><b>Invariants broken: {found}</b>\n<ul>\n");
    for violation in report.violations.iter().take(VIOLATIONS) {
        let (invariant, what) = (escaped(&violation.invariant), escaped(&violation.what));
        writeln!(text, "<li>{} {invariant}: {what}</li>", violation.at).expect(TAKES_ALL);
    }
    text + "</ul></div>\n"
}

/// The machine's figures, in large type.
fn cards(report: &Report) -> String {
    let machine = &report.machine;
    let utilization = machine.utilization.map(|share| format!("{:.2} %", share * 100.0));
    let mut text = "<div class=cards>\n".to_owned();
    let card = |text: &mut String, name: &str, figure: &str, more: &str| {
        writeln!(text, "<dl class=card><dt>{name}</dt><dd>{figure}</dd><dd>{more}</dd></dl>")
            .expect(TAKES_ALL);
    };
    let figure = utilization.unwrap_or_else(|| UNKNOWN.to_owned());
    card(&mut text, "CPU utilization", &figure, &counted(machine.cpus as u64, "CPU"));
    let scale = Scale::of(report);
    for count in MachineReport::shown(Place::Cards, &[(machine, scale)]) {
        let (figure, shown) = count.cell(machine, &scale);
        let rate = format!("{} a second", rate_cell(figure, report.duration_ns));
        card(&mut text, count.title, &shown, &rate);
    }
    let forced = sum(&report.cpus, |cpu| cpu.forced_idle_ns);
    if forced > Some(0) {
        let all = report.duration_ns.saturating_mul(report.cpus.len() as u64);
        let part = format!("{} % of CPU time", percent_cell(forced, all));
        card(&mut text, "Forced idle", span_cell(forced).trim_end(), &part);
    }
    text + "</div>\n"
}

pub(super) fn utilization(runs: &[Run]) -> String {
    let mut columns = String::new();
    for (at, run) in runs.iter().enumerate() {
        let Some(history) = &run.report.history else {
            let why = "What the CPUs did when is not known of this run.";
            writeln!(columns, "<div>{}<p class=quiet>{why}</p></div>", heading(runs, at))
                .expect(TAKES_ALL);
            continue;
        };
        let step = span(history.step_ns);
        let (cpus, rest) = (history.cpus.len(), run.report.machine.cpus);
        let some = if rest > cpus { format!("first {cpus} of {rest} ") } else { String::new() };
        writeln!(
            columns,
            "<div>{}<div class=chart id=utilization-{at}></div>\n\
             <p class=note>Below, how busy each of the {some}CPUs was, in steps of {step}: \
             <span class=scale>0 % <i></i> 100 %</span></p>\n\
             <div class=chart id=lanes-{at}></div></div>",
            heading(runs, at)
        )
        .expect(TAKES_ALL);
    }
    let content =
        format!("<ul class=legend id=kinds></ul>\n<div class=columns>\n{columns}</div>\n");
    section("CPU utilization over time", "", &content)
}

/// Latencies over time; empty if no run has them.
pub(super) fn course(runs: &[Run]) -> String {
    let mut columns = String::new();
    for (at, run) in runs.iter().enumerate() {
        let drawn = drawn_series(run.report);
        let Some(first) = drawn.first() else { continue };
        let rest = match run.report.series.len() - drawn.len() {
            0 => String::new(),
            rest => format!(" {rest} with fewer latencies are not drawn."),
        };
        let step = span(first.step_ns);
        writeln!(
            columns,
            "<div>{}<p class=note>The 99th percentile of the latencies that ended in each step of {step}.{rest}</p>\n\
             <ul class=legend id=course-legend-{at}></ul>\n<div class=chart id=course-{at}></div></div>",
            heading(runs, at)
        )
        .expect(TAKES_ALL);
    }
    beside("Latency over time", COURSE_NOTE, &columns)
}

/// The waits by cause over time; empty if they are not known of some run, or no task waited.
pub(super) fn causes(runs: &[Run]) -> String {
    let mut columns = String::new();
    for (at, run) in runs.iter().enumerate() {
        let Some(history) = run.report.history.as_ref() else { return String::new() };
        if history.waits.as_ref().is_none_or(BTreeMap::is_empty) {
            return String::new();
        }
        let step = span(history.step_ns);
        writeln!(
            columns,
            "<div>{}<p class=note>The mean number of tasks that waited, in steps of {step}.</p>\n\
             <ul class=legend id=causes-legend-{at}></ul>\n<div class=chart id=causes-{at}></div></div>",
            heading(runs, at)
        )
        .expect(TAKES_ALL);
    }
    beside("Waits by cause over time", CAUSES_NOTE, &columns)
}

/// A section with the columns of the runs beside each other; none without columns.
fn beside(title: &str, note: &str, columns: &str) -> String {
    if columns.is_empty() {
        return String::new();
    }
    section(title, note, &format!("<div class=columns>\n{columns}</div>\n"))
}

fn heading(runs: &[Run], at: usize) -> &'static str {
    match (runs.len(), at) {
        (2, 0) => "<h3>Before</h3>\n",
        (2, _) => "<h3>After</h3>\n",
        _ => "",
    }
}

pub(super) fn latencies(runs: &[Run]) -> String {
    if runs.iter().all(|run| drawn_latencies(run.report).is_empty()) {
        return section("Wake-up latency", "No task was woken up.", "");
    }
    let mut note = "From the moment at which a task's condition came true to its first \
                    instruction; all instances of a task together."
        .to_owned();
    if runs.len() == 2 {
        note.push_str(" Before is dashed, after is solid.");
    }
    let left_out = |run: &Run| {
        let woken = run.report.latencies.iter().filter(|it| !it.points.is_empty()).count();
        woken - drawn_latencies(run.report).len()
    };
    if let rest @ 1.. = runs.iter().map(left_out).max().unwrap_or(0) {
        write!(note, " Not drawn: {} that woke up less.", counted(rest as u64, "task"))
            .expect(TAKES_ALL);
    }
    let mut content =
        "<ul class=legend id=latency-legend></ul>\n<div class=chart id=latency></div>\n".to_owned();
    if let [run] = runs {
        content.push_str(&latency_table(&drawn_latencies(run.report)));
    }
    section("Wake-up latency", &note, &content)
}

pub(super) fn timelines(runs: &[Run]) -> String {
    let mut columns = String::new();
    for (at, run) in runs.iter().enumerate() {
        let Some(drawn) = run.stretches else { continue };
        let part = completeness(drawn);
        let cpus = match run.report.machine.cpus {
            cpus if cpus > drawn.cpus => format!(" The first {} of {cpus} CPUs.", drawn.cpus),
            _ => String::new(),
        };
        writeln!(
            columns,
            "<div>{}<p class=tools><button id=timeline-in-{at}>Zoom in</button> \
             <button id=timeline-out-{at}>Zoom out</button> \
             <button id=timeline-all-{at}>All</button></p>\n\
             <p class=note>{part}{cpus} The wheel or two fingers zoom, dragging moves, the strip below is all of it; \
             <span id=timeline-range-{at}></span>.</p>\n\
             <ul class=legend id=timeline-legend-{at}></ul>\n\
             <div class=chart id=timeline-{at}></div></div>",
            heading(runs, at)
        )
        .expect(TAKES_ALL);
    }
    beside("Who had the CPUs", "", &columns)
}

/// The note about the completeness of a timeline.
fn completeness(drawn: &Stretches) -> String {
    let mut exact = String::new();
    if drawn.switches_only {
        exact.push_str(" An interrupt that came back to the same task is part of its time.");
    }
    if drawn.quantum_ns > 1 {
        write!(exact, " Ends are told to {}.", span(drawn.quantum_ns)).expect(TAKES_ALL);
    }
    if drawn.quantum_ns == COARSEST {
        exact.push_str(" The scheduler's work is part of what came after it.");
    }
    match drawn.cell_ns {
        None => format!("All of the run, switch for switch.{exact}"),
        Some(cell) => format!(
            "All of the run. It has too many switches for a page: neighbours within {} are merged, and striped.{exact}",
            span(cell)
        ),
    }
}

/// The causes of the waits of each name, of all tasks, and of wasted CPU time; empty if no causes are known.
fn waits(report: &Report) -> String {
    let Some(all) = report.machine.waits.filter(|all| all.total() > 0) else {
        return String::new();
    };
    let wasted = report.machine.wasted.unwrap_or_default();
    let causes: Vec<_> =
        Cause::ALL.into_iter().filter(|&cause| all[cause] + wasted[cause] > 0).collect();
    let names = causes.iter().map(|it| it.entry().name);
    let titles: Vec<_> = ["of", "all"].into_iter().chain(names).collect();
    let mut table = Table::new("waits", &titles, 1);
    let mut row = |name: &str, times: &CauseTimes| {
        let cells = causes.iter().map(|&cause| spanned(Some(times[cause])));
        let cells: Vec<_> = [spanned(Some(times.total()))].into_iter().chain(cells).collect();
        table.row(&[name], &cells);
    };
    row("all tasks", &all);
    row("CPUs, idle meanwhile", &wasted);
    let rows = folded(report);
    for it in busiest(&rows, ROWS, |row| row.all.wait_ns) {
        row(&it.all.name, &it.all.waits.unwrap_or_default());
    }
    section("Waits by cause", WAITS_NOTE, &table.end(rows.len().saturating_sub(ROWS), "name"))
}

fn latency_cells(latency: &LatencyReport) -> [Cell; 5] {
    let LatencyReport { p50_ns, p90_ns, p99_ns, p999_ns, max_ns, .. } = *latency;
    [p50_ns, p90_ns, p99_ns, p999_ns, max_ns].map(spanned)
}

fn latency_table(drawn: &[&Distribution]) -> String {
    let titles =
        ["task", "instances", "wake-ups", "min", "mean", "p50", "p90", "p99", "p99.9", "max"];
    let mut table = Table::new("latencies", &titles, 1);
    for it in drawn {
        let latency = &it.wakeup_latency;
        let mut cells = vec![counted_cell(Some(it.tasks)), counted_cell(latency.count)];
        cells.extend([latency.min_ns, latency.mean_ns].map(spanned));
        cells.extend(latency_cells(latency));
        table.row(&[&it.name], &cells);
    }
    table.end(0, "task")
}

/// The busiest rows of a report on the page.
fn busiest_table<T: Columns>(
    id: &str,
    (rows, scale): (&[T], Scale),
    figure: impl Fn(&T) -> Figure,
    what: &str,
) -> String {
    let shown: Vec<_> = busiest(rows, ROWS, figure).into_iter().map(|row| (row, scale)).collect();
    Table::of(id, &shown).end(rows.len().saturating_sub(ROWS), what)
}

/// The effects of the limits on each CPU; empty if no group has a limit, or the host does not know them.
fn limited_cpus(groups: &[GroupReport]) -> String {
    let mut rows = Vec::new();
    for GroupReport { path, cpus, .. } in groups {
        rows.extend(cpus.iter().flatten().map(|cpu| (Some(path.as_str()), cpu, Scale::default())));
    }
    if rows.is_empty() {
        return String::new();
    }
    let shown = busiest(&rows, ROWS, |(_, cpu, _)| Some(cpu.used_ns));
    let shown: Vec<_> = shown.into_iter().copied().collect();
    let table = Table::named("limits", Some("task group"), &shown);
    section("Limits on CPUs", LIMITS_NOTE, &table.end(rows.len().saturating_sub(ROWS), "row"))
}
