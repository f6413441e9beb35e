//! The longest waits: their time, CPU and cause, and the tasks that ran meanwhile. Each has a button that shows its
//! window in the timeline.

use super::table::{TAKES_ALL, cell, escaped, moment, name_cell, section, sorting};
use crate::report::Report;
use crate::units::span;
use crate::why::WorstReport;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The number of waits of the whole run that are shown at first.
const OF_THE_RUN: usize = 10;
/// The number of tasks with waits on the page: those with the longest.
const TASKS: usize = 100;
/// The number of tasks that are named among those that ran meanwhile.
const NAMED: usize = 3;

const NOTE: &str = "The wake-ups with the longest latencies: since when the task could have run, how long that took, the CPU \
                    where it waited, what it waited for most of the time, and the tasks that executed there meanwhile.";

/// The longest waits of the run and of each task; empty if the host knows none.
pub(super) fn longest(report: &Report) -> String {
    let mut all: Vec<_> = report
        .tasks
        .iter()
        .flat_map(|task| task.worst.iter().map(|it| (&*task.name, it)))
        .collect();
    all.sort_by_key(|&(_, it)| std::cmp::Reverse(it.latency_ns));
    let mut names = Vec::new();
    let mut known = BTreeSet::new();
    names.extend(all.iter().map(|&(name, _)| name).filter(|&name| known.insert(name)).take(TASKS));
    let shown: BTreeSet<_> = names.iter().copied().collect();
    if shown.is_empty() {
        return String::new();
    }
    let mut content =
        "<p><label>Of <select id=worst-of><option value=\"\">the run</option>".to_owned();
    for name in names {
        write!(content, "<option>{}</option>", escaped(name)).expect(TAKES_ALL);
    }
    content.push_str("</select></label></p>\n<div class=scroll><table id=worst>\n<thead><tr>");
    let titles =
        [("task", true), ("at", false), ("latency", false), ("CPU", false), ("cause", true)];
    for (title, text) in titles {
        content.push_str(&sorting(title, text));
    }
    content.push_str(
        "<th scope=col class=text>tasks that ran there meanwhile</th><td></td></tr></thead>\n<tbody>\n",
    );
    for (at, (name, it)) in all.iter().enumerate().filter(|(_, (name, _))| shown.contains(name)) {
        content.push_str(&row(name, it, at < OF_THE_RUN));
    }
    content.push_str("</tbody></table></div>\n");
    section("Longest waits", NOTE, &content)
}

fn row(name: &str, it: &WorstReport, of_the_run: bool) -> String {
    let WorstReport { at_ns, latency_ns, cpu, .. } = *it;
    let first = if of_the_run { " data-first" } else { " hidden" };
    let mut row = format!(
        "<tr data-from={at_ns} data-to={} data-cpu={cpu}{first}>{}",
        at_ns + latency_ns,
        name_cell(name, "")
    );
    row.push_str(&cell("", Some(at_ns), &moment(at_ns)));
    row.push_str(&cell("", Some(latency_ns), &span(latency_ns)));
    row.push_str(&cell("", Some(cpu as u64), &format!("CPU {cpu}")));
    let cause = it.cause.map_or("", |cause| cause.entry().phrase);
    writeln!(
        row,
        "<td class=text>{cause}</td><td class=\"text long\">{}</td><td><button>show</button></td></tr>",
        ran(it)
    )
    .expect(TAKES_ALL);
    row
}

fn ran(it: &WorstReport) -> String {
    let mut words: Vec<_> = it
        .ran
        .iter()
        .take(NAMED)
        .map(|ran| format!("{} {}", escaped(&ran.task), span(ran.ns)))
        .collect();
    let rest = it.others_ns + it.ran.iter().skip(NAMED).map(|ran| ran.ns).sum::<u64>();
    if rest > 0 {
        words.push(format!("others and nobody {}", span(rest)));
    }
    words.join(", ")
}
