//! The timers of a CPU that has no worker: in virtual time, or on the thread of `block_on`.

use super::Shared;
use crate::crew::kick::KickNow;
use runyard_engine::cpu::CpuId;
use runyard_engine::event::What;
use runyard_engine::run_queue::Expired;
use runyard_engine::time::Time;
use runyard_engine::timer::Walk;

impl Shared {
    /// Serves the timers of `cpu` that are due, as [`crate::worker::Worker`] does; of a CPU that is `idle` also those whose
    /// windows are open. Returns whether there were any.
    pub(crate) fn expire(&self, now: Time, cpu: CpuId, idle: bool) -> bool {
        let Shared { scheduler, timers, .. } = self;
        let Some(next) = scheduler.machine().sight().next_expiry(cpu) else { return false };
        let walk = match (idle, next <= now) {
            (false, false) => return false,
            (false, true) => Walk::Busy,
            (true, false) => Walk::BeforeIdle,
            (true, true) => Walk::Idle,
        };
        if next <= now {
            scheduler.tell(cpu, || What::TimerInterrupt);
        }
        let (mut any, fx) = (false, &mut KickNow(scheduler));
        while let Some(expired) = scheduler.machine().expire(now, cpu, walk, fx) {
            any = true;
            if let Expired::Timer(expiry) = expired {
                timers.fire(scheduler, now, cpu, expiry);
            }
        }
        any
    }
}
