//! The greedy walk of timers on an idle CPU, the experiment of the patch (September 2011): its effect on migrations, in
//! the document's four cases.
//!
//! With slack a timer may run early, but the regular walk uses little of that. It stops at the first timer whose time
//! has not come, and on a busy CPU the next walk is at the next tick. So a timer waits until it must interrupt a task,
//! and the task that it wakes has to go to another CPU. An idle CPU has the time: when it goes idle and when it is
//! interrupted, the greedy walk runs all timers that may run.
//!
//! The document publishes migrations a minute, and the fraction of timers that only the greedy walk ran. Its unknown
//! values are assumed in `simulated` and varied by `sweeps/timer-guesses.json`; the cases are repeated with timers that were
//! recorded. The document hopes that timers that are cancelled in time save
//! wake-ups too; `cancelled` finds out when that is so. These parts are simulated. [`live`] runs on this machine's
//! CPUs.

mod cancelled;
mod live;
mod simulated;

pub(crate) use live::{live, live_without};
pub(crate) use simulated::{broken, experiment};

/// The names of the rows on real CPUs, for the page that has them.
#[cfg(test)]
pub(crate) fn live_names() -> Vec<String> {
    crate::price::tests::with(&live::rows())
}
