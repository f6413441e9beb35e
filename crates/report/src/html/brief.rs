//! A short report as a part of another document, without style and script.

use super::table::{TAKES_ALL, escaped};
use crate::column::{Columns, Place, Scale};
use crate::folded::{FoldedTask, folded};
use crate::report::{Report, TaskReport};
use crate::text::{busiest, counted, ran_without};
use std::fmt::Write as _;

/// The number of rows; of more tasks, the busiest have one.
const ROWS: usize = 20;

/// A line about the run, and a table of the tasks by name.
pub(super) fn brief(report: &Report) -> String {
    let all = folded(report);
    let shown = busiest(&all, ROWS, |row| row.all.runtime_ns);
    let left_out = all.len() - shown.len();
    let scale = |row: &FoldedTask| Scale { things: row.n(), ..Scale::of(report) };
    let rows: Vec<_> = shown.into_iter().map(|row| (&row.all, scale(row))).collect();
    let columns = TaskReport::shown(Place::Brief, &rows);
    let titles: Vec<_> = columns.iter().map(|it| it.title.to_owned()).collect();
    let cells = |(row, scale): &(&TaskReport, Scale)| {
        columns.iter().map(|it| it.text(row, scale)).collect::<Vec<_>>()
    };
    let table = table(&titles, &rows.iter().map(cells).collect::<Vec<_>>());
    let mut text = format!("<p>{}</p>\n{table}", escaped(&ran_without(report)));
    if left_out > 0 {
        let rest = counted(left_out as u64, "less busy name");
        writeln!(text, "<p>and {rest}</p>").expect(TAKES_ALL);
    }
    text
}

/// A table of texts.
pub(super) fn table(titles: &[String], rows: &[Vec<String>]) -> String {
    let row = |kind: &str, cells: &[String]| {
        let end = kind.split(' ').next().unwrap_or_default();
        let cell = |text: &String| format!("<{kind}>{}</{end}>", escaped(text.trim()));
        format!("<tr>{}</tr>\n", cells.iter().map(cell).collect::<String>())
    };
    let body: String = rows.iter().map(|cells| row("td", cells)).collect();
    format!(
        "<table><thead>{}</thead><tbody>\n{body}</tbody></table>\n",
        row("th scope=col", titles)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_markup_and_instances_are_one_row() {
        let task = |name: &str| TaskReport {
            name: name.to_owned(),
            thread: "<b>".to_owned(),
            runtime_ns: Some(250),
            ..TaskReport::default()
        };
        let tasks = vec![task("<b>-0"), task("<b>-1")];
        let report = Report { tasks, duration_ns: 1000, ..Report::default() };
        let text = brief(&report);
        assert!(text.contains("<tr><td>&lt;b&gt;</td><td>2</td><td></td><td>50.00</td>"), "{text}");
    }
}
