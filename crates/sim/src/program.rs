//! A task of the scenario while it lives: where it is in its program and what it waits for.

use rand_pcg::Pcg64Mcg;
use runyard_engine::attr::{Attr, Cookie, GroupId, LatencyNice, Policy, RtPrio};
use runyard_engine::cpu::CpuId;
use runyard_engine::inherit::Lent;

use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::Window;
use runyard_smp::control::Control;
use runyard_smp::machine::{TaskOf, Work};
use runyard_workload::cursor::Cursor;
use runyard_workload::log::Log;
use runyard_workload::objects::{Awaited, Left};
use runyard_workload::scenario::{ObjectId, Scenario, SpecId, TaskSpec};
use std::collections::VecDeque;
use std::sync::Arc;

use runyard_engine::task::TaskId;

/// What is left of the step that a task is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Todo {
    /// Nothing: on to the next step.
    Nothing,
    /// So much CPU time.
    Work(Nanos),
    /// Work until then, with the CPU or without.
    Until(Time),
}

/// What a blocked task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// It is not blocked, or it was chosen to be woken.
    Nothing,
    /// The window of its timer.
    Timer(Window),
    /// What another task has to do.
    Other(Awaited),
}

/// Those of a large machine do not fit into a cache, so what a step touches is side by side.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Program<'s> {
    /// While it has no CPU.
    pub(crate) todo: Todo,
    pub(crate) steps: StepsAtOnce,
    pub(crate) waiting: Waiting,
    /// The engine's part, while the task is blocked.
    pub(crate) parked: Option<TaskOf<Work<()>>>,
    pub(crate) cursor: Cursor,
    pub(crate) spec: &'s TaskSpec,
    /// What its log says of the round that it is in, if one is asked for.
    pub(crate) log: Option<Box<Log>>,
    /// The mutex that it was woken to take.
    pub(crate) retry: Option<ObjectId>,
    /// What it has still to wake.
    pub(crate) wakes: VecDeque<Wakeup>,
    /// When its own periodic timers are due next.
    pub(crate) timers: Vec<Option<Time>>,
    /// Somebody chose to wake it and will come to do so.
    pub(crate) owed: bool,
    /// It gave a mutex back: its donors may be fewer.
    pub(crate) donors_left: bool,
    /// Whether it became runnable for the first time.
    pub(crate) started: bool,
    pub(crate) done: bool,
    pub(crate) draws: Pcg64Mcg,
    /// What was asked of the engine for it last.
    pub(crate) attr: Attr,
    /// Where its periodic timers start: its delay after the run's start, as in rt-app.
    pub(crate) timer_zero: Time,
    /// Mutexes that it holds.
    pub(crate) holds: Vec<ObjectId>,
    /// What those who wait for its mutexes lend it, if those inherit.
    pub(crate) lent: Lent,
    pub(crate) began: Began,
    /// How often it came to its timer after the next period had begun.
    pub(crate) missed: u64,
    pub(crate) id: SpecId,
    pub(crate) control: Arc<Control>,
    pub(crate) name: String,
}

/// What was asked for a task when it began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Began {
    pub(crate) policy: Policy,
    pub(crate) group: GroupId,
    pub(crate) latency_nice: LatencyNice,
    pub(crate) cookie: Option<Cookie>,
    /// How much later than asked its timers might expire.
    pub(crate) slack: Nanos,
}

/// A task that another one is to wake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wakeup {
    pub(crate) task: TaskId,
    /// Since when it could run.
    pub(crate) since: Time,
}

/// How many steps a task took at an instant, the last one at which it took any.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StepsAtOnce {
    pub(crate) at: Time,
    pub(crate) count: u32,
}

/// What a [`Program`] is made of.
#[derive(Debug)]
pub(crate) struct NewProgram {
    pub(crate) id: SpecId,
    pub(crate) name: String,
    pub(crate) attr: Attr,
    pub(crate) delay: Nanos,
    pub(crate) draws: Pcg64Mcg,
}

impl<'s> Program<'s> {
    pub(crate) fn new(scenario: &'s Scenario, new: NewProgram) -> Program<'s> {
        let NewProgram { id, name, attr, delay, draws } = new;
        Program {
            spec: &scenario.tasks[id.0 as usize],
            id,
            missed: 0,
            name,
            control: Arc::new(Control::default()),
            parked: None,
            began: Began {
                policy: attr.policy,
                group: attr.group,
                latency_nice: attr.latency_nice,
                cookie: scenario.cookie_of(attr.cookie, attr.group),
                slack: attr.effective_slack(),
            },
            attr,
            lent: Lent::default(),
            donors_left: false,
            todo: Todo::Nothing,
            waiting: Waiting::Nothing,
            retry: None,
            owed: false,
            wakes: VecDeque::new(),
            holds: Vec::new(),
            timers: Vec::new(),
            started: false,
            timer_zero: Time::ZERO + delay,
            done: false,
            draws,
            steps: StepsAtOnce::default(),
            cursor: Cursor::default(),
            log: None,
        }
    }

    /// How the run leaves it.
    pub(crate) fn left(&self) -> Left<'_> {
        let waits = match self.waiting {
            Waiting::Other(awaited) => Some(awaited),
            Waiting::Nothing | Waiting::Timer(_) => None,
        };
        Left { name: &self.name, thread: &self.spec.name, ended: self.done, waits }
    }

    /// Its real-time priority, its own or inherited.
    pub(crate) fn rt_prio(&self) -> Option<RtPrio> {
        self.attr.policy.rt_prio().max(self.lent.boost)
    }

    /// The task group that it is in.
    pub(crate) fn group(&self) -> GroupId {
        self.attr.group
    }

    /// The task group in which it competes.
    pub(crate) fn queue_group(&self) -> GroupId {
        self.lent.group.unwrap_or(self.attr.group)
    }

    /// How much later than asked its timers may expire.
    pub(crate) fn slack(&self) -> Nanos {
        if self.rt_prio().is_some() { Nanos::ZERO } else { self.attr.slack }
    }
}

/// The CPU that a task starts near: that of whoever creates the scenario's tasks.
pub(crate) const FIRST_CPU: CpuId = CpuId(0);
