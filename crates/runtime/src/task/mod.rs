//! Tasks: their cells, their handles, and how their results are waited for.
//!
//! A [cell] is what a task shares with its wakers and handles. A [handle] asks and changes a task, and a handle
//! for its result ([join]) is one more thing to wait for. A [set] waits for many. What tasks pass on to those that
//! they spawn is a [heritage].

pub(crate) mod builder;
mod cell;
pub(crate) mod current;
mod handle;
mod heritage;
mod join;
mod set;

pub use handle::{AbortHandle, Task, TaskHandle, TaskUsage};
pub use join::{JoinError, JoinHandle};
pub use set::JoinSet;

pub(crate) use cell::{Asked, Cell, Head, Job, NewCell, Todo};
pub(crate) use handle::current_cell;
pub(crate) use heritage::Heritage;
