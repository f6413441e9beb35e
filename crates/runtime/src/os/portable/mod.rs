//! What a system gives that is not Linux: the standard library's locks, threads and clocks.
//!
//! Each file has the verbs of the file of that name beside this folder. Nobody can stop a thread from outside here,
//! so tasks keep their CPU until their next await or section that blocks, as on Linux without preemption. No timer
//! interrupts, no thread is bound to a CPU, and nobody knows what CPU time a thread has used: time on the clock is taken for it. A
//! verb that only preemption needs does nothing, and says so by what it returns.
//!
//! Linux has it too with `--cfg runyard_portable`, to be tested.
//!
//! Rejected: the own waits of each system (`WaitOnAddress`, `os_sync_wait_on_address`). They would be `unsafe` code
//! that none of our machines can run.

pub(crate) mod barrier;
#[cfg(feature = "tokio")]
pub(crate) mod bell;
pub(crate) mod disturb;
pub(crate) mod futex;
pub(crate) mod pages;
pub(crate) mod signal;
pub(crate) mod stack;
pub(crate) mod symbols;
pub(crate) mod tasks;
pub(crate) mod thread;
pub(crate) mod timer;
