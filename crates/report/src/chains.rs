//! Chains: how long it took from the wake-up of a first task, by those that it woke, to the end of the work of a last one.
//!
//! A *token* begins with a wake-up of the first task of a chain, at the moment since when that could run. It goes to a task of
//! the next place when the one that has it wakes that, and ends when a task of the last place that has it blocks or exits.
//! A task has at most one token of a place: a newer one that comes overtakes it, and it is dropped. A wake-up that passes a
//! token on begins none.
//!
//! A task that is at work when its message comes is not woken, and takes the message without having slept. So a token may also
//! wait in an object that remembers: whoever posts a semaphore or sends into a pipe puts it there, and who takes from that
//! first at the next place takes the oldest. By that a task of the last place has also ended its work for the token that it
//! had.
//!
//! A mutex is no message: while a task waits for one, or takes the one of the condition that it waited for, it neither ends
//! its work nor begins anew, and takes no token from who gives the mutex back if it has one.
//!
//! Only a host that tells of [steps](What::Step) says where messages are taken and mutexes waited for. Without, a token is
//! lost whose task was not woken, and a wait for a mutex is the end of a task's work.

use crate::figure::{Figure, LatencyReport};
use crate::histogram::Histogram;
use runyard_engine::event::{Event, Left, What};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// How many tokens of a chain wait in objects at most; of more the oldest are dropped.
const WAITING: usize = 1_024;

/// How many of the slowest tokens are told of.
const WORST: usize = 10;

/// A chain of tasks in a report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainReport {
    /// Its name in the scenario.
    pub name: String,
    /// How many tokens came to its end.
    pub count: Figure,
    /// How many were overtaken by a newer one.
    pub dropped: Figure,
    /// How many came to the end after the deadline; `None` if the chain has none.
    pub missed: Figure,
    /// How long those that came to the end took from the first task's wake-up.
    pub latency: LatencyReport,
    /// The slowest of them, at most ten, the slowest first.
    #[serde(default)]
    pub worst: Vec<SlowReport>,
}

/// A token that was slow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowReport {
    /// Since when the first task could run, in nanoseconds since the run's start.
    pub at_ns: u64,
    /// How long the token took from then to its end.
    pub latency_ns: u64,
    /// The tasks that had it, in order.
    pub hops: Vec<HopReport>,
}

impl SlowReport {
    /// The tasks that had the token, each with the moment at which the token went on, in nanoseconds since the run's start.
    pub fn hops_with_ends(&self) -> impl Iterator<Item = (&HopReport, u64)> {
        let next = self.hops.iter().skip(1).map(|hop| hop.at_ns);
        self.hops.iter().zip(next.chain([self.at_ns + self.latency_ns]))
    }
}

/// A task that had a token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopReport {
    /// Its name; with a number if the thread has several instances.
    pub task: String,
    /// When the token came to it: since when it could run, or when it took the message without having slept.
    pub at_ns: u64,
}

/// A task that waited for another one when the run was over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedReport {
    /// Its name in the scenario; with a number if it has several instances.
    pub task: String,
    /// What for: the kind of the object and its name, as `mutex m`.
    pub on: String,
    /// The task that has that, if it is a mutex that a task has.
    pub held_by: Option<String>,
}

/// A chain, by the numbers of the threads whose tasks are in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainInfo {
    /// Its name.
    pub name: String,
    /// The thread of each place.
    pub threads: Vec<u32>,
    /// How long a token may take.
    pub deadline: Option<Nanos>,
}

/// What a step of a program means for tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hand {
    /// Nothing.
    #[default]
    Neither,
    /// It leaves a message in the object of this number.
    Puts(u32),
    /// It takes one from there, perhaps after a wait.
    Takes(u32),
    /// It takes a mutex, perhaps after a wait.
    Locks,
}

/// Follows the tokens of all chains through the events of a run.
#[derive(Debug, Default)]
pub struct Chains {
    chains: Vec<Chain>,
    /// By thread, phase and step.
    steps: Vec<Vec<Vec<Hand>>>,
    tasks: Vec<Member>,
    knows_steps: bool,
}

/// A task, as far as chains are concerned.
#[derive(Clone, Copy, Debug, Default)]
struct Member {
    thread: Option<u32>,
    /// What its last step was.
    at: Hand,
    /// It was woken, and has taken no step since.
    at_same_step: bool,
}

impl Member {
    /// It waits for a mutex, if it waits, and has its work before it.
    fn goes_on(&self) -> bool {
        self.at_same_step || self.at == Hand::Locks
    }
}

#[derive(Debug)]
struct Chain {
    info: ChainInfo,
    /// The tokens that tasks have, by place and task.
    held: BTreeMap<(usize, TaskId), Token>,
    waiting: VecDeque<Waiting>,
    dropped: u64,
    missed: u64,
    latency: Histogram,
    /// The slowest tokens, the slowest first, and how long each took.
    worst: Vec<(Nanos, Token)>,
}

/// The tasks that had a token, each with the moment at which it came there. The first one always is there.
#[derive(Clone, Debug)]
struct Token(Vec<(TaskId, Time)>);

impl Token {
    fn since(&self) -> Time {
        self.0[0].1
    }
}

/// A token in an object.
#[derive(Clone, Debug)]
struct Waiting {
    /// The place of the task that put it there, and that task.
    place: usize,
    by: TaskId,
    object: u32,
    token: Token,
}

impl Chains {
    /// Nothing has happened. `steps` are those of each thread, by phase.
    #[must_use]
    pub fn new(chains: Vec<ChainInfo>, steps: Vec<Vec<Vec<Hand>>>) -> Chains {
        let chain = |info| Chain {
            info,
            held: BTreeMap::new(),
            waiting: VecDeque::new(),
            dropped: 0,
            missed: 0,
            latency: Histogram::default(),
            worst: Vec::new(),
        };
        let chains = chains.into_iter().map(chain).collect();
        Chains { chains, steps, ..Chains::default() }
    }

    /// `task` runs the program of this thread.
    pub fn runs(&mut self, task: TaskId, thread: u32) {
        self.member(task).thread = Some(thread);
    }

    /// Whether an event means anything to chains.
    #[must_use]
    pub fn heeds(event: &Event) -> bool {
        match event.what {
            What::Wake { .. } | What::Step { .. } => true,
            What::Switch { prev, .. } => {
                matches!(prev, Some((_, Left::Blocked | Left::Exited)))
            }
            _ => false,
        }
    }

    /// Takes the next event.
    pub fn event(&mut self, event: &Event) {
        match event.what {
            What::Wake { task, since, by } => self.wake(task, since, by),
            What::Step { task, phase, step } => self.step(task, (phase, step), event.at),
            What::Switch { prev: Some((task, Left::Blocked | Left::Exited)), .. } => {
                self.block(task, event.at);
            }
            _ => {}
        }
    }

    /// What came of each chain; `name` is that of a task.
    #[must_use]
    pub fn reports(&self, name: impl Fn(TaskId) -> String) -> Vec<ChainReport> {
        let hop = |&(task, at): &(TaskId, Time)| HopReport { task: name(task), at_ns: at.0 };
        let slow = |(latency, token): &(Nanos, Token)| SlowReport {
            at_ns: token.since().0,
            latency_ns: latency.0,
            hops: token.0.iter().map(hop).collect(),
        };
        let report = |chain: &Chain| ChainReport {
            name: chain.info.name.clone(),
            count: Some(chain.latency.count()),
            dropped: Some(chain.dropped),
            missed: chain.info.deadline.map(|_| chain.missed),
            latency: LatencyReport::new(&chain.latency),
            worst: chain.worst.iter().map(slow).collect(),
        };
        self.chains.iter().map(report).collect()
    }

    fn member(&mut self, task: TaskId) -> &mut Member {
        if task.index() >= self.tasks.len() {
            self.tasks.resize(task.index() + 1, Member::default());
        }
        &mut self.tasks[task.index()]
    }

    fn wake(&mut self, task: TaskId, since: Time, by: Option<TaskId>) {
        let woken = *self.member(task);
        let by = by.map(|by| (by, *self.member(by)));
        let goes_on = self.knows_steps && woken.goes_on();
        self.member(task).at_same_step = true;
        let Some(thread) = woken.thread else { return };
        for chain in &mut self.chains {
            let from = by.and_then(|(by, member)| Some((by, member.thread?)));
            let to = (task, thread, since);
            let passed = from.is_some_and(|from| chain.pass(from, to, goes_on));
            if !passed && !goes_on && chain.info.threads[0] == thread {
                chain.arrive((0, task), Token(Vec::new()), since);
            }
        }
    }

    fn step(&mut self, task: TaskId, (phase, step): (u32, u32), at: Time) {
        self.knows_steps = true;
        let member = self.member(task);
        let Some(thread) = member.thread else { return };
        let phases = self.steps.get(thread as usize);
        let steps = phases.and_then(|phases| phases.get(phase as usize));
        let hand = steps.and_then(|steps| steps.get(step as usize)).copied().unwrap_or_default();
        let member = self.member(task);
        (member.at, member.at_same_step) = (hand, false);
        for chain in &mut self.chains {
            match hand {
                Hand::Puts(object) => chain.put((task, thread), object),
                Hand::Takes(object) => chain.take((task, thread), object, at),
                Hand::Neither | Hand::Locks => {}
            }
        }
    }

    fn block(&mut self, task: TaskId, at: Time) {
        let member = *self.member(task);
        if self.knows_steps && member.goes_on() {
            return;
        }
        self.chains.iter_mut().for_each(|chain| chain.end(task, at));
    }
}

impl Chain {
    fn last(&self) -> usize {
        self.info.threads.len() - 1
    }

    /// A token comes to a task.
    fn arrive(&mut self, to: (usize, TaskId), mut token: Token, at: Time) {
        token.0.push((to.1, at));
        self.dropped += u64::from(self.held.insert(to, token).is_some());
    }

    /// The first task wakes the second one, which can run since a moment. Whether a token went along.
    fn pass(&mut self, from: (TaskId, u32), to: (TaskId, u32, Time), goes_on: bool) -> bool {
        let ((by, thread), (task, woken, at)) = (from, to);
        for place in 0..self.last() {
            let next = place + 1;
            if self.info.threads[place] != thread || self.info.threads[next] != woken {
                continue;
            }
            if goes_on && self.held.contains_key(&(next, task)) {
                continue;
            }
            let put = self.waiting.iter().position(|it| it.by == by && it.place == place);
            let token = match put {
                Some(nth) => self.waiting.remove(nth).map(|it| it.token),
                None => self.held.remove(&(place, by)),
            };
            if let Some(token) = token {
                self.arrive((next, task), token, at);
                return true;
            }
        }
        false
    }

    /// A task leaves a message, and its token with it.
    fn put(&mut self, (by, thread): (TaskId, u32), object: u32) {
        for place in 0..self.last() {
            if self.info.threads[place] == thread
                && let Some(token) = self.held.remove(&(place, by))
            {
                self.waiting.push_back(Waiting { place, by, object, token });
                if self.waiting.len() > WAITING {
                    self.waiting.pop_front();
                    self.dropped += 1;
                }
                return;
            }
        }
    }

    /// A task takes a message, or waits for one.
    fn take(&mut self, (task, thread): (TaskId, u32), object: u32, at: Time) {
        let last = self.last();
        let is_inbound = |it: &Waiting| it.object == object;
        let follows = |it: &Waiting| self.info.threads[it.place + 1] == thread;
        let found = self.waiting.iter().position(|it| is_inbound(it) && follows(it));
        if last > 0 {
            self.end(task, at);
        }
        if let Some(it) = found.and_then(|nth| self.waiting.remove(nth)) {
            self.arrive((it.place + 1, task), it.token, at);
        }
    }

    /// A task of the last place has ended its work.
    fn end(&mut self, task: TaskId, at: Time) {
        let Some(token) = self.held.remove(&(self.last(), task)) else { return };
        let latency = at.since(token.since());
        self.latency.record(latency);
        self.missed += u64::from(self.info.deadline.is_some_and(|deadline| latency > deadline));
        let slower = self.worst.partition_point(|(longest, _)| *longest >= latency);
        if slower < WORST {
            self.worst.insert(slower, (latency, token));
            self.worst.truncate(WORST);
        }
    }
}
