//! The guarantees of the language's steps, checked with the times at which tasks begin and end them.
//!
//! A step begins with its event and ends with its task's next step or exit. Between two steps a task may still wait for
//! the CPU, so the condition that a step waits for is checked from below: the step does not end before the condition
//! holds. At the end of a complete run it is checked from above: no task waits for a condition that holds.

use crate::ledger::{Known, Life, want};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_workload::Scenario;
use runyard_workload::draw::Draw;
use runyard_workload::scenario::{Costs, ObjectId, Step};
use std::collections::BTreeMap;

/// The current step of a task.
#[derive(Clone, Copy, Debug)]
struct Begun {
    step: Step,
    at: Time,
    /// The CPU time of the task at the begin of the step.
    runtime: Nanos,
    /// Whether the task was fair then: a timer keeps the slack with which it is armed.
    fair: bool,
}

/// The number of tasks that wait to be chosen, and of chosen tasks that have not continued.
#[derive(Clone, Copy, Debug, Default)]
struct Waiters {
    waiting: u64,
    chosen: u64,
}

/// The bytes of a pipe: those asked for, and those moved.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    offered: u64,
    sent: u64,
    asked: u64,
    received: u64,
}

/// The steps that tasks took, as far as known.
#[derive(Debug)]
pub struct Oracle<'s> {
    scenario: &'s Scenario,
    begun: Vec<Option<Begun>>,
    holders: BTreeMap<ObjectId, TaskId>,
    conditions: BTreeMap<ObjectId, Waiters>,
    suspended: BTreeMap<ObjectId, Waiters>,
    /// For each barrier: arrivals and departures.
    barriers: BTreeMap<ObjectId, (u64, u64)>,
    /// For each semaphore: posts, waits that began, and waits that ended.
    semaphores: BTreeMap<ObjectId, (u64, u64, u64)>,
    pipes: BTreeMap<ObjectId, Flow>,
}

impl<'s> Oracle<'s> {
    pub fn of(scenario: &'s Scenario, tasks: usize) -> Oracle<'s> {
        Oracle {
            scenario,
            begun: vec![None; tasks],
            holders: BTreeMap::new(),
            conditions: BTreeMap::new(),
            suspended: BTreeMap::new(),
            barriers: BTreeMap::new(),
            semaphores: BTreeMap::new(),
            pipes: BTreeMap::new(),
        }
    }

    /// Records that an arrival posts a semaphore.
    pub fn is_posted(&mut self, semaphore: ObjectId) {
        self.semaphores.entry(semaphore).or_default().0 += 1;
    }

    /// Records that `task` begins a step, by executing it on a CPU.
    pub fn begins(
        &mut self,
        task: TaskId,
        known: &Known<'s>,
        (phase, step): (u32, u32),
        at: Time,
    ) -> Result<(), String> {
        let phase = known.spec.phases.get(phase as usize);
        let step = phase.and_then(|phase| phase.steps.get(step as usize));
        let Some(step) = step else { return Err("a step is one of the program".to_owned()) };
        self.begun[task.index()] =
            Some(Begun { step, at, runtime: known.runtime, fair: is_fair(known) });
        match step {
            Step::Unlock(mutex) => self.give_back(task, mutex),
            Step::Wait { cond, mutex } => {
                self.give_back(task, mutex);
                self.conditions.entry(cond).or_default().waiting += 1;
            }
            Step::Sync { cond, mutex } => {
                self.give_back(task, mutex);
                let waiters = self.conditions.entry(cond).or_default();
                waiters.choose(1);
                waiters.waiting += 1;
            }
            Step::Signal(cond) => self.conditions.entry(cond).or_default().choose(1),
            Step::Broadcast(cond) => self.conditions.entry(cond).or_default().choose(u64::MAX),
            Step::Suspend(id) => self.suspended.entry(id).or_default().waiting += 1,
            Step::Resume(id) => self.suspended.entry(id).or_default().choose(u64::MAX),
            Step::Barrier(id) => self.barriers.entry(id).or_default().0 += 1,
            Step::SemPost(id) => self.semaphores.entry(id).or_default().0 += 1,
            Step::SemWait(id) => self.semaphores.entry(id).or_default().1 += 1,
            Step::Send { pipe, bytes } => self.pipes.entry(pipe).or_default().offered += bytes,
            Step::Recv { pipe, bytes } => self.pipes.entry(pipe).or_default().asked += bytes,
            _ => {}
        }
        Ok(())
    }

    /// Records that `task` reaches its next step or exits, so that its current step is over.
    pub fn ends(&mut self, task: TaskId, known: &Known<'s>, at: Time) -> Result<(), String> {
        let Some(begun) = self.begun[task.index()].take() else { return Ok(()) };
        let passed = at.since(begun.at);
        match begun.step {
            Step::Run(draw) => {
                let executed = known.runtime.saturating_sub(begun.runtime);
                match self.scenario.machine.smt {
                    None => want(may_be(draw, executed), "a run is CPU time, to the nanosecond"),
                    Some(_) => {
                        want(may_be_above(draw, executed), "no thread is faster than a core")
                    }
                }
            }
            Step::Runtime(Draw::Fixed(span)) => {
                let over = (begun.at + span).max(known.executes_since);
                want(at == over, "a runtime ends as soon as it is over and the task executes")
            }
            Step::Kernel(draw) => {
                let executed = known.runtime.saturating_sub(begun.runtime);
                want(may_be_above(draw, executed), "no system call is too short")
            }
            Step::Sleep(draw) => want(may_be_above(draw, passed), "no sleep is too short"),
            Step::Lock(mutex) => self.take(task, mutex),
            Step::Wait { cond, mutex } | Step::Sync { cond, mutex } => {
                let waiters = self.conditions.entry(cond).or_default();
                want(waiters.go_on(), "a waiter goes on when it was signalled")?;
                self.take(task, mutex)
            }
            Step::Suspend(id) => {
                let suspended = self.suspended.entry(id).or_default();
                want(suspended.go_on(), "a suspended task goes on when it was resumed")
            }
            Step::Barrier(id) => {
                let users = u64::from(self.scenario.objects.barriers[id.0 as usize].1);
                let (arrived, left) = self.barriers.entry(id).or_default();
                *left += 1;
                want(*left <= *arrived / users * users, "a barrier opens when all are there")
            }
            Step::SemWait(id) => {
                let (posts, _, waits) = self.semaphores.entry(id).or_default();
                *waits += 1;
                want(*waits <= *posts, "a semaphore is not below zero")
            }
            Step::Send { pipe, bytes } => {
                let capacity = self.scenario.objects.pipes[pipe.0 as usize].1;
                let flow = self.pipes.entry(pipe).or_default();
                flow.sent += bytes;
                want(flow.sent <= flow.asked + capacity, "a pipe holds no more than its capacity")
            }
            Step::Recv { pipe, bytes } => {
                let flow = self.pipes.entry(pipe).or_default();
                flow.received += bytes;
                want(flow.received <= flow.offered, "a pipe gives only bytes that were put in")
            }
            _ => Ok(()),
        }
    }

    /// Returns the tasks that are forking.
    pub fn forkers(&self) -> impl Iterator<Item = TaskId> + '_ {
        let forks =
            |begun: &Option<Begun>| begun.is_some_and(|it| matches!(it.step, Step::Fork(_)));
        (0..).map(TaskId).zip(&self.begun).filter(move |(_, begun)| forks(begun)).map(|it| it.0)
    }

    /// Records that a sleeping task is woken. A task that sleeps for a time is woken within the window of its timer.
    pub fn woken(
        &mut self,
        task: TaskId,
        known: &Known<'s>,
        since: Time,
        at: Time,
    ) -> Result<(), String> {
        let Some(begun) = self.begun[task.index()] else { return Ok(()) };
        let slack = if begun.fair || is_fair(known) { known.slack } else { Nanos::ZERO };
        let for_a_time = matches!(begun.step, Step::Sleep(_) | Step::Timer { .. });
        if let Step::Sleep(Draw::Fixed(span)) = begun.step {
            let Costs { system_calls, jitter, .. } = self.scenario.machine.costs;
            // Half of the call comes after the timer is armed.
            let soft = begun.at + (system_calls.sleep - Nanos(system_calls.sleep.0 / 2)) + span;
            // A task may lose its CPU in the call, before its timer is armed.
            let at_once = system_calls.sleep + jitter == Nanos::ZERO;
            let holds = if at_once { since == soft } else { since >= soft };
            want(holds, "the wake-up counts from the soft expiry")?;
        }
        let costs = &self.scenario.machine.costs;
        let late = match costs.timer_latency {
            Nanos::ZERO => Nanos::ZERO,
            latency => latency + costs.jitter,
        };
        want(!for_a_time || at <= since + slack + late, "a timer is run before its hard expiry")
    }

    /// Returns the error, if any, in the waits that remain at the end of a complete run.
    pub fn hope(&self, tasks: &[Known<'s>]) -> Option<String> {
        for (known, begun) in tasks.iter().zip(&self.begun) {
            let name = &known.name;
            match (known.life, begun) {
                (Life::Gone, _) => {}
                (Life::Asleep, Some(begun)) if may_wait_for_ever(begun.step) => {}
                (life, _) => return Some(format!("{name} is left, and {life:?}")),
            }
        }
        let waits = |begun: &Begun| match begun.step {
            Step::Lock(mutex) => Some(mutex),
            _ => None,
        };
        let free = |mutex: &ObjectId| !self.holders.contains_key(mutex);
        let asleep = tasks.iter().zip(&self.begun).filter(|(known, _)| known.life == Life::Asleep);
        let mut wanted = asleep.filter_map(|(_, begun)| begun.as_ref().and_then(waits));
        if let Some(mutex) = wanted.find(free) {
            return Some(format!("a task waits for the mutex {mutex:?}, which no task holds"));
        }
        let stranded = |waiters: &BTreeMap<ObjectId, Waiters>| {
            waiters.iter().find(|(_, waiters)| waiters.chosen > 0).map(|(id, _)| *id)
        };
        // A signalled task may still wait for the mutex, which is not released.
        let signalled = stranded(&self.conditions).filter(|_| self.holders.is_empty());
        if let Some(id) = signalled.or_else(|| stranded(&self.suspended)) {
            return Some(format!("a task was chosen at {id:?} and does not go on"));
        }
        let raised = |(posts, began, ended): &(u64, u64, u64)| began > ended && posts > ended;
        let raised = self.semaphores.iter().find(|(_, count)| raised(count));
        raised.map(|(id, _)| format!("a task waits for the semaphore {id:?}, which is raised"))
    }

    fn give_back(&mut self, task: TaskId, mutex: ObjectId) {
        if self.holders.get(&mutex) == Some(&task) {
            self.holders.remove(&mutex);
        }
    }

    fn take(&mut self, task: TaskId, mutex: ObjectId) -> Result<(), String> {
        let before = self.holders.insert(mutex, task);
        want(before.is_none(), "one task at a time holds a mutex")
    }
}

impl Waiters {
    fn choose(&mut self, most: u64) {
        let chosen = self.waiting.min(most);
        self.waiting -= chosen;
        self.chosen += chosen;
    }

    fn go_on(&mut self) -> bool {
        let may = self.chosen > 0;
        self.chosen -= u64::from(may);
        may
    }
}

fn is_fair(known: &Known<'_>) -> bool {
    known.policy.class().is_fair()
}

fn may_be(draw: Draw, span: Nanos) -> bool {
    match draw {
        Draw::Fixed(fixed) => span == fixed,
        Draw::Uniform(low, high) => (low..=high).contains(&span),
        Draw::Values(values) => values.contains(&span),
        Draw::Pareto { least, .. } | Draw::Tail { usual: least, .. } => span >= least,
        Draw::Exponential(_) | Draw::Normal { .. } => true,
        Draw::Lognormal { .. } | Draw::Weibull { .. } => true,
    }
}

fn may_be_above(draw: Draw, span: Nanos) -> bool {
    match draw {
        Draw::Fixed(least) | Draw::Uniform(least, _) => span >= least,
        Draw::Pareto { least, .. } | Draw::Tail { usual: least, .. } => span >= least,
        Draw::Values(values) => values.iter().any(|&least| span >= least),
        Draw::Exponential(_) | Draw::Normal { .. } => true,
        Draw::Lognormal { .. } | Draw::Weibull { .. } => true,
    }
}

fn may_wait_for_ever(step: Step) -> bool {
    matches!(
        step,
        Step::Lock(_)
            | Step::Wait { .. }
            | Step::Sync { .. }
            | Step::Barrier(_)
            | Step::SemWait(_)
            | Step::Suspend(_)
            | Step::Send { .. }
            | Step::Recv { .. }
    )
}
