//! A task of the scenario while it lives: where it is in its program and what it waits for.

use rand_pcg::Pcg64Mcg;
use runyard_engine::attr::{Attr, GroupId, Policy, RtPrio};
use runyard_engine::cpu::CpuId;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::Window;
use runyard_smp::control::Control;
use runyard_smp::machine::TaskOf;
use runyard_workload::scenario::{ObjectId, Phase, Scenario, SpecId, Step, TaskSpec};
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
    Mutex(ObjectId),
    Condition(ObjectId),
    Barrier(ObjectId),
    Semaphore(ObjectId),
    Resume(ObjectId),
    Pipe(ObjectId),
}

/// Where a task stands in its program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    round: u32,
    pub(crate) phase: usize,
    phase_round: u32,
    pub(crate) step: usize,
}

/// What comes next in a program.
#[derive(Debug)]
pub(crate) enum Next<'s> {
    /// A phase begins, whose properties hold from now on, and are not those that hold already.
    Phase(&'s Phase),
    Step(&'s Step),
    End,
}

#[derive(Debug)]
pub(crate) struct Program<'s> {
    pub(crate) spec: &'s TaskSpec,
    pub(crate) name: String,
    pub(crate) control: Arc<Control>,
    /// The engine's part, while the task is blocked.
    pub(crate) parked: Option<TaskOf<()>>,
    /// What was asked of the engine for it last.
    pub(crate) attr: Attr,
    /// The policy and the task group with which it began.
    pub(crate) first: (Policy, GroupId),
    /// The best real-time priority among those who wait for its mutexes, if those inherit.
    pub(crate) boost: Option<RtPrio>,
    /// It gave a mutex back: its donors may be fewer.
    pub(crate) donors_left: bool,
    pub(crate) todo: Todo,
    pub(crate) waiting: Waiting,
    /// Somebody chose to wake it and will come to do so.
    pub(crate) owed: bool,
    /// Whom it has still to wake, and since when they could run.
    pub(crate) wakes: VecDeque<(TaskId, Time)>,
    /// Mutexes that it holds.
    pub(crate) holds: Vec<ObjectId>,
    /// When its own periodic timers are due next.
    pub(crate) timers: Vec<Option<Time>>,
    /// Whether it became runnable for the first time.
    pub(crate) started: bool,
    /// Where its periodic timers start: its delay after the run's start, as in rt-app.
    pub(crate) timer_zero: Time,
    pub(crate) done: bool,
    pub(crate) draws: Pcg64Mcg,
    /// An instant, and how many steps were taken at it.
    pub(crate) steps_at: (Time, u32),
    place: Place,
    /// Whether the phase at `place` has begun.
    begun: bool,
    /// The phase whose properties hold.
    applied: usize,
}

/// What a [`Program`] is made of.
#[derive(Debug)]
pub(crate) struct Birth {
    pub(crate) id: SpecId,
    pub(crate) name: String,
    pub(crate) attr: Attr,
    pub(crate) delay: Nanos,
    pub(crate) draws: Pcg64Mcg,
}

impl<'s> Program<'s> {
    pub(crate) fn new(scenario: &'s Scenario, birth: Birth) -> Program<'s> {
        let Birth { id, name, attr, delay, draws } = birth;
        Program {
            spec: &scenario.tasks[id.0 as usize],
            name,
            control: Arc::new(Control::default()),
            parked: None,
            first: (attr.policy, attr.group),
            attr,
            boost: None,
            donors_left: false,
            todo: Todo::Nothing,
            waiting: Waiting::Nothing,
            owed: false,
            wakes: VecDeque::new(),
            holds: Vec::new(),
            timers: Vec::new(),
            started: false,
            timer_zero: Time::ZERO + delay,
            done: false,
            draws,
            steps_at: (Time::ZERO, 0),
            place: Place::default(),
            begun: false,
            applied: 0,
        }
    }

    /// Its real-time priority, its own or inherited.
    pub(crate) fn rt_prio(&self) -> Option<RtPrio> {
        self.attr.policy.rt_prio().max(self.boost)
    }

    /// How much later than asked its timers may expire.
    pub(crate) fn slack(&self) -> Nanos {
        if self.rt_prio().is_some() { Nanos::ZERO } else { self.attr.slack }
    }

    /// Where the step is that the task is at, or comes to next.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Goes on in the program by one step, or to the beginning of a phase.
    pub(crate) fn go_on(&mut self) -> Next<'s> {
        loop {
            if self.spec.loops.is_some_and(|loops| self.place.round >= loops) {
                return Next::End;
            }
            let Some(phase) = self.spec.phases.get(self.place.phase) else {
                let round = self.place.round.saturating_add(1);
                self.place = Place { round, ..Place::default() };
                continue;
            };
            if !self.begun {
                self.begun = true;
                if std::mem::replace(&mut self.applied, self.place.phase) != self.place.phase {
                    return Next::Phase(phase);
                }
            }
            if let Some(step) = phase.steps.get(self.place.step) {
                self.place.step += 1;
                return Next::Step(step);
            }
            self.place.step = 0;
            self.place.phase_round = self.place.phase_round.saturating_add(1);
            if phase.loops.is_some_and(|loops| self.place.phase_round >= loops) {
                self.place.phase_round = 0;
                self.place.phase += 1;
                self.begun = false;
            }
        }
    }
}

/// The CPU that a task starts near: that of whoever creates the scenario's tasks.
pub(crate) const FIRST_CPU: CpuId = CpuId(0);
