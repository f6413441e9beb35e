//! What happens in a runtime, told as it happens: the same events that the simulator emits.

pub(crate) mod teller;

use runyard_engine::event::Event;
use std::fmt::Debug;

/// Who hears of every event of a runtime, for reports and traces.
///
/// Events come one after the other, in the order of their times, on a thread of the runtime that does nothing else:
/// about ten milliseconds after they happened, and never two at once. Times count from
/// [the runtime's start](crate::Runtime::started). When [`Runtime::block_on`](crate::Runtime::block_on) returns and when
/// a runtime was dropped, all that happened until then has been told; but `block_on` waits no longer than
/// ten seconds for one event, and not at all in an observer.
///
/// An observer that is slow hears later. One that is so slow that the buffer is full (65,536 events) keeps workers
/// waiting for up to a second. Then it loses events until it has told what the buffer had, and the runtime says so
/// once on standard error.
///
/// A [`What::Wake`] comes before the task is queued and names the CPU where it was last; of one that
/// came while the task ran, it is not known any more whose doing it was.
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
    /// Takes the next event. It may wait for locks, call the runtime, and drop its last handle. If it panics, that
    /// event is lost to it, and nothing else.
    fn event(&self, event: &Event);
}
