//! The accounts of one CPU and of one task: the present activity, its beginning, and the time of each kind of activity.
//!
//! A stretch of an account is closed ([`CpuAccount::close_stretch`], [`TaskAccount::close_stretch`]) whenever the
//! activity changes: the span since the last close is added to the old activity. So the parts of an account always sum
//! to the time between its beginning and the end of its last closed stretch.
//!
//! # A task
//!
//! Between its spawn and its exit a task is *asleep*, *queued* or *on a CPU*:
//! * Spawn: asleep.
//! * A wake-up while asleep: queued, and the wake-up's latency begins.
//! * The first instruction on a CPU: on this CPU, and the latency, if one runs, ends. Being chosen is not enough: a
//!   switch costs time, and another task may be chosen before the switch is over.
//! * An interrupt: still on the CPU, but not executing, which counts as waiting.
//! * A switch away: queued without a latency, asleep, or gone.
//!
//! # Wake-ups that race with blocking
//!
//! A wake-up event may come before the event that its task has blocked. Such an *early* wake-up of a task on a CPU is
//! kept. If the task then leaves blocked, it is queued at once, and the latency runs from that wake-up. If it leaves
//! otherwise, it has not slept, and the early wake-up has no latency. A wake-up of a queued task changes nothing: the
//! latency of the first wake-up goes on.
//!
//! A task may even execute elsewhere before the event that it left its former CPU. Then it left at that moment, and the
//! later event is ignored. If a task executes after its exit, the exit counts as a sleep.

use crate::histogram::Histogram;
use runyard_engine::attr::{Cookie, GroupId, Policy};
use runyard_engine::cpu::CpuId;
use runyard_engine::event::Left;
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};

/// The account of one CPU. The five spans sum to the duration of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTotals {
    /// Time without anything to do.
    pub idle: Nanos,
    /// The part of `idle` in which tasks waited here whose cookie is not the core's.
    pub forced: Nanos,
    /// Time in SCHED_FIFO and SCHED_RR tasks.
    pub rt: Nanos,
    /// Time in SCHED_OTHER and SCHED_BATCH tasks.
    pub normal: Nanos,
    /// Time in SCHED_IDLE tasks.
    pub idle_policy: Nanos,
    /// Time of the scheduler's own work: switches, wake-ups, interrupts.
    pub overhead: Nanos,
    /// The number of times that a task got this CPU that did not have it before. Going idle is no switch; a task that
    /// gets an idle CPU is a switch.
    pub switches: u64,
}

/// The account of one task. The three spans sum to its lifetime, from its spawn to its exit or to the end of the run.
#[derive(Clone, Debug, Default)]
pub struct TaskTotals {
    /// Time executing.
    pub runtime: Nanos,
    /// Time runnable and not executing: in a run queue, during a switch to it, or interrupted.
    pub wait: Nanos,
    /// Time blocked.
    pub sleep: Nanos,
    /// The number of wake-ups. The start counts.
    pub wakeups: u64,
    /// The number of times that it was switched in.
    pub switches: u64,
    /// The number of times that it lost its CPU to another task involuntarily.
    pub preemptions: u64,
    /// The number of times that it first executed on another CPU than the last time.
    pub migrations: u64,
    /// The spans from the moment at which its condition came true to its first instruction.
    pub wakeup_latency: Histogram,
    /// The number of these latencies of which at least half was over when the waking timer expired.
    pub slack_wakeups: u64,
}

/// The activity of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    Idle,
    /// Idle although tasks wait: the core runs tasks of this cookie.
    Forced {
        cookie: Option<Cookie>,
    },
    Overhead,
    Exec {
        task: TaskId,
        policy: Policy,
    },
}

/// The account of one CPU. It begins idle.
#[derive(Debug)]
pub(crate) struct CpuAccount {
    doing: Doing,
    since: Time,
    pub(crate) totals: CpuTotals,
}

/// The account of one task.
#[derive(Debug)]
pub(crate) struct TaskAccount {
    state: State,
    since: Time,
    born: Time,
    last_cpu: Option<CpuId>,
    moved: Option<Moved>,
    /// The delay of the timer that woke it last; zero if a task woke it.
    timer_late: Nanos,
    /// The part of its waits in which it had its CPU, since this was taken last.
    interrupted: Nanos,
    /// The number of wake-ups before the counts began whose latency had not ended: 0 or 1.
    carried: u64,
    pub(crate) totals: TaskTotals,
}

/// The state of a task. The transitions are described above.
#[derive(Clone, Copy, Debug)]
enum State {
    Unborn,
    Asleep,
    /// `woken`: the beginning of the wake-up's latency; none after a preemption.
    Queued {
        woken: Option<Time>,
    },
    /// `early`: the beginning of the latency if the task blocks.
    OnCpu {
        cpu: CpuId,
        executing: bool,
        early: Option<Time>,
    },
    Gone,
}

/// The consequences of a task's execution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Executes {
    /// It waited in a run queue.
    pub(crate) was_queued: bool,
    /// The CPU that it left without an event, if it did.
    pub(crate) left: Option<CpuId>,
    /// The instant from which it could have executed, if it was woken, and whether this is its longest wait so far.
    pub(crate) waited: Option<(Time, bool)>,
}

/// The groups of a task that changed its group. Until the first change it was in the group that its host knows.
#[derive(Clone, Copy, Debug)]
struct Moved {
    /// The runtime before the first change.
    first: Nanos,
    /// The group since the last change.
    group: GroupId,
    /// The runtime before the last change.
    before: Nanos,
}

impl CpuTotals {
    /// The time that the CPU was not idle.
    #[must_use]
    pub fn busy(&self) -> Nanos {
        self.executing() + self.overhead
    }

    /// The time that the CPU executed tasks.
    pub(crate) fn executing(&self) -> Nanos {
        self.rt + self.normal + self.idle_policy
    }
}

impl CpuAccount {
    pub(crate) fn new(since: Time) -> CpuAccount {
        CpuAccount { doing: Doing::Idle, since, totals: CpuTotals::default() }
    }

    /// Begins anew at `now`: what was before does not count.
    pub(crate) fn count_from(&mut self, now: Time) {
        (self.since, self.totals) = (now, CpuTotals::default());
    }

    pub(crate) fn doing(&self) -> Doing {
        self.doing
    }

    /// The beginning of the present activity, or of its open stretch.
    pub(crate) fn since(&self) -> Time {
        self.since
    }

    pub(crate) fn executes(&self, it: TaskId) -> bool {
        matches!(self.doing, Doing::Exec { task, .. } if task == it)
    }

    /// Changes the activity of the CPU to `doing`, from `now` on. Returns the old activity.
    #[inline]
    pub(crate) fn turn_to(&mut self, doing: Doing, now: Time) -> Doing {
        self.close_stretch(now);
        std::mem::replace(&mut self.doing, doing)
    }

    #[inline]
    pub(crate) fn close_stretch(&mut self, now: Time) {
        let span = now.since(self.since);
        let part = match self.doing {
            Doing::Idle => &mut self.totals.idle,
            Doing::Forced { .. } => {
                self.totals.forced += span;
                &mut self.totals.idle
            }
            Doing::Overhead => &mut self.totals.overhead,
            Doing::Exec { policy, .. } => match policy {
                Policy::Fifo(_) | Policy::RoundRobin(_) => &mut self.totals.rt,
                Policy::Normal(_) | Policy::Batch(_) => &mut self.totals.normal,
                Policy::Idle => &mut self.totals.idle_policy,
            },
        };
        *part += span;
        self.since = now;
    }

    /// The length of the open stretch, if the CPU executes a task in it.
    pub(crate) fn open_execution(&self, now: Time) -> Nanos {
        match self.doing {
            Doing::Exec { .. } => now.since(self.since),
            Doing::Idle | Doing::Forced { .. } | Doing::Overhead => Nanos::ZERO,
        }
    }

    /// # Panics
    /// If the parts of the account do not sum to its time since `begin`, or if it was forced idle while it was not idle.
    pub(crate) fn check(&self, begin: Time) {
        let parts = self.totals.busy() + self.totals.idle;
        assert_eq!(parts, self.since.since(begin), "a CPU's parts are its time: {self:?}");
        assert!(self.totals.forced <= self.totals.idle, "forced idle is idle: {self:?}");
    }
}

impl TaskAccount {
    pub(crate) fn unborn() -> TaskAccount {
        TaskAccount {
            state: State::Unborn,
            since: Time::ZERO,
            born: Time::ZERO,
            last_cpu: None,
            moved: None,
            timer_late: Nanos::ZERO,
            interrupted: Nanos::ZERO,
            carried: 0,
            totals: TaskTotals::default(),
        }
    }

    /// Begins anew at `now`: what was before does not count, but a latency that has begun counts when it ends.
    pub(crate) fn count_from(&mut self, now: Time) {
        let waits = match self.state {
            State::Queued { woken } => woken.is_some(),
            State::OnCpu { early, .. } => early.is_some(),
            State::Unborn | State::Asleep | State::Gone => false,
        };
        self.carried = u64::from(waits);
        (self.since, self.born, self.totals) = (now, now, TaskTotals::default());
        self.interrupted = Nanos::ZERO;
        if let Some(moved) = &mut self.moved {
            (moved.first, moved.before) = (Nanos::ZERO, Nanos::ZERO);
        }
    }

    /// The CPU on which the task executed last.
    pub(crate) fn last_cpu(&self) -> Option<CpuId> {
        self.last_cpu
    }

    /// Says whether the task waits in a run queue, or a CPU was chosen for it and has not executed it yet.
    #[inline]
    pub(crate) fn is_queued(&self) -> bool {
        matches!(self.state, State::Queued { .. })
    }

    /// The time that it waited up to `now`, and the part of that in which it had its CPU, since this was taken last.
    pub(crate) fn waited(&self, now: Time) -> (Nanos, Nanos) {
        let open = now.since(self.since);
        match self.state {
            State::Queued { .. } => (self.totals.wait + open, self.interrupted),
            State::OnCpu { executing: false, .. } => {
                (self.totals.wait + open, self.interrupted + open)
            }
            _ => (self.totals.wait, self.interrupted),
        }
    }

    /// The part of its waits up to `now` in which it had this CPU, since this was taken last; zero if it has it no more.
    pub(crate) fn interrupted_on(&self, on: CpuId, now: Time) -> Nanos {
        match self.state {
            State::OnCpu { cpu, .. } if cpu == on => self.waited(now).1,
            _ => Nanos::ZERO,
        }
    }

    /// Takes the part of its closed waits in which it had its CPU.
    #[inline]
    pub(crate) fn take_interrupted(&mut self) -> Nanos {
        std::mem::take(&mut self.interrupted)
    }

    /// Begins the task's life, unless it has begun: a host may leave out the spawn.
    #[inline]
    pub(crate) fn spawn(&mut self, now: Time) {
        if matches!(self.state, State::Unborn) {
            (self.state, self.since, self.born) = (State::Asleep, now, now);
        }
    }

    /// Takes a wake-up. Returns whether a latency begins, or will begin if the task blocks.
    #[inline]
    pub(crate) fn wake(&mut self, since: Time, by: Option<TaskId>, now: Time) -> bool {
        self.spawn(now);
        self.totals.wakeups += 1;
        match &mut self.state {
            State::Asleep => self.enter(State::Queued { woken: Some(since) }, now),
            State::OnCpu { early: early @ None, .. } => *early = Some(since),
            State::OnCpu { .. } | State::Queued { .. } | State::Unborn | State::Gone => {
                return false;
            }
        }
        self.timer_late = by.map_or(now.since(since), |_| Nanos::ZERO);
        true
    }

    /// Notes that the task executes on `cpu`.
    #[inline]
    #[must_use]
    pub(crate) fn execute(&mut self, cpu: CpuId, now: Time) -> Executes {
        self.spawn(now);
        if let State::Gone = self.state {
            self.state = State::Asleep;
        }
        let was_queued = self.is_queued();
        let (woken, early, left) = match self.state {
            State::OnCpu { cpu: same, early, .. } if same == cpu => (None, early, None),
            State::OnCpu { cpu: other, early, .. } => (early, None, Some(other)),
            State::Queued { woken } => (woken, None, None),
            State::Asleep | State::Unborn | State::Gone => (None, None, None),
        };
        self.enter(State::OnCpu { cpu, executing: true, early }, now);
        let mut waited = None;
        if let Some(since) = woken {
            let late = now.since(since);
            let longest = self.totals.wakeup_latency.max().is_none_or(|max| max < late);
            waited = Some((since, longest));
            self.totals.wakeup_latency.record(late);
            self.totals.slack_wakeups +=
                u64::from(self.timer_late > late.saturating_sub(self.timer_late));
        }
        if self.last_cpu.replace(cpu).is_some_and(|last| last != cpu) {
            self.totals.migrations += 1;
        }
        Executes { was_queued, left, waited }
    }

    /// Notes that `cpu` stops executing the task, which may still have the CPU.
    #[inline]
    pub(crate) fn interrupt(&mut self, cpu: CpuId, now: Time) {
        if let State::OnCpu { cpu: on, executing: true, early } = self.state
            && on == cpu
        {
            self.enter(State::OnCpu { cpu, executing: false, early }, now);
        }
    }

    /// Notes that the scheduler chose the task again, so it has not slept.
    #[inline]
    pub(crate) fn stay(&mut self) {
        if let State::OnCpu { early, .. } = &mut self.state {
            *early = None;
        }
    }

    /// Notes that the task has left `cpu`.
    #[inline]
    pub(crate) fn leave(&mut self, cpu: CpuId, left: Left, now: Time) {
        let (woken, early) = match self.state {
            State::OnCpu { cpu: other, .. } if other != cpu => return,
            State::OnCpu { early, .. } => (None, early),
            State::Queued { woken } => (woken, None),
            State::Asleep => (None, None),
            State::Unborn | State::Gone => return,
        };
        let state = match left {
            Left::Preempted | Left::Yielded => State::Queued { woken },
            Left::Blocked if early.is_some() => State::Queued { woken: early },
            Left::Blocked => State::Asleep,
            Left::Exited => State::Gone,
        };
        self.enter(state, now);
    }

    /// Notes that the task is in `group` from now on.
    pub(crate) fn join(&mut self, group: GroupId, now: Time) -> Option<(GroupId, Nanos)> {
        self.close_stretch(now);
        let runtime = self.totals.runtime;
        let first = self.moved.map_or(runtime, |moved| moved.first);
        let share = self.moved.map(|moved| (moved.group, runtime - moved.before));
        self.moved = Some(Moved { first, group, before: runtime });
        share
    }

    /// The runtime in the task's first group, and in its last group if that is another.
    pub(crate) fn shares(&self) -> (Nanos, Option<(GroupId, Nanos)>) {
        let runtime = self.totals.runtime;
        match self.moved {
            Some(moved) => (moved.first, Some((moved.group, runtime - moved.before))),
            None => (runtime, None),
        }
    }

    #[inline]
    fn enter(&mut self, state: State, now: Time) {
        self.close_stretch(now);
        self.state = state;
    }

    #[inline]
    pub(crate) fn close_stretch(&mut self, now: Time) {
        let span = now.since(self.since);
        match self.state {
            State::Asleep => self.totals.sleep += span,
            State::OnCpu { executing: true, .. } => self.totals.runtime += span,
            State::Queued { .. } => self.totals.wait += span,
            State::OnCpu { .. } => {
                self.totals.wait += span;
                self.interrupted += span;
            }
            State::Unborn | State::Gone => return,
        }
        self.since = now;
    }

    /// The CPU that executes the task, and the length of the task's open stretch.
    pub(crate) fn open_execution(&self, now: Time) -> Option<(CpuId, Nanos)> {
        match self.state {
            State::OnCpu { cpu, executing: true, .. } => Some((cpu, now.since(self.since))),
            _ => None,
        }
    }

    /// # Panics
    /// If the parts of the account do not sum to its time, or if a latency has no wake-up.
    pub(crate) fn check(&self) {
        let totals = &self.totals;
        let parts = totals.runtime + totals.wait + totals.sleep;
        assert_eq!(parts, self.since.since(self.born), "a task's parts are its life: {self:?}");
        assert!(
            totals.wakeup_latency.count() <= totals.wakeups + self.carried,
            "a wake-up ends once: {self:?}"
        );
    }
}
