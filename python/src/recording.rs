//! The files and checks of a run: a trace, rt-app's log, the invariants.

use crate::failed::{bad_value, failure, refused};
use pyo3::exceptions::PyNotADirectoryError;
use pyo3::prelude::*;
use runyard_outcome::log;
use runyard_report::TraceForm;
use runyard_sweep::{Check, Detail, How, Whole};
use runyard_workload::Scenario;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// What is wanted of a run besides its report.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Wanted {
    /// The file of a trace.
    trace: Option<PathBuf>,
    /// The folder of rt-app's log.
    log: Option<PathBuf>,
    /// The invariants to verify: `touched`, `full`, or none.
    check: Option<String>,
}

/// The places of the files, which can be written.
#[derive(Debug)]
pub(crate) struct Recording<'w> {
    trace: Option<(&'w Path, TraceForm)>,
    log: Option<&'w Path>,
    check: Check,
}

impl Recording<'_> {
    /// Checks, before anything runs, that the files can be written. An old file keeps its contents until then.
    pub(crate) fn open(wanted: &Wanted) -> PyResult<Recording<'_>> {
        let trace = wanted.trace.as_deref().map(|file| {
            let form = TraceForm::of(file);
            let form =
                form.ok_or_else(|| bad_value("the name of a trace ends in .pftrace or .txt"))?;
            let opened = OpenOptions::new().append(true).create(true).open(file);
            opened.map(|_| (file, form)).map_err(|error| refused(&file.to_string_lossy(), &error))
        });
        let log = wanted.log.as_deref();
        if let Some(folder) = log.filter(|folder| !folder.is_dir()) {
            let what = format!("log is a folder that exists, not {}", folder.display());
            return Err(PyNotADirectoryError::new_err(what));
        }
        let check = match wanted.check.as_deref() {
            None => Check::No,
            Some("full") => Check::Full,
            Some(_) => Check::Touched,
        };
        Ok(Recording { trace: trace.transpose()?, log, check })
    }

    /// The run for a report, and for the files.
    pub(crate) fn how(&self, seed: u64) -> How {
        let (events, log) = (self.trace.is_some(), self.log.is_some());
        How { check: self.check, events, log, ..How::new(seed, Detail::Report) }
    }

    /// Writes the files. It takes the events and the rows out of the run.
    pub(crate) fn write(
        &self,
        py: Python<'_>,
        scenario: &Scenario,
        run: &mut Whole,
    ) -> PyResult<()> {
        let (events, rows) = (run.events.take(), std::mem::take(&mut run.rows));
        py.detach(|| {
            if let (Some((file, form)), Some((events, info))) = (self.trace, events) {
                let written = || -> io::Result<()> {
                    let mut out = BufWriter::new(File::create(file)?);
                    form.write(&mut out, &info, events.iter(), run.end)?;
                    out.flush()
                };
                written().map_err(|error| refused(&file.to_string_lossy(), &error))?;
            }
            let Some(folder) = self.log else { return Ok(()) };
            log::write(folder, &scenario.log.basename, rows, &run.report).map_err(failure)
        })
    }
}
