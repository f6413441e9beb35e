//! Hard limits of task groups: what a limit is, the pool of its budget that all CPUs share, and what
//! one CPU has drawn of it.

pub(crate) mod grants;
mod limit;
pub mod pool;

pub use grants::LATEST_REFILL;
pub use limit::{BadLimit, Limit, Usage, UsageOnCpu};
