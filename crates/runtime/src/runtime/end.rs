//! How a runtime ends, and for how long the caller waits for that.
//!
//! An end has two parts. First the runtime is closed: it takes no more tasks, and all that it has are to end at their next
//! await. Then somebody waits for the last of them and for the threads. That is the caller of `drop`, or a thread that is
//! started for it: a caller that must not wait, or not for long, cannot do it itself.
//!
//! Rejected: to end the threads of tasks that do not end. Nothing can end a thread in the middle of foreign code that
//! may have locks. To leave the wait to the thread of the last task: it cannot wait for its own end, and frees what it
//! stands on.
//!
//! Invariants: when a call that ends a runtime returns, the runtime is closed; no call waits for the thread on which it was
//! made.

use super::Runtime;
use super::hooks;
use crate::os;
use crate::os::sync::{Arc, Receiver, channel};
use crate::shared::Shared;
use crate::task::builder::blocking;
use std::fs::File;
use std::thread;
use std::time::Duration;

impl Runtime {
    /// Ends the runtime, and waits for so long at the most. Every task ends at its next await; tasks that are spawned
    /// from now on are cancelled.
    ///
    /// A task in a poll that never ends, be it a loop or a [`spawn_blocking`](crate::spawn_blocking) that waits for
    /// ever, is left behind with its thread. The task runs on by its policy, and may end later: then the rest of the
    /// runtime ends as well. The exit of the process ends it in any case.
    ///
    /// Called in a task of this runtime it does not wait: that task would wait for itself.
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

    /// Ends the runtime without waiting: as [`Runtime::shutdown_timeout`] with no time at all. It may be called in a
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

    /// Ends the runtime on another thread, for which the caller waits for so long at the most.
    fn end_without(&mut self, longest: Duration) {
        self.has_ended = true;
        let ended = end_elsewhere(&self.handle.shared, self.cpu_latency.take());
        if !longest.is_zero() && !may_not_wait(&self.handle.shared) {
            // Nothing is sent: it is closed.
            let _ = blocking(|| ended.recv_timeout(longest));
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let shared = &self.handle.shared;
        if is_own_thread(shared) || shared.driver.is_here() {
            drop(end_elsewhere(shared, self.cpu_latency.take()));
        } else {
            shared.shut_down();
        }
    }
}

/// Closes a runtime, and starts a thread that waits for its end. The channel is closed when that has come.
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
            "runyard: the system starts no thread that ends those of a runtime ({error}): its tasks end, \
             its threads stay until the process ends"
        );
    }
    ended
}

/// Whether the calling thread is one for which the end of this runtime waits.
fn is_own_thread(shared: &Shared) -> bool {
    shared.here(|_| ()).is_some() || hooks::is_in_hook()
}

/// Whether the end of this runtime may wait for the calling code. That of the teller, which calls the observer, does.
fn may_not_wait(shared: &Shared) -> bool {
    is_own_thread(shared) || os::local::is_servant()
}
