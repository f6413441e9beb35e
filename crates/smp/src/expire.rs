//! The timers of a CPU that have expired: its tick, its part of limits, and the timers of hosts.

use crate::host::{Controlled, Effects, kick_if};
use crate::machine::{Machine, Queue, tell_throttlings};
use crate::sync::lock;
use runyard_engine::cpu::CpuId;
use runyard_engine::run_queue::Expired;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::{Lack, TimerId, TimerRoom, Token, Walk, Window};

impl<W: Controlled> Machine<W> {
    /// Takes the next expired timer of `cpu` and does the scheduler's part of it. The host calls it until it returns
    /// `None`. A due reschedule appears as a kick.
    pub fn expire(
        &self,
        now: Time,
        cpu: CpuId,
        walk: Walk,
        fx: &mut impl Effects<W>,
    ) -> Option<Expired> {
        let mut locked = lock(&self.cpus[cpu.index()].queue);
        locked.rq.set_outside(fx.first_outside(cpu));
        let Some(expired) = locked.rq.expire(now, walk) else {
            tell_throttlings(cpu, &mut locked.rq, fx);
            return None;
        };
        if let Expired::Timer(_) = expired {
            // Only the expiry of the host's timer has changed.
            self.publish_expiry(cpu, &mut locked);
            let resched = locked.rq.resched();
            drop(locked);
            kick_if(resched, cpu, fx);
            return Some(expired);
        }
        let mut balances = false;
        if expired == Expired::Tick {
            self.sight.hints.publish_times(cpu, &locked.rq);
            balances = locked.balance.is_due(now);
            if self.sight.cores.as_ref().is_some_and(|cores| cores.is_in_episode(cpu)) {
                locked.rq.tick_beside();
            }
        }
        let delta = self.publish_after(cpu, &mut locked, fx);
        drop(locked);
        if expired == Expired::Tick {
            self.balance_tick(now, cpu, balances, fx);
        } else {
            self.react(now, cpu, delta, fx);
        }
        kick_if(delta.resched, cpu, fx);
        Some(expired)
    }

    /// Arms a timer on `cpu`.
    pub fn arm(&self, cpu: CpuId, window: Window, token: Token) -> TimerId {
        self.with_timers(cpu, |rq| rq.timers().arm(window, token))
    }

    /// Arms a timer on `cpu` that expires in each `period` until it is cancelled.
    pub fn arm_periodic(&self, cpu: CpuId, window: Window, period: Nanos, token: Token) -> TimerId {
        self.with_timers(cpu, |rq| rq.timers().arm_periodic(window, period, token))
    }

    /// Arms a one-shot or periodic timer on `cpu`, if there is room for it. The call never allocates.
    ///
    /// # Errors
    /// If there is no room.
    pub fn arm_in_room(
        &self,
        cpu: CpuId,
        window: Window,
        period: Option<Nanos>,
        token: Token,
    ) -> Result<TimerId, Lack> {
        self.with_timers(cpu, |rq| match (rq.timers().lacks(window), period) {
            (Some(lack), _) => Err(lack),
            (None, None) => Ok(rq.timers().arm(window, token)),
            (None, Some(period)) => Ok(rq.timers().arm_periodic(window, period, token)),
        })
    }

    /// Makes room on `cpu` for timers with such a window, with memory that the caller allocated before. The old memory
    /// is left in `room`.
    pub fn reserve_timers_in(&self, cpu: CpuId, window: Window, room: &mut TimerRoom) {
        self.with_timers(cpu, |rq| rq.timers().reserve_in(window, room));
    }

    /// Cancels a timer of `cpu`; the caller may run on any CPU. Returns `false` if the timer has already expired or was
    /// cancelled.
    pub fn cancel(&self, cpu: CpuId, timer: TimerId) -> bool {
        self.with_timers(cpu, |rq| rq.timers().cancel(timer))
    }

    fn with_timers<R>(&self, cpu: CpuId, f: impl FnOnce(&mut Queue<W>) -> R) -> R {
        let mut locked = lock(&self.cpus[cpu.index()].queue);
        let result = f(&mut locked.rq);
        self.publish_expiry(cpu, &mut locked);
        result
    }
}
