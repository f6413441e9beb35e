//! The fair server: the part of a CPU that real-time tasks leave to fair ones, whether they want to or not.
//!
//! Fair tasks have a budget in each period. What they get anyway pays it, and so does idle time. Where real-time tasks
//! keep them off, they go first as soon as what is left of the budget is all that is left of the period: the server is
//! *deferred* until then. It is the one of Linux since 6.12 (`fair_server`; the functions are those of
//! `kernel/sched/deadline.c` of 6.18.35), where it is an entity of the deadline class and has a timer of its own.
//!
//! ```text
//!  from      to        when
//!  Off       Deferred  a fair task comes: in a new period, unless the last one goes on
//!  Off       Running   the same, in a period in which fair tasks have gone first already (update_dl_entity)
//!  Deferred  Deferred  fair time uses up the budget: a new period (update_curr_dl_se)
//!  Deferred  Running   the rest of the budget is due, and a fair task waits: a new period begins with all of the budget
//!                      (dl_server_timer, replenish_dl_entity)
//!  Deferred  Off       the same, and none is there
//!  Running   Spent     fair time uses up the budget
//!  Running   Off       a pick finds no fair task (__pick_task_dl)
//!  Spent     Running   the period ends, and a fair task waits: it is not deferred again
//!  Spent     Off       the same, and none is there
//!  Spent     Deferred  a fair task runs all the same: a new period
//!  any       Off       the CPU goes offline
//! ```
//!
//! The kernel's timer runs as long as the server is deferred or spent. Here there is an interrupt only while fair tasks
//! wait behind a real-time one. Else nobody is kept off, and what the timer would have done is done at the next look:
//! while fair tasks run, the moment at which the rest is due moves on as fast as time does; while none is there, all that
//! can come of it is `Off`.
//!
//! What is used beyond the budget, up to a tick, is owed to the next period, as in the kernel. Other than there, a
//! deferred server begins at the moment at which the rest is due, not up to 1 ms before.
//!
//! Rejected: to close the CPU for real-time tasks while it serves fair ones, as a CPU is whose real-time budget is used
//! up. The kernel places them there, and neither pushes nor pulls them: what would go first here waits for no other CPU.
//!
//! What the run queue does for it is in `serve.rs`.

use crate::config::Config;
use crate::time::{Nanos, Time};

/// The fair server of a CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Server {
    state: State,
    /// The end of the running period, or of the last.
    deadline: Time,
    /// What fair tasks have not had of their budget, in nanoseconds; less than none if they had more.
    left: i64,
    /// Fair tasks have gone first, and neither they nor idle time has used up a budget otherwise since then
    /// (`dl_defer_running`).
    has_served: bool,
    /// Until when idle time was paid.
    idled_until: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No fair task was there when one was looked for.
    Off,
    /// Fair tasks have their turn after real-time ones, until the rest of the budget is due.
    Deferred,
    /// Fair tasks go first.
    Running,
    /// They went first for as long as the budget allowed.
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

    /// Whether fair tasks go first.
    #[inline]
    pub(super) fn runs(&self) -> bool {
        self.state == State::Running
    }

    /// Nobody needs it, or nobody can.
    pub(super) fn stop(&mut self) {
        (self.state, self.left) = (State::Off, self.left.max(0));
    }

    fn begin_period(&mut self, now: Time, config: &Config) {
        self.state = State::Deferred;
        self.deadline = now + config.server_period;
        self.left = budget(config);
        self.has_served = false;
    }

    /// A fair task is there, and the server is off.
    pub(super) fn start(&mut self, now: Time, config: &Config) {
        debug_assert_eq!(self.state, State::Off);
        if self.deadline <= now {
            self.begin_period(now, config);
        } else if self.has_served {
            // No more than the budget's part of what is left of the period (update_dl_revised_wakeup).
            let rest = u128::from(self.deadline.since(now).0);
            let part =
                rest * u128::from(config.server_runtime.0) / u128::from(config.server_period.0);
            self.left = self.left.min(i64::try_from(part).unwrap_or(i64::MAX));
            self.state = State::Running;
        } else {
            self.state = State::Deferred;
        }
    }

    /// A fair task ran for `span`. Says whether fair tasks do not go first any more.
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

    /// The CPU has been idle until `now`, at the most since `since` (`dl_server_update_idle_time`). A fair task may have
    /// come by now.
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

    /// When something happens without anybody's doing.
    pub(super) fn due(&self) -> Option<Time> {
        match self.state {
            State::Deferred => {
                Some(Time(self.deadline.0.saturating_sub(self.left.cast_unsigned())))
            }
            State::Spent => Some(self.deadline),
            State::Off | State::Running => None,
        }
    }

    /// What was due happens; `waits` says whether a fair task is there. Whether fair tasks go first from now on.
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

    /// Whether no more is left of the budget than that, and less than nothing only if it is spent.
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
