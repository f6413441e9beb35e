//! The protocols by which threads share slots, tasks and locks. Each is small enough for a model checker that explores
//! its interleavings. The models are in the same files as the code, and `tests/models.rs` builds this folder with
//! loom's primitives.
//!
//! The protocols do not depend on the types of workers, tasks or runtimes: the modules above them supply these types.

pub(crate) mod baton;
pub(crate) mod company;
pub(crate) mod handoff;
pub(crate) mod in_kernel;
pub(crate) mod newcomers;
pub(crate) mod parker;
pub(crate) mod places;
pub(crate) mod steering;
pub(crate) mod turns;
#[cfg(any(feature = "tokio", loom))]
pub(crate) mod wheel;
