//! `--trace FILE`: the events of a run are kept until its end, then written as a trace.
//!
//! The file is opened before the run, so that no run is lost to a mistake in its name. What is kept
//! grows by pieces: no event waits until millions of earlier ones are somewhere else.

use crate::Failure;
use runyard_engine::event::Event;
use runyard_engine::time::Time;
use runyard_report::{RunInfo, TraceForm};
use std::fmt::Display;
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

/// How many events there are in a piece: 3 MB of them.
const PIECE: usize = 1 << 16;

/// Where a trace goes, and what it looks like.
#[derive(Clone, Debug)]
pub(crate) struct TraceFile {
    path: PathBuf,
    form: TraceForm,
}

/// A trace whose file is there.
#[derive(Debug)]
pub(crate) struct OpenTrace<'f> {
    file: &'f TraceFile,
    out: BufWriter<File>,
}

/// Events in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Kept(Vec<Vec<Event>>);

impl TraceFile {
    /// The file of this name, whose ending says what it is to look like.
    pub(crate) fn named(name: &str) -> Result<TraceFile, String> {
        let path = PathBuf::from(name);
        match TraceForm::of(&path) {
            Some(form) => Ok(TraceFile { path, form }),
            None => Err("the name of a trace ends in .pftrace or .txt".to_owned()),
        }
    }

    pub(crate) fn open(&self) -> Result<OpenTrace<'_>, Failure> {
        let file = File::create(&self.path)
            .map_err(|error| Failure::Input(self.said("cannot be written", error)))?;
        Ok(OpenTrace { file: self, out: BufWriter::new(file) })
    }

    fn said(&self, what: &str, why: impl Display) -> String {
        format!("--trace: {} {what}: {why}", self.path.display())
    }
}

impl OpenTrace<'_> {
    /// Writes the trace of a run that ended at `end`.
    pub(crate) fn write(self, info: &RunInfo, events: &Kept, end: Time) -> Result<(), Failure> {
        let written = self.file.form.write(self.out, info, events.iter(), end);
        written.map_err(|error| Failure::Refused(self.file.said("was not written", error)))
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

    /// The same events in order of time, those of one time as they were.
    pub(crate) fn in_order(self) -> Kept {
        let mut all: Vec<_> = self.0.into_iter().flatten().collect();
        all.sort_by_key(|event| event.at);
        Kept(vec![all])
    }
}
