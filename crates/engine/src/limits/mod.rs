//! Hard limits of task groups: what a limit is, the pool of its budget that all CPUs share, and what
//! one CPU has drawn of it.

pub(crate) mod grants;
mod limit;
pub mod pool;
mod pools;

pub use grants::LATEST_REFILL;
pub use limit::{BadLimit, Limit, Usage, UsageOnCpu};
pub use pools::Pools;

use crate::attr::GroupId;

/// What a run queue tells of throttling, as it happens on its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttling {
    /// What is concerned.
    pub what: Throttled,
    /// Whether it is throttled from now on, or is not any more.
    pub begins: bool,
}

/// What is throttled on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Throttled {
    /// All real-time tasks of the CPU, by the budget that they share (RT throttling).
    RealTime,
    /// The tasks of a group, by its limit or that of a group above it.
    Group(GroupId),
}
