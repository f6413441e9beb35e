//! The clocks of the kernel.

use runyard_engine::time::Time;

/// Returns the time on the machine's monotonic clock, read from the kernel. May be called in a signal handler.
pub(crate) fn monotonic() -> Time {
    clock_time(libc::CLOCK_MONOTONIC).expect("every kernel has a monotonic clock")
}

/// Returns the time on a clock; `None` if there is no such clock.
pub(super) fn clock_time(clock: libc::clockid_t) -> Option<Time> {
    let mut spec = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec into a valid one.
    let result = unsafe { libc::clock_gettime(clock, &raw mut spec) };
    (result == 0).then(|| Time(spec.tv_sec as u64 * 1_000_000_000 + spec.tv_nsec as u64))
}
