//! The lowest latency nice value that tasks and groups may ask for.

use runyard_engine::attr::LatencyNice;
use std::fmt;

/// The error for a latency nice value that a task or a group may not have: it is below [the
/// lowest](crate::Builder::min_latency_nice) that its runtime allows.
///
/// ```
/// use runyard::{LatencyNice, Runtime, Task, spawn};
///
/// Runtime::builder().min_latency_nice(-5).build().block_on(async {
///     let asks = async { Task::current().set_latency_nice(LatencyNice::MIN) };
///     let error = spawn(asks).await.unwrap().unwrap_err();
///     assert_eq!(error.to_string(), "latency nice -20 is below -5, the lowest that this runtime allows");
/// });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyNiceError {
    pub(crate) asked: LatencyNice,
    pub(crate) lowest: LatencyNice,
}

impl fmt::Display for LatencyNiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (asked, lowest) = (self.asked.get(), self.lowest.get());
        write!(f, "latency nice {asked} is below {lowest}, the lowest that this runtime allows")
    }
}

impl std::error::Error for LatencyNiceError {}

/// Returns the latency nice value, if tasks may ask for it where this one is the `lowest`.
pub(crate) fn allowed(
    lowest: LatencyNice,
    asked: LatencyNice,
) -> Result<LatencyNice, LatencyNiceError> {
    if asked < lowest { Err(LatencyNiceError { asked, lowest }) } else { Ok(asked) }
}
