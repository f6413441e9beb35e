//! Hard limits of task groups: the limit itself, the pool of its budget that all CPUs share, and
//! the grants that one CPU has drawn.

pub mod bandwidth;
#[cfg(test)]
pub(crate) mod flat;
pub(crate) mod grants;
pub(crate) mod here;
mod limit;
mod news;
pub mod pool;
mod pools;
pub(crate) mod slices;
#[cfg(test)]
mod tests;

pub use grants::LATEST_REFILL;
pub use limit::{BadLimit, Limit, Usage, UsageOnCpu};
pub use news::News;
pub use pools::Pools;

use crate::attr::GroupId;

/// A report of a run queue that throttling on its CPU began or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttling {
    /// The tasks concerned.
    pub what: Throttled,
    /// Whether throttling begins; otherwise it ends.
    pub begins: bool,
}

/// The tasks that are throttled on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Throttled {
    /// All real-time tasks of the CPU, by the budget that they share (RT throttling).
    RealTime,
    /// The tasks of a group, by its limit or that of a group above it.
    Group(GroupId),
}
