//! How a worker waits for work: it looks for a while, and sleeps then.
//!
//! If the runtime has a driver of tokio's, a worker that waits drives that, unless somebody else does
//! ([`crate::protocol::wheel`]). While it looks it visits the driver without waiting there. It sleeps in the driver. So it runs itself
//! what a socket or a timer of tokio's wakes. In the driver it may lose its slot, since that calls foreign code.
//!
//! While it looks it lets others run that are on its CPU, as they may be about to give it work. If another process is
//! there, that takes a slice of the kernel, some milliseconds, and who is asked for meanwhile hears nothing. So a worker
//! that was away for long keeps its CPU while it looks, for some time. One that sleeps is better off: the kernel
//! wakes it at once, or on another CPU.

use super::Worker;
use crate::adapters::driver::{Own, Until};
use crate::os;
use crate::os::sync::Ordering;
use runyard_engine::cpu::CpuId;
use runyard_engine::time::{Nanos, Time};

/// How long an idle worker looks before it sleeps. An idle virtual CPU takes 17-30 us to wake, a
/// looking one next to nothing; this is what a wake-up costs, so looking costs at most twice the
/// best that could have been done.
const SPIN: Nanos = Nanos::from_micros(20);

/// How often it looks between two reads of the clock: some 0.3 us.
const SPINS_PER_READ: u32 = 16;

/// How often it looks for so long while owners of other slots are called, and do not come. Those that were called the
/// first time do not come, as far as it goes: one takes as long to wake. More rounds would have it look for ever where
/// others sleep and wake up all the time.
const ROUNDS: u32 = 2;

/// Who let others run and was away for longer has another process on its CPU: threads of this one that are about to give
/// it work do so at once.
const LONG_AWAY: Nanos = Nanos::from_micros(100);

/// How long it keeps its CPU then: away for some milliseconds so often, it is so for less than a hundredth of the time.
const KEEPS_CPU: Nanos = Nanos::from_millis(1_000);

/// Why a worker waits no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Somebody asked for it.
    Asked,
    /// A timer is due, or there is something else to look at. It is still idle.
    Due,
    /// Its slot was taken from it.
    NoSlot,
}

impl Worker {
    /// Waits until somebody asks for this worker, or a timer is due.
    pub(super) fn wait(&self, cpu: CpuId) -> Found {
        let driver = self.shared.driver.for_workers().filter(|own| own.take_wheel(self.tid()));
        let found = self.look_and_sleep(cpu, driver);
        if let Some(driver) = driver {
            driver.leave_wheel();
            if found == Found::NoSlot {
                // Whoever got the slot may sleep by now, as this worker drove.
                self.shared.see_to_driver();
            }
        }
        found
    }

    fn look_and_sleep(&self, cpu: CpuId, driver: Option<&Own>) -> Found {
        let shared = &self.shared;
        let mut before = shared.called_beside(cpu);
        for _ in 0..ROUNDS {
            if let Some(found) = self.look_for_work(cpu, driver) {
                return found;
            }
            let called = shared.called_beside(cpu);
            if shared.take_from(called.since(before), cpu) {
                shared.slot(cpu).take_pending();
                return Found::Asked;
            }
            if called.is_empty() {
                break;
            }
            before = called;
        }
        self.sleep(cpu, driver)
    }

    /// Looks for a while whether there is something to do.
    fn look_for_work(&self, cpu: CpuId, driver: Option<&Own>) -> Option<Found> {
        let slot = self.shared.slot(cpu);
        let Some(driver) = driver else {
            let found = self.look(cpu, || true);
            if found == Some(Found::Asked) {
                slot.take_pending();
            }
            return found;
        };
        if !slot.drive() {
            slot.take_pending();
            return Some(Found::Asked);
        }
        let found = self.look(cpu, || self.visit(driver, Until::Now));
        self.wakes(cpu).or(found)
    }

    fn look(&self, cpu: CpuId, drives: impl Fn() -> bool) -> Option<Found> {
        let slot = self.shared.slot(cpu);
        let started = os::thread::now();
        let mut now = started;
        while now.since(started) <= SPIN {
            if !drives() {
                return Some(Found::Due);
            }
            for _ in 0..SPINS_PER_READ {
                if slot.is_pending()
                    || self.shared.is_over()
                    || self.shared.first_newcomer(cpu).is_some()
                {
                    return Some(Found::Asked);
                }
                std::hint::spin_loop();
            }
            now = self.let_others_run(now);
            if self.shared.machine.next_expiry(cpu).is_some_and(|at| at <= now) {
                return Some(Found::Due);
            }
        }
        None
    }

    /// Whoever else is on this CPU may be about to give us work. The time then.
    fn let_others_run(&self, before: Time) -> Time {
        if before < Time(self.keeps_cpu_until.load(Ordering::Relaxed)) {
            return os::thread::now();
        }
        std::thread::yield_now();
        let now = os::thread::now();
        if now.since(before) > LONG_AWAY {
            self.keeps_cpu_until.store((now + KEEPS_CPU).0, Ordering::Relaxed);
        }
        now
    }

    /// Sleeps until somebody asks for this worker, or a timer is due.
    fn sleep(&self, cpu: CpuId, driver: Option<&Own>) -> Found {
        let slot = self.shared.slot(cpu);
        if let Some(bed) = slot.fall_asleep(driver.is_some()) {
            // One that comes after this look wakes the owner. So does whoever leaves the driver after it.
            if self.shared.has_newcomers(cpu) {
                return self.wakes(cpu).unwrap_or(Found::Asked);
            }
            let could_drive = || self.shared.driver.for_workers().is_some_and(Own::is_free);
            if driver.is_none() && could_drive() {
                return self.wakes(cpu).unwrap_or(Found::Due);
            }
            let until = self.shared.machine.next_expiry(cpu);
            self.arm_for_sleep(until);
            match (driver, until) {
                (Some(driver), until) => _ = self.visit(driver, Until::Woken(until)),
                (None, Some(_)) => self.asleep_at_home(|| {
                    os::thread::exactly(|| os::futex::wait(&slot.bed, bed, until));
                }),
                (None, None) => self.asleep_at_home(|| os::futex::wait(&slot.bed, bed, None)),
            }
        }
        self.wakes(cpu).unwrap_or(Found::Due)
    }

    /// It runs its own code again: whether its slot was taken, or somebody asked for it.
    fn wakes(&self, cpu: CpuId) -> Option<Found> {
        match self.shared.slot(cpu).leave(self.id) {
            None => Some(Found::NoSlot),
            Some(true) => Some(Found::Asked),
            Some(false) => None,
        }
    }

    /// Its slot was taken in the driver, where it had no task: it is a spare from now on.
    pub(super) fn becomes_spare(&self, cpu: CpuId) {
        self.baton.lay_down();
        self.shared.keep_spare(cpu, self.id);
        self.arm_for_sleep(None);
    }
}
