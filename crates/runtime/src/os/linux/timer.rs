//! A POSIX timer that interrupts one thread, at an instant or when the thread has used a given CPU time.
//!
//! The calls are the kernel's own, not the C library's: a timer may be made in a signal handler.

use super::gettime::IS_SLOW;
use super::thread::{Tid, cpu_clock};
use crate::os::refusal::Later;
use crate::os::sync::{AtomicI32, Ordering};
use runyard_engine::time::{Nanos, Time};

/// A number that no timer of the kernel has.
const NONE: i32 = -1;

/// A place for one timer, which sends its signal to one thread. Any thread may use it.
#[derive(Debug)]
pub(crate) struct Timer(AtomicI32);

/// The clock of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    Monotonic,
    /// The CPU time of the thread that the timer interrupts.
    CpuTime,
}

impl Timer {
    /// Returns a place without a timer: to set it does nothing.
    pub(crate) fn none() -> Timer {
        Timer(AtomicI32::new(NONE))
    }

    /// Returns whether the kernel makes this many timers for this process now (`RLIMIT_SIGPENDING`, seccomp).
    pub(crate) fn are_possible(signal: i32, many: usize) -> bool {
        let timers: Vec<_> = (0..many).map(|_| Timer::none()).collect();
        let here = crate::os::thread::current();
        timers.iter().all(|timer| timer.make(Clock::Monotonic, here, signal))
    }

    /// Makes the timer, which sends `signal` to `thread`, unless it exists. Returns `false` if the kernel refuses. May
    /// be called in a signal handler.
    pub(crate) fn make(&self, clock: Clock, thread: Tid, signal: i32) -> bool {
        if self.is_there() {
            return true;
        }
        let clock = match clock {
            Clock::Monotonic => libc::CLOCK_MONOTONIC,
            Clock::CpuTime => cpu_clock(thread),
        };
        // SAFETY: a zeroed sigevent is valid, and the fields that the kernel reads are set below.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal;
        event.sigev_notify_thread_id = thread.0;
        let mut timer: i32 = NONE;
        // SAFETY: the kernel reads one sigevent, whose layout is the C library's, and writes one number.
        let result = unsafe {
            libc::syscall(libc::SYS_timer_create, clock, &raw const event, &raw mut timer)
        };
        if result != 0 {
            return false;
        }
        let first = self.0.compare_exchange(NONE, timer, Ordering::AcqRel, Ordering::Relaxed);
        if first.is_err() {
            // Another thread has made the timer meanwhile.
            delete(timer);
        }
        true
    }

    pub(crate) fn is_there(&self) -> bool {
        self.0.load(Ordering::Acquire) != NONE
    }

    /// Gives the timer back to the kernel.
    pub(crate) fn delete(&self) {
        match self.0.swap(NONE, Ordering::AcqRel) {
            NONE => {}
            timer => delete(timer),
        }
    }

    /// Sets the timer to an instant. May be called in a signal handler.
    pub(crate) fn set_at(&self, at: Time) {
        self.set(libc::TIMER_ABSTIME, at.0.max(1));
    }

    /// Sets the timer to expire after a span. May be called in a signal handler.
    pub(crate) fn set_after(&self, span: Nanos) {
        self.set(0, span.0.max(1));
    }

    /// Disarms the timer. If the timer is the calling thread's, a signal that it has sent is delivered before this
    /// returns.
    pub(crate) fn stop(&self) {
        self.set(0, 0);
    }

    fn set(&self, flags: i32, nanos: u64) {
        let timer = self.0.load(Ordering::Acquire);
        // Callgrind cannot follow a signal that comes just after a change of threads. Due ticks are seen at the ends of
        // polls, too.
        if timer == NONE || IS_SLOW {
            return;
        }
        let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let value = libc::timespec {
            tv_sec: (nanos / 1_000_000_000).cast_signed(),
            tv_nsec: (nanos % 1_000_000_000).cast_signed(),
        };
        let spec = libc::itimerspec { it_interval: zero, it_value: value };
        let nothing = std::ptr::null_mut::<libc::itimerspec>();
        // SAFETY: the kernel reads one itimerspec. It refuses a timer that was deleted meanwhile. A new timer of the
        // same number interrupts a thread of this process once, without effect (H8).
        let is_set = unsafe {
            libc::syscall(libc::SYS_timer_settime, timer, flags, &raw const spec, nothing) == 0
        };
        if !is_set && std::io::Error::last_os_error().raw_os_error() != Some(libc::EINVAL) {
            super::note_refused(Later::Timers);
        }
    }
}

fn delete(timer: i32) {
    // SAFETY: the call takes only a number.
    unsafe {
        libc::syscall(libc::SYS_timer_delete, timer);
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.delete();
    }
}
