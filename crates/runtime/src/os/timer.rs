//! A POSIX timer that interrupts one thread: when an instant comes, or when the thread has used so
//! much CPU time.

use crate::os::thread::Tid;
use runyard_engine::time::{Nanos, Time};

/// A timer of one thread, which the thread's signal announces.
#[derive(Debug)]
pub(crate) struct Timer(libc::timer_t);

// SAFETY: the handle is the kernel's number of a timer of this process; any thread may use it.
unsafe impl Send for Timer {}
// SAFETY: as above; the kernel serialises what is done with it.
unsafe impl Sync for Timer {}

/// What a timer measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// The monotonic clock.
    Monotonic,
    /// The CPU time of the calling thread, which makes the timer.
    OwnCpuTime,
}

impl Timer {
    /// Whether the kernel makes timers for this process (`RLIMIT_SIGPENDING`, seccomp).
    pub(crate) fn are_possible(signal: i32) -> bool {
        Timer::new(Clock::Monotonic, crate::os::thread::current(), signal).is_some()
    }

    /// A timer that sends `signal` to `thread`; `None` if the kernel refuses.
    pub(crate) fn new(clock: Clock, thread: Tid, signal: i32) -> Option<Timer> {
        let clock = match clock {
            Clock::Monotonic => libc::CLOCK_MONOTONIC,
            Clock::OwnCpuTime => libc::CLOCK_THREAD_CPUTIME_ID,
        };
        // SAFETY: a sigevent of zeros is one, and the fields that the kernel reads are set below.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal;
        event.sigev_notify_thread_id = thread.0;
        let mut timer = std::ptr::null_mut();
        // SAFETY: the kernel reads one sigevent and writes one timer_t.
        let result = unsafe { libc::timer_create(clock, &raw mut event, &raw mut timer) };
        (result == 0).then_some(Timer(timer))
    }

    /// Sets the timer to an instant. May be called in a signal handler.
    pub(crate) fn set_at(&self, at: Time) {
        self.set(libc::TIMER_ABSTIME, at.0.max(1));
    }

    /// Sets the timer to go off after a span. May be called in a signal handler.
    pub(crate) fn set_after(&self, span: Nanos) {
        self.set(0, span.0.max(1));
    }

    fn set(&self, flags: i32, nanos: u64) {
        let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let value = libc::timespec {
            tv_sec: (nanos / 1_000_000_000).cast_signed(),
            tv_nsec: (nanos % 1_000_000_000).cast_signed(),
        };
        let spec = libc::itimerspec { it_interval: zero, it_value: value };
        // SAFETY: the timer exists as long as `self`; the kernel reads one itimerspec.
        unsafe {
            libc::timer_settime(self.0, flags, &raw const spec, std::ptr::null_mut());
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: the timer exists, and nobody uses the handle after this.
        unsafe {
            libc::timer_delete(self.0);
        }
    }
}
