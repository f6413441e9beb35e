//! The task in whose poll the calling thread is.

use super::cell::Cell;
use crate::os::local::Lent;
use crate::os::sync::Arc;

thread_local! {
    static TASK: Lent<Arc<Cell>> = const { Lent::none() };
}

/// Puts the calling thread in a poll of `task` while `body` runs.
pub(crate) fn with_task<R>(task: &Arc<Cell>, body: impl FnOnce() -> R) -> R {
    TASK.with(|word| word.lend(task, body))
}

/// The task in whose poll the calling thread is.
pub(crate) fn task<R>(body: impl FnOnce(Option<&Arc<Cell>>) -> R) -> R {
    TASK.with(|word| word.with(body))
}
