//! Latency nice, the experiments of the patch set (2022-23): a sensitive task waits less after a wake-up, and no task
//! gets less CPU time for it.
//!
//! The document names four experiments: cyclictest beside hackbench; an app's frames beside tasks that use all CPUs now
//! and then; the ALSA latency test beside hackbench; and hackbench alone. Each runs a scenario of its own; hackbench is
//! one function. Patches 1 and 8 have small scenarios of their own. All are simulated. [`live()`] runs cyclictest and
//! hackbench on this machine's CPUs.

mod audio;
mod core_latency;
mod cyclictest;
mod frames;
pub(crate) mod hackbench;
mod live;
mod patches;
mod rounds;
mod shipped;
mod simulated;
mod tenants;
mod throughput;

pub use live::live;
pub use simulated::{simulated, simulated_without};

/// The claims on this host, with any figures: for the page that names them.
#[cfg(test)]
pub(crate) fn named(host: &str) -> Vec<crate::Claim> {
    if host == "sim" { simulated::tests::named() } else { live::tests::named() }
}
