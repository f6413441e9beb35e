//! The parts of [`Shared`](super::Shared) besides the scheduler, the [registry](crate::registry) and the timers.

use super::cookies::NoCookies;
use crate::deferred::errands::Errands;
use crate::deferred::rubbish::Bins;
use crate::os::sync::Arc;
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

/// The parts that watch a runtime.
#[derive(Debug)]
pub(crate) struct Observation {
    /// Looks for stalls, if a callback asks for them.
    pub(crate) stalls: Option<Arc<Stalls>>,
    /// The living task groups, for snapshots.
    pub(crate) groups: Groups,
    /// The beginning of the observer's time.
    pub(crate) started: Instant,
}
