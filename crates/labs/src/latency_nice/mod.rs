//! Latency nice, the experiments of the patch set (2022-23): a sensitive task waits less after a wake-up, and no task
//! gets less CPU time for it.
//!
//! The document names four experiments: cyclictest beside hackbench; an app's frames beside tasks that use all CPUs now
//! and then; the ALSA latency test beside hackbench; and hackbench alone. Each runs a scenario of its own; hackbench is
//! one function. Patches 1 and 8 have small scenarios of their own. All are simulated. [`live`] runs cyclictest and
//! hackbench on this machine's CPUs.

mod cores;
mod cyclictest;
pub(crate) mod hackbench;
mod live;
mod patches;
mod simulated;

use crate::setting::Setting;

pub(crate) use live::live;
pub(crate) use simulated::{broken, experiment};

/// The scenario of most parts: cyclictest, and the parts of hackbench.
fn shipped() -> Setting {
    Setting::of("latency-nice.json", include_str!("../../scenarios/latency-nice.json"))
}

/// The names of the rows on real CPUs, for the page that has them.
#[cfg(test)]
pub(crate) fn live_names() -> Vec<String> {
    crate::price::tests::with(&live::rows())
}
