//! The rounds of rt-migrate, as a run on any host has them.

use runyard_engine::time::Nanos;

/// The times of one thread in one round, since the release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lap {
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
    pub(crate) work: Nanos,
    /// The time before the start in which the machine kept threads of this process waiting for its CPUs: none where
    /// the scheduler has them for itself.
    pub(crate) kept: Nanos,
}

/// One release of all threads: their laps, from the least to the most important.
pub(crate) type Round = Vec<Lap>;
