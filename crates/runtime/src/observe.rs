//! What happens in a runtime, told as it happens: the same events that the simulator emits.

use runyard_engine::event::Event;
use std::fmt::Debug;

/// Who hears of every event of a runtime, for reports and traces.
///
/// Times count from the runtime's start. The events of one CPU come in order; those of different
/// CPUs may overtake each other by the time that a worker takes from the deed to the word. A
/// [`What::Wake`] comes before the task is queued and names the CPU where it was last; of one that
/// came while the task ran, it is not known any more whose doing it was.
///
/// [`What::Wake`]: runyard_engine::event::What::Wake
pub trait Observer: Debug + Send + Sync {
    /// Takes the next event. Called by workers, not in signal handlers, and by whoever wakes a
    /// task; never while a lock of the runtime is held. If it panics, that event is lost to it, and
    /// nothing else.
    fn event(&self, event: &Event);
}
