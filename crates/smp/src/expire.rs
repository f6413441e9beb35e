//! The timers of a CPU that have expired: its tick, its part of limits, and the timers of hosts.

use crate::cpu::{OneCpu, Queue};
use crate::host::{Controlled, Effects, kick_if};
use crate::machine::Machine;
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
        let one = self.cpu(cpu);
        let mut locked = one.lock();
        locked.rq.classes_mut().set_outside(fx.first_outside(cpu));
        let Some(expired) = locked.rq.expire(now, walk) else {
            one.tell_throttlings(&mut locked, fx);
            return None;
        };
        if let Expired::Timer(_) = expired {
            // Only the expiry of the host's timer has changed.
            one.publish_expiry(&mut locked);
            let resched = locked.rq.resched();
            drop(locked);
            kick_if(resched, cpu, fx);
            return Some(expired);
        }
        let mut balances = false;
        if expired == Expired::Tick {
            self.sight().hints.publish_times(cpu, &locked.rq);
            balances = locked.balance.is_due(now);
            if self.sight().cores.as_ref().is_some_and(|cores| cores.is_in_episode(cpu)) {
                locked.rq.classes_mut().tick_beside();
            }
        }
        let delta = one.publish_after(&mut locked, fx);
        drop(locked);
        if expired == Expired::Tick {
            self.cpus.balance_tick(now, cpu, balances, fx);
        } else {
            self.cpus.react(now, cpu, delta, fx);
        }
        kick_if(delta.resched, cpu, fx);
        Some(expired)
    }
}

impl<W: Controlled> OneCpu<'_, W> {
    /// Arms a timer.
    pub fn arm(&self, window: Window, token: Token) -> TimerId {
        self.with_timers(|rq| rq.timers().arm(window, token))
    }

    /// Arms a timer that expires in each `period` until it is cancelled.
    pub fn arm_periodic(&self, window: Window, period: Nanos, token: Token) -> TimerId {
        self.with_timers(|rq| rq.timers().arm_periodic(window, period, token))
    }

    /// Arms a one-shot or periodic timer, if there is room for it. The call never allocates.
    ///
    /// # Errors
    /// If there is no room.
    pub fn arm_in_room(
        &self,
        window: Window,
        period: Option<Nanos>,
        token: Token,
    ) -> Result<TimerId, Lack> {
        self.with_timers(|rq| match (rq.timers().lacks(window), period) {
            (Some(lack), _) => Err(lack),
            (None, None) => Ok(rq.timers().arm(window, token)),
            (None, Some(period)) => Ok(rq.timers().arm_periodic(window, period, token)),
        })
    }

    /// Makes room for timers with such a window, with memory that the caller allocated before. The old memory is left
    /// in `room`.
    pub fn reserve_timers_in(&self, window: Window, room: &mut TimerRoom) {
        self.with_timers(|rq| rq.timers().reserve_in(window, room));
    }

    /// Cancels a timer; the caller may run on any CPU. Returns `false` if the timer has already expired or was
    /// cancelled.
    pub fn cancel(&self, timer: TimerId) -> bool {
        self.with_timers(|rq| rq.timers().cancel(timer))
    }

    fn with_timers<R>(&self, f: impl FnOnce(&mut Queue<W>) -> R) -> R {
        let mut locked = self.lock();
        let result = f(&mut locked.rq);
        self.publish_expiry(&mut locked);
        result
    }
}
