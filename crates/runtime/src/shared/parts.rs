//! The parts of [`Shared`](super::Shared) besides the scheduler, the [registry](crate::registry) and the timers.

use super::cookies::NoCookies;
use crate::deferred::errands::Errands;
use crate::deferred::rubbish::Bins;
use crate::group::quota::{CpuQuota, Quota};
use crate::os::above::without_preemption;
use crate::os::sync::{Arc, AtomicU64, AtomicUsize, Mutex, Ordering, lock};
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
    pub(crate) capacity: Capacity,
    /// The quota of the process, for reports. Written by the maker only.
    pub(crate) quota: Mutex<Option<Arc<Quota>>>,
    pub(crate) max_groups: usize,
    /// The reason why tasks with different cookies share cores, if they do.
    pub(crate) cookies: Result<(), NoCookies>,
}

impl Bounds {
    /// Returns the quota of the process, with the counts of now. Called in foreign code, because it reads a file.
    pub(crate) fn quota_now(&self) -> Option<CpuQuota> {
        let quota = without_preemption(|| lock(&self.quota).clone());
        quota.map(|quota| quota.shown())
    }
}

/// The CPU time that is available in a second, and the number of CPUs that run tasks. Written by the maker only.
#[derive(Debug)]
pub(crate) struct Capacity {
    in_a_second: AtomicU64,
    cpus: AtomicUsize,
}

impl Capacity {
    pub(crate) fn new(in_a_second: Nanos, cpus: usize) -> Capacity {
        Capacity { in_a_second: AtomicU64::new(in_a_second.0), cpus: AtomicUsize::new(cpus) }
    }

    /// Returns the CPU time in a second, and the number of CPUs.
    pub(crate) fn get(&self) -> (Nanos, usize) {
        let in_a_second = Nanos(self.in_a_second.load(Ordering::SeqCst));
        (in_a_second, self.cpus.load(Ordering::SeqCst))
    }

    pub(crate) fn set(&self, (in_a_second, cpus): (Nanos, usize)) {
        self.in_a_second.store(in_a_second.0, Ordering::SeqCst);
        self.cpus.store(cpus, Ordering::SeqCst);
    }
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
