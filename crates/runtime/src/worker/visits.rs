//! A worker in tokio's driver, if the runtime has its own one. It visits the driver without work ([`super::idle`]), or
//! before a poll, if it is busy and no other thread drives ([`crate::protocol::wheel`]). In the driver it may lose its
//! slot, since the driver calls foreign code.

use super::{POLL_GRACE, Worker, later};
use crate::driver::{Own, Until};
use crate::os::sync::Ordering;
use runyard_engine::time::{Nanos, Time};

/// The interval at which busy workers visit the driver: a visit takes a microsecond or two. It is shorter than the time
/// after which a long poll calls the driver's thread ([`POLL_GRACE`]).
const VISITS_EVERY: Nanos = Nanos::from_micros(100);

impl Worker {
    /// Visits the driver, as [`Own::visit`] does. The foreign code in it is not the runtime's own.
    pub(super) fn visit(&self, driver: &Own, until: Until) -> bool {
        self.drives.store(true, Ordering::Relaxed);
        let goes_on = driver.visit(until);
        self.drives.store(false, Ordering::Relaxed);
        goes_on
    }

    /// Visits the driver before a poll that begins `now`, if no thread has driven for long. So sockets and timers need
    /// no idle worker while polls are short. Returns `false` if a decision is needed before the poll.
    ///
    /// The visit is part of the task's turn, as an interrupt is in the kernel. It is not stopped, so that no task keeps
    /// the driver while it waits for a CPU. Like any poll it may lose the slot.
    pub(super) fn visit_in_passing(&self, now: Time) -> bool {
        if now < Time(self.visits_at.load(Ordering::Relaxed)) {
            return true;
        }
        let Some(driver) = self.shared.driver.for_workers() else {
            self.visits_at.store(u64::MAX, Ordering::Relaxed);
            return true;
        };
        let due = driver.free_since().map_or(now, |since| since + VISITS_EVERY);
        self.visits_at.store(due.max(now + VISITS_EVERY).0, Ordering::Relaxed);
        if due > now || !driver.take_wheel_in_passing(self.tid()) {
            return true;
        }
        self.in_poll.store(true, Ordering::Relaxed);
        self.visit(driver, Until::Now);
        self.in_poll.store(false, Ordering::Relaxed);
        driver.leave_wheel();
        if !self.owns() {
            // The new owner of the slot may sleep by now, as this worker drove.
            self.shared.see_to_driver();
        }
        self.later.load(Ordering::Relaxed) != later::KICK
    }

    /// Returns whether it is in the driver.
    pub(crate) fn drives(&self) -> bool {
        self.drives.load(Ordering::Relaxed)
    }

    /// Checks, as a running worker, whether no thread has driven for long. Other busy workers do not detect it. Called
    /// in the signal handler.
    pub(super) fn look_at_driver(&self, now: Time) {
        let driver = self.shared.driver.for_workers();
        let Some(since) = driver.and_then(Own::free_since) else { return };
        let in_poll = || self.cpu_of_poll().is_some() && !self.is_in_own_code();
        if now >= since + POLL_GRACE {
            self.shared.see_to_driver();
        } else if !self.is_young(now) && in_poll() && !self.is_in_section() {
            self.set_timer(self.in_time(since + POLL_GRACE));
        }
    }
}
