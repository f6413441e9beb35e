//! The interface between the interpreter and a host.

use super::world::{Asked, NewTask};
use runyard_engine::time::{Nanos, Time};
use std::future::Future;

/// A host, as a task on it sees it. All instants count from the beginning of the run.
pub(crate) trait Stage: Clone + Send + Sync + 'static {
    /// The present time.
    fn now(&self) -> Time;

    /// Blocks the calling task until `at`, or at most `slack` longer.
    fn sleep_until(&self, at: Time, slack: Nanos) -> impl Future<Output = ()> + Send;

    /// Lets other tasks run.
    fn yield_now(&self) -> impl Future<Output = ()> + Send;

    /// Makes the calling task work in the kernel for `span`, in a long system call. Returns the CPU time that it used, or
    /// `None` if the host has no such call.
    fn work_in_kernel(&self, span: Nanos) -> Option<Nanos> {
        let _ = span;
        None
    }

    /// Asks the scheduler to give the calling task the attributes `new`, in place of `old`. Returns the reason of a
    /// refusal.
    fn apply(&self, new: &Asked, old: &Asked) -> Result<(), String>;

    /// Starts a task, which will [`play`](super::player::play) `task`. Returns the reason of a refusal.
    fn start(&self, task: NewTask) -> Result<(), String>;
}
