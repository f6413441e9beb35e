//! A worker in tokio's driver, if the runtime has its own one. It visits the driver without work ([`super::idle`]), or
//! before a poll, if it is busy and no other thread drives ([`crate::protocol::wheel`]). In the driver it may lose its
//! slot, since the driver calls foreign code.

use super::poll::Later;
use super::{POLL_GRACE, Worker};
use crate::driver::{Own, Until};
use crate::os::sync::{AtomicBool, AtomicU64, Ordering};
use runyard_engine::time::{Nanos, Time};

/// The interval at which busy workers visit the driver: a visit takes a microsecond or two. It is shorter than the time
/// after which a long poll calls the driver's thread ([`POLL_GRACE`]).
const VISITS_EVERY: Nanos = Nanos::from_micros(100);

/// A thread's visits to the driver, and its waits for work.
#[derive(Debug)]
pub(crate) struct Visits {
    /// Whether the thread is in the driver. The driver's code is not the runtime's own. Written by this thread.
    drives: AtomicBool,
    /// The time of its next check whether any thread drives; of this thread only.
    next: AtomicU64,
    /// The time until which it polls for work without yielding its CPU; of this thread only.
    pub(super) keeps_cpu_until: AtomicU64,
}

impl Visits {
    pub(super) fn new() -> Visits {
        Visits {
            drives: AtomicBool::new(false),
            next: AtomicU64::new(0),
            keeps_cpu_until: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(super) fn drives(&self) -> bool {
        self.drives.load(Ordering::Relaxed)
    }
}

impl Worker {
    /// Visits the driver, as [`Own::visit`] does. The foreign code in it is not the runtime's own.
    pub(super) fn visit(&self, driver: &Own, until: Until) -> bool {
        self.visits.drives.store(true, Ordering::Relaxed);
        let goes_on = driver.visit(until);
        self.visits.drives.store(false, Ordering::Relaxed);
        goes_on
    }

    /// Visits the driver before a poll that begins `now`, if no thread has driven for long. So sockets and timers need
    /// no idle worker while polls are short. Returns `false` if a decision is needed before the poll.
    ///
    /// The visit is part of the task's turn, as an interrupt is in the kernel. It is not stopped, so that no task keeps
    /// the driver while it waits for a CPU. Like any poll it may lose the slot.
    pub(super) fn visit_in_passing(&self, now: Time) -> bool {
        if now < Time(self.visits.next.load(Ordering::Relaxed)) {
            return true;
        }
        let Some(driver) = self.shared.scheduler.driver.for_workers() else {
            self.visits.next.store(u64::MAX, Ordering::Relaxed);
            return true;
        };
        let due = driver.free_since().map_or(now, |since| since + VISITS_EVERY);
        self.visits.next.store(due.max(now + VISITS_EVERY).0, Ordering::Relaxed);
        if due > now || !driver.take_wheel_in_passing(self.tid()) {
            return true;
        }
        self.poll.foreign(|| _ = self.visit(driver, Until::Now));
        driver.leave_wheel();
        if !self.owns() {
            // The new owner of the slot may sleep by now, as this worker drove.
            self.shared.scheduler.see_to_driver();
        }
        self.poll.later() != Later::Kick
    }

    /// Returns whether it is in the driver.
    pub(crate) fn drives(&self) -> bool {
        self.visits.drives()
    }

    /// Checks, as a running worker, whether no thread has driven for long. Other busy workers do not detect it. Called
    /// in the signal handler.
    pub(super) fn look_at_driver(&self, now: Time) {
        let driver = self.shared.scheduler.driver.for_workers();
        let Some(since) = driver.and_then(Own::free_since) else { return };
        let in_poll = || self.cpu_of_poll().is_some() && !self.is_in_own_code();
        if now >= since + POLL_GRACE {
            self.shared.scheduler.see_to_driver();
        } else if !self.is_young(now) && in_poll() && !self.section.is_inside() {
            self.alarm.set_at(self.in_time(since + POLL_GRACE));
        }
    }
}
