//! A scenario as kernel threads under the machine's own scheduler.
//!
//! Each task is a thread that has the policy, the CPUs, the timer slack, the task group, the cookie and, where the
//! kernel takes one, the slice of the task. The kernel says afterwards how long it ran and waited; how
//! often and how late it was woken it sees itself.

mod cgroup;
mod cookies;
mod ground;
mod inherit;
mod kernel;
mod mutexes;
mod report;
mod run;
mod thread;

pub use ground::Ground;
pub use run::{LinuxRun, run};
