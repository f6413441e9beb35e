//! Observers, which receive the scheduling events of a runtime as they happen. The simulator emits the same events.

pub(crate) mod teller;

use runyard_engine::event::Event;
use std::fmt::Debug;

/// A receiver of every scheduling event of a runtime, for reports and traces.
///
/// A thread of the runtime with no other work delivers the events, one at a time and in the order of their times, about
/// ten milliseconds after they happened. Times count from [the runtime's start](crate::Runtime::started).
///
/// When [`Runtime::block_on`](crate::Runtime::block_on) returns, and when a runtime has been dropped, all earlier
/// events have been delivered. However, `block_on` waits at most ten seconds for one event, and does not wait if it is
/// called in an observer.
///
/// A slow observer receives events later. If it is so slow that the buffer is full (65,536 events), workers wait for it
/// for up to a second. After that, events are lost until the observer has received the content of the buffer. The
/// runtime reports this once on standard error.
///
/// A [`What::Wake`] is emitted before the task is enqueued. It names the CPU on which the task last ran. If a wake-up
/// came while the task ran, its event does not name the waker.
///
/// ```
/// use runyard::{Event, Observer, Runtime, What};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// #[derive(Debug, Default)]
/// struct Spawns(AtomicUsize);
///
/// impl Observer for Spawns {
///     fn event(&self, event: &Event) {
///         if let What::Spawn { .. } = event.what {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
///
/// let spawns = Arc::new(Spawns::default());
/// let runtime = Runtime::builder().observer(spawns.clone()).build();
/// runtime.block_on(async { runyard::spawn(async {}).await.unwrap() });
/// assert_eq!(spawns.0.load(Ordering::Relaxed), 1);
/// ```
///
/// [`What::Wake`]: crate::What::Wake
pub trait Observer: Debug + Send + Sync {
    /// Receives the next event. It may wait for locks, call the runtime, and drop the runtime's last handle. If it
    /// panics, it loses this event only.
    fn event(&self, event: &Event);
}
