//! The task that the calling thread polls.

use crate::os::local::Lent;
use crate::os::sync::Arc;
use crate::task::Cell;

thread_local! {
    static TASK: Lent<Arc<Cell>> = const { Lent::none() };
}

/// Puts the calling thread in a poll of `task` while `body` runs.
pub(crate) fn with_task<R>(task: &Arc<Cell>, body: impl FnOnce() -> R) -> R {
    TASK.with(|word| word.lend(task, body))
}

/// Calls `body` with the task that the calling thread polls, if it polls one.
pub(crate) fn task<R>(body: impl FnOnce(Option<&Arc<Cell>>) -> R) -> R {
    TASK.with(|word| word.with(body))
}

/// Returns the cell of the task that the calling code belongs to.
pub(crate) fn current() -> Option<Arc<Cell>> {
    task(|task| task.cloned())
}
