//! `--trace FILE`: keeps the events of a run until its end, then writes them as a trace.
//!
//! The store grows by pieces, so that no event waits while millions of earlier ones are copied.

use crate::output::{OpenFile, OutFile};
use clap::Args;
use runyard_engine::event::Event;
use runyard_engine::time::Time;
use runyard_outcome::Failure;
use runyard_report::{RunInfo, TraceForm};
use std::ffi::OsString;

/// The number of events in a piece: 3 MB of them.
const PIECE: usize = 1 << 16;

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

/// Events in the order of their arrival.
#[derive(Debug, Default)]
pub(crate) struct Kept(Vec<Vec<Event>>);

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

impl Kept {
    pub(crate) fn push(&mut self, event: &Event) {
        if self.0.last().is_none_or(|piece| piece.len() == PIECE) {
            self.0.push(Vec::with_capacity(PIECE));
        }
        self.0.last_mut().expect("there is one now").push(*event);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Event> {
        self.0.iter().flatten()
    }

    /// The same events in order of time. Events of one time keep their order.
    pub(crate) fn in_order(self) -> Kept {
        let mut all: Vec<_> = self.0.into_iter().flatten().collect();
        all.sort_by_key(|event| event.at);
        Kept(vec![all])
    }
}
