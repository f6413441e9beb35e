//! The document of a page: what was run, the figures, the tables, and the places for charts.

use super::data::drawn_latencies;
use super::run::Run;
use crate::balance::BalanceReport;
use crate::change::{Change, Changes, Row, Unit, heaviest};
use crate::figure::{Figure, LatencyReport, sum};
use crate::groups::GroupReport;
use crate::report::{Report, TaskReport};
use crate::series::Distribution;
use crate::text::{NO_COOKIE, busiest, counted, cpu_cell, limit, printable, ran_without};
use crate::units::{UNKNOWN, count, count_cell, percent_cell, rate_cell, span, span_cell};
use std::fmt::Write as _;

/// How many rows a table has: of more, the busiest.
const ROWS: usize = 200;
/// How many violations are shown.
const VIOLATIONS: usize = 10;
/// A delay that changed by more than this many per cent is marked.
const MARKED: u64 = 5;

const TAKES_ALL: &str = "a string takes all";

/// What the columns of the balance table mean.
const BALANCE_NOTE: &str = "How often CPUs compared themselves with others: passes that found \
                            balance, only tasks that may not run there, or none that fits; the \
                            others moved tasks that waited. Taken are running ones, after failures.";

/// What the columns of the table of cookies mean.
const COOKIES_NOTE: &str = "What the tasks that began with a cookie ran, and how long CPUs were forced idle because \
                            their cores ran tasks of it, while others waited there.";

/// What the columns of the table of limits mean.
const LIMITS_NOTE: &str = "Who drew the budget of a limited task group, and where it had to wait.";

/// The document of one run.
pub(super) fn one(run: Run) -> String {
    let report = run.report;
    let mut body = format!(
        "<header>\n<h1>{}</h1>\n<p class=quiet>{}</p>\n</header>\n{}",
        escaped(&report.scenario),
        said(report),
        violations(report),
    );
    body.push_str(&cards(report));
    body.push_str(&utilization(&[run]));
    body.push_str(&latencies(&[run]));
    body.push_str(&timelines(&[run]));
    body.push_str(&section("Tasks", "", &task_table(&report.tasks, report.duration_ns)));
    if !report.groups.is_empty() {
        body.push_str(&section("Task groups", "", &group_table(report)));
        body.push_str(&limited_cpus(&report.groups));
    }
    if !report.cookies.is_empty() {
        body.push_str(&section("Cookies", COOKIES_NOTE, &cookie_table(report)));
    }
    if !report.balance.is_empty() {
        let table = balance_table(&report.balance);
        body.push_str(&section("Balance", BALANCE_NOTE, &table));
    }
    body + FOOTER
}

/// The document of two runs.
pub(super) fn two(before: Run, after: Run, changes: &Changes) -> String {
    let (old, new) = (before.report, after.report);
    let name = if old.scenario == new.scenario {
        escaped(&old.scenario)
    } else {
        format!("{} and {}", escaped(&old.scenario), escaped(&new.scenario))
    };
    let mut body = format!("<header>\n<h1>{name}, before and after</h1>\n");
    for (label, report) in [("Before", old), ("After", new)] {
        writeln!(body, "<p class=quiet><b>{label}:</b> {}</p>", said(report)).expect(TAKES_ALL);
    }
    body.push_str("</header>\n");
    body.push_str(&violations(old));
    body.push_str(&violations(new));
    body.push_str(&changed_cards(&changes.machine));
    let both = [before, after];
    body.push_str(&latencies(&both));
    let noted =
        |what: &str| format!("{what} A delay that changed by more than {MARKED} % is coloured.");
    if !changes.latencies.is_empty() {
        let note = noted("All instances of a task together.");
        let table = change_table("latencies", &changes.latencies);
        body.push_str(&section("Wake-up latency, before and after", &note, &table));
    }
    body.push_str(&utilization(&both));
    body.push_str(&timelines(&both));
    let table = change_table("tasks", &changes.tasks);
    body.push_str(&section("Tasks, before and after", &noted(""), &table));
    if !changes.groups.is_empty() {
        let table = change_table("groups", &changes.groups);
        body.push_str(&section("Task groups, before and after", "", &table));
    }
    body + FOOTER
}

const FOOTER: &str = "<footer>Made by runyard; charts by Apache ECharts. Percentiles are within \
                      1 %. A dash stands for what the host cannot know.</footer>\n";

/// A user's text as text of the document.
pub(super) fn escaped(text: &str) -> String {
    let text = printable(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}

/// What ran, and without which features.
fn said(report: &Report) -> String {
    escaped(&ran_without(report))
}

fn violations(report: &Report) -> String {
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

fn section(title: &str, note: &str, content: &str) -> String {
    let note = if note.is_empty() { String::new() } else { format!("<p class=note>{note}</p>\n") };
    format!("<section>\n<h2>{title}</h2>\n{note}{content}</section>\n")
}

/// The machine's figures, in the large.
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
    let counts = [
        ("Switches", machine.switches),
        ("Preemptions", machine.preemptions),
        ("Migrations", machine.migrations),
        ("Timer interrupts", machine.timer_interrupts),
    ];
    for (name, figure) in counts {
        let rate = format!("{} a second", rate_cell(figure, report.duration_ns));
        card(&mut text, name, &count_cell(figure), &rate);
    }
    let forced = sum(&report.cpus, |cpu| cpu.forced_idle_ns);
    if forced > Some(0) {
        let all = report.duration_ns.saturating_mul(report.cpus.len() as u64);
        let part = format!("{} % of CPU time", percent_cell(forced, all));
        card(&mut text, "Forced idle", span_cell(forced).trim_end(), &part);
    }
    text + "</div>\n"
}

fn changed_cards(machine: &Row) -> String {
    let mut text = "<div class=cards>\n".to_owned();
    for change in &machine.changes {
        let name = match change.what {
            "utilization" => "CPU utilization".to_owned(),
            what => what[..1].to_uppercase() + &what[1..],
        };
        let (before, after) = (change.cell(change.before), change.cell(change.after));
        let ratio = match change.ratio() {
            unknown if unknown == UNKNOWN => String::new(),
            ratio => format!("&times; {ratio}"),
        };
        writeln!(
            text,
            "<dl class=card><dt>{name}</dt><dd><span class=was>{before} &rarr;</span> {after}</dd>\
             <dd>{ratio}</dd></dl>"
        )
        .expect(TAKES_ALL);
    }
    text + "</div>\n"
}

fn utilization(runs: &[Run]) -> String {
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
             <p class=note>Below, how busy each of the {some}CPUs was, in steps of {step}.</p>\n\
             <div class=chart id=lanes-{at}></div></div>",
            heading(runs, at)
        )
        .expect(TAKES_ALL);
    }
    let content =
        format!("<ul class=legend id=kinds></ul>\n<div class=columns>\n{columns}</div>\n");
    section("CPU utilization over time", "", &content)
}

fn heading(runs: &[Run], at: usize) -> &'static str {
    match (runs.len(), at) {
        (2, 0) => "<h3>Before</h3>\n",
        (2, _) => "<h3>After</h3>\n",
        _ => "",
    }
}

fn latencies(runs: &[Run]) -> String {
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
    let mut content = "<div class=chart id=latency></div>\n".to_owned();
    if let [run] = runs {
        content.push_str(&latency_table(&drawn_latencies(run.report)));
    }
    section("Wake-up latency", &note, &content)
}

fn timelines(runs: &[Run]) -> String {
    let mut columns = String::new();
    for (at, run) in runs.iter().enumerate() {
        let Some(drawn) = run.stretches else { continue };
        let (end, all) = (span(drawn.end_ns), run.report.duration_ns);
        let part = if drawn.end_ns < all {
            format!("The first {end} of {}; a trace has all of it.", span(all))
        } else {
            format!("All of the run, {end}.")
        };
        let cpus = match run.report.machine.cpus {
            cpus if cpus > drawn.cpus => format!(" The first {} of {cpus} CPUs.", drawn.cpus),
            _ => String::new(),
        };
        writeln!(
            columns,
            "<div>{}<p class=tools><button id=timeline-in-{at}>Zoom in</button> \
             <button id=timeline-out-{at}>Zoom out</button> \
             <button id=timeline-all-{at}>All</button></p>\n\
             <p class=note>{part}{cpus} The wheel zooms, dragging moves; \
             <span id=timeline-range-{at}></span>.</p>\n\
             <ul class=legend id=timeline-legend-{at}></ul>\n\
             <div class=chart id=timeline-{at}></div></div>",
            heading(runs, at)
        )
        .expect(TAKES_ALL);
    }
    match columns.as_str() {
        "" => String::new(),
        columns => {
            let content = format!("<div class=columns>\n{columns}</div>\n");
            section("Who had the CPUs", "", &content)
        }
    }
}

/// A table with the columns of `titles`, the first `texts` of which are texts.
struct Table {
    html: String,
    texts: usize,
}

impl Table {
    fn new(id: &str, titles: &[&str], texts: usize) -> Table {
        let mut html = format!("<div class=scroll><table id={id}>\n<thead><tr>");
        titles
            .iter()
            .enumerate()
            .for_each(|(at, title)| html.push_str(&sorting(title, at < texts)));
        html.push_str("</tr></thead>\n<tbody>\n");
        Table { html, texts }
    }

    /// Adds a row: texts, then figures with how they are shown.
    fn row(&mut self, texts: &[&str], figures: &[(Figure, String)]) {
        debug_assert_eq!(texts.len(), self.texts, "a row has the table's columns");
        self.html.push_str("<tr>");
        for text in texts {
            let text = escaped(text);
            write!(self.html, "<td class=text title=\"{text}\">{text}</td>").expect(TAKES_ALL);
        }
        for (figure, shown) in figures {
            self.html.push_str(&cell("", *figure, shown));
        }
        self.html.push_str("</tr>\n");
    }

    fn end(mut self, left_out: usize, what: &str) -> String {
        self.html.push_str("</tbody></table></div>\n");
        if left_out > 0 {
            let rest = counted(left_out as u64, &format!("less busy {what}"));
            writeln!(self.html, "<p class=note>and {rest}</p>").expect(TAKES_ALL);
        }
        self.html
    }
}

fn sorting(title: &str, text: bool) -> String {
    match text {
        true => format!("<th class=text data-sort=text>{title}</th>"),
        false => format!("<th data-sort=number>{title}</th>"),
    }
}

/// A cell that shows a figure and has it exactly.
fn cell(class: &str, figure: Figure, shown: &str) -> String {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    let value = figure.map_or(String::new(), |figure| format!(" data-value={figure}"));
    format!("<td{class}{value}>{}</td>", shown.trim_end())
}

fn spanned(figure: Figure) -> (Figure, String) {
    (figure, span_cell(figure))
}

fn counted_cell(figure: Figure) -> (Figure, String) {
    (figure, count_cell(figure))
}

/// The number of a CPU.
fn placed(cpu: Option<usize>) -> (Figure, String) {
    (cpu.map(|cpu| cpu as u64), cpu_cell(cpu))
}

fn latency_cells(latency: &LatencyReport) -> [(Figure, String); 5] {
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

fn task_table(tasks: &[TaskReport], duration_ns: u64) -> String {
    let titles = [
        "task",
        "policy",
        "task group",
        "prio",
        "runtime",
        "% CPU",
        "wait",
        "sleep",
        "wake-ups",
        "preempted",
        "migrated",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "max",
    ];
    let mut table = Table::new("tasks", &titles, 3);
    for task in busiest(tasks, ROWS, |task| task.runtime_ns) {
        let policy = task.policy.strip_prefix("SCHED_").unwrap_or(&task.policy);
        // A priority may be below 0: it is not a figure that sorts by its value alone.
        let mut cells =
            vec![(u64::try_from(task.priority.saturating_add(64)).ok(), task.priority.to_string())];
        cells.push(spanned(task.runtime_ns));
        cells.push((task.runtime_ns, percent_cell(task.runtime_ns, duration_ns)));
        cells.extend([task.wait_ns, task.sleep_ns].map(spanned));
        cells.extend([task.wakeups, task.preemptions, task.migrations].map(counted_cell));
        cells.extend(latency_cells(&task.wakeup_latency));
        table.row(&[&task.name, policy, &task.group], &cells);
    }
    table.end(tasks.len().saturating_sub(ROWS), "task")
}

fn group_table(report: &Report) -> String {
    let titles = [
        "task group",
        "limit",
        "held by",
        "runtime",
        "% of a CPU",
        "% of limit",
        "periods",
        "throttled",
        "throttled for",
        "most on",
        "bursts",
        "burst time",
        "borrowed",
        "drew most",
    ];
    let mut table = Table::new("groups", &titles, 3);
    let (groups, duration_ns) = (&report.groups, report.duration_ns);
    for group in busiest(groups, ROWS, |group| group.runtime_ns) {
        let granted = group.granted_ns(duration_ns, report.machine.cpus);
        let used = group.used_ns().filter(|_| granted.is_some());
        let mut cells = vec![spanned(group.runtime_ns)];
        cells.push((group.runtime_ns, percent_cell(group.runtime_ns, duration_ns)));
        cells.push((used, percent_cell(used, granted.unwrap_or(0))));
        cells.extend([group.nr_periods, group.nr_throttled].map(counted_cell));
        cells.push(spanned(group.throttled_ns));
        cells.push(placed(group.throttled_most()));
        cells.push(counted_cell(group.nr_bursts));
        cells.extend([group.burst_ns, group.borrowed_ns].map(spanned));
        cells.push(placed(group.drew_most()));
        let asked = group.limit.as_ref().map(limit).unwrap_or_default();
        let holder = group.held_by.as_deref().unwrap_or_default();
        table.row(&[&group.path, &asked, holder], &cells);
    }
    table.end(groups.len().saturating_sub(ROWS), "task group")
}

/// What the limits did on each CPU; nothing where no group has one, or the host does not know.
fn limited_cpus(groups: &[GroupReport]) -> String {
    let mut rows = Vec::new();
    for GroupReport { path, cpus, .. } in groups {
        rows.extend(cpus.iter().flatten().map(|cpu| (path, cpu)));
    }
    if rows.is_empty() {
        return String::new();
    }
    let titles = ["task group", "CPU", "used", "throttled", "throttled for", "borrowed"];
    let mut table = Table::new("limits", &titles, 1);
    for (path, cpu) in busiest(&rows, ROWS, |(_, cpu)| Some(cpu.used_ns)) {
        let mut cells = vec![placed(Some(cpu.cpu)), spanned(Some(cpu.used_ns))];
        cells.push(counted_cell(Some(cpu.nr_throttled)));
        cells.extend([cpu.throttled_ns, cpu.borrowed_ns].map(|span| spanned(Some(span))));
        table.row(&[path], &cells);
    }
    section("Limits on CPUs", LIMITS_NOTE, &table.end(rows.len().saturating_sub(ROWS), "row"))
}

fn cookie_table(report: &Report) -> String {
    let titles = ["cookie", "runtime", "% of a CPU", "forced idle", "% of a CPU"];
    let mut table = Table::new("cookies", &titles, 1);
    for cookie in busiest(&report.cookies, ROWS, |cookie| cookie.runtime_ns) {
        let name = cookie.name.as_deref().unwrap_or(NO_COOKIE);
        let both = [cookie.runtime_ns, cookie.forced_idle_ns];
        let cells = both.map(|it| [spanned(it), (it, percent_cell(it, report.duration_ns))]);
        table.row(&[name], &cells.concat());
    }
    table.end(report.cookies.len().saturating_sub(ROWS), "cookie")
}

fn balance_table(rows: &[BalanceReport]) -> String {
    let titles = ["level", "moment", "passes", "balanced", "pinned", "failed", "moved", "taken"];
    let mut table = Table::new("balance", &titles, 2);
    for row in rows {
        let cells = row.counts().map(|count| counted_cell(Some(count)));
        table.row(&[&row.level, &row.moment_in_words()], &cells);
    }
    table.end(0, "level")
}

/// A table of figures before and after, with their ratio.
fn change_table(id: &str, rows: &[Row]) -> String {
    let all: Vec<_> = rows.iter().collect();
    let shown = heaviest(&all, ROWS);
    let whats = rows.first().map(|row| row.changes.as_slice()).unwrap_or_default();
    let mut html = format!("<div class=scroll><table id={id}>\n<thead><tr><th></th>");
    for change in whats {
        write!(html, "<th class=\"span first\" colspan=3>{}</th>", change.what).expect(TAKES_ALL);
    }
    html.push_str("</tr>\n<tr>");
    html.push_str(&sorting("", true));
    for _ in whats {
        html.push_str("<th class=first data-sort=number>before</th>");
        html.push_str(&sorting("after", false));
        html.push_str(&sorting("ratio", false));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in &shown {
        let name = escaped(&row.name);
        write!(html, "<tr><td class=text title=\"{name}\">{name}</td>").expect(TAKES_ALL);
        row.changes.iter().for_each(|change| html.push_str(&change_cells(change)));
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
    if rows.len() > shown.len() {
        let rest = count((rows.len() - shown.len()) as u64);
        writeln!(html, "<p class=note>and {rest} less busy</p>").expect(TAKES_ALL);
    }
    html
}

fn change_cells(change: &Change) -> String {
    let Change { unit, before, after, .. } = *change;
    let mark = match (unit, before, after) {
        (Unit::Delay, Some(before), Some(after)) => {
            let (old, new) = (u128::from(before), u128::from(after));
            let beyond = |less: u128, more: u128| more * 100 > less * u128::from(100 + MARKED);
            match () {
                () if beyond(old, new) => "worse",
                () if beyond(new, old) => "better",
                () => "",
            }
        }
        _ => "",
    };
    // The ratio sorts by thousandths.
    let ratio = before.zip(after).and_then(|(before, after)| {
        u64::try_from((u128::from(after) * 1000).checked_div(u128::from(before))?).ok()
    });
    let mut cells = cell("was first", before, &change.cell(before));
    cells.push_str(&cell("", after, &change.cell(after)));
    cells.push_str(&cell(mark, ratio, &change.ratio()));
    cells
}
