//! rt-app's log of a run: a file for each task, written when the run is over.
//!
//! Until then the rows stay in memory, 64 bytes each: a host that writes files while it measures lateness would disturb
//! the measurement.

use crate::Failure;
use runyard_report::Report;
use runyard_workload::log::{HEADER, Row};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// The bytes of a task's name that its file's name takes; the kernel allows 255 bytes for the whole name.
const NAME_BYTES: usize = 200;

/// Writes a file for each task of the report into a folder that exists, in the order of the tasks' numbers. The names of the
/// files begin with `base`. The rows are those of all tasks, in any order.
///
/// # Errors
/// A file that cannot be written.
///
/// # Panics
/// If a row is of a task that the report does not have.
pub fn write(
    folder: &Path,
    base: &str,
    mut rows: Vec<Row>,
    report: &Report,
) -> Result<(), Failure> {
    rows.sort_by_key(|row| row.task.index());
    let mut rest = &rows[..];
    let mut used = BTreeSet::new();
    for (at, task) in report.tasks.iter().enumerate() {
        let own = rest.partition_point(|row| row.task.index() == at);
        let (rows, others) = rest.split_at(own);
        rest = others;
        let path = folder.join(file_name(base, &task.name, at, &mut used));
        put(&path, rows)
            .map_err(|error| Failure::Refused(format!("{}: {error}", path.display())))?;
    }
    assert!(rest.is_empty(), "every row is of a task that has a name");
    Ok(())
}

fn put(path: &Path, rows: &[Row]) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    writeln!(out, "{HEADER}")?;
    rows.iter().try_for_each(|row| writeln!(out, "{row}"))?;
    out.flush()
}

/// The name of a file for the task of this number. No other task has it, and it stays in the folder whatever the task's
/// name contains.
fn file_name(base: &str, task: &str, number: usize, used: &mut BTreeSet<String>) -> String {
    let mut stem = format!("{base}-{task}").replace(|c: char| c == '/' || c.is_control(), "_");
    let mut ends = (0..=NAME_BYTES.min(stem.len())).rev();
    stem.truncate(ends.find(|&end| stem.is_char_boundary(end)).unwrap_or(0));
    while !used.insert(stem.clone()) {
        stem.push_str(&format!(".{number}"));
    }
    stem + ".log"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_has_a_file_of_its_own_in_the_folder() {
        let mut used = BTreeSet::new();
        let mut name = |task: &str, at| file_name("rt-app", task, at, &mut used);
        assert_eq!(name("a", 0), "rt-app-a.log");
        assert_eq!(name("../a\0", 1), "rt-app-.._a_.log");
        assert_eq!(name("a", 2), "rt-app-a.2.log", "two instances may be called like a third task");
        assert_eq!(name(".._a_", 3), "rt-app-.._a_.3.log");
        assert_eq!(name("a.2", 4), "rt-app-a.2.4.log");
        let long = "\u{e4}".repeat(300);
        assert!(name(&long, 5).len() < 255 && name(&long, 6).len() < 255);
    }
}
