//! The task that the calling code belongs to.

use crate::os::local::Lent;
use crate::os::sync::Arc;
use crate::task::Cell;
use std::cell::Cell as Flag;

thread_local! {
    static TASK: Lent<Arc<Cell>> = const { Lent::none() };
    /// Whether the thread helps the task, which is polled on another thread.
    static HELPS: Flag<bool> = const { Flag::new(false) };
}

/// Calls a function on this thread in the name of `task`, which waits for it.
pub(crate) fn helping<R>(task: &Arc<Cell>, function: impl FnOnce() -> R) -> R {
    HELPS.set(true);
    // A panic of the function ends here.
    let result = with_task(task, function);
    HELPS.set(false);
    result
}

/// Calls `body` with the task that is polled on the calling thread, if one is.
pub(crate) fn polled<R>(body: impl FnOnce(Option<&Arc<Cell>>) -> R) -> R {
    task(|task| body(task.filter(|_| !HELPS.get())))
}

/// Puts the calling thread in a poll of `task` while `body` runs.
pub(crate) fn with_task<R>(task: &Arc<Cell>, body: impl FnOnce() -> R) -> R {
    TASK.with(|word| word.lend(task, body))
}

/// Calls `body` with the task that the calling code belongs to, if there is one.
pub(crate) fn task<R>(body: impl FnOnce(Option<&Arc<Cell>>) -> R) -> R {
    TASK.with(|word| word.with(body))
}

/// Returns the cell of the task that the calling code belongs to.
pub(crate) fn current() -> Option<Arc<Cell>> {
    task(|task| task.cloned())
}
