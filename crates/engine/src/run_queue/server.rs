//! The fair server: the part of a CPU that fair tasks get even if real-time tasks could use all of
//! it.
//!
//! Fair tasks have a budget in each period. The time that they get anyway uses the budget, and so
//! does idle time. If real-time tasks keep fair tasks off the CPU, the server is *deferred* until
//! the rest of the budget is as long as the rest of the period. Then fair tasks go first. This is
//! the fair server of Linux since 6.12 (`fair_server`; the functions are those of
//! `kernel/sched/deadline.c` of 6.18.35). There it is an entity of the deadline class and has its
//! own timer.
//!
//! ```text
//!  from      to        when
//!  Off       Deferred  a fair task comes: in a new period, unless the last one still lasts
//!  Off       Running   the same, in a period in which fair tasks already went first
//!                      (update_dl_entity)
//!  Deferred  Deferred  fair time uses up the budget: a new period (update_curr_dl_se)
//!  Deferred  Running   the rest of the budget is due, and a fair task waits: a new period begins
//!                      with all of the budget (dl_server_timer, replenish_dl_entity)
//!  Deferred  Off       the same, and there is no fair task
//!  Running   Spent     fair time uses up the budget
//!  Running   Off       a pick finds no fair task (__pick_task_dl)
//!  Spent     Running   the period ends, and a fair task waits: it is not deferred again
//!  Spent     Off       the same, and there is no fair task
//!  Spent     Deferred  a fair task runs nevertheless: a new period
//!  any       Off       the CPU goes offline
//! ```
//!
//! The kernel's timer runs as long as the server is deferred or spent. Here there is an interrupt
//! only while fair tasks wait behind a real-time task. Otherwise no fair task is kept off, and the
//! work of the timer is done at the next event. While fair tasks run, the due time moves on as fast
//! as time does. While there is no fair task, the only possible next state is `Off`.
//!
//! Use beyond the budget, up to a tick, is owed to the next period, as in the kernel. Unlike there,
//! a deferred server begins exactly when the rest is due, not up to 1 ms before.
//!
//! Rejected: closing the CPU for real-time tasks while it serves fair ones, as for a CPU whose
//! real-time budget is used up. The kernel places real-time tasks on such a CPU, and neither pushes
//! nor pulls them: a task that would go first here does not wait for another CPU.
//!
//! A CPU may have none: `serve.rs`.

use crate::config::Config;
use crate::time::{Nanos, Time};

/// The fair server of a CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Server {
    state: State,
    /// The end of the current period, or of the last one.
    deadline: Time,
    /// The part of the budget that fair tasks have not used, in nanoseconds; negative if they used
    /// more.
    left: i64,
    /// Whether fair tasks have gone first and no budget has been used up otherwise since then, by
    /// fair time or idle time (`dl_defer_running`).
    has_served: bool,
    /// The time up to which idle time was charged.
    idled_until: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There was no fair task at the last test.
    Off,
    /// Real-time tasks go first until the rest of the budget is due.
    Deferred,
    /// Fair tasks go first.
    Running,
    /// Fair tasks went first until their budget was used up.
    Spent,
}

impl Server {
    pub(super) fn new() -> Server {
        let (deadline, idled_until) = (Time::ZERO, Time::ZERO);
        Server { state: State::Off, deadline, left: 0, has_served: false, idled_until }
    }

    pub(super) fn is_off(&self) -> bool {
        self.state == State::Off
    }

    /// Returns whether fair tasks go first.
    #[inline]
    pub(super) fn runs(&self) -> bool {
        self.state == State::Running
    }

    /// Turns the server off, because no fair task needs it or the CPU is offline.
    pub(super) fn stop(&mut self) {
        (self.state, self.left) = (State::Off, self.left.max(0));
    }

    fn begin_period(&mut self, now: Time, config: &Config) {
        self.state = State::Deferred;
        self.deadline = now + config.server_period;
        self.left = budget(config);
        self.has_served = false;
    }

    /// Starts the server, which is off, when a fair task is there.
    pub(super) fn start(&mut self, now: Time, config: &Config) {
        debug_assert_eq!(self.state, State::Off);
        if self.deadline <= now {
            self.begin_period(now, config);
        } else if self.has_served {
            // The budget is at most its share of the rest of the period (update_dl_revised_wakeup).
            let rest = u128::from(self.deadline.since(now).0);
            let part =
                rest * u128::from(config.server_runtime.0) / u128::from(config.server_period.0);
            self.left = self.left.min(i64::try_from(part).unwrap_or(i64::MAX));
            self.state = State::Running;
        } else {
            self.state = State::Deferred;
        }
    }

    /// Charges fair time of `span`. Returns whether fair tasks no longer go first.
    pub(super) fn charge(&mut self, now: Time, span: Nanos, config: &Config) -> bool {
        if self.state == State::Off {
            return false;
        }
        self.left -= span.0.cast_signed();
        if self.left > 0 {
            return false;
        }
        if self.state == State::Running {
            self.state = State::Spent;
            return true;
        }
        self.begin_period(now, config);
        false
    }

    /// Charges idle time until `now`, at most since `since` (`dl_server_update_idle_time`). A fair
    /// task may have come by now.
    pub(super) fn idle(&mut self, now: Time, since: Time, waits: bool, config: &Config) {
        let span = now.since(since.max(self.idled_until));
        self.idled_until = now;
        let _ = self.expire(now, waits, config);
        if self.state == State::Spent {
            return;
        }
        self.left -= span.0.cast_signed();
        if self.left < 0 {
            (self.left, self.has_served) = (0, false);
        }
    }

    /// Returns when the state changes by the passing of time alone.
    pub(super) fn due(&self) -> Option<Time> {
        match self.state {
            State::Deferred => {
                Some(Time(self.deadline.0.saturating_sub(self.left.cast_unsigned())))
            }
            State::Spent => Some(self.deadline),
            State::Off | State::Running => None,
        }
    }

    /// Makes the state change that is due; `waits` says whether a fair task is there. Returns
    /// whether fair tasks go first from now on.
    pub(super) fn expire(&mut self, now: Time, waits: bool, config: &Config) -> bool {
        let Some(at) = self.due().filter(|&at| at <= now) else { return false };
        let periods = match self.state {
            State::Spent => self.left.unsigned_abs() / config.server_runtime.0 + 1,
            _ => {
                (self.deadline, self.left) = (at, 0);
                1
            }
        };
        self.deadline = Time(self.deadline.0 + periods * config.server_period.0);
        self.left += periods.cast_signed() * budget(config);
        self.state = if waits { State::Running } else { State::Off };
        self.has_served = true;
        waits
    }

    /// Returns whether at most one budget is left, and less than none only if the budget is spent.
    pub(super) fn is_within_budget(&self, config: &Config) -> bool {
        match self.state {
            State::Spent => self.left <= 0,
            State::Off | State::Deferred | State::Running => {
                (0..=budget(config)).contains(&self.left)
            }
        }
    }
}

fn budget(config: &Config) -> i64 {
    config.server_runtime.0.cast_signed()
}
