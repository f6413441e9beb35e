//! What the interpreter asks of a host.

use super::world::{Asked, NewTask};
use runyard_engine::time::{Nanos, Time};
use std::future::Future;

/// A host, as a task on it sees it. All instants count from the beginning of the run.
pub(crate) trait Stage: Clone + Send + Sync + 'static {
    /// The time.
    fn now(&self) -> Time;

    /// Blocks the calling task until `at`, or later by `slack` at the most.
    fn sleep_until(&self, at: Time, slack: Nanos) -> impl Future<Output = ()> + Send;

    /// Lets others run.
    fn yield_now(&self) -> impl Future<Output = ()> + Send;

    /// Asks the scheduler for what is `new` for the calling task, which had `old` before. If that
    /// is refused, why.
    fn apply(&self, new: &Asked, old: &Asked) -> Result<(), String>;

    /// Starts a task, to [`play`](super::player::play) what it is born with. If that is refused, why.
    fn start(&self, task: NewTask) -> Result<(), String>;
}
