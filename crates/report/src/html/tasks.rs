//! The table of tasks: a row for each name, as in the text. A name of several tasks opens to the rows of these.

use super::table::{ROWS, Table};
use crate::column::{Columns, Place, Scale};
use crate::folded::{FoldedTask, folded};
use crate::report::{Report, TaskReport};
use crate::text::{busiest, counted};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The table. Of more names, and of more tasks of names with several, the busiest have a row.
pub(super) fn table(report: &Report) -> String {
    let all = folded(report);
    let names = busiest(&all, ROWS, |row| row.all.runtime_ns);
    let several = |row: &&&FoldedTask| row.n() > 1;
    let parts: Vec<_> = names.iter().filter(several).flat_map(|row| &row.tasks).collect();
    let shown = busiest(&parts, ROWS, |&&at| report.tasks[at].runtime_ns);
    let shown: BTreeSet<usize> = shown.into_iter().map(|&&at| at).collect();

    let scale = Scale::of(report);
    let of_name = |row: &FoldedTask| Scale { things: row.n(), ..scale };
    let rows: Vec<_> = names.iter().map(|row| (&row.all, of_name(row))).collect();
    let columns = TaskReport::shown(Place::Page, &rows);
    let mut table = Table::of_columns("tasks", &columns);
    for row in &names {
        table.fold(&columns, (&row.all, &of_name(row)));
        for &at in row.tasks.iter().filter(|at| shown.contains(at)) {
            table.part(&columns, (&report.tasks[at], &scale));
        }
    }
    let mut html = table.end(all.len() - names.len(), "name");
    if let rest @ 1.. = parts.len() - shown.len() {
        let rest = counted(rest as u64, "less busy task");
        writeln!(html, "<p class=note>Names open to their busiest tasks, without {rest}.</p>")
            .expect(super::table::TAKES_ALL);
    }
    html
}
