//! The founding experiments: each repeats what a founding document reports of its mechanism, without
//! the mechanism and with it, and sets the published figures beside its own.
//!
//! An experiment is a folder. Its function `simulated` runs it in virtual time. Its function `live`
//! runs it on this machine's CPUs, on the runtime, and where that compares something also as kernel
//! threads. Both return [claims](Experiment) and a text for a person ([`Reproduced`]).
//!
//! Speed is no claim: a time on real CPUs is shown beside the figure that it is to be compared with,
//! has no bound, and cannot fail.

mod claims;
mod figure;
pub mod greedy_timers;
pub mod hard_limits;
pub mod idle_balance;
pub mod latency_nice;
mod length;
mod progress;
pub mod rt_migrate;

pub use claims::{Claim, ClaimVerdict, Claims, Experiment, Reproduced};
pub use length::Length;

/// The runtime stops tasks of the tests anywhere but in here.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: runyard::Allocator = runyard::Allocator::system();
