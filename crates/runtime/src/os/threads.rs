//! Threads of the standard library.

use std::thread::{self, JoinHandle};

/// Waits for a thread, unless it is this one: an observer may have the last handle of the runtime.
pub(crate) fn join(thread: JoinHandle<()>) {
    let here = thread::current().id();
    if thread.thread().id() != here {
        let _ = thread.join();
    }
}
