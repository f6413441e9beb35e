//! The document of two sides, with the differences between them.
//!
//! A figure is coloured only if it is asked for and pairs of runs tell its change from noise. With one run a side no
//! figure is.

use super::run::Run;
use super::table::{ROWS, TAKES_ALL, cell, escaped, name_cell, section, sorting};
use super::tables::{
    self, FOOTER, causes, course, latencies, said, timelines, utilization, violations,
};
use crate::change::{Change, Changes, Row, heaviest};
use crate::judged::{Judged, TITLES, Verdict};
use crate::units::{UNKNOWN, count};
use std::fmt::Write as _;

/// The style that is added to the style of all pages.
pub(super) const STYLE: &str = include_str!("compared.css");

/// The document.
pub(super) fn two(runs: [Run; 2], changes: &Changes) -> String {
    let [old, new] = runs.map(|run| run.report);
    let mut body = head(runs, changes);
    body.push_str(&violations(old));
    body.push_str(&violations(new));
    body.push_str(&cards(&changes.machine));
    if !changes.judged.is_empty() {
        let note = "The figures that are asked for.";
        body.push_str(&section("Verdicts", note, &judged(&changes.judged)));
    }
    if changes.pairs > 1 {
        let note = "The machine's figures, in pairs of runs.";
        let table = table("machine", std::slice::from_ref(&changes.machine), changes.pairs);
        body.push_str(&section("Machine, before and after", note, &table));
        let first = format!("The charts are of seed {} alone.", old.seed);
        writeln!(body, "<p class=note>{first}</p>").expect(TAKES_ALL);
    }
    body.push_str(&latencies(&runs));
    for (title, id, note, rows) in [
        ("Wake-up latency", "latencies", "All instances of a task together.", &changes.latencies),
        (
            "Chains",
            "chains",
            "From the first task's wake-up to the last one's end.",
            &changes.chains,
        ),
    ] {
        if !rows.is_empty() {
            let title = format!("{title}, before and after");
            body.push_str(&section(&title, note, &table(id, rows, changes.pairs)));
        }
    }
    if runs.iter().any(|run| run.report.history.is_some()) {
        body.push_str(&utilization(&runs));
    }
    body.push_str(&course(&runs));
    body.push_str(&causes(&runs));
    body.push_str(&timelines(&runs));
    let note = "All instances of a task together.";
    let tasks = table("tasks", &changes.tasks, changes.pairs);
    body.push_str(&section("Tasks, before and after", note, &tasks));
    if !changes.groups.is_empty() {
        let table = table("groups", &changes.groups, changes.pairs);
        body.push_str(&section("Task groups, before and after", "", &table));
    }
    body + FOOTER
}

fn head(runs: [Run; 2], changes: &Changes) -> String {
    let [old, new] = runs.map(|run| run.report);
    let name = if old.scenario == new.scenario {
        escaped(&old.scenario)
    } else {
        format!("{} and {}", escaped(&old.scenario), escaped(&new.scenario))
    };
    let mut head = format!("<header>\n<h1>{name}, before and after</h1>\n");
    for (label, report) in [("Before", old), ("After", new)] {
        writeln!(head, "<p class=quiet><b>{label}:</b> {}</p>", said(report)).expect(TAKES_ALL);
        head.push_str(&tables::changes(report));
    }
    if !changes.differs.is_empty() {
        let differs = escaped(&changes.differs.join("; "));
        writeln!(head, "<p id=differs><b>Differs:</b> {differs}</p>").expect(TAKES_ALL);
    }
    writeln!(head, "<p class=note id=means>{}</p>\n</header>", escaped(&changes.notes().join(" ")))
        .expect(TAKES_ALL);
    head
}

/// The machine's figures, in large type.
fn cards(machine: &Row) -> String {
    let mut text = "<div class=cards>\n".to_owned();
    for change in &machine.changes {
        let name = match change.what {
            "utilization" => "CPU utilization".to_owned(),
            what => what[..1].to_uppercase() + &what[1..],
        };
        let (before, after) = (change.cell(change.before), change.cell(change.after));
        let ratio = match change.ratio() {
            unknown if unknown == UNKNOWN => String::new(),
            ratio => format!("<dd>&times; {ratio}</dd>"),
        };
        writeln!(
            text,
            "<dl class=card><dt>{name}</dt><dd><span class=was>{before} &rarr;</span> {after}</dd>{ratio}</dl>"
        )
        .expect(TAKES_ALL);
    }
    text + "</div>\n"
}

/// The table of the figures that are asked for.
fn judged(all: &[Judged]) -> String {
    let mut html = "<div class=scroll><table id=judged>\n<thead><tr>".to_owned();
    for title in TITLES {
        html.push_str(&sorting(title, title == "judged"));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for one in all {
        let mark = mark(one);
        let [name, cells @ ..] = one.cells();
        let cells = cells.map(|cell| escaped(&cell));
        write!(html, "<tr>{}", name_cell(&name, "")).expect(TAKES_ALL);
        let Judged { before, after, difference, p, .. } = *one;
        let ratio = before.zip(after).map(|(before, after)| after / before);
        for (cell, value) in cells.iter().zip([before, after, ratio, difference, difference, p, p])
        {
            let value = value.filter(|it| it.is_finite()).unwrap_or_default();
            write!(html, "<td class=\"{mark}\" data-value={value}>{cell}</td>").expect(TAKES_ALL);
        }
        html.push_str("</tr>\n");
    }
    html + "</tbody></table></div>\n"
}

/// The style of a judged figure.
fn mark(judged: &Judged) -> &'static str {
    match judged.verdict {
        Some(Verdict::Noise) => "noise",
        Some(Verdict::Change) if judged.is_delay && judged.difference > Some(0.0) => "worse",
        Some(Verdict::Change) if judged.is_delay => "better",
        _ => "",
    }
}

/// A table of figures before and after, with their ratio; with pairs also the difference.
fn table(id: &str, rows: &[Row], pairs: usize) -> String {
    let all: Vec<_> = rows.iter().collect();
    let shown = heaviest(&all, ROWS);
    let whats = rows.first().map(|row| row.changes.as_slice()).unwrap_or_default();
    let paired: &[&str] = if pairs > 1 { &["difference"] } else { &[] };
    let mut html = format!("<div class=scroll><table id={id}>\n<thead><tr><td></td>");
    for change in whats {
        let columns = 3 + paired.len();
        write!(
            html,
            "<th scope=colgroup class=\"span first\" colspan={columns}>{}</th>",
            change.named(pairs)
        )
        .expect(TAKES_ALL);
    }
    html.push_str("</tr>\n<tr>");
    html.push_str(&sorting("name", true));
    for _ in whats {
        html.push_str("<th scope=col class=first data-sort=number>before</th>");
        for title in ["after", "ratio"].iter().chain(paired) {
            html.push_str(&sorting(title, false));
        }
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in &shown {
        let name = if row.name.is_empty() { "machine" } else { &row.name };
        write!(html, "<tr>{}", name_cell(name, "")).expect(TAKES_ALL);
        row.changes.iter().for_each(|change| html.push_str(&cells(change, pairs)));
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
    if rows.len() > shown.len() {
        let rest = count((rows.len() - shown.len()) as u64);
        writeln!(html, "<p class=note>and {rest} less busy</p>").expect(TAKES_ALL);
    }
    html
}

fn cells(change: &Change, pairs: usize) -> String {
    // The ratio sorts by thousandths.
    let ratio = change.before.zip(change.after).and_then(|(before, after)| {
        u64::try_from((u128::from(after) * 1000).checked_div(u128::from(before))?).ok()
    });
    let mut cells = cell("was first", change.before, &change.cell(change.before));
    cells.push_str(&cell("", change.after, &change.cell(change.after)));
    cells.push_str(&cell("", ratio, &change.ratio()));
    match &change.shift {
        Some(shift) => {
            let (value, shown) = (shift.estimate, change.difference(shift.estimate));
            let interval = change.interval(shift);
            write!(cells, "<td data-value={value} title=\"95 %: {interval}\">{shown}</td>")
                .expect(TAKES_ALL);
        }
        None if pairs > 1 => write!(cells, "<td>{UNKNOWN}</td>").expect(TAKES_ALL),
        None => {}
    }
    cells
}
