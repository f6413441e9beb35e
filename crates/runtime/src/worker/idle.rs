//! How a worker waits for work: it looks for a while, and sleeps then.
//!
//! While it looks it lets others run that are on its CPU, as they may be about to give it work. If another process is
//! there, that takes a slice of the kernel, some milliseconds, and who is asked for meanwhile hears nothing. So a worker
//! that was away for long keeps its CPU while it looks, for some time. One that sleeps is better off: the kernel
//! wakes it at once, or on another CPU.

use super::Worker;
use crate::os;
use crate::primitives::Ordering;
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
enum Found {
    /// Somebody asked for it.
    Asked,
    /// A timer is due.
    Due,
}

impl Worker {
    /// Waits until somebody asks for this worker, or a timer is due. Whether somebody did.
    pub(super) fn wait(&self, cpu: CpuId) -> bool {
        let shared = &self.shared;
        let mut before = shared.called_beside(cpu);
        for _ in 0..ROUNDS {
            if let Some(found) = self.look_for_work(cpu) {
                return found == Found::Asked;
            }
            let called = shared.called_beside(cpu);
            if shared.take_from(called.since(before), cpu) {
                shared.slot(cpu).take_pending();
                return true;
            }
            if called.is_empty() {
                break;
            }
            before = called;
        }
        self.sleep(cpu)
    }

    /// Looks for a while whether there is something to do.
    fn look_for_work(&self, cpu: CpuId) -> Option<Found> {
        let slot = self.shared.slot(cpu);
        let started = os::thread::now();
        let mut now = started;
        while now.since(started) <= SPIN {
            for _ in 0..SPINS_PER_READ {
                if slot.is_pending() || self.shared.is_over() || self.shared.sees_newcomers(cpu) {
                    slot.take_pending();
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

    /// Sleeps until somebody asks for this worker, or a timer is due. Whether somebody did.
    fn sleep(&self, cpu: CpuId) -> bool {
        let slot = self.shared.slot(cpu);
        if let Some(bed) = slot.fall_asleep() {
            // One that comes after this look wakes the owner.
            if self.shared.has_newcomers(cpu) {
                slot.leave(self.id);
                return true;
            }
            let until = self.shared.machine.next_expiry(cpu);
            self.arm_for_sleep(until);
            match until {
                Some(_) => os::thread::exactly(|| os::futex::wait(&slot.bed, bed, until)),
                None => os::futex::wait(&slot.bed, bed, None),
            }
        }
        slot.leave(self.id).is_some_and(|asked| asked)
    }
}
