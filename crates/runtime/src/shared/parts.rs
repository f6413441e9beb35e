//! The parts of [`Shared`](super::Shared) besides the scheduler, the [registry](super::registry) and the timers.

use super::cookies::NoCookies;
use crate::deferred::errands::Errands;
use crate::deferred::rubbish::Bins;
use crate::os::sync::{AtomicBool, AtomicUsize};
use crate::snapshot::Groups;
use crate::stall::Stalls;
use runyard_engine::attr::LatencyNice;
use runyard_engine::time::Nanos;
use std::time::Instant;

/// The work that the runtime's own code leaves to foreign code.
#[derive(Debug)]
pub(crate) struct Deferred {
    pub(crate) errands: Errands,
    pub(crate) bins: Bins,
}

/// The bounds of the values that tasks and groups may ask for.
#[derive(Debug)]
pub(crate) struct Bounds {
    pub(crate) lowest_latency_nice: LatencyNice,
    /// CPU time available in a second.
    pub(crate) capacity: Nanos,
    pub(crate) max_groups: usize,
    /// The reason why tasks with different cookies share cores, if they do.
    pub(crate) cookies: Result<(), NoCookies>,
}

/// The groups that tasks leave when they are over.
#[derive(Debug, Default)]
pub(crate) struct Leavers {
    /// Whether a task group was ever created. Until then a task that ends leaves none.
    pub(crate) are_any: AtomicBool,
    /// Number of groups that finished tasks have left and that are in a bin, or held by the thread that empties it.
    pub(crate) nr: AtomicUsize,
}

/// The parts that watch a runtime.
#[derive(Debug)]
pub(crate) struct Observation {
    /// Looks for stalls, if a callback asks for them.
    pub(crate) stalls: Option<Stalls>,
    /// The living task groups, for snapshots.
    pub(crate) groups: Groups,
    /// The beginning of the observer's time.
    pub(crate) started: Instant,
}
