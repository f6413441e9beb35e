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
//! Invariants ([`RunQueue::check`]): while it runs, a fair task does, or a switch is due; it is not off while anything is
//! in the root's queue of an online CPU; of its budget no more is left than that, and less than nothing only if it is
//! spent.

use crate::config::Config;
use crate::ensure::ensure;
use crate::limits::Pools;
use crate::run_queue::RunQueue;
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

    fn begin_period(&mut self, now: Time, config: &Config) {
        self.state = State::Deferred;
        self.deadline = now + config.server_period;
        self.left = budget(config);
        self.has_served = false;
    }

    /// A fair task is there, and the server is off.
    fn start(&mut self, now: Time, config: &Config) {
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
    fn charge(&mut self, now: Time, span: Nanos, config: &Config) -> bool {
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
    fn idle(&mut self, now: Time, since: Time, waits: bool, config: &Config) {
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
    fn due(&self) -> Option<Time> {
        match self.state {
            State::Deferred => {
                Some(Time(self.deadline.0.saturating_sub(self.left.cast_unsigned())))
            }
            State::Spent => Some(self.deadline),
            State::Off | State::Running => None,
        }
    }

    /// What was due happens; `waits` says whether a fair task is there. Whether fair tasks go first from now on.
    fn expire(&mut self, now: Time, waits: bool, config: &Config) -> bool {
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
}

fn budget(config: &Config) -> i64 {
    config.server_runtime.0.cast_signed()
}

impl<P, G: Pools> RunQueue<P, G> {
    /// Whether fair tasks go before real-time ones here.
    #[inline]
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.server.as_ref().is_some_and(|server| server.state == State::Running)
    }

    /// When the server begins to run, if fair tasks wait for that.
    pub(super) fn server_due(&self) -> Option<Time> {
        let due = self.server.as_ref()?.due()?;
        let keeps_off = self.curr.is_some_and(|curr| self.task(curr).rt_prio().is_some());
        (keeps_off && self.fair.root().nr > 0).then_some(due)
    }

    /// A fair task may have come where none was.
    pub(super) fn start_server(&mut self) {
        let Some(server) = &mut self.server else { return };
        if self.fair.root().nr == 0 || !self.online {
            return;
        }
        if let Some(since) = self.idle_since {
            server.idle(self.clock, since, false, &self.config);
        }
        if server.state == State::Off {
            server.start(self.clock, &self.config);
            let runs_rt = self.curr.is_some_and(|curr| self.task(curr).rt_prio().is_some());
            self.resched_if(runs_rt && self.is_serving());
        }
    }

    /// Nobody needs it, or nobody can.
    pub(super) fn stop_server(&mut self) {
        if let Some(server) = &mut self.server {
            (server.state, server.left) = (State::Off, server.left.max(0));
        }
    }

    /// A fair task ran.
    #[inline]
    pub(super) fn charge_server(&mut self, span: Nanos) {
        if let Some(server) = &mut self.server {
            let spent = server.charge(self.clock, span, &self.config);
            self.resched_if(spent);
        }
    }

    /// The CPU is not idle any more, if it was and something can be picked. That may be a fair task because of this.
    #[inline]
    pub(super) fn end_idle_of_server(&mut self) {
        let waits = self.fair.root().nr > 0;
        if let Some(since) = self.idle_since.filter(|_| waits || self.rt.nr() > 0)
            && let Some(server) = &mut self.server
        {
            server.idle(self.clock, since, waits, &self.config);
        }
    }

    /// A real-time task ran until now.
    #[inline]
    pub(super) fn expire_server(&mut self) {
        let waits = self.fair.root().nr > 0;
        if let Some(server) = &mut self.server {
            let begins = server.expire(self.clock, waits, &self.config);
            self.resched_if(begins);
        }
    }

    pub(super) fn check_server(&self) {
        let Some(server) = &self.server else { return };
        let fair_runs = self.curr.is_some_and(|curr| self.task(curr).rt_prio().is_none());
        let serves = fair_runs || self.resched || !self.is_serving();
        ensure!(self, serves, "a fair task runs while the server does");
        let watches = server.state != State::Off || self.fair.root().nr == 0 || !self.online;
        ensure!(self, watches, "a server watches over the fair tasks that are here");
        let most = budget(&self.config);
        let within = match server.state {
            State::Spent => server.left <= 0,
            State::Off | State::Deferred | State::Running => (0..=most).contains(&server.left),
        };
        ensure!(self, within, "the server has its budget at the most: {server:?}");
    }
}
