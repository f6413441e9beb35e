//! Chains: the time from the wake-up of a first task, through the tasks that it woke, to the end of the work of a last
//! task.
//!
//! A *token* begins with a wake-up of the first task of a chain, at the moment from which that task could run. The
//! token goes to a task of the next place when the task that has it wakes that task. It ends when a task of the last
//! place that has it blocks or exits. A task has at most one token of a place: a newer token overtakes it, and the
//! older one is dropped. A wake-up that passes a token on begins no new one.
//!
//! A task that is at work when its message arrives is not woken; it takes the message without a sleep. So a token may
//! also wait in an object that stores messages. A task that posts a semaphore or sends into a pipe puts its token
//! there. The next task at the next place that takes from the object takes the oldest token. When a task of the last
//! place takes a message, it has also ended its work for its old token.
//!
//! A mutex is no message. While a task waits for a mutex, or takes the mutex of a condition that it waited for, it
//! neither ends its work nor begins anew. If it has a token, it takes no token from the task that gives the mutex back.
//!
//! Only a host that reports [steps](What::Step) shows which messages are taken and which mutexes are waited for.
//! Without steps, a token is lost if its task was not woken, and a wait for a mutex ends a task's work.

use crate::column::Place::{Page, Text};
use crate::column::{View, columns, counted, figures, spanned, texts};
use crate::figure::{Figure, LatencyReport, Unit};
use crate::histogram::Histogram;
use crate::names::shortened;
use runyard_engine::event::{Event, Left, What};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// The largest number of tokens of a chain that wait in objects. Of more the oldest are dropped.
const WAITING: usize = 1_024;

/// The number of the slowest tokens in a report.
const WORST: usize = 10;

columns! {
    /// A chain of tasks in a report.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct ChainReport from(chain: &Chain, slowest: Vec<SlowReport>) {
        /// Its name in the scenario.
        name: String = chain.info.name.clone(), [
            texts(&[(Text, "chain")], |it, _| shortened(&it.name)),
            texts(&[(Page, "chain")], |it, _| it.name.clone()),
        ];
        /// The number of tokens that reached its end.
        count: Figure = Some(chain.latency.count()), [
            figures(&[(Text, "count"), (Page, "count")], |it, _| counted(it.count)),
        ];
        /// The number of tokens that a newer one overtook.
        dropped: Figure = Some(chain.dropped), [
            figures(&[(Text, "dropped"), (Page, "dropped")], |it, _| counted(it.dropped)),
        ];
        /// The number of tokens that reached the end after the deadline; `null` if the chain has none.
        missed: Figure = chain.info.deadline.map(|_| chain.missed), [
            figures(&[(Text, "missed"), (Page, "missed")], |it, _| counted(it.missed)),
            View::Compared("missed", Unit::Count, |it| it.missed),
            View::Compared("dropped", Unit::Count, |it| it.dropped),
        ];
        /// The times from the first task's wake-up to the end, of the tokens that reached it.
        latency: LatencyReport = LatencyReport::new(&chain.latency), [
            figures(&[(Text, "p50"), (Page, "p50")], |it, _| spanned(it.latency.p50_ns)),
            figures(&[(Page, "p90")], |it, _| spanned(it.latency.p90_ns)),
            figures(&[(Text, "p99"), (Page, "p99")], |it, _| spanned(it.latency.p99_ns)),
            figures(&[(Page, "p99.9")], |it, _| spanned(it.latency.p999_ns)),
            figures(&[(Text, "max"), (Page, "max")], |it, _| spanned(it.latency.max_ns)),
        ];
        /// The slowest tokens, at most ten, the slowest first.
        #[serde(default)]
        worst: Vec<SlowReport> = slowest, [];
    }
}

/// A slow token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowReport {
    /// The moment from which the first task could run, in nanoseconds since the run's start.
    pub at_ns: u64,
    /// The time from that moment to the token's end.
    pub latency_ns: u64,
    /// The tasks that had it, in order.
    pub hops: Vec<HopReport>,
}

impl SlowReport {
    /// The tasks that had the token, each with the moment at which the token went on, in nanoseconds since the run's
    /// start.
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
    /// The arrival of the token: the moment from which the task could run, or at which it took the message without a
    /// sleep.
    pub at_ns: u64,
}

/// A task that waited for another task when the run was over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedReport {
    /// Its name in the scenario; with a number if it has several instances.
    pub task: String,
    /// The object that it waits for: its kind and its name, as `mutex m`.
    pub on: String,
    /// The task that holds the mutex, if the object is a mutex that is held.
    pub held_by: Option<String>,
}

/// A chain, by the numbers of the threads of its tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainInfo {
    /// Its name.
    pub name: String,
    /// The thread of each place.
    pub threads: Vec<u32>,
    /// The largest allowed time of a token.
    pub deadline: Option<Nanos>,
}

/// The effect of a program's step on tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hand {
    /// None.
    #[default]
    Neither,
    /// The step leaves a message in the object of this number.
    Puts(u32),
    /// The step takes a message from that object, perhaps after a wait.
    Takes(u32),
    /// The step takes a mutex, perhaps after a wait.
    Locks,
}

/// Follows the tokens of all chains through the events of a run.
#[derive(Debug, Default)]
pub struct Chains {
    chains: Vec<Chain>,
    /// The effects by thread, phase and step.
    steps: Vec<Vec<Vec<Hand>>>,
    tasks: Vec<Member>,
    knows_steps: bool,
}

/// The state of a task that matters to chains.
#[derive(Clone, Copy, Debug, Default)]
struct Member {
    thread: Option<u32>,
    /// The effect of its last step.
    at: Hand,
    /// Whether it was woken and has taken no step since.
    at_same_step: bool,
}

impl Member {
    /// Whether a wait of the task is for a mutex, so that its work goes on after it.
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
    /// The slowest tokens, the slowest first, each with its time.
    worst: Vec<(Nanos, Token)>,
}

/// The tasks that had a token, each with the moment of the token's arrival. The first one always exists.
#[derive(Clone, Debug)]
struct Token(Vec<(TaskId, Time)>);

impl Token {
    fn since(&self) -> Time {
        self.0[0].1
    }
}

/// A token that waits in an object.
#[derive(Clone, Debug)]
struct Waiting {
    /// The place of the task that put it there, and that task.
    place: usize,
    by: TaskId,
    object: u32,
    token: Token,
}

impl Chains {
    /// A follower of these chains, before the first event. `steps` has the steps of each thread, by phase.
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

    /// Notes that `task` runs the program of this thread.
    pub fn runs(&mut self, task: TaskId, thread: u32) {
        self.member(task).thread = Some(thread);
    }

    /// Whether an event matters to chains.
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

    /// The report of each chain. `name` gives the name of a task.
    #[must_use]
    pub fn reports(&self, name: impl Fn(TaskId) -> String) -> Vec<ChainReport> {
        let hop = |&(task, at): &(TaskId, Time)| HopReport { task: name(task), at_ns: at.0 };
        let slow = |(latency, token): &(Nanos, Token)| SlowReport {
            at_ns: token.since().0,
            latency_ns: latency.0,
            hops: token.0.iter().map(hop).collect(),
        };
        let report = |chain: &Chain| ChainReport::of(chain, chain.worst.iter().map(slow).collect());
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

    /// Gives a token to a task.
    fn arrive(&mut self, to: (usize, TaskId), mut token: Token, at: Time) {
        token.0.push((to.1, at));
        self.dropped += u64::from(self.held.insert(to, token).is_some());
    }

    /// Notes that the first task wakes the second one, which can run from the given moment. Returns whether a token
    /// went along.
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

    /// Notes that a task leaves a message, and its token with it.
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

    /// Notes that a task takes a message, or waits for one.
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

    /// Notes that a task of the last place has ended its work.
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
