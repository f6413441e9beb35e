//! The end of a runtime, and how long the caller waits for it.
//!
//! An end has two parts. First the runtime is closed: it takes no more tasks, and each of its tasks ends at its next
//! await. A blocking function runs to its end, unless the caller does not wait for that. Then a thread waits for the last
//! task and for the threads. That is the caller of `drop`, or a thread that is started for this purpose. A caller that must
//! not wait, or not for long, cannot do it itself.
//!
//! Rejected: to end the threads of tasks that do not end. A thread cannot be ended in the middle of foreign code that
//! may hold locks. Also rejected: to leave the wait to the thread of the last task. It cannot wait for its own end, and
//! would free its own stack.
//!
//! Invariants: when a call that ends a runtime returns, the runtime is closed; no call waits for the thread that made
//! it.

use super::Runtime;
use crate::crew::hooks;
use crate::current::caller;
use crate::current::section::blocking;
use crate::os;
use crate::os::sync::{Arc, Receiver, RecvTimeoutError, channel};
use crate::shared::Shared;
use crate::single::Single;
use runyard_engine::time::Nanos;
use std::fs::File;
use std::future::Future;
use std::thread;
use std::time::{Duration, Instant};

impl Runtime {
    /// Ends the runtime, and waits at most `longest` for that. Every task ends at its next await. Tasks that are
    /// spawned from now on are cancelled, and so are blocking functions that have not begun when the time is over.
    ///
    /// A task in a poll that never ends is left behind with its thread. Examples are an endless loop and a
    /// [`spawn_blocking`](crate::spawn_blocking) that waits for ever. The task continues under its policy and may end
    /// later; then the rest of the runtime ends as well. The exit of the process ends it in any case.
    ///
    /// In a task of this runtime the call does not wait, because that task would wait for itself: it is as
    /// [`Runtime::shutdown_background`].
    ///
    /// ```
    /// use runyard::Runtime;
    /// use std::time::Duration;
    ///
    /// let runtime = Runtime::new();
    /// // It never ends.
    /// runtime.spawn_blocking(|| loop { std::thread::park() });
    /// runtime.shutdown_timeout(Duration::from_millis(10));
    /// ```
    pub fn shutdown_timeout(mut self, longest: Duration) {
        self.end_without(longest);
    }

    /// Ends the runtime without waiting: as [`Runtime::shutdown_timeout`] with a time of zero. It may be called in a
    /// task of any runtime.
    ///
    /// ```
    /// use runyard::Runtime;
    ///
    /// let runtime = Runtime::new();
    /// let handle = runtime.handle().clone();
    /// runtime.shutdown_background();
    /// assert!(handle.block_on(handle.spawn(async {})).is_err());
    /// ```
    pub fn shutdown_background(mut self) {
        self.end_without(Duration::ZERO);
    }

    /// Runs a future as [`Runtime::block_on`], and then ends the runtime as [`Runtime::shutdown_timeout`], also if the future
    /// panics. For the attributes; not part of the interface.
    #[doc(hidden)]
    pub fn run_and_end<F: Future>(self, longest: Duration, future: F) -> F::Output {
        struct End(Runtime, Duration);
        impl Drop for End {
            fn drop(&mut self) {
                self.0.end_without(self.1);
            }
        }
        let end = End(self, longest);
        end.0.block_on(future)
    }

    /// Ends the runtime on another thread, and waits at most `longest` for that thread.
    fn end_without(&mut self, longest: Duration) {
        self.has_ended = true;
        if os::fork::is_child() {
            return;
        }
        let (shared, began) = (&self.handle.shared, Instant::now());
        let may_wait = !may_not_wait(shared);
        if let Some(single) = shared.scheduler.single().filter(|_| may_wait) {
            // The tasks that are left end on this thread, as far as they end in time.
            shared.close();
            let deadline = os::thread::now() + Nanos::from(longest);
            single.help(shared, Some(deadline), &|| shared.registry.nr_live_but_serving() == 0);
        }
        let ended = end_elsewhere(shared, self.cpu_latency.take());
        let waits = !longest.is_zero() && may_wait;
        let left = longest.saturating_sub(began.elapsed());
        // No value is ever sent; the channel is closed.
        let is_over =
            waits && blocking(|| ended.recv_timeout(left)) == Err(RecvTimeoutError::Disconnected);
        if !is_over {
            shared.registry.cut_off();
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // A child of fork has no thread that could end.
        if self.has_ended || os::fork::is_child() {
            return;
        }
        let shared = &self.handle.shared;
        if is_own_thread(shared) || shared.scheduler.driver().is_here() {
            drop(end_elsewhere(shared, self.cpu_latency.take()));
        } else {
            shared.shut_down();
        }
    }
}

/// Closes a runtime, and starts a thread that waits for its end. The channel is closed when the runtime has ended.
fn end_elsewhere(shared: &Arc<Shared>, cpu_latency: Option<File>) -> Receiver<()> {
    shared.close();
    let (ends, ended) = channel();
    let ending = shared.clone();
    let thread = thread::Builder::new().name("runyard-end".to_owned()).spawn(move || {
        ending.shut_down();
        drop((cpu_latency, ends));
    });
    if let Err(error) = thread {
        eprintln!(
            "runyard: the system refuses the thread that ends a runtime ({error}): the tasks of the \
             runtime end, and its threads stay until the process ends"
        );
    }
    ended
}

/// Returns whether the calling thread is one that the end of this runtime waits for.
fn is_own_thread(shared: &Shared) -> bool {
    let scheduler = &shared.scheduler;
    scheduler.here(|_| ()).is_some()
        || hooks::is_in_hook()
        || caller::is_helper(shared.id)
        || scheduler.single().is_some_and(Single::runs_here)
}

/// Returns whether the end of this runtime may wait for the calling code. The thread that calls the observer is such
/// code too.
fn may_not_wait(shared: &Shared) -> bool {
    is_own_thread(shared) || os::local::is_servant()
}
