//! The host that plays a scenario as kernel threads under the machine's own scheduler.
//!
//! Each task is a thread with the task's policy, CPUs, timer slack, task group, cookie and, where the kernel takes one,
//! slice. The kernel provides the thread's run and wait times afterwards. The thread itself counts its wake-ups and
//! measures their latencies.

mod call;
mod cgroup;
mod cookies;
mod cpuset;
mod ground;
mod inherit;
mod kernel;
mod mutexes;
mod park;
mod program;
mod report;
mod run;
mod schedstat;
mod thread;

pub use crate::program::{Finished, Place, Refusal};
pub use ground::Ground;
pub(crate) use program::refuses_groups;
pub use program::run_program;
pub use run::{LinuxRun, run};
pub use schedstat::Schedstat;
