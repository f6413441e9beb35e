//! The operations of systems other than Linux, from the standard library's locks, threads and clocks.
//!
//! Each file has the functions of the file of that name in the parent folder. Code outside a thread cannot stop it
//! here. So a task keeps its CPU until its next await or its next section that blocks, as on Linux without preemption.
//! No timer interrupts a thread, no thread is bound to a CPU, and the CPU time of a thread is unknown: time on the
//! clock is taken for it. A function that only preemption needs does nothing, and its result says so.
//!
//! On Linux, `--cfg runyard_portable` builds this version for tests.
//!
//! Rejected: each system's own waits (`WaitOnAddress`, `os_sync_wait_on_address`). They would be `unsafe` code that
//! none of our machines can run.

pub(crate) mod alternate;
pub(crate) mod barrier;
#[cfg(feature = "tokio")]
pub(crate) mod bell;
pub(crate) mod disturb;
pub(crate) mod fork;
pub(crate) mod futex;
pub(crate) mod pages;
pub(crate) mod signal;
pub(crate) mod stack;
pub(crate) mod symbols;
pub(crate) mod tasks;
pub(crate) mod thread;
pub(crate) mod timer;
