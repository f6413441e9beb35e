//! A worker in tokio's driver, if the runtime has its own one. It visits the driver without work ([`super::idle`]), or
//! before a poll, if it is busy and no other thread drives ([`crate::protocol::wheel`]). In the driver it may lose its
//! slot, since the driver calls foreign code.

use super::own::Own;
use super::poll::{Later, Poll};
use super::thread::Thread;
use crate::driver::Until;
use crate::os::sync::{AtomicU64, Ordering};
use crate::shared::Scheduler;
use runyard_engine::time::{Nanos, Time};

/// The interval at which busy workers visit the driver: a visit takes a microsecond or two. It is shorter than the time
/// after which a long poll calls the driver's thread ([`super::POLL_GRACE`]).
const VISITS_EVERY: Nanos = Nanos::from_micros(100);

/// The times of a thread's visits to the driver, and of its waits for work; of this thread only.
#[derive(Debug)]
pub(crate) struct Visits {
    /// The time of its next check whether any thread drives.
    next: AtomicU64,
    /// The time until which it polls for work without yielding its CPU.
    pub(super) keeps_cpu_until: AtomicU64,
}

impl Visits {
    pub(super) fn new() -> Visits {
        Visits { next: AtomicU64::new(0), keeps_cpu_until: AtomicU64::new(0) }
    }

    /// Returns whether it is time to check whether any thread drives.
    #[inline]
    pub(super) fn are_due(&self, now: Time) -> bool {
        now >= Time(self.next.load(Ordering::Relaxed))
    }

    /// Visits the driver before a poll that begins `now`, if no thread has driven for long. So sockets and timers need
    /// no idle worker while polls are short. Returns `false` if a decision is needed before the poll.
    ///
    /// The visit is part of the task's turn, as an interrupt is in the kernel. It is not stopped, so that no task keeps
    /// the driver while it waits for a CPU. Like any poll it may lose the slot.
    pub(super) fn in_passing(
        &self,
        (thread, own, poll): (&Thread, &Own, &Poll),
        scheduler: &Scheduler,
        now: Time,
    ) -> bool {
        let Some(driver) = scheduler.driver().for_workers() else {
            self.next.store(u64::MAX, Ordering::Relaxed);
            return true;
        };
        let due = driver.free_since().map_or(now, |since| since + VISITS_EVERY);
        self.next.store(due.max(now + VISITS_EVERY).0, Ordering::Relaxed);
        if due > now || !driver.take_wheel_in_passing(thread.tid()) {
            return true;
        }
        poll.foreign(|| _ = own.drive(|| driver.visit(Until::Now)));
        driver.leave_wheel();
        if !thread.owns() {
            // The new owner of the slot may sleep by now, as this worker drove.
            scheduler.see_to_driver();
        }
        poll.later() != Later::Kick
    }
}
