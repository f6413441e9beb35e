//! The calling code: the worker that runs it, the task that it belongs to, and the runtime that it has entered. Thread
//! locals know them, and the rooms above ask here.

pub(crate) mod caller;
pub(crate) mod runtime;
pub(crate) mod section;
pub(crate) mod task;
pub(crate) mod turn;
pub(crate) mod unpark;
pub(crate) mod worker;
