//! The founding experiments. Each repeats the measurements of a founding document, without its mechanism and with it,
//! and sets the published figures beside its own.
//!
//! An experiment is a folder. It has settings, and rows about their runs: each row has its figure, its bound and the
//! published figures. Its function `simulated` runs it in virtual time. Its function `live` runs it on this
//! machine's CPUs, on the runtime, and for comparison also as kernel threads where that is useful. Both return
//! [claims](Experiment) and a text for a person ([`Reproduced`]).
//!
//! Speed is no claim. A time on real CPUs is shown beside the figure that it is compared with. It has no bound and
//! cannot fail. A claim on real CPUs is [not judged](Unjudged) while others use them.

mod claims;
mod figure;
#[cfg(test)]
mod founding;
pub mod greedy_timers;
pub mod hard_limits;
pub mod idle_balance;
mod lap;
pub mod latency_nice;
mod length;
mod price;
mod progress;
mod quiet;
mod rows;
pub mod rt_migrate;
mod setting;
mod spread;
mod steps;
mod took;
mod usage;

pub use claims::{Claim, ClaimVerdict, Claims, Experiment, Reproduced, Unjudged};
pub use length::Length;
pub use progress::Progress;

/// The runtime does not stop a test's task inside the allocator.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: runyard::Allocator = runyard::Allocator::system();
