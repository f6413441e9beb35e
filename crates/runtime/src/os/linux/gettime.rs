//! The clocks of the kernel.

use runyard_engine::time::Time;

/// Whether this is the build that counts instructions (`cargo xtask price`). There a program runs some 60 times slower, and
/// ticks, batches and anchors would come 60 times as often for each task.
pub(super) const IS_SLOW: bool = cfg!(runyard_slow_clock);

/// The shift by which the runtime's clocks are slower than the kernel's.
pub(super) const SLOWER: u32 = if IS_SLOW { 6 } else { 0 };

/// Returns the kernel's nanoseconds for a span or an instant of the runtime.
pub(super) const fn kernels(nanos: u64) -> u64 {
    nanos.saturating_mul(1 << SLOWER)
}

/// Returns the time on the machine's monotonic clock, read from the kernel. May be called in a signal handler.
pub(crate) fn monotonic() -> Time {
    clock_time(libc::CLOCK_MONOTONIC).expect("every kernel has a monotonic clock")
}

/// Returns the time on a clock; `None` if there is no such clock.
pub(super) fn clock_time(clock: libc::clockid_t) -> Option<Time> {
    let mut spec = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec into a valid one.
    let result = unsafe { libc::clock_gettime(clock, &raw mut spec) };
    let nanos = spec.tv_sec as u64 * 1_000_000_000 + spec.tv_nsec as u64;
    (result == 0).then_some(Time(nanos >> SLOWER))
}
