//! The part that all formats of a trace share: a run is passed event by event to its writer.

use super::cast::Cast;
use super::scene::{Scene, Scheduled};
use runyard_engine::event::{Event, What};
use runyard_engine::time::Time;
use std::io;

/// A writer of traces in some format.
pub(super) trait Pen {
    /// The tasks of the trace.
    fn cast(&mut self) -> &mut Cast;

    /// Writes a change at `now`. `scene` is the state after the event that caused it.
    fn tell(&mut self, now: Time, scene: &Scene, scheduled: Scheduled) -> io::Result<()>;

    /// Ends the trace at `now`, with the state of all tasks in `scene`.
    fn end(self, now: Time, scene: &Scene) -> io::Result<()>;
}

/// Passes a run that ended at `end` to `pen`. Its `events` are in order of time.
pub(super) fn tell<'e>(
    mut pen: impl Pen,
    events: impl IntoIterator<Item = &'e Event>,
    end: Time,
) -> io::Result<()> {
    let (mut scene, mut changes) = (Scene::default(), Vec::new());
    let mut last = Time::ZERO;
    for event in events {
        last = event.at;
        if let What::Changed { task, policy, .. } = event.what {
            pen.cast().change(task, policy);
        }
        scene.enter(event, &mut changes);
        for scheduled in changes.drain(..) {
            pen.tell(event.at, &scene, scheduled)?;
        }
    }
    pen.end(end.max(last), &scene)
}
