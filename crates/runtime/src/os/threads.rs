//! Threads and child processes of any system.

use runyard_engine::time::Nanos;
use std::thread::{self, JoinHandle};

/// The lowest nice value, by which a thread leaves the CPU to others.
pub(crate) const LOWEST_NICE: i32 = 19;

/// The use of the CPUs by child processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChildUsage {
    /// CPU time in their own code.
    pub user: Nanos,
    /// CPU time in the kernel.
    pub system: Nanos,
    /// How often they gave a CPU away or lost it.
    pub switches: u64,
}

/// Waits for a thread, unless it is this one: an observer may have the last handle of the runtime.
pub(crate) fn join(thread: JoinHandle<()>) {
    let here = thread::current().id();
    if thread.thread().id() != here {
        let _ = thread.join();
    }
}
