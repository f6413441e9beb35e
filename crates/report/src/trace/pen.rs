//! What all forms of a trace have in common: a run is told event by event to whoever writes it.

use super::cast::Cast;
use super::scene::{Scene, Scheduled};
use runyard_engine::event::{Event, What};
use runyard_engine::time::Time;
use std::io;

/// Who writes a trace in some form.
pub(super) trait Pen {
    /// The tasks that it writes of.
    fn cast(&mut self) -> &mut Cast;

    /// What happened at `now`; `scene` is how all is after the event that it follows from.
    fn tell(&mut self, now: Time, scene: &Scene, scheduled: Scheduled) -> io::Result<()>;

    /// The run ended at `now`, with everybody where `scene` has them.
    fn end(self, now: Time, scene: &Scene) -> io::Result<()>;
}

/// Has `pen` write of a run that ended at `end`. Its `events` are in order of time.
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
