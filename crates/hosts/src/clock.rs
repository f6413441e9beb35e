//! The kernel's clocks of CPU time, which stand still while a thread does not run.

use runyard_engine::time::Nanos;
use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};

/// The CPU time that the calling thread has used.
#[must_use]
pub fn cpu_time() -> Nanos {
    nanos(clock_gettime(ClockId::ThreadCPUTime))
}

/// The CPU time that all threads of this process have used.
#[must_use]
pub fn process_cpu_time() -> Nanos {
    nanos(clock_gettime(ClockId::ProcessCPUTime))
}

/// The step of the kernel's coarse clock: one tick.
#[must_use]
pub(crate) fn coarse_resolution() -> Nanos {
    nanos(clock_getres(ClockId::MonotonicCoarse))
}

/// A time of one of the kernel's clocks.
pub(crate) fn nanos(time: Timespec) -> Nanos {
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
