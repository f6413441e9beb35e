//! Traces: a run's events in the forms that other people's tools read.
//!
//! ```text
//! events -> Scene (who runs, waits, sleeps) -> perfetto (.pftrace)
//!                                           -> ftrace   (.txt)
//! ```
//! Both forms tell what the kernel's scheduler would of the same run: a CPU belongs to a task from
//! the switch to it to the switch from it. What the scheduler itself works meanwhile is a track of
//! its own, so that the figures of a report follow from a trace: a task ran for as long as it had a
//! CPU that did not work for the scheduler. CI compares the two.
//!
//! A task is shown as a thread, numbered from 1 as 0 is the idle one; a task group is shown as the
//! process of its tasks.

mod cast;
mod ftrace;
mod perfetto;
mod scene;
mod schema;

use crate::report::RunInfo;
use cast::Cast;
use runyard_engine::event::{Event, What};
use runyard_engine::time::Time;
use scene::{Scene, Scheduled};
use std::io::{self, Write};
use std::path::Path;

/// What a trace looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceForm {
    /// [Perfetto](https://perfetto.dev)'s protocol buffers, `.pftrace`.
    Perfetto,
    /// The text of the kernel's own tracer, `.txt`.
    Ftrace,
}

impl TraceForm {
    /// The form that the ending of a file's name asks for; `None` if that is no form's.
    #[must_use]
    pub fn of(file: &Path) -> Option<TraceForm> {
        match file.extension()?.to_str()? {
            "pftrace" => Some(TraceForm::Perfetto),
            "txt" => Some(TraceForm::Ftrace),
            _ => None,
        }
    }

    /// Writes the trace of a run that ended at `end`. Its `events` are in order of time.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write<'e>(
        self,
        out: impl Write,
        info: &RunInfo,
        events: impl IntoIterator<Item = &'e Event>,
        end: Time,
    ) -> io::Result<()> {
        let cast = Cast::of(info);
        match self {
            TraceForm::Perfetto => tell(perfetto::Writer::new(out, cast)?, events, end),
            TraceForm::Ftrace => tell(ftrace::Writer::new(out, cast)?, events, end),
        }
    }
}

/// Who writes a trace in some form.
trait Pen {
    /// The tasks that it writes of.
    fn cast(&mut self) -> &mut Cast;

    /// What happened at `now`; `scene` is how all is after the event that it follows from.
    fn tell(&mut self, now: Time, scene: &Scene, scheduled: Scheduled) -> io::Result<()>;

    /// The run ended at `now`, with everybody where `scene` has them.
    fn end(self, now: Time, scene: &Scene) -> io::Result<()>;
}

fn tell<'e>(
    mut pen: impl Pen,
    events: impl IntoIterator<Item = &'e Event>,
    end: Time,
) -> io::Result<()> {
    let (mut scene, mut told) = (Scene::default(), Vec::new());
    let mut last = Time::ZERO;
    for event in events {
        last = event.at;
        if let What::Changed { task, policy, .. } = event.what {
            pen.cast().change(task, policy);
        }
        scene.enter(event, &mut told);
        for scheduled in told.drain(..) {
            pen.tell(event.at, &scene, scheduled)?;
        }
    }
    pen.end(end.max(last), &scene)
}
