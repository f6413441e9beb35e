//! A report as text for people: the machine in tables like `mpstat`'s, the tasks, the task groups and the effects of
//! their limits, the results of balancing if a task was moved or should have been, then the violations. It is plain
//! ASCII that fits into 110 columns as long as the figures are ordinary.
//!
//! Tasks of one name are one row ([`folded`](crate::folded)), unless each is asked for. Long lists are cut to their
//! busiest rows, which stay in the report's order. A line gives the number of rows that are left out.

use crate::balance::BalanceReport;
use crate::chains::ChainReport;
use crate::column::{Columns, Place, Scale, Titled};
use crate::figure::Figure;
use crate::folded::{FoldedTask, folded};
use crate::groups::GroupReport;
use crate::names::{printable, shortened};
use crate::report::{EngineReport, MachineReport, Report, TaskReport, TimersReport, Violation};
use crate::units::{count, count_cell, percent_cell, rate_cell, span};
use crate::why::{Cause, CauseTimes};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use runyard_engine::features::Feature;
use runyard_engine::kernel::Model;
use std::fmt::Write as _;

/// The largest number of CPUs with a row each; with more, only the busiest have one.
const CPU_ROWS: usize = 32;
/// The number of CPUs with a row if there are too many.
const BUSIEST_CPUS: usize = 16;
/// The number of tasks with a row.
const TASK_ROWS: usize = 40;
/// The number of names with a row about their waits.
const WAIT_ROWS: usize = 10;
/// The number of causes that are named in such a row.
const CAUSES: usize = 3;
/// The number of chains with a row.
const CHAIN_ROWS: usize = 20;
/// The number of task groups with a row.
const GROUP_ROWS: usize = 20;
/// The number of cookies with a row.
const COOKIE_ROWS: usize = 20;
/// The number of violations that are shown.
const VIOLATION_ROWS: usize = 10;
/// The width at which a list of names goes on in the next line.
const LINE_WIDTH: usize = 100;

/// Whether the invariants were checked during the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checks {
    /// The invariants were checked; the report has the violations.
    Done,
    /// The invariants were not checked.
    NotDone,
}

/// The rows of the table of tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskRows {
    /// One row for each name; of too many, the busiest.
    #[default]
    Names,
    /// One row for each task.
    Tasks,
}

/// The report as text that ends with a line end.
#[must_use]
pub fn render(report: &Report, checks: Checks, rows: TaskRows) -> String {
    let mut sections = vec![head(report), cpu_table(report)];
    if !report.tasks.is_empty() {
        sections.push(task_table(report, rows));
    }
    sections.push(wait_table(report));
    if !report.chains.is_empty() {
        sections.push(chain_table(&report.chains));
    }
    if report.groups.iter().any(|group| group.path != "/") {
        sections.push(group_table(report));
    }
    if report.groups.iter().any(GroupReport::is_limited) {
        sections.push(limit_table(report));
    }
    if !report.cookies.is_empty() {
        sections.push(cookie_table(report));
    }
    if report.balance.iter().any(BalanceReport::is_eventful) {
        sections.push(balance_table(&report.balance));
    }
    sections.push(totals(report));
    sections.push(verdict(report, checks));
    sections.retain(|section| !section.is_empty());
    sections.join("\n")
}

/// The line about the run, with the features that differ from the kernel's.
fn head(report: &Report) -> String {
    let mut text = ran(report) + "\n";
    let off = switched(report, false).map(|name| format!("NO_{name}"));
    let switches: Vec<_> = off.chain(switched(report, true).map(str::to_owned)).collect();
    if !switches.is_empty() {
        wrap(&mut text, &switches, " ");
    }
    text
}

/// The line about the run: scenario, host, machine and duration.
fn ran(report: &Report) -> String {
    let kernel = report.kernel.iter().map(|name| format!(", kernel {}", printable(name)));
    let since = match report.from_ns {
        0 => String::new(),
        from => format!(" from {}", span(from)),
    };
    format!(
        "{} on {}: {}, {}, {}{}, seed {}{}",
        printable(&report.scenario),
        printable(&report.host),
        counted(report.machine.cpus as u64, "CPU"),
        counted(report.tasks.len() as u64, "task"),
        span(report.duration_ns),
        since,
        report.seed,
        kernel.collect::<String>(),
    )
}

/// The line about the run, with the features that are switched on and off.
pub(crate) fn ran_without(report: &Report) -> String {
    let some = |word: &str, on| {
        let names: Vec<_> = switched(report, on).collect();
        if names.is_empty() { String::new() } else { format!(", {word} {}", names.join(", ")) }
    };
    ran(report) + &some("without", false) + &some("with", true)
}

/// The names of the features that were switched on, or off, relative to the kernel that the report names. Empty on the
/// kernel's own scheduler, which knows none of these switches.
fn switched(report: &Report, on: bool) -> impl Iterator<Item = &'static str> {
    let is_on = |feature: Feature| report.features.iter().any(|name| name == feature.name());
    let named: Option<Model> = report.kernel.as_ref().and_then(|name| name.parse().ok());
    let unless_said = named.unwrap_or_default().features();
    let all: &[Feature] = if report.host == "linux" { &[] } else { &Feature::ALL };
    let switched =
        move |feature: &&Feature| is_on(**feature) == on && unless_said.has(**feature) != on;
    all.iter().filter(switched).map(|feature| feature.name())
}

/// The table of CPUs; empty on a host that does not know the activity of its CPUs.
fn cpu_table(report: &Report) -> String {
    if report.cpus.iter().all(|cpu| cpu.busy_ns.is_none()) {
        return String::new();
    }
    let (cpus, duration_ns) = (&report.cpus, report.duration_ns);
    let mut all = cpus[0].clone();
    cpus.iter().skip(1).for_each(|cpu| all.add(cpu));
    let things = cpus.len() as u64;
    let whole_ns = duration_ns.saturating_mul(things);
    let scale = Scale { duration_ns, whole_ns: duration_ns, ..Scale::default() };
    let mut rows = vec![(&all, Scale { whole_ns, things: things.max(2), ..scale })];
    let most = if cpus.len() > CPU_ROWS { BUSIEST_CPUS } else { CPU_ROWS };
    rows.extend(busiest(cpus, most, |cpu| cpu.busy_ns).into_iter().map(|cpu| (cpu, scale)));
    let table = table_of(Place::Text, &rows);
    finish(&table, cpus.len().saturating_sub(most), "CPU")
}

fn task_table(report: &Report, rows: TaskRows) -> String {
    let (all, left_out) = match rows {
        TaskRows::Names => {
            let all = folded(report);
            let shown = busiest(&all, TASK_ROWS, |row| row.all.runtime_ns);
            let shown: Vec<_> = shown.into_iter().cloned().collect();
            let left_out = all.len() - shown.len();
            (shown, left_out)
        }
        TaskRows::Tasks => {
            let alone = |(at, task): (usize, &TaskReport)| FoldedTask {
                tasks: vec![at],
                all: task.clone(),
            };
            (report.tasks.iter().enumerate().map(alone).collect(), 0)
        }
    };
    let marks = all.iter().any(|row| row.all.is_late_by_slack());
    let scale = |row: &FoldedTask| Scale { things: row.n(), marks, ..Scale::default() };
    let rows: Vec<_> = all.iter().map(|row| (&row.all, scale(row))).collect();
    let mut text = finish(&table_of(Place::Text, &rows), left_out, "name");
    if marks {
        text.push_str(&slack_note(&all));
    }
    text
}

/// The explanation of the mark at a p50.
fn slack_note(rows: &[FoldedTask]) -> String {
    let marked = rows.iter().filter(|row| row.all.is_late_by_slack());
    let slacks: Vec<_> = marked.filter_map(|row| row.all.slack_ns).collect();
    let least = slacks.iter().min().copied().unwrap_or(0);
    let most = slacks.iter().max().copied().unwrap_or(0);
    let slack =
        if least == most { span(most) } else { format!("{} to {}", span(least), span(most)) };
    format!(
        "* mostly timer slack ({slack}): most of these waits were over when the timer expired\n"
    )
}

/// The causes of the waits of those names that waited most, of all tasks, and of idle CPU time that they could have used. It is
/// empty if no causes are known.
fn wait_table(report: &Report) -> String {
    let Some(all) = report.machine.waits.filter(|all| all.total() > 0) else {
        return String::new();
    };
    let rows = folded(report);
    let shown = busiest(&rows, WAIT_ROWS, |row| row.all.waits.map(|waits| waits.total()));
    let mut table = table(&["waits of", "by cause"], 2);
    for row in shown {
        let waits = row.all.waits.unwrap_or_default();
        if waits.total() > 0 {
            table.add_row([shortened(&row.all.name), by_cause(&waits)]);
        }
    }
    table.add_row(["all tasks".to_owned(), by_cause(&all)]);
    if let Some(wasted) = report.machine.wasted.filter(|wasted| wasted.total() > 0) {
        table.add_row(["CPUs, idle meanwhile".to_owned(), by_cause(&wasted)]);
    }
    finish(&table, 0, "name")
}

/// A time, and the causes of most of it.
///
/// ```
/// use runyard_report::{Cause, CauseTimes, by_cause};
///
/// let mut waits = CauseTimes::default();
/// (waits[Cause::Throttled], waits[Cause::Turn]) = (7_500, 2_500);
/// assert_eq!(by_cause(&waits), "10.0 us: throttled 75.00 %, turn 25.00 %");
/// ```
#[must_use]
pub fn by_cause(times: &CauseTimes) -> String {
    let total = times.total();
    let longest = times.longest();
    let part = |&(cause, time): &(Cause, u64)| {
        format!("{} {} %", cause.entry().name, percent_cell(Some(time), total).trim())
    };
    let mut parts: Vec<_> = longest.iter().take(CAUSES).map(part).collect();
    if longest.len() > CAUSES {
        parts.push("...".to_owned());
    }
    format!("{}: {}", span(total).trim(), parts.join(", "))
}

/// The busiest `most` rows at a place.
fn busiest_table<T: Columns>(
    (place, scale): (Place, Scale),
    (rows, most): (&[T], usize),
    figure: impl Fn(&T) -> Figure,
    what: &str,
) -> String {
    let shown: Vec<_> = busiest(rows, most, figure).into_iter().map(|row| (row, scale)).collect();
    finish(&table_of(place, &shown), rows.len().saturating_sub(most), what)
}

/// A row for each chain, in the order of the scenario.
fn chain_table(chains: &[ChainReport]) -> String {
    let at = (Place::Text, Scale::default());
    busiest_table(at, (chains, CHAIN_ROWS), |chain| chain.count, "chain")
}

/// The table of task groups. `%cpu` is of one CPU, as in `top`.
fn group_table(report: &Report) -> String {
    let at = (Place::Text, Scale::of(report));
    busiest_table(at, (&report.groups, GROUP_ROWS), |group| group.runtime_ns, "task group")
}

/// The table of cookies: the runtime of their tasks, and the CPU time that they cost others. `%cpu` is of one CPU.
fn cookie_table(report: &Report) -> String {
    let at = (Place::Text, Scale::of(report));
    busiest_table(at, (&report.cookies, COOKIE_ROWS), |cookie| cookie.runtime_ns, "cookie")
}

/// The table of groups with limits, and below it the groups that an ancestor limits further.
fn limit_table(report: &Report) -> String {
    let limited: Vec<_> = report.groups.iter().filter(|group| group.is_limited()).collect();
    let shown = busiest(&limited, GROUP_ROWS, |group| group.runtime_ns);
    let rows: Vec<_> = shown.iter().map(|&&group| (group, Scale::of(report))).collect();
    let table = table_of(Place::Limits, &rows);
    let mut text = finish(&table, limited.len().saturating_sub(GROUP_ROWS), "limited task group");
    for group in shown {
        if let Some(holder) = &group.held_by {
            let (path, holder) = (printable(&group.path), printable(holder));
            writeln!(text, "{path} asks for more than {holder} has, and is held by that")
                .expect("a string takes all");
        }
    }
    text
}

fn balance_table(rows: &[BalanceReport]) -> String {
    let rows: Vec<_> = rows.iter().map(|row| (row, Scale::default())).collect();
    finish(&table_of(Place::Text, &rows), 0, "level")
}

/// The machine's counts, the timers' and the host's own.
fn totals(report: &Report) -> String {
    let (machine, scale) = (&report.machine, Scale::of(report));
    let counts = MachineReport::shown(Place::Foot, &[(machine, scale)]);
    let count = |it: &Titled<MachineReport>| (it.cell(machine, &scale).0, it.title);
    let mut text = listed(&counts.iter().map(count).collect::<Vec<_>>());
    text.push_str(&timers_line(&report.timers));
    text.push_str(&engine_line(&report.engine));
    text
}

fn timers_line(timers: &TimersReport) -> String {
    let TimersReport { armed, expired, greedy, cancelled } = *timers;
    let Some(armed) = armed else { return String::new() };
    let greedy = greedy.map_or(String::new(), |n| format!(" ({} greedily)", count(n)));
    let cancelled = cancelled.map_or(String::new(), |n| format!(", {} cancelled", count(n)));
    format!(
        "{} armed, {} expired{greedy}{cancelled}\n",
        counted(armed, "timer"),
        count_cell(expired),
    )
}

fn engine_line(engine: &EngineReport) -> String {
    let mut line = listed(&[(engine.decisions, "decision"), (engine.events, "event")]);
    if let (Some(wall), false) = (engine.wall_ns, line.is_empty()) {
        line.truncate(line.trim_end().len());
        write!(line, " in {} of wall time", span(wall)).expect("a string takes all");
        if let Some(decisions) = engine.decisions.filter(|_| wall > 0) {
            write!(line, ", {} decisions/s", rate_cell(Some(decisions), wall))
                .expect("a string takes all");
        }
        line.push('\n');
    }
    line
}

fn verdict(report: &Report, checks: Checks) -> String {
    let violations = &report.violations;
    let mut text = match (checks, violations.len() as u64) {
        (Checks::Done, 0) => "Invariants: checked, all held.\n".to_owned(),
        (Checks::NotDone, 0) => "Invariants: not checked.\n".to_owned(),
        (_, n) => format!("Invariants: BROKEN, {}:\n", counted(n, "violation")),
    };
    for violation in violations.iter().take(VIOLATION_ROWS) {
        let Violation { invariant, at, what } = violation;
        let what: Vec<_> = what.lines().map(printable).collect();
        writeln!(text, "  {at}  {invariant}: {}", what.join("\n  ")).expect("a string takes all");
    }
    if violations.len() > VIOLATION_ROWS {
        let rest = count((violations.len() - VIOLATION_ROWS) as u64);
        writeln!(text, "  and {rest} more").expect("a string takes all");
    }
    text
}

/// The table of these rows at a place.
fn table_of<T: Columns>(place: Place, rows: &[(&T, Scale)]) -> Table {
    let columns = T::shown(place, rows);
    let titles: Vec<_> = columns.iter().map(|it| it.title).collect();
    let mut table = table(&titles, columns.iter().filter(|it| it.is_text()).count());
    for (row, scale) in rows {
        table.add_row(columns.iter().map(|it| it.text(row, scale)));
    }
    table
}

/// An empty table with these titles, whose first `left` columns are text, the others numbers.
#[must_use]
pub fn table(header: &[&str], left: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(
        header
            .iter()
            .enumerate()
            .map(|(at, title)| Cell::new(title).set_alignment(alignment(at, left))),
    );
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if at == 0 { 0 } else { 2 }, 0));
        column.set_cell_alignment(alignment(at, left));
    }
    table
}

fn alignment(column: usize, left: usize) -> CellAlignment {
    if column < left { CellAlignment::Left } else { CellAlignment::Right }
}

/// The table as text, with the number of rows of `what` that are left out.
fn finish(table: &Table, left_out: usize, what: &str) -> String {
    let mut text = table.trim_fmt();
    text.push('\n');
    if left_out > 0 {
        let rest = counted(left_out as u64, &format!("less busy {what}"));
        writeln!(text, "and {rest}").expect("a string takes all");
    }
    text
}

/// The `most` rows with the highest `figure`, in the order of `rows`.
pub(crate) fn busiest<T>(rows: &[T], most: usize, figure: impl Fn(&T) -> Figure) -> Vec<&T> {
    let mut order: Vec<_> = (0..rows.len()).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(figure(&rows[at])));
    order.truncate(most);
    order.sort_unstable();
    order.into_iter().map(|at| &rows[at]).collect()
}

/// The known ones of `figures` in a line; no line if none is known.
fn listed(figures: &[(Figure, &str)]) -> String {
    let known = figures.iter().filter_map(|&(n, what)| Some(counted(n?, what)));
    match known.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => none,
        line => line + "\n",
    }
}

pub(crate) fn counted(n: u64, what: &str) -> String {
    let plural = match what {
        _ if n == 1 => "",
        _ if what.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{} {what}{plural}", count(n))
}

/// Adds `words` with `gap` between them, in as many lines as they need.
pub(crate) fn wrap(text: &mut String, words: &[String], gap: &str) {
    let mut width = 0;
    for word in words {
        let word_width = word.chars().count();
        if width > 0 && width + gap.len() + word_width > LINE_WIDTH {
            text.push('\n');
            width = 0;
        } else if width > 0 {
            text.push_str(gap);
            width += gap.len();
        }
        text.push_str(word);
        width += word_width;
    }
    text.push('\n');
}
