//! The clocks of CPU time on a system without hosts. No code calls them.

use runyard_engine::time::Nanos;

/// The CPU time that the calling thread has used: unknown here.
#[must_use]
pub fn cpu_time() -> Nanos {
    Nanos::ZERO
}

/// The CPU time that all threads of this process have used: unknown here.
#[must_use]
pub fn process_cpu_time() -> Nanos {
    Nanos::ZERO
}

/// The step of a coarse clock: unknown here.
#[must_use]
pub(crate) fn coarse_resolution() -> Nanos {
    Nanos::ZERO
}
