//! No clock of CPU time is known on this system, and nobody comes to ask: no host is here.

use runyard_engine::time::Nanos;

/// The CPU time that the calling thread has used: none is known.
#[must_use]
pub fn cpu_time() -> Nanos {
    Nanos::ZERO
}

/// The CPU time that all threads of this process have used: none is known.
#[must_use]
pub fn process_cpu_time() -> Nanos {
    Nanos::ZERO
}

/// How far a coarse clock advances at a time: none is known.
#[must_use]
pub(crate) fn coarse_resolution() -> Nanos {
    Nanos::ZERO
}
