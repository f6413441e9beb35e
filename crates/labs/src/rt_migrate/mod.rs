//! rt-migrate-test, the experiment of the real-time push/pull series (2007).
//!
//! There is one more real-time thread than CPUs, with ascending priorities. All are released together round after
//! round, and each then spins for 20 ms of wall time. In a good round only the least important thread waits for a CPU.
//! The test prints the start and the end of each thread after the release, and its work in between. Here work is CPU
//! time, not loops.
//!
//! [`simulated`] runs it in virtual time, with the balancing and without. [`live`] runs it on this machine, on the
//! runtime and as kernel threads. Both run the same scenario.

mod live;
mod original;
mod rounds;
mod simulated;

pub(crate) use live::{live, live_without};
pub(crate) use simulated::{broken, experiment};

/// The names of the rows on real CPUs, for the page that has them.
#[cfg(test)]
pub(crate) fn live_names() -> Vec<String> {
    crate::price::tests::with(&live::rows(3, 1))
}
