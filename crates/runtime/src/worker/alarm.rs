//! The kernel's timers of a worker: one on the clock, for the next check, and one on the CPU clock of its thread, for a
//! thread without a slot.

use crate::crew::keeper::BUSY_INTERVAL;
use crate::os;
use crate::os::sync::{AtomicU64, Ordering};
use crate::os::thread::Tid;
use crate::os::timer::{Clock, Timer};
use runyard_engine::time::{Nanos, Time};

/// The value of a timer that is not set. It lies in the past, so such a timer counts as due.
const UNSET: u64 = 0;

/// The timers of a worker. This thread sets them, in its handler too, and so does the thread that takes the slot from
/// it.
#[derive(Debug)]
pub(crate) struct Alarm {
    timer: Timer,
    cpu_timer: Timer,
    /// The last setting of `timer`.
    armed: AtomicU64,
}

impl Alarm {
    pub(super) fn none() -> Alarm {
        Alarm { timer: Timer::none(), cpu_timer: Timer::none(), armed: AtomicU64::new(UNSET) }
    }

    /// Makes the timer on the clock, which sends a signal to a thread. Returns whether the kernel grants it.
    pub(super) fn make(&self, tid: Tid, signal: i32) -> bool {
        self.timer.make(Clock::Monotonic, tid, signal)
    }

    pub(super) fn delete(&self) {
        self.timer.delete();
        self.cpu_timer.delete();
        self.unset();
    }

    /// Returns the time to which the timer was set last.
    #[inline]
    pub(super) fn armed(&self) -> Time {
        Time(self.armed.load(Ordering::Relaxed))
    }

    /// Returns whether the thread has not handled its timer, which was due at the keeper's last check already.
    pub(super) fn is_overdue(&self) -> bool {
        let before = Time(os::thread::now().0.saturating_sub(BUSY_INTERVAL.0));
        let armed = self.armed();
        armed != Time(UNSET) && armed <= before
    }

    pub(super) fn unset(&self) {
        self.armed.store(UNSET, Ordering::Relaxed);
    }

    pub(super) fn set_at(&self, at: Time) {
        self.armed.store(at.0, Ordering::Relaxed);
        self.timer.set_at(at);
    }

    /// Sets the timer for a check that is no expiry of the CPU: the next setting counts whatever it is.
    pub(super) fn ring_at(&self, at: Time) {
        self.unset();
        self.timer.set_at(at);
    }

    /// Sets the timer for a check after this time, as [`Alarm::ring_at`].
    pub(super) fn ring_after(&self, after: Nanos) {
        self.unset();
        self.timer.set_after(after);
    }

    pub(super) fn stop(&self) {
        self.timer.stop();
        self.unset();
    }

    /// Sets the timer on the CPU clock of a thread. Returns whether the kernel grants it.
    pub(super) fn ring_after_cpu_time(&self, tid: Tid, signal: i32, after: Nanos) -> bool {
        let granted = self.cpu_timer.make(Clock::CpuTime, tid, signal);
        if granted {
            self.cpu_timer.set_after(after);
        }
        granted
    }

    /// Sets the timer for a check after this time, in place of one on the CPU clock.
    pub(super) fn look_after(&self, after: Nanos) {
        self.timer.set_after(after);
    }
}
