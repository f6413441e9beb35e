//! Threads of any system.

use std::thread::{self, JoinHandle};

/// The lowest nice value, by which a thread leaves the CPU to others.
pub(crate) const LOWEST_NICE: i32 = 19;

/// Waits for a thread, unless it is this one: an observer may have the last handle of the runtime.
pub(crate) fn join(thread: JoinHandle<()>) {
    let here = thread::current().id();
    if thread.thread().id() != here {
        let _ = thread.join();
    }
}
