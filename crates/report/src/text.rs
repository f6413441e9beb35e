//! A report as text for people: the machine in tables like `mpstat`'s, the tasks, the task groups and the effects of
//! their limits, the results of balancing if a task was moved or should have been, then the violations. It is plain
//! ASCII that fits into 110 columns as long as the figures are ordinary.
//!
//! Tasks of one name are one row ([`folded`](crate::folded)), unless each is asked for. Long lists are cut to their
//! busiest rows, which stay in the report's order. A line gives the number of rows that are left out.

use crate::balance::BalanceReport;
use crate::chains::ChainReport;
use crate::cookies::CookieReport;
use crate::figure::{Figure, LatencyReport, sum};
use crate::folded::{FoldedTask, folded};
use crate::groups::{GroupReport, LimitReport};
use crate::report::{CpuReport, EngineReport, Report, TaskReport, TimersReport, Violation};
use crate::units::{UNKNOWN, count, count_cell, percent_cell, rate_cell, span, span_cell};
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
/// The number of chains with a row.
const CHAIN_ROWS: usize = 20;
/// The number of task groups with a row.
const GROUP_ROWS: usize = 20;
/// The number of cookies with a row.
const COOKIE_ROWS: usize = 20;
/// The number of violations that are shown.
const VIOLATION_ROWS: usize = 10;
/// The characters of a name that are shown.
const NAME_WIDTH: usize = 20;
/// The width at which a list of names goes on in the next line.
const LINE_WIDTH: usize = 100;

/// The name of the tasks without a cookie.
pub(crate) const NO_COOKIE: &str = "(none)";

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
    format!(
        "{} on {}: {}, {}, {}, seed {}{}",
        printable(&report.scenario),
        printable(&report.host),
        counted(report.machine.cpus as u64, "CPU"),
        counted(report.tasks.len() as u64, "task"),
        span(report.duration_ns),
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
    let mut header = vec!["CPU", "%rt", "%normal", "%idlepol", "%ovh", "%idle", "switches/s"];
    let is_forced = report.cpus.iter().any(|cpu| cpu.forced_idle_ns > Some(0));
    if is_forced {
        header.push("%forced");
    }
    let mut table = table(&header, 1);
    let cpus = &report.cpus;
    let all = CpuReport {
        cpu: 0,
        busy_ns: sum(cpus, |cpu| cpu.busy_ns),
        idle_ns: sum(cpus, |cpu| cpu.idle_ns),
        rt_ns: sum(cpus, |cpu| cpu.rt_ns),
        normal_ns: sum(cpus, |cpu| cpu.normal_ns),
        idle_policy_ns: sum(cpus, |cpu| cpu.idle_policy_ns),
        overhead_ns: sum(cpus, |cpu| cpu.overhead_ns),
        switches: report.machine.switches,
        forced_idle_ns: sum(cpus, |cpu| cpu.forced_idle_ns),
    };
    let all_ns = report.duration_ns.saturating_mul(cpus.len() as u64);
    let row = |name: String, cpu: &CpuReport, times: (u64, u64)| {
        let mut row = cpu_row(name, cpu, times);
        row.extend(is_forced.then(|| percent_cell(cpu.forced_idle_ns, times.0)));
        row
    };
    table.add_row(row("all".to_owned(), &all, (all_ns, report.duration_ns)));

    let most = if cpus.len() > CPU_ROWS { BUSIEST_CPUS } else { CPU_ROWS };
    for cpu in busiest(cpus, most, |cpu| cpu.busy_ns) {
        let times = (report.duration_ns, report.duration_ns);
        table.add_row(row(cpu.cpu.to_string(), cpu, times));
    }
    finish(&table, cpus.len().saturating_sub(most), "CPU")
}

/// The row of a CPU. `times` are the CPU time and the elapsed time, in nanoseconds.
fn cpu_row(name: String, cpu: &CpuReport, times: (u64, u64)) -> Vec<String> {
    let parts = [cpu.rt_ns, cpu.normal_ns, cpu.idle_policy_ns, cpu.overhead_ns, cpu.idle_ns];
    let mut row = vec![name];
    row.extend(parts.map(|part| percent_cell(part, times.0)));
    row.push(rate_cell(cpu.switches, times.1));
    row
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
            let alone = |task: &TaskReport| FoldedTask { n: 1, all: task.clone() };
            (report.tasks.iter().map(alone).collect(), 0)
        }
    };
    let columns = TaskColumns {
        n: all.iter().any(|row| row.n > 1),
        missed: all.iter().any(|row| row.all.missed > Some(0)),
        slack: all.iter().any(|row| row.all.is_late_by_slack()),
    };
    let mut table = table(&columns.header(), 2);
    for row in &all {
        table.add_row(columns.row(row));
    }
    let mut text = finish(&table, left_out, "name");
    if columns.slack {
        text.push_str(&slack_note(&all));
    }
    text
}

/// The columns of the table of tasks besides the usual ones.
struct TaskColumns {
    n: bool,
    missed: bool,
    /// Whether a p50 is marked.
    slack: bool,
}

impl TaskColumns {
    fn header(&self) -> Vec<&'static str> {
        let mut header = vec!["\ntask", "\npolicy", "\nprio"];
        header.extend(self.n.then_some("\nn"));
        // The first line has "wake-up latency" over the last three columns.
        header.extend(["\nruntime", "\nwait", "wake-\nups", "pre-\nempted"]);
        header.push("mi-\ngrated");
        header.extend(self.missed.then_some("\nmissed"));
        header.extend([
            if self.slack { "wake-up\np50 " } else { "wake-up\np50" },
            "latency\np99",
            "\nmax",
        ]);
        header
    }

    fn row(&self, FoldedTask { n, all: task }: &FoldedTask) -> Vec<String> {
        let LatencyReport { p50_ns, p99_ns, max_ns, .. } = task.wakeup_latency;
        let mut row = vec![shortened(&task.name)];
        row.push(task.policy.strip_prefix("SCHED_").unwrap_or(&task.policy).to_owned());
        row.push(task.priority.to_string());
        row.extend(self.n.then(|| count(*n)));
        row.extend([task.runtime_ns, task.wait_ns].map(span_cell));
        row.extend([task.wakeups, task.preemptions, task.migrations].map(count_cell));
        row.extend(self.missed.then(|| count_cell(task.missed)));
        let mark = match (self.slack, task.is_late_by_slack()) {
            (false, _) => "",
            (true, false) => " ",
            (true, true) => "*",
        };
        row.push(span_cell(p50_ns) + mark);
        row.extend([p99_ns, max_ns].map(span_cell));
        row
    }
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

/// A row for each chain, in the order of the scenario.
fn chain_table(chains: &[ChainReport]) -> String {
    let header = ["chain", "count", "dropped", "missed", "p50", "p99", "max"];
    let mut table = table(&header, 1);
    for chain in busiest(chains, CHAIN_ROWS, |chain| chain.count) {
        let LatencyReport { p50_ns, p99_ns, max_ns, .. } = chain.latency;
        table.add_row([
            shortened(&chain.name),
            count_cell(chain.count),
            count_cell(chain.dropped),
            count_cell(chain.missed),
            span_cell(p50_ns),
            span_cell(p99_ns),
            span_cell(max_ns),
        ]);
    }
    finish(&table, chains.len().saturating_sub(CHAIN_ROWS), "chain")
}

/// The table of task groups. `%cpu` is of one CPU, as in `top`.
fn group_table(report: &Report) -> String {
    let mut table = table(&["group", "runtime", "%cpu"], 1);
    for group in busiest(&report.groups, GROUP_ROWS, |group| group.runtime_ns) {
        table.add_row([
            shortened(&group.path),
            span_cell(group.runtime_ns),
            percent_cell(group.runtime_ns, report.duration_ns),
        ]);
    }
    finish(&table, report.groups.len().saturating_sub(GROUP_ROWS), "task group")
}

/// The table of cookies: the runtime of their tasks, and the CPU time that they cost others. `%cpu` is of one CPU.
fn cookie_table(report: &Report) -> String {
    let mut table = table(&["cookie", "runtime", "%cpu", "forced idle", "%cpu"], 1);
    for cookie in busiest(&report.cookies, COOKIE_ROWS, |cookie| cookie.runtime_ns) {
        let CookieReport { name, runtime_ns, forced_idle_ns } = cookie;
        let percent = |figure| percent_cell(figure, report.duration_ns);
        table.add_row([
            name.as_deref().map_or_else(|| NO_COOKIE.to_owned(), shortened),
            span_cell(*runtime_ns),
            percent(*runtime_ns),
            span_cell(*forced_idle_ns),
            percent(*forced_idle_ns),
        ]);
    }
    finish(&table, report.cookies.len().saturating_sub(COOKIE_ROWS), "cookie")
}

/// The table of groups with limits, and below it the groups that an ancestor limits further.
fn limit_table(report: &Report) -> String {
    // The first line has "throttled" over three columns, and "bursts" over two.
    let header = [
        "\ngroup",
        "\nlimit",
        "\n%limit",
        "\nperiods",
        "throttled\nin",
        "\nfor",
        "\nmost on",
        "bursts\nin",
        "\nof",
        "\nborrowed",
        "drew most\non",
    ];
    let mut table = table(&header, 2);
    let limited: Vec<_> = report.groups.iter().filter(|group| group.is_limited()).collect();
    let shown = busiest(&limited, GROUP_ROWS, |group| group.runtime_ns);
    for group in &shown {
        table.add_row(limit_row(group, report));
    }
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

fn limit_row(group: &GroupReport, report: &Report) -> [String; 11] {
    let granted = group.granted_ns(report.duration_ns, report.machine.cpus);
    [
        shortened(&group.path),
        group.limit.as_ref().map_or_else(|| UNKNOWN.to_owned(), limit),
        granted.map_or_else(|| UNKNOWN.to_owned(), |all| percent_cell(group.used_ns(), all)),
        count_cell(group.nr_periods),
        count_cell(group.nr_throttled),
        span_cell(group.throttled_ns),
        cpu_cell(group.throttled_most()),
        count_cell(group.nr_bursts),
        span_cell(group.burst_ns),
        span_cell(group.borrowed_ns),
        cpu_cell(group.drew_most()),
    ]
}

/// A limit in words, to the microsecond: `20 ms/100 ms`, with the burst.
pub(crate) fn limit(limit: &LimitReport) -> String {
    let LimitReport { runtime_us, period_us, burst_us, per_cpu } = *limit;
    let shown = |us: u64| match us {
        _ if us.is_multiple_of(1_000_000) => format!("{} s", us / 1_000_000),
        _ if us.is_multiple_of(1_000) => format!("{} ms", us / 1_000),
        _ => format!("{us} us"),
    };
    let burst = if burst_us > 0 { format!(" +{}", shown(burst_us)) } else { String::new() };
    let whose = if per_cpu { " a CPU" } else { "" };
    format!("{}/{}{burst}{whose}", shown(runtime_us), shown(period_us))
}

/// A CPU for a column, if there is one.
pub(crate) fn cpu_cell(cpu: Option<usize>) -> String {
    cpu.map_or_else(|| UNKNOWN.to_owned(), |cpu| format!("CPU {cpu}"))
}

fn balance_table(rows: &[BalanceReport]) -> String {
    let header = ["balance", "", "passes", "balanced", "pinned", "failed", "moved", "taken"];
    let mut table = table(&header, 2);
    for row in rows {
        let names = [printable(&row.level), printable(&row.moment_in_words())];
        table.add_row(names.into_iter().chain(row.counts().map(count)));
    }
    finish(&table, 0, "level")
}

/// The machine's counts, the timers' and the host's own.
fn totals(report: &Report) -> String {
    let machine = &report.machine;
    let mut text = listed([
        (machine.switches, "switch"),
        (machine.preemptions, "preemption"),
        (machine.migrations, "migration"),
        (machine.timer_interrupts, "timer interrupt"),
    ]);
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
    let mut line = listed([(engine.decisions, "decision"), (engine.events, "event")]);
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
fn listed<const N: usize>(figures: [(Figure, &str); N]) -> String {
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

pub(crate) fn shortened(name: &str) -> String {
    let name = printable(name);
    match name.char_indices().nth(NAME_WIDTH) {
        None => name,
        Some(_) => name.chars().take(NAME_WIDTH - 3).chain("...".chars()).collect(),
    }
}

/// A user's text without characters that move the cursor or change the terminal.
pub(crate) fn printable(text: &str) -> String {
    text.replace(char::is_control, "?")
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
