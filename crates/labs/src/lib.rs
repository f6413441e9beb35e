//! The founding experiments. Each repeats the measurements of a founding document, without its mechanism and with it,
//! and sets the published figures beside its own.
//!
//! An experiment is a folder. It has settings, and rows about their runs: each row has its figure, its bound and the
//! published figures. [`simulated`] runs an experiment in virtual time. [`live`] runs it on this machine's CPUs, on the
//! runtime, and for comparison also as kernel threads where that is useful. Both return [claims](Experiment) and a text
//! for a person ([`Reproduced`]).
//!
//! Speed is no claim. A time on real CPUs is shown beside the figure that it is compared with. It has no bound and
//! cannot fail. A claim on real CPUs is [not judged](Unjudged) while others use them.

mod claims;
mod figure;
#[cfg(test)]
mod founding;
mod greedy_timers;
mod hard_limits;
mod idle_balance;
mod lap;
mod latency_nice;
mod length;
mod price;
mod progress;
mod quiet;
mod rows;
mod rt_migrate;
mod setting;
mod spread;
mod steps;
mod took;
mod usage;

pub use claims::{Claim, ClaimVerdict, Claims, Experiment, Reproduced, Unjudged};
pub use length::Length;
pub use progress::Progress;

use runyard_engine::kernel::Experiment as Document;
use runyard_outcome::Failure;

/// Runs the experiment of a document in virtual time, before its mechanism and with it.
///
/// # Errors
/// If the simulator refuses a scenario, which would be a mistake in the experiment.
pub fn simulated(
    document: Document,
    length: Length,
    progress: &Progress,
) -> Result<Reproduced, Failure> {
    experiment(document, length).run(progress)
}

fn experiment(document: Document, length: Length) -> setting::Simulated {
    match document {
        Document::RtMigrate => rt_migrate::experiment(length),
        Document::IdleBalance => idle_balance::experiment(length),
        Document::LatencyNice => latency_nice::experiment(length),
        Document::HardLimits => hard_limits::experiment(length),
        Document::GreedyTimers => greedy_timers::experiment(length),
    }
}

/// The claims of some parts of the experiment with the document's mechanism switched off in every setting: for tests that
/// see them fail.
///
/// # Errors
/// As [`simulated`].
pub fn simulated_without(document: Document) -> Result<Vec<Claim>, Failure> {
    let (experiment, parts) = match document {
        Document::RtMigrate => rt_migrate::broken(),
        Document::IdleBalance => idle_balance::broken(),
        Document::LatencyNice => latency_nice::broken(),
        Document::HardLimits => hard_limits::broken(),
        Document::GreedyTimers => greedy_timers::broken(),
    };
    experiment.without(&parts)
}

/// Runs the experiment of a document on this machine's CPUs. Of each figure the worst of the runs counts.
///
/// # Errors
/// If the machine refuses something.
pub fn live(
    document: Document,
    length: Length,
    progress: &Progress,
) -> Result<Reproduced, Failure> {
    match document {
        Document::RtMigrate => rt_migrate::live(length, progress),
        Document::IdleBalance => idle_balance::live(length, progress),
        Document::LatencyNice => latency_nice::live(length, progress),
        Document::HardLimits => hard_limits::live(length, progress),
        Document::GreedyTimers => greedy_timers::live(length, progress),
    }
}

/// The claims of the experiment on this machine's CPUs without the mechanism, in one try: for tests that see them fail.
/// Those of the other two documents have no claim about their mechanism there.
///
/// # Errors
/// If the machine refuses something.
pub fn live_without(document: Document, progress: &Progress) -> Result<Vec<Claim>, Failure> {
    match document {
        Document::RtMigrate => rt_migrate::live_without(progress),
        Document::HardLimits => hard_limits::live_without(progress),
        Document::GreedyTimers => greedy_timers::live_without(progress),
        Document::IdleBalance | Document::LatencyNice => Ok(Vec::new()),
    }
}

/// The claims about a build under the runtime's limit and under the kernel's own, of builds without one: for tests that see them
/// fail.
///
/// # Errors
/// If the machine refuses something.
pub fn build_without_limit() -> Result<Vec<Claim>, Failure> {
    hard_limits::build_without_limit()
}

/// The runtime does not stop a test's task inside the allocator.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: runyard::Allocator = runyard::Allocator::system();
