//! Latency nice, the experiments of the patch set (2022-23): who wakes up waits less, and nobody gets
//! less for it.
//!
//! The document names four: cyclictest beside hackbench, an app's frames beside tasks that use all
//! CPUs now and then, the ALSA latency test beside hackbench, and hackbench alone. What they run is
//! a scenario each; hackbench is one function. All of them are simulated; [`live()`] has cyclictest and
//! hackbench on the CPUs that there are.

mod audio;
mod core_latency;
mod cyclictest;
mod frames;
pub(crate) mod hackbench;
mod live;
mod rounds;
mod shipped;
mod simulated;
mod tenants;
mod throughput;

pub use live::live;
pub use simulated::simulated;
