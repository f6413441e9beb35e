//! The tables of the reference pages that are made from the code.

use crate::why::Cause;

/// The table of this name as Markdown; `None` if there is none. A test of the command holds the pages to it.
///
/// ```
/// let causes = runyard_report::reference("causes").unwrap();
/// assert!(causes.contains("| `important` | its CPU runs a task that the policy puts first |\n"));
/// ```
#[must_use]
pub fn reference(table: &str) -> Option<String> {
    match table {
        "causes" => Some(markdown(
            ["cause", "the task waits, and"],
            Cause::ALL.map(|cause| (cause.entry().name, cause.entry().rule)),
        )),
        _ => None,
    }
}

fn markdown<'a>(head: [&str; 2], rows: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let row = |(name, what)| format!("| `{name}` | {what} |\n");
    let [name, what] = head;
    format!("| {name} | {what} |\n| --- | --- |\n") + &rows.into_iter().map(row).collect::<String>()
}
