//! A task of the scenario during its life: its place in its program, and the reason for which it waits.

use rand_pcg::Pcg64Mcg;
use runyard_engine::attr::{Cookie, GroupId, LatencyNice, Policy};
use runyard_engine::class::Class;
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::inherit::Lent;

use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::{TimerId, Window};
use runyard_smp::control::Control;
use runyard_smp::machine::{TaskOf, Work};
use runyard_workload::cursor::Cursor;
use runyard_workload::log::Log;
use runyard_workload::objects::{Awaited, Left};
use runyard_workload::scenario::{ObjectId, Scenario, SpecId, Step, TaskAttr, TaskSpec};
use std::collections::VecDeque;
use std::sync::Arc;

use runyard_engine::task::TaskId;

/// The rest of a task's current step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Todo {
    /// The step is complete, so the next one begins.
    Nothing,
    /// The step needs this much CPU time.
    Work(Nanos),
    /// The step works until this time, with or without a CPU.
    Until(Time),
    /// The task needs this much CPU time in the kernel. At zero it is about to leave the kernel.
    Kernel(Nanos),
}

/// The reason for which a task is blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// The task is not blocked, or it was chosen to be woken.
    Nothing,
    /// The task waits for its timer with this window.
    Timer(Window),
    /// The task waits for an action of another task.
    Other(Awaited),
}

/// A task's program and its state. The programs of a large machine do not fit into a cache, so the fields that one step
/// uses are adjacent.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Program<'s> {
    /// The rest of its step while it has no CPU.
    pub(crate) todo: Todo,
    pub(crate) steps: StepsAtOnce,
    pub(crate) waiting: Waiting,
    /// Its last timer, and the CPU where it was armed.
    pub(crate) timer: Option<(CpuId, TimerId)>,
    /// The engine's part while the task is blocked.
    pub(crate) parked: Option<TaskOf<Work<()>>>,
    pub(crate) cursor: Cursor,
    pub(crate) spec: &'s TaskSpec,
    /// The log of its current round, if a log is requested.
    pub(crate) log: Option<Box<Log>>,
    /// The step whose system call it has entered, and which has no effect yet.
    pub(crate) entered: Option<Step>,
    /// The time of its system call after the effect, until it returns.
    pub(crate) returns: Nanos,
    /// The mutex that it was woken to take.
    pub(crate) retry: Option<ObjectId>,
    /// The tasks that it still has to wake.
    pub(crate) wakes: VecDeque<Wakeup>,
    /// It has entered the kernel for the next of those wake-ups.
    pub(crate) called: bool,
    /// The times at which its own periodic timers are due next.
    pub(crate) timers: Vec<Option<Time>>,
    /// Another task has chosen to wake it and has not done so yet.
    pub(crate) owed: bool,
    /// It was woken, and its program has not gone on yet.
    pub(crate) resumes: bool,
    /// It released a mutex, so it may have fewer donors.
    pub(crate) donors_left: bool,
    /// It exists for the scheduler. A task that the timeline starts does not exist from the begin of the run.
    pub(crate) spawned: bool,
    /// The timeline stopped it, so it ends when it next executes.
    pub(crate) stopping: bool,
    /// It has become runnable for the first time.
    pub(crate) started: bool,
    pub(crate) done: bool,
    pub(crate) draws: Pcg64Mcg,
    /// The draws of the time that its system calls take: the n-th call takes as long under any policy.
    pub(crate) calls: Pcg64Mcg,
    /// The attributes last requested of the engine for it.
    pub(crate) attr: TaskAttr,
    /// The CPUs of the timeline's last change, on which phases fall back that name none.
    pub(crate) cpus: Option<Box<CpuSet>>,
    /// The start of its periodic timers: its delay after the start of the run, as in rt-app. For a task that the timeline
    /// starts, it is the delay after that.
    pub(crate) timer_zero: Time,
    /// The mutexes that it holds.
    pub(crate) holds: Vec<ObjectId>,
    /// The attributes that it inherits from the waiters of its mutexes.
    pub(crate) lent: Lent,
    pub(crate) began: Began,
    /// The number of times that it reached its timer after the next period had begun.
    pub(crate) missed: u64,
    /// The requests that it left out since it reached a timer too late, in thousandths.
    pub(crate) omitted: u64,
    /// The number of the arrivals of which it is a request.
    pub(crate) request_of: Option<u32>,
    pub(crate) id: SpecId,
    pub(crate) control: Arc<Control>,
    pub(crate) name: String,
}

/// The attributes requested for a task at its begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Began {
    pub(crate) policy: Policy,
    pub(crate) group: GroupId,
    pub(crate) latency_nice: LatencyNice,
    pub(crate) cookie: Option<Cookie>,
    /// The largest delay of its timers.
    pub(crate) slack: Nanos,
}

impl Began {
    pub(crate) fn of(scenario: &Scenario, attr: &TaskAttr) -> Began {
        Began {
            policy: attr.policy,
            group: attr.group,
            latency_nice: attr.latency_nice,
            cookie: scenario.cookie_of(attr.cookie, attr.group),
            slack: attr.effective_slack(),
        }
    }
}

/// A task that another task is to wake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wakeup {
    pub(crate) task: TaskId,
    /// The time since when it could run.
    pub(crate) since: Time,
}

/// The number of steps that a task took at one instant, which is the last instant with a step.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StepsAtOnce {
    pub(crate) at: Time,
    pub(crate) count: u32,
}

/// The parts of a new [`Program`].
#[derive(Debug)]
pub(crate) struct NewProgram {
    pub(crate) id: SpecId,
    pub(crate) name: String,
    pub(crate) attr: TaskAttr,
    pub(crate) zero: Time,
    pub(crate) draws: Pcg64Mcg,
    pub(crate) calls: Pcg64Mcg,
}

impl<'s> Program<'s> {
    pub(crate) fn new(scenario: &'s Scenario, new: NewProgram) -> Program<'s> {
        let NewProgram { id, name, attr, zero, draws, calls } = new;
        Program {
            spec: &scenario.tasks[id.0 as usize],
            id,
            missed: 0,
            omitted: 0,
            request_of: None,
            name,
            control: Arc::new(Control::default()),
            parked: None,
            began: Began::of(scenario, &attr),
            attr,
            lent: Lent::default(),
            donors_left: false,
            todo: Todo::Nothing,
            waiting: Waiting::Nothing,
            timer: None,
            spawned: false,
            stopping: false,
            cpus: None,
            entered: None,
            returns: Nanos::ZERO,
            retry: None,
            owed: false,
            resumes: false,
            wakes: VecDeque::new(),
            called: false,
            holds: Vec::new(),
            timers: Vec::new(),
            started: false,
            timer_zero: zero,
            done: false,
            draws,
            calls,
            steps: StepsAtOnce::default(),
            cursor: Cursor::default(),
            log: None,
        }
    }

    /// Returns the task's state at the end of the run.
    pub(crate) fn left(&self) -> Left<'_> {
        let waits = match self.waiting {
            Waiting::Other(awaited) => Some(awaited),
            Waiting::Nothing | Waiting::Timer(_) => None,
        };
        let (name, thread) = (&self.name, &self.spec.name);
        Left { name, thread, ended: self.done, waits, omitted: self.omitted }
    }

    /// Returns its class, by its policy or by a priority that it inherits.
    pub(crate) fn class(&self) -> Class {
        self.attr.policy.class().boosted(self.lent.boost)
    }

    /// Returns its task group.
    pub(crate) fn group(&self) -> GroupId {
        self.attr.group
    }

    /// Returns the task group in which it competes.
    pub(crate) fn queue_group(&self) -> GroupId {
        self.lent.group.unwrap_or(self.attr.group)
    }

    /// Returns the largest delay of its timers.
    pub(crate) fn slack(&self) -> Nanos {
        self.class().slack(self.attr.slack)
    }
}

/// The CPU near which the scenario's tasks start: that of their creator.
pub(crate) const FIRST_CPU: CpuId = CpuId(0);
