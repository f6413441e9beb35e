//! rt-app's log of a run: a file for each task, written when the run is over.
//!
//! Until then the rows stay in memory, 64 bytes each: a host that writes files while it measures lateness would disturb
//! the measurement.

use crate::folder::takes_files;
use crate::output::OutFile;
use runyard_outcome::Failure;
use runyard_report::Report;
use runyard_workload::Scenario;
use runyard_workload::log::{HEADER, Row};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

/// The bytes of a task's name that its file's name takes; the kernel allows 255 bytes for the whole name.
const NAME_BYTES: usize = 200;

/// The contents of the files.
#[derive(Debug)]
pub(crate) struct Log<'s> {
    scenario: &'s Scenario,
    rows: Vec<Row>,
}

impl Log<'_> {
    /// The rows of all tasks of a run of `scenario`, in any order; empty if no log is wanted.
    pub(crate) fn new(scenario: &Scenario, rows: Vec<Row>) -> Log<'_> {
        Log { scenario, rows }
    }
}

/// A folder for the files of a log.
#[derive(Clone, Debug)]
pub(crate) struct LogFolder(PathBuf);

impl From<OsString> for LogFolder {
    fn from(name: OsString) -> LogFolder {
        LogFolder(name.into())
    }
}

impl LogFolder {
    /// Checks, before anything runs, that files can be made in the folder. The folder itself is not made, as in rt-app.
    pub(crate) fn prepare(&self) -> Result<(), Failure> {
        takes_files(&self.0.join("."))
            .map_err(|error| Failure::Refused(format!("{}: {error}", self.0.display())))
    }

    /// Writes a file for each task of the report, in the order of the tasks' numbers.
    pub(crate) fn write(&self, log: Log<'_>, report: &Report) -> Result<(), Failure> {
        let Log { scenario, mut rows } = log;
        rows.sort_by_key(|row| row.task.index());
        let mut rest = &rows[..];
        let mut used = BTreeSet::new();
        for (at, task) in report.tasks.iter().enumerate() {
            let own = rest.partition_point(|row| row.task.index() == at);
            let (rows, others) = rest.split_at(own);
            rest = others;
            let path = self.0.join(file_name(&scenario.log.basename, &task.name, at, &mut used));
            OutFile::from(path.into_os_string()).open()?.write(|out| {
                writeln!(out, "{HEADER}")?;
                rows.iter().try_for_each(|row| writeln!(out, "{row}"))
            })?;
        }
        assert!(rest.is_empty(), "every row is of a task that has a name");
        Ok(())
    }
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
