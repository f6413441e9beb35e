//! `--trace FILE`: the events of a run, kept until its end, are written as a trace.

use crate::output::{OpenFile, OutFile};
use clap::Args;
use runyard_engine::time::Time;
use runyard_outcome::Failure;
use runyard_report::{Kept, RunInfo, TraceForm};
use std::ffi::OsString;

/// The destination of a trace, if any.
#[derive(Debug, Args)]
pub(crate) struct TraceOptions {
    /// Write a trace of the run: FILE.pftrace for Perfetto, FILE.txt in the text of ftrace; sim
    /// and live only.
    #[arg(long, value_name = "FILE", value_parser = TraceFile::named)]
    trace: Option<TraceFile>,
}

/// The file of a trace. The ending of its name gives the format.
#[derive(Clone, Debug)]
struct TraceFile {
    file: OutFile,
    form: TraceForm,
}

impl TraceFile {
    fn named(name: &str) -> Result<TraceFile, String> {
        let file = OutFile::from(OsString::from(name));
        match TraceForm::of(file.path()) {
            Some(form) => Ok(TraceFile { file, form }),
            None => Err("the name of a trace ends in .pftrace or .txt".to_owned()),
        }
    }
}

impl TraceOptions {
    /// Whether there is to be a trace.
    pub(crate) fn is_given(&self) -> bool {
        self.trace.is_some()
    }

    /// Opens the file of the trace, if a trace is wanted.
    pub(crate) fn open(&self) -> Result<Option<Tracing>, Failure> {
        let open = |to: &TraceFile| Ok(Tracing { file: to.file.open()?, form: to.form });
        self.trace.as_ref().map(open).transpose()
    }
}

/// A trace that will be written.
#[derive(Debug)]
pub(crate) struct Tracing {
    file: OpenFile,
    form: TraceForm,
}

impl Tracing {
    /// Writes the trace of a run that ended at `end`.
    pub(crate) fn write(self, info: &RunInfo, events: &Kept, end: Time) -> Result<(), Failure> {
        self.file.write(|out| self.form.write(out, info, events.iter(), end))
    }
}
