//! A worker in tokio's driver, if the runtime has its own one. It visits the driver without work ([`super::idle`]), or
//! before a poll, if it is busy and no other thread drives ([`crate::protocol::wheel`]). In the driver it may lose its
//! slot, since the driver calls foreign code.

use super::own::Own;
use super::poll::{Later, Poll};
use super::thread::Thread;
use crate::driver::Until;
use crate::os::sync::{AtomicU32, AtomicU64, Ordering};
use crate::shared::Scheduler;
use runyard_engine::time::{Nanos, Time};

/// The shortest and the longest interval at which busy workers visit the driver. A visit takes half a microsecond if no
/// socket is ready, and a microsecond or two otherwise. So the interval is short while visits wake tasks. After
/// [`PATIENCE`] visits in a row that wake none, each further one doubles it. The longest interval is shorter than the time
/// after which a long poll calls the driver's thread ([`super::POLL_GRACE`]).
const SHORTEST: Nanos = Nanos::from_micros(5);
const LONGEST: Nanos = Nanos::from_micros(100);

/// An answer from another process, or from another task of this one, takes some 10 to 50 us.
const PATIENCE: u32 = 16;

/// The times of a thread's visits to the driver, and of its waits for work; of this thread only.
#[derive(Debug)]
pub(crate) struct Visits {
    /// The time of its next check whether any thread drives.
    next: AtomicU64,
    /// The number of its last visits in a row that woke no task.
    in_vain: AtomicU32,
    /// The time until which it polls for work without yielding its CPU.
    pub(super) keeps_cpu_until: AtomicU64,
}

impl Visits {
    pub(super) fn new() -> Visits {
        Visits {
            next: AtomicU64::new(0),
            in_vain: AtomicU32::new(u32::MAX),
            keeps_cpu_until: AtomicU64::new(0),
        }
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
        let in_vain = self.in_vain.load(Ordering::Relaxed);
        let every = interval(in_vain);
        let due = driver.free_since().map_or(now, |since| since + every);
        self.next.store(due.max(now + every).0, Ordering::Relaxed);
        if due > now || !driver.take_wheel_in_passing(thread.tid()) {
            return true;
        }
        let woke = poll.wakes_in(|| poll.foreign(|| _ = own.drive(|| driver.visit(Until::Now))));
        driver.leave_wheel();
        self.in_vain.store(if woke { 0 } else { in_vain.saturating_add(1) }, Ordering::Relaxed);
        if !thread.owns() {
            // The new owner of the slot may sleep by now, as this worker drove.
            scheduler.see_to_driver();
        }
        poll.later() != Later::Kick
    }
}

/// Returns the interval between visits after so many in a row that woke no task.
fn interval(in_vain: u32) -> Nanos {
    let doublings = in_vain.saturating_sub(PATIENCE).min(LONGEST.0.ilog2());
    LONGEST.min(Nanos(SHORTEST.0 << doublings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visits_are_frequent_while_they_wake_tasks() {
        let us = |in_vain| interval(in_vain).0 / 1_000;
        assert_eq!([0, 16, 17, 18, 20, 21, u32::MAX].map(us), [5, 5, 10, 20, 80, 100, 100]);
    }
}
