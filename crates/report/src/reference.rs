//! The tables of the reference pages that are made from the code.

use crate::balance::BalanceReport;
use crate::chains::ChainReport;
use crate::column::Columns;
use crate::cookies::CookieReport;
use crate::groups::GroupReport;
use crate::report::{CpuReport, MachineReport, TaskReport};
use crate::why::Cause;

/// The table of this name as Markdown: `causes`, `remedies`, or the fields of a part of the report, as `tasks[]`. `None` if there
/// is none. A test of the command holds the pages to it.
///
/// ```
/// let causes = runyard_report::reference("causes").unwrap();
/// assert!(causes.contains("| `important` | it was woken, and its CPU runs a task that the policy puts first |\n"));
/// ```
#[must_use]
pub fn reference(table: &str) -> Option<String> {
    Some(match table {
        "causes" => markdown(
            ["cause", "the task waits, and"],
            Cause::ALL.map(|cause| (cause.entry().name, cause.entry().rule)),
        ),
        "remedies" => markdown(
            ["cause", "remedies to try"],
            Cause::ALL.map(|cause| (cause.entry().name, cause.entry().remedy)),
        ),
        "machine" => fields::<MachineReport>(),
        "cpus[]" => fields::<CpuReport>(),
        "tasks[]" => fields::<TaskReport>(),
        "groups[]" => fields::<GroupReport>(),
        "chains[]" => fields::<ChainReport>(),
        "cookies[]" => fields::<CookieReport>(),
        "balance[]" => fields::<BalanceReport>(),
        _ => return None,
    })
}

fn fields<T: Columns>() -> String {
    let columns = T::COLUMNS.iter().map(|column| (column.name, column.what.trim_start()));
    markdown(["field", "content"], columns)
}

fn markdown<'a>(head: [&str; 2], rows: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let row = |(name, what)| format!("| `{name}` | {what} |\n");
    let [name, what] = head;
    format!("| {name} | {what} |\n| --- | --- |\n") + &rows.into_iter().map(row).collect::<String>()
}
