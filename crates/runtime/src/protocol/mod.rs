//! The protocols by which threads share slots, tasks and locks. Each is small enough for a model checker, which tries its
//! interleavings: the models stand beside the code, and `tests/models.rs` builds this folder with loom's primitives.
//!
//! Nothing here knows a worker, a task or a runtime: the rooms above bring their own types.

pub(crate) mod baton;
pub(crate) mod company;
pub(crate) mod handoff;
pub(crate) mod in_kernel;
pub(crate) mod newcomers;
pub(crate) mod places;
pub(crate) mod steering;
pub(crate) mod turns;
#[cfg(any(feature = "tokio", loom))]
pub(crate) mod wheel;
