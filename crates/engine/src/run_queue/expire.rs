//! The events of a CPU that are due at a time: the tick, the end of a period or of a grant, the
//! turn of fair tasks, a timer.

use crate::features::Feature;
use crate::limits::Pools;
use crate::run_queue::RunQueue;
use crate::time::{Nanos, Time};
use crate::timer::{Expiry, Walk};

/// The interval between two ticks of a task that is alone on a CPU of a tickless machine. The CPU
/// balances at these ticks; this is the shortest interval at which a busy CPU does.
const SOLO_BALANCE_INTERVAL: Nanos = Nanos::from_millis(64);

/// The times of the next timer interrupts of a CPU; [`Time::MAX`] stands for never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextExpiries {
    /// The first of all.
    pub any: Time,
    /// The first that is not a tick: a timer, a period or a limit.
    pub timer: Time,
}

impl NextExpiries {
    /// The value if no interrupt is due at any time.
    pub const NEVER: NextExpiries = NextExpiries { any: Time::MAX, timer: Time::MAX };
}

/// An event that is due on this CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expired {
    /// The tick of the scheduler.
    Tick,
    /// The end of a period of the real-time budget.
    RtPeriod,
    /// Fair tasks precede real-time tasks from now on.
    FairServer,
    /// The running task has used the budget that its groups drew.
    Grant,
    /// A throttled group may have budget again.
    Refill,
    /// A timer of the host.
    Timer(Expiry),
}

impl<P, G: Pools> RunQueue<P, G> {
    /// Takes the next due event, in the order of a walk of
    /// [`TimerQueue`](crate::timer::TimerQueue), and does the scheduler's part of it. Call
    /// [`RunQueue::resched`] after the last. Without [`Feature::GreedyTimers`] there is only the
    /// regular walk.
    #[inline]
    pub fn expire(&mut self, now: Time, walk: Walk) -> Option<Expired> {
        let first = if walk == Walk::BeforeIdle { None } else { self.expire_first(now) };
        if first.is_some() {
            return first;
        }
        if walk != Walk::Busy
            && self.site().has(Feature::GreedyTimers)
            && let Some(open) = self.timers.take_open(now)
        {
            return Some(Expired::Timer(open));
        }
        if walk != Walk::BeforeIdle {
            self.classes.queues_mut().note_rt_throttling();
        }
        None
    }

    /// Takes the next event of the regular walk. That walk includes the CPU's own events, which
    /// have no slack.
    #[inline(always)]
    fn expire_first(&mut self, now: Time) -> Option<Expired> {
        let or_never = |at: Option<Time>| at.unwrap_or(Time::MAX);
        let (tick, period) = (or_never(self.next_tick()), or_never(self.queues().rt_period_end()));
        let (limits, timer) = (self.queues().next_of_limits(), self.timers.first());
        let first = tick.min(period);
        if limits <= now && limits <= first && limits <= timer {
            let is_grant = self.at(now).end_grant_or_wait(now);
            return Some(if is_grant { Expired::Grant } else { Expired::Refill });
        }
        let server = or_never(self.classes.server_due());
        if server <= now && server <= first && server <= timer {
            self.at(now).expire_server();
            return Some(Expired::FairServer);
        }
        if timer < first {
            return self.timers.take_expired(now).map(Expired::Timer);
        }
        if first > now {
            return None;
        }
        let _ = self.at(now);
        if tick <= period {
            self.tick();
            return Some(Expired::Tick);
        }
        self.classes.end_rt_period(now);
        Some(Expired::RtPeriod)
    }

    /// Returns the next tick. On a tickless machine a task that runs alone has a tick only every
    /// [`SOLO_BALANCE_INTERVAL`], or never if there is no other CPU. It has all its ticks while a
    /// thread of its core is forced idle.
    #[inline]
    fn next_tick(&self) -> Option<Time> {
        let at = self.tick_at?;
        let alone = self.site().config().tickless
            && self.queues().nr_running() <= 1
            && !self.classes.ticks_for_core();
        match self.site().config().topology.cpus() {
            _ if !alone => Some(at),
            1 => None,
            _ => Some(Time(at.0.next_multiple_of(SOLO_BALANCE_INTERVAL.0))),
        }
    }

    /// Returns when the next timer interrupt of this CPU must come: the first hard expiry.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Time> {
        let next = self.next_expiries();
        (next.any < Time::MAX).then_some(next.any)
    }

    /// Returns when the next timer interrupts of this CPU must come.
    #[must_use]
    pub fn next_expiries(&self) -> NextExpiries {
        let at = |at: Option<Time>| at.unwrap_or(Time::MAX);
        let classes = at(self.queues().rt_period_end()).min(at(self.classes.server_due()));
        let own = classes.min(self.queues().next_of_limits());
        let timer = own.min(self.timers.first());
        NextExpiries { any: timer.min(at(self.next_tick())), timer }
    }

    fn tick(&mut self) {
        let curr = self.tasks().running().expect("an idle CPU has no tick");
        self.tick_at = Some(self.site().next_tick());
        self.classes.tick(curr);
    }
}
