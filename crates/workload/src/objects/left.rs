//! The state that a run leaves unfinished: tasks with waits that no task can end, and resumptions without a suspended
//! task.
//!
//! A waiting task at the end of a run is not reported if a task could still end its wait. That task does not wait
//! itself, or its own wait could be ended, and its program has the step. The progress of that program is not examined,
//! so every reported task certainly waits in vain. Only the owner of a mutex can end a wait for it. A circle of waits
//! for mutexes is a deadlock, which is reported once.

use super::kinds::{Awaited, Suspension};
use super::state::Objects;
use crate::Scenario;
use crate::arrivals::Receiver;
use crate::cursor::Period;
use crate::scenario::{ObjectId, Step};
use runyard_engine::task::TaskId;
use std::collections::{BTreeMap, BTreeSet};

/// The number of waits that are reported.
const TOLD: usize = 16;

/// A task at the end of a run.
#[derive(Clone, Copy, Debug)]
pub struct Left<'a> {
    /// The task's name.
    pub name: &'a str,
    /// The name of the thread object whose program it runs.
    pub thread: &'a str,
    /// Whether it reached the end of its program.
    pub ended: bool,
    /// The action of another task that it waits for.
    pub waits: Option<Awaited>,
    /// The requests that it left out because it reached its timers too late ([`Period::omitted`]), in thousandths.
    pub omitted: u64,
}

/// The state that a run left unfinished.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// The waits that no task can end, in the order of the tasks.
    pub blocked: Vec<Blocked>,
    /// The messages for users, one line each: the first few waits, deadlocks, and lost resumptions.
    pub lines: Vec<String>,
}

/// A task with a wait that no task can end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The task's name.
    pub task: String,
    /// The kind and the name of the object that it waits for, as `mutex m`.
    pub on: String,
    /// The task that holds that object, or held it when it ended, if it is a mutex with an owner.
    pub held_by: Option<String>,
}

/// Returns the state that a run of `scenario` left unfinished. `tasks` are in the order of their numbers. `owner`
/// returns the task that holds a mutex.
#[must_use]
pub fn left(
    scenario: &Scenario,
    tasks: &[Left<'_>],
    objects: &Objects,
    owner: impl Fn(ObjectId) -> Option<TaskId>,
) -> Undone {
    let mut hope = Hope::new(scenario, tasks, &owner);
    hope.spread();
    let waits = |at: usize| tasks[at].waits.filter(|_| !hope.tasks[at] && !tasks[at].ended);
    let vain = (0..tasks.len()).filter_map(|at| Some((at, waits(at)?))).collect();
    let vain = Vain { scenario, tasks, vain, owner: &owner };
    let (blocked, mut lines) = (vain.blocked(), vain.lines());
    let untold = lines.len().saturating_sub(TOLD);
    lines.truncate(TOLD);
    if untold > 0 {
        lines.push(format!("{untold} more waits are in vain"));
    }
    lines.extend(omissions(tasks));
    let unheard = objects.suspensions.iter().map(Suspension::unheard);
    let unheard = unheard.zip(&scenario.objects.suspends);
    lines.extend(unheard.filter(|&(count, _)| count > 0).map(|(count, name)| {
        format!("{count} of the `resume` events for {name} found it not suspended")
    }));
    Undone { blocked, lines }
}

/// Returns a line for each thread object whose tasks left requests out, in the order of their names.
fn omissions(tasks: &[Left<'_>]) -> Vec<String> {
    let mut omitted: BTreeMap<&str, u64> = BTreeMap::new();
    for task in tasks {
        *omitted.entry(task.thread).or_default() += task.omitted;
    }
    let line = |(thread, omitted): (&str, u64)| {
        let missing = omitted / Period::WHOLE;
        (missing > 0).then(|| {
            format!(
                "coordinated omission: {thread} came too late to its timer, so {missing} of its requests are missing; \
                 `arrivals` do not wait for each other, nor do the periods of a timer with \"mode\": \"absolute\""
            )
        })
    };
    omitted.into_iter().filter_map(line).collect()
}

/// The tasks that can continue, and the waits that they can end.
struct Hope<'a> {
    scenario: &'a Scenario,
    /// The thread object of each task.
    threads: Vec<usize>,
    /// For each task, whether it can continue.
    tasks: Vec<bool>,
    /// For each thread object, whether one of its tasks can continue.
    able: Vec<bool>,
    waiting: BTreeMap<Awaited, Vec<usize>>,
    /// The mutexes that others wait for, by the task that holds them.
    held: BTreeMap<usize, Vec<ObjectId>>,
    /// For each barrier, the number of tasks that are there or can arrive.
    arrivals: Vec<u32>,
    /// The tasks that can continue and have steps that are not yet considered.
    fresh: Vec<usize>,
}

impl<'a> Hope<'a> {
    fn new(
        scenario: &'a Scenario,
        left: &[Left<'_>],
        owner: impl Fn(ObjectId) -> Option<TaskId>,
    ) -> Hope<'a> {
        let names = scenario.tasks.iter().map(|spec| spec.name.as_str()).zip(0..);
        let names: BTreeMap<_, usize> = names.collect();
        let mut hope = Hope {
            scenario,
            threads: left.iter().map(|task| names[task.thread]).collect(),
            tasks: vec![false; left.len()],
            able: vec![false; scenario.tasks.len()],
            waiting: BTreeMap::new(),
            held: BTreeMap::new(),
            arrivals: vec![0; scenario.objects.barriers.len()],
            fresh: Vec::new(),
        };
        for (at, task) in left.iter().enumerate().filter(|(_, task)| !task.ended) {
            match task.waits {
                None => hope.give(at),
                Some(awaited) => hope.waiting.entry(awaited).or_default().push(at),
            }
            if let Some(Awaited::Barrier(barrier)) = task.waits {
                hope.arrivals[barrier.0 as usize] += 1;
            }
        }
        for arrivals in &scenario.arrivals {
            if let Receiver::Semaphore(semaphore) = arrivals.to {
                hope.end(Awaited::Semaphore(semaphore));
            }
        }
        let mutexes = hope.waiting.keys().filter_map(|awaited| match awaited {
            Awaited::Mutex(mutex) => Some(*mutex),
            _ => None,
        });
        for mutex in mutexes.collect::<Vec<_>>() {
            match owner(mutex) {
                Some(owner) => hope.held.entry(owner.index()).or_default().push(mutex),
                None => hope.end(Awaited::Mutex(mutex)),
            }
        }
        hope
    }

    /// Finds all tasks that can continue because others can.
    fn spread(&mut self) {
        while let Some(task) = self.fresh.pop() {
            for mutex in self.held.remove(&task).unwrap_or_default() {
                self.end(Awaited::Mutex(mutex));
            }
            let thread = self.threads[task];
            for barrier in barriers(self.scenario, thread) {
                let at = barrier.0 as usize;
                self.arrivals[at] += 1;
                if self.arrivals[at] >= self.scenario.objects.barriers[at].1 {
                    self.end(Awaited::Barrier(barrier));
                }
            }
            self.enable(thread);
        }
    }

    /// Marks that a task of this thread object can continue. It can take all its steps, and so can the tasks that it
    /// forks.
    fn enable(&mut self, thread: usize) {
        let mut found = vec![thread];
        while let Some(thread) = found.pop() {
            if std::mem::replace(&mut self.able[thread], true) {
                continue;
            }
            for step in steps(self.scenario, thread) {
                match step {
                    Step::Signal(cond) | Step::Broadcast(cond) | Step::Sync { cond, .. } => {
                        self.end(Awaited::Condition(cond));
                    }
                    Step::SemPost(semaphore) => self.end(Awaited::Semaphore(semaphore)),
                    Step::Resume(name) => self.end(Awaited::Resume(name)),
                    Step::Send { pipe, .. } => self.end(Awaited::Bytes(pipe)),
                    Step::Recv { pipe, .. } => self.end(Awaited::Room(pipe)),
                    Step::Fork(spec) => found.push(spec.0 as usize),
                    _ => {}
                }
            }
        }
    }

    /// Marks that the waits for this object can end.
    fn end(&mut self, awaited: Awaited) {
        for task in self.waiting.remove(&awaited).unwrap_or_default() {
            self.give(task);
        }
    }

    fn give(&mut self, task: usize) {
        if !std::mem::replace(&mut self.tasks[task], true) {
            self.fresh.push(task);
        }
    }
}

fn steps(scenario: &Scenario, thread: usize) -> impl Iterator<Item = Step> + '_ {
    scenario.tasks[thread].phases.iter().flat_map(|phase| phase.steps.iter())
}

/// Returns the barriers that a program reaches, each once.
fn barriers(scenario: &Scenario, thread: usize) -> BTreeSet<ObjectId> {
    let barrier = |step| if let Step::Barrier(id) = step { Some(id) } else { None };
    steps(scenario, thread).filter_map(barrier).collect()
}

/// The waits that no task can end.
struct Vain<'a, O> {
    scenario: &'a Scenario,
    tasks: &'a [Left<'a>],
    vain: BTreeMap<usize, Awaited>,
    owner: O,
}

impl<O: Fn(ObjectId) -> Option<TaskId>> Vain<'_, O> {
    fn blocked(&self) -> Vec<Blocked> {
        let blocked = |(&task, &awaited): (&usize, &Awaited)| {
            let (kind, name) = self.named(awaited);
            Blocked {
                task: self.tasks[task].name.to_owned(),
                on: format!("{kind} {name}"),
                held_by: self.holder(awaited).map(|task| task.name.to_owned()),
            }
        };
        self.vain.iter().map(blocked).collect()
    }

    fn lines(&self) -> Vec<String> {
        let circles = self.circles();
        let mut lines: Vec<_> = circles.iter().map(|circle| self.deadlock(circle)).collect();
        let told: BTreeSet<_> = circles.into_iter().flatten().collect();
        let others = self.vain.iter().filter(|(task, _)| !told.contains(task));
        lines.extend(others.map(|(&task, &awaited)| {
            let what = self.what(awaited);
            let comma = if matches!(awaited, Awaited::Mutex(_)) { "," } else { "" };
            format!("{} waits {what}{comma} in vain", self.tasks[task].name)
        }));
        lines
    }

    /// Returns the owner of the mutex that a task waits for in vain, if the owner waits in vain as well.
    fn next(&self, task: usize) -> Option<usize> {
        let Awaited::Mutex(mutex) = *self.vain.get(&task)? else { return None };
        let owner = (self.owner)(mutex)?.index();
        self.vain.contains_key(&owner).then_some(owner)
    }

    /// Returns the circles of tasks in which each task waits for a mutex of the next.
    fn circles(&self) -> Vec<Vec<usize>> {
        let (mut seen, mut circles) = (BTreeSet::new(), Vec::new());
        for &start in self.vain.keys() {
            let mut way = Vec::new();
            let mut at = Some(start);
            while let Some(task) = at.filter(|&task| seen.insert(task)) {
                way.push(task);
                at = self.next(task);
            }
            let begin = at.and_then(|again| way.iter().position(|&task| task == again));
            circles.extend(begin.map(|begin| way.split_off(begin)));
        }
        circles
    }

    fn deadlock(&self, circle: &[usize]) -> String {
        let waits = circle.iter().map(|&task| {
            format!("{} waits {}", self.tasks[task].name, self.what(self.vain[&task]))
        });
        format!("deadlock: {}", waits.collect::<Vec<_>>().join("; "))
    }

    fn what(&self, awaited: Awaited) -> String {
        let (kind, name) = self.named(awaited);
        match awaited {
            Awaited::Mutex(_) => {
                let holder = self.holder(awaited).map_or_else(String::new, |holder| {
                    let holds = if holder.ended { "held when it ended" } else { "holds" };
                    format!(", which {} {holds}", holder.name)
                });
                format!("for the {kind} {name}{holder}")
            }
            Awaited::Barrier(_) => format!("for the others at the {kind} {name}"),
            Awaited::Resume(_) => "to be resumed".to_owned(),
            Awaited::Bytes(_) => format!("for bytes of the {kind} {name}"),
            Awaited::Room(_) => format!("for room in the {kind} {name}"),
            Awaited::Condition(_) | Awaited::Semaphore(_) => format!("for the {kind} {name}"),
        }
    }

    /// Returns the owner of an awaited mutex, if it has one.
    fn holder(&self, awaited: Awaited) -> Option<Left<'_>> {
        let Awaited::Mutex(mutex) = awaited else { return None };
        Some(self.tasks[(self.owner)(mutex)?.index()])
    }

    /// Returns the kind and the name of an awaited object.
    fn named(&self, awaited: Awaited) -> (&'static str, &str) {
        let objects = &self.scenario.objects;
        let at = |id: ObjectId| id.0 as usize;
        match awaited {
            Awaited::Mutex(id) => ("mutex", &objects.mutexes[at(id)].0),
            Awaited::Condition(id) => ("condition", &objects.conditions[at(id)]),
            Awaited::Barrier(id) => ("barrier", &objects.barriers[at(id)].0),
            Awaited::Semaphore(id) => ("semaphore", &objects.semaphores[at(id)]),
            Awaited::Resume(id) => ("suspend", &objects.suspends[at(id)]),
            Awaited::Bytes(id) | Awaited::Room(id) => ("pipe", &objects.pipes[at(id)].0),
        }
    }
}
