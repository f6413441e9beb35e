//! Tasks: their cells, their handles, and the wait for their results.
//!
//! A [cell] is the state that a task shares with its wakers and handles. A [handle] inspects and changes a task. A
//! handle for its result ([join]) is a future that waits for it, and a [set] waits for many; its
//! [notices] say which of them to poll. A [heritage] is the
//! attributes that a task passes on to the tasks that it spawns.

pub(crate) mod builder;
mod cell;
mod handle;
mod heritage;
mod join;
mod new;
pub(crate) mod notices;
mod set;

pub use handle::{AbortHandle, Task, TaskHandle, TaskUsage};
pub use join::{JoinError, JoinHandle};
pub use set::JoinSet;

pub(crate) use cell::{Asked, Cell, Head, Job, NewCell, Todo};
pub(crate) use heritage::Heritage;
pub(crate) use new::{Kind, NewTask};
