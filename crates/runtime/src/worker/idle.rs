//! How a worker waits for work: it polls for a while, and then sleeps.
//!
//! If the runtime has its own driver of tokio, a worker that waits drives it, unless another thread does
//! ([`crate::protocol::wheel`]). While it polls for work it visits the driver without a wait; then it sleeps in the
//! driver. So it runs the tasks that a socket or a timer of tokio wakes itself. In the driver it may lose its slot,
//! since the driver calls foreign code.
//!
//! While it polls it yields its CPU to other threads, which may be about to give it work. If a thread of another
//! process is there, that takes a slice of the kernel, some milliseconds, and the worker reacts to no request
//! meanwhile. So a worker that was away for long keeps its CPU while it polls, for some time. A worker that sleeps has
//! no such delay: the kernel wakes it at once, or on another CPU.

use super::own::Own;
use super::thread::Thread;
use super::visits::Visits;
use crate::driver::{self, Until};
use crate::os;
use crate::os::sync::Ordering;
use crate::shared::Scheduler;
use runyard_engine::cpu::CpuId;
use runyard_engine::time::{Nanos, Time};

/// The time for which an idle worker polls for work before it sleeps. An idle virtual CPU takes 17-30 us to wake, a
/// polling one next to nothing. This time equals the cost of a wake-up, so polling costs at most twice the best
/// possible choice.
const SPIN: Nanos = Nanos::from_micros(20);

/// The number of polls between two reads of the clock: some 0.3 us.
const SPINS_PER_READ: u32 = 16;

/// The number of times that a worker polls for so long while owners of other slots are called and do not come. One
/// round does not show that an owner does not come: to wake takes as long. With more rounds it would poll for ever where
/// other workers sleep and wake up all the time.
const ROUNDS: u32 = 2;

/// The shortest time away after a yield that means that another process uses this CPU: threads of this process that are
/// about to give the worker work do so at once.
const LONG_AWAY: Nanos = Nanos::from_micros(100);

/// The time for which it keeps its CPU then. So absences of some milliseconds take less than a hundredth of the time.
const KEEPS_CPU: Nanos = Nanos::from_millis(1_000);

/// The reason why a worker waits no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Another thread asked for the worker.
    Asked,
    /// A timer is due, or another check is needed. The worker is still idle.
    Due,
    /// Its slot was taken from it.
    NoSlot,
}

/// A wait for work on a CPU.
struct Wait<'a> {
    cpu: CpuId,
    thread: &'a Thread,
    own: &'a Own,
    visits: &'a Visits,
    scheduler: &'a Scheduler,
    /// The driver, if this thread drives.
    driver: Option<&'a driver::Own>,
}

impl Visits {
    /// Waits until another thread asks for this worker, or a timer is due.
    pub(super) fn wait(&self, thread: &Thread, own: &Own, scheduler: &Scheduler) -> Found {
        let driver = scheduler.driver().for_workers();
        let driver = driver.filter(|driver| driver.take_wheel(thread.tid()));
        let wait = Wait { cpu: thread.cpu(), thread, own, visits: self, scheduler, driver };
        let found = wait.look_and_sleep();
        if let Some(driver) = driver {
            driver.leave_wheel();
            if found == Found::NoSlot {
                // The new owner of the slot may sleep by now, as this worker drove.
                scheduler.see_to_driver();
            }
        }
        found
    }
}

impl Wait<'_> {
    fn look_and_sleep(&self) -> Found {
        let (cpu, scheduler) = (self.cpu, self.scheduler);
        let mut before = scheduler.crew().called_beside(cpu);
        for _ in 0..ROUNDS {
            if let Some(found) = self.look_for_work() {
                return found;
            }
            let called = scheduler.crew().called_beside(cpu);
            if scheduler.take_from(called.since(before), cpu) {
                scheduler.crew().slot(cpu).take_pending();
                return Found::Asked;
            }
            if called.is_empty() {
                break;
            }
            before = called;
        }
        self.sleep()
    }

    /// Polls for work for a while.
    fn look_for_work(&self) -> Option<Found> {
        let slot = self.scheduler.crew().slot(self.cpu);
        let Some(driver) = self.driver else {
            let found = self.look(|| true);
            if found == Some(Found::Asked) {
                slot.take_pending();
            }
            return found;
        };
        if !slot.drive() {
            slot.take_pending();
            return Some(Found::Asked);
        }
        // A newcomer that arrives after this check calls the owner.
        if self.scheduler.dispatch().has_newcomers(self.cpu) {
            return self.wakes().or(Some(Found::Asked));
        }
        let found = self.look(|| self.visit(driver, Until::Now));
        self.wakes().or(found)
    }

    fn look(&self, drives: impl Fn() -> bool) -> Option<Found> {
        let slot = self.scheduler.crew().slot(self.cpu);
        let started = os::thread::now();
        let mut now = started;
        while now.since(started) <= SPIN {
            if !drives() {
                return Some(Found::Due);
            }
            for _ in 0..SPINS_PER_READ {
                if slot.is_pending()
                    || self.scheduler.crew().is_over()
                    || self.scheduler.dispatch().first_newcomer(self.cpu).is_some()
                {
                    return Some(Found::Asked);
                }
                std::hint::spin_loop();
            }
            now = self.let_others_run(now);
            if self.scheduler.machine().sight().next_expiry(self.cpu).is_some_and(|at| at <= now) {
                return Some(Found::Due);
            }
        }
        None
    }

    /// Yields to other threads on this CPU, which may be about to give the worker work. Returns the time after that.
    fn let_others_run(&self, before: Time) -> Time {
        if before < Time(self.visits.keeps_cpu_until.load(Ordering::Relaxed)) {
            return os::thread::now();
        }
        std::thread::yield_now();
        let now = os::thread::now();
        if now.since(before) > LONG_AWAY {
            self.visits.keeps_cpu_until.store((now + KEEPS_CPU).0, Ordering::Relaxed);
        }
        now
    }

    /// Sleeps until another thread asks for this worker, or a timer is due.
    fn sleep(&self) -> Found {
        let slot = self.scheduler.crew().slot(self.cpu);
        if let Some(bed) = slot.fall_asleep(self.driver.is_some()) {
            // A newcomer that arrives after this check wakes the owner. So does a thread that leaves the driver after
            // it.
            if self.scheduler.dispatch().has_newcomers(self.cpu) {
                return self.wakes().unwrap_or(Found::Asked);
            }
            let could_drive =
                || self.scheduler.driver().for_workers().is_some_and(driver::Own::is_free);
            if self.driver.is_none() && could_drive() {
                return self.wakes().unwrap_or(Found::Due);
            }
            let until = self.scheduler.machine().sight().next_expiry(self.cpu);
            self.thread.arm_for_sleep(self.scheduler.machine(), until);
            match (self.driver, until) {
                (Some(driver), until) => _ = self.visit(driver, Until::Woken(until)),
                (None, Some(_)) => self.thread.asleep_at_home(|| {
                    os::thread::exactly(|| os::futex::wait(&slot.bed, bed, until));
                }),
                (None, None) => {
                    self.thread.asleep_at_home(|| os::futex::wait(&slot.bed, bed, None))
                }
            }
        }
        self.wakes().unwrap_or(Found::Due)
    }

    /// Visits the driver. The foreign code in it is not the runtime's own.
    fn visit(&self, driver: &driver::Own, until: Until) -> bool {
        self.own.drive(|| driver.visit(until))
    }

    /// Returns to the runtime's own code. Returns whether the slot was taken, or another thread asked for the worker.
    fn wakes(&self) -> Option<Found> {
        match self.scheduler.crew().slot(self.cpu).leave(self.thread.id()) {
            None => Some(Found::NoSlot),
            Some(true) => Some(Found::Asked),
            Some(false) => None,
        }
    }
}
