//! rt-migrate-test, the experiment of the real-time push/pull series (2007).
//!
//! One more real-time thread than CPUs, of ascending priorities, released together round after
//! round; each then spins for 20 ms of wall time. In a good round only the least important thread
//! waits for a CPU. What the test prints of a thread is when it started and ended after the
//! release, and how much work it did in between; here work is CPU time, not loops.
//!
//! [`simulated`] runs it in virtual time, with the balancing and without; [`live()`] on this machine,
//! on the runtime and beside it as kernel threads. All of them run the same scenario.

mod live;
mod original;
mod rounds;
mod simulated;
mod watched;

pub use live::live;
pub use simulated::simulated;
