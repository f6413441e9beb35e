//! `--log DIR`: rt-app's log of a run.

use crate::folder::takes_files;
use runyard_outcome::{Failure, log};
use runyard_report::Report;
use runyard_workload::Scenario;
use runyard_workload::log::Row;
use std::ffi::OsString;
use std::path::PathBuf;

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

    /// Writes a file for each task of the report.
    pub(crate) fn write(&self, log: Log<'_>, report: &Report) -> Result<(), Failure> {
        log::write(&self.0, &log.scenario.log.basename, log.rows, report)
    }
}
