//! Chains: the time from the wake-up of a first task, or from the arrival of a request, through the tasks that it woke, to
//! the end of the work of a last task.
//!
//! A *token* begins with a wake-up of a task of the first place, at the moment from which that task could run. If arrivals
//! start or wake these tasks, it begins with the arrival instead. When a task that has a token wakes tasks of the next
//! place, each of them has a copy of it. A copy ends when a task of the last place that has it blocks or exits; of a request
//! that arrived, when the task takes its next message, since requests may sleep. The token ends with its last copy, or
//! with the first one that ends. A wake-up that passes a token on begins no new one.
//!
//! A task that is at work when its message arrives is not woken; it takes the message without a sleep. So a copy may also
//! wait in an object that stores messages ([`messages`]). A task that posts a semaphore or sends into a pipe from which
//! the next place takes puts a copy there, and keeps its own until it blocks or takes the next message. So a message for
//! each of several tasks, or one of many bytes for all of them, gives each a copy (fan-out). Tokens that a task takes
//! without other steps in between are one batch: they go on together. The copies of one token that meet at a task are
//! one from there on (fan-in). A task that gets another token while it still has one drops the old one.
//!
//! A mutex is no message. While a task waits for a mutex, or takes the mutex of a condition that it waited for, it
//! neither ends its work nor begins anew. If it has a token, it takes no token from the task that gives the mutex back.
//!
//! Only a host that reports [steps](What::Step) shows which messages are taken and which mutexes are waited for.
//! Without steps, a token is lost if its task was not woken, and a wait for a mutex ends a task's work.

mod info;
mod messages;
mod tokens;

pub use info::{ChainInfo, Hand};

use crate::column::Place::{Page, Text};
use crate::column::{View, columns, counted, figures, seldom, spanned, texts};
use crate::course::{Course, MOST, SeriesReport};
use crate::figure::{Figure, LatencyReport, Unit};
use crate::histogram::Histogram;
use crate::names::shortened;
use crate::series::points;
use crate::within::Within;
use messages::Messages;
use runyard_engine::event::{Event, Left, What};
use runyard_engine::task::TaskId;
use runyard_engine::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use tokens::{Chain, Slow, TokenCopy};

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
        /// The number of tokens that began, or were under way at `from_ns`. Those that are not among `count`, `dropped` and
        /// `refused` were under way at the end of the run.
        #[serde(default)]
        began: Figure = Some(chain.began), [
            figures(&[(Page, "began")], |it, _| counted(it.began)),
        ];
        /// The number of requests that found no room when they arrived; `null` if the chain does not begin with arrivals.
        #[serde(default)]
        refused: Figure = chain.info.begins_with_arrivals().then_some(chain.refused), [
            seldom(&[(Text, "refused")], |it, _| counted(it.refused), |it, _| it.refused.is_some()),
            View::Compared("refused", Unit::Count, |it| it.refused),
        ];
        /// The number of tokens that a newer one overtook, or that a task outside of the chain took.
        dropped: Figure = Some(chain.dropped), [
            figures(&[(Text, "dropped"), (Page, "dropped")], |it, _| counted(it.dropped)),
        ];
        /// The number of tokens that reached the end after the deadline; `null` if the chain has none.
        missed: Figure = chain.info.deadline.map(|_| chain.missed), [
            figures(&[(Text, "missed"), (Page, "missed")], |it, _| counted(it.missed)),
            View::Compared("missed", Unit::Count, |it| it.missed),
            View::Compared("dropped", Unit::Count, |it| it.dropped),
        ];
        /// The times from the first task's wake-up, or from the arrival, to the end, of the tokens that reached it.
        latency: LatencyReport = LatencyReport::new(&chain.latency), [
            figures(&[(Text, "p50"), (Page, "p50")], |it, _| spanned(it.latency.p50_ns)),
            figures(&[(Page, "p90")], |it, _| spanned(it.latency.p90_ns)),
            figures(&[(Text, "p99"), (Page, "p99")], |it, _| spanned(it.latency.p99_ns)),
            figures(&[(Page, "p99.9")], |it, _| spanned(it.latency.p999_ns)),
            figures(&[(Text, "max"), (Page, "max")], |it, _| spanned(it.latency.max_ns)),
        ];
        /// The distribution of these times: at most 128 of them, ascending, each with the number of tokens that it stands for.
        #[serde(default)]
        points: Vec<(u64, u64)> = points(&chain.latency), [];
        /// The slowest tokens, at most ten, the slowest first.
        #[serde(default)]
        worst: Vec<SlowReport> = slowest, [];
    }
}

/// The part of a chain's tokens that may be under way at the end of a run without a word, in per cent.
const UNDER_WAY: u64 = 2;

impl ChainReport {
    /// The message that no token reached the end, if there was one that could have, or that many had not when the run ended:
    /// the latencies lack them.
    #[must_use]
    pub fn shortfall(&self) -> Option<String> {
        self.in_vain().or_else(|| self.unfinished())
    }

    fn in_vain(&self) -> Option<String> {
        let arrived = self.began.filter(|_| self.count == Some(0))?;
        let name = &self.name;
        match arrived - self.refused.unwrap_or(0) {
            0 => Some(format!("chain {name}: no token began")),
            began => Some(format!(
                "chain {name}: none of its {began} tokens reached the end ({} were dropped)",
                self.dropped.unwrap_or(0)
            )),
        }
    }

    fn unfinished(&self) -> Option<String> {
        let (began, count) = (self.began?, self.count.filter(|&count| count > 0)?);
        let over = count + self.dropped.unwrap_or(0) + self.refused.unwrap_or(0);
        let under_way = began.saturating_sub(over);
        (under_way > 10 && 100 * under_way > UNDER_WAY * began).then(|| {
            let name = &self.name;
            format!("chain {name}: {under_way} of its {began} tokens had not reached the end; the latencies lack them")
        })
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

/// Follows the tokens of all chains through the events of a run.
///
/// ```
/// use runyard_engine::cpu::CpuId;
/// use runyard_engine::event::{Event, Left, What};
/// use runyard_engine::task::TaskId;
/// use runyard_engine::time::Time;
/// use runyard_report::{ChainInfo, Chains};
///
/// let info = ChainInfo { name: "c".into(), places: vec![vec![0]], ..ChainInfo::default() };
/// let mut chains = Chains::new(vec![info], Vec::new(), Vec::new());
/// chains.runs(TaskId(0), 0);
/// let wake = What::Wake { task: TaskId(0), since: Time(5), by: None };
/// let block = What::Switch { prev: Some((TaskId(0), Left::Blocked)), next: None };
/// for (at, what) in [(Time(5), wake), (Time(9), block)] {
///     chains.event(&Event { at, cpu: CpuId(0), what });
/// }
/// assert_eq!(chains.reports(|task| task.to_string())[0].latency.max_ns, Some(4));
/// ```
#[derive(Debug, Default)]
pub struct Chains {
    chains: Vec<Chain>,
    /// The effects by thread, phase and step.
    steps: Vec<Vec<Vec<Hand>>>,
    /// The objects from which the threads of each chain's places take.
    inbound: Vec<Vec<BTreeSet<u32>>>,
    /// The object of each of the arrivals; `None` for those that start tasks.
    arrivals: Vec<Option<u32>>,
    /// The messages in each object that leads from a place of a chain to the next.
    messages: BTreeMap<u32, Messages>,
    tasks: Vec<Member>,
    /// The arrivals that start a task with the next event.
    starts: Option<u32>,
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
    /// The object from which it waits for a message.
    waits_at: Option<u32>,
    /// Whether it has taken other messages without another step since.
    gathers: bool,
}

impl Member {
    /// Whether a wait of the task is for a mutex, so that its work goes on after it.
    fn goes_on(&self) -> bool {
        self.at_same_step || self.at == Hand::Locks
    }
}

impl Chains {
    /// A follower of these chains, before the first event. `steps` has the steps of each thread, by phase. `arrivals` has the
    /// object that each of the arrivals posts, or `None` for arrivals that start tasks.
    #[must_use]
    pub fn new(
        chains: Vec<ChainInfo>,
        steps: Vec<Vec<Vec<Hand>>>,
        arrivals: Vec<Option<u32>>,
    ) -> Chains {
        let taken = |place: &Vec<u32>| -> BTreeSet<u32> {
            let threads = place.iter().filter_map(|&thread| steps.get(thread as usize));
            threads.flatten().flatten().filter_map(|hand| hand.takes_from()).collect()
        };
        let of_chain = |info: &ChainInfo| info.places.iter().map(taken).collect::<Vec<_>>();
        let inbound: Vec<_> = chains.iter().map(of_chain).collect();
        let objects = inbound.iter().flatten().flatten();
        let messages = objects.map(|&object| (object, Messages::new(object % 2 == 1))).collect();
        let chains = chains.into_iter().enumerate().map(|(nth, info)| Chain::new(nth, info));
        let chains = chains.collect();
        Chains { chains, steps, inbound, arrivals, messages, ..Chains::default() }
    }

    /// Notes that `task` runs the program of this thread.
    pub fn runs(&mut self, task: TaskId, thread: u32) {
        self.member(task).thread = Some(thread);
    }

    /// The same follower, which also keeps the latencies of the first chains over time ([`Chains::series`]).
    #[must_use]
    pub fn with_series(mut self) -> Chains {
        let first = self.chains.iter_mut().take(MOST);
        first.for_each(|chain| chain.course = Some((Time::ZERO, Course::new())));
        self
    }

    /// The latencies over time of a run that ended at `end`, of each chain with one; empty if they were not kept.
    #[must_use]
    pub fn series(&self, end: Time) -> Vec<SeriesReport> {
        let report = |chain: &Chain| {
            let (begin, course) = chain.course.as_ref()?;
            course.report(("chain", &chain.info.name), end.since(*begin))
        };
        self.chains.iter().filter_map(report).collect()
    }

    /// Makes the rest of the run all that counts, from `at` on. A token that ends in it counts, with its whole latency.
    pub fn count_from(&mut self, at: Time) {
        self.chains.iter_mut().for_each(|chain| chain.count_from(at));
    }

    /// Takes the next event.
    pub fn event(&mut self, event: &Event) {
        match event.what {
            What::Wake { task, since, by } => self.wake(task, since, by),
            What::Step { task, phase, step } => self.step(task, (phase, step), event.at),
            What::Acts { task } => self.act(task, event.at),
            What::Arrived { arrivals, refused } => self.arrived(arrivals, refused, event.at),
            What::Late { task, since } => self.late(task, since, event.at),
            What::Switch { prev: Some((task, Left::Blocked)), .. } => self.block(task, event.at),
            What::Switch { prev: Some((task, Left::Exited)), .. } => self.exit(task, event.at),
            _ => {}
        }
    }

    /// The report of each chain. `name` gives the name of a task.
    ///
    /// # Panics
    /// In a debug build, if the tokens do not add up.
    #[must_use]
    pub fn reports(&self, name: impl Fn(TaskId) -> String) -> Vec<ChainReport> {
        if cfg!(debug_assertions) {
            self.check();
        }
        let hop = |(task, at): (TaskId, Time)| HopReport { task: name(task), at_ns: at.0 };
        let slow = |slow: &Slow| SlowReport {
            at_ns: slow.since.0,
            latency_ns: slow.latency.0,
            hops: slow.way().into_iter().map(hop).collect(),
        };
        let report = |chain: &Chain| ChainReport::of(chain, chain.worst.iter().map(slow).collect());
        self.chains.iter().map(report).collect()
    }

    /// The same follower, which also keeps the latencies of tokens that end within each of these spans of the run
    /// ([`Chains::latencies`]).
    #[must_use]
    pub fn with_spans(mut self, spans: &[Range<Time>]) -> Chains {
        self.chains.iter_mut().for_each(|chain| chain.within = Within::new(spans));
        self
    }

    /// The latencies of the chain of this name, or those that ended within a span. `None` if there is no such chain, or if
    /// the span is not one of those that are kept.
    #[must_use]
    pub fn latencies(&self, name: &str, within: Option<&Range<Time>>) -> Option<&Histogram> {
        let chain = self.chains.iter().find(|chain| chain.info.name == name)?;
        within.map_or(Some(&chain.latency), |span| chain.within.of(span))
    }

    /// Asserts that each token is counted once, and each of its copies.
    ///
    /// # Panics
    /// If one is not.
    pub fn check(&self) {
        for chain in &self.chains {
            chain.check(self.messages.values().flat_map(Messages::copies));
        }
    }

    fn member(&mut self, task: TaskId) -> &mut Member {
        if task.index() >= self.tasks.len() {
            self.tasks.resize(task.index() + 1, Member::default());
        }
        &mut self.tasks[task.index()]
    }

    fn wake(&mut self, task: TaskId, since: Time, by: Option<TaskId>) {
        let woken = *self.member(task);
        let by_thread = by.and_then(|by| Some((by, self.member(by).thread?)));
        let goes_on = self.knows_steps && woken.goes_on();
        self.member(task).at_same_step = true;
        let starts = self.starts.take();
        let Some(thread) = woken.thread else { return };
        let mut came = match woken.waits_at {
            Some(_) => self.resolve(task, Some(by), since),
            None => Vec::new(),
        };
        let is_message =
            woken.waits_at.is_some() || matches!(woken.at, Hand::Puts(..) | Hand::Locks);
        if let Some(from) = by_thread.filter(|_| !is_message) {
            came = self.pass(from, (task, thread), since, goes_on);
        }
        for (nth, chain) in self.chains.iter_mut().enumerate() {
            let begins = match starts {
                Some(arrivals) => chain.info.arrivals.contains(&arrivals),
                None => !chain.info.begins_with_arrivals() && !goes_on && !came.contains(&nth),
            };
            if begins && chain.info.places[0].contains(&thread) {
                let copy = chain.begin(since);
                chain.arrive(task, vec![copy], since, false);
            }
        }
    }

    /// Passes copies along that one task wakes another, which can run from the given moment. Returns the chains whose copies
    /// went along.
    fn pass(
        &mut self,
        (by, from): (TaskId, u32),
        (task, to): (TaskId, u32),
        since: Time,
        goes_on: bool,
    ) -> Vec<usize> {
        let mut came = Vec::new();
        for (nth, chain) in self.chains.iter_mut().enumerate() {
            for place in 0..chain.last() {
                let places = &chain.info.places;
                let leads = places[place].contains(&from) && places[place + 1].contains(&to);
                if !leads || goes_on && chain.holds(place + 1, task) {
                    continue;
                }
                let copies = chain.pass(place, by);
                if !copies.is_empty() {
                    chain.arrive(task, copies, since, false);
                    came.push(nth);
                    break;
                }
            }
        }
        came
    }

    fn step(&mut self, task: TaskId, (phase, step): (u32, u32), at: Time) {
        self.knows_steps = true;
        // A task that got its message before it blocked was not woken.
        self.resolve(task, None, at);
        let member = *self.member(task);
        let Some(thread) = member.thread else { return };
        let phases = self.steps.get(thread as usize);
        let steps = phases.and_then(|phases| phases.get(phase as usize));
        let hand = steps.and_then(|steps| steps.get(step as usize)).copied().unwrap_or_default();
        let gathers = matches!((member.at, hand), (Hand::Takes(..), Hand::Takes(..)));
        *self.member(task) =
            Member { at: hand, at_same_step: false, gathers, ..*self.member(task) };
    }

    /// Notes that the step of a task takes effect on an object.
    fn act(&mut self, task: TaskId, at: Time) {
        let Member { thread, at: hand, gathers, .. } = *self.member(task);
        let Some(thread) = thread else { return };
        match hand {
            Hand::Puts(object, units) => self.put((task, thread), (object, units)),
            Hand::Takes(object, units) => {
                self.take((task, thread), (object, units), (at, gathers));
            }
            Hand::Neither | Hand::Locks => {}
        }
    }

    /// Notes that a task leaves a message, with copies of its tokens.
    fn put(&mut self, (by, thread): (TaskId, u32), (object, units): (u32, u64)) {
        let Some(messages) = self.messages.get_mut(&object) else { return };
        let mut load = Vec::new();
        for (chain, inbound) in self.chains.iter_mut().zip(&self.inbound) {
            let places: Vec<_> = chain.places(thread).filter(|&at| at < chain.last()).collect();
            for place in places.into_iter().filter(|&at| inbound[at + 1].contains(&object)) {
                load.extend(chain.pass(place, by));
            }
        }
        let chains = &mut self.chains;
        messages.put(Some(by), (units, load), &mut |copy| chains[copy.chain].copied(copy));
    }

    /// Notes that a task takes a message, or waits for one.
    fn take(
        &mut self,
        (task, thread): (TaskId, u32),
        (object, units): (u32, u64),
        (at, gathers): (Time, bool),
    ) {
        for chain in self.chains.iter_mut().filter(|chain| !gathers || chain.info.first) {
            let places: Vec<_> = chain.places(thread).collect();
            // The last task of a chain of one task is the first one too: its work is over when it blocks.
            let one = chain.last() == 0 && !chain.info.begins_with_arrivals();
            places.into_iter().filter(|_| !one).for_each(|place| chain.finish(place, task, at));
        }
        let Some(messages) = self.messages.get_mut(&object) else { return };
        let chains = &mut self.chains;
        let load = messages.take((task, units), &mut |copy| chains[copy.chain].copied(copy));
        match load {
            Some(load) => drop(self.deliver(task, &load, at)),
            None => self.member(task).waits_at = Some(object),
        }
    }

    /// Gives a task the message for which it waited. Returns the chains of its tokens.
    fn resolve(&mut self, task: TaskId, by: Option<Option<TaskId>>, at: Time) -> Vec<usize> {
        let Some(object) = self.member(task).waits_at else { return Vec::new() };
        let messages = self.messages.get_mut(&object).expect("a task waits at a known object");
        let Some(load) = messages.resolve(task, by) else { return Vec::new() };
        self.member(task).waits_at = None;
        self.deliver(task, &load, at)
    }

    /// Gives a task the tokens of a message. Returns their chains.
    fn deliver(&mut self, task: TaskId, load: &[TokenCopy], at: Time) -> Vec<usize> {
        let Member { thread, gathers, .. } = *self.member(task);
        let mut came = Vec::new();
        for (nth, chain) in self.chains.iter_mut().enumerate() {
            let mut mine: Vec<_> = load.iter().filter(|it| it.chain == nth).cloned().collect();
            while let Some(place) = mine.first().map(|copy| copy.place) {
                let (here, others) = mine.into_iter().partition(|copy| copy.place == place);
                mine = others;
                let is_in = thread.is_some_and(|it| chain.info.places[place].contains(&it));
                if is_in {
                    chain.arrive(task, here, at, gathers && !chain.info.first);
                    came.push(nth);
                } else {
                    here.iter().for_each(|copy| chain.lose(copy));
                }
            }
        }
        came
    }

    fn arrived(&mut self, arrivals: u32, refused: bool, at: Time) {
        let mut load = Vec::new();
        let object = self.arrivals.get(arrivals as usize).copied().flatten();
        let begins = |chain: &&mut Chain| chain.info.arrivals.contains(&arrivals);
        for chain in self.chains.iter_mut().filter(begins) {
            if refused {
                (chain.began, chain.refused) = (chain.began + 1, chain.refused + 1);
            } else if object.is_some() {
                load.push(chain.begin(at));
            }
        }
        self.starts = (!refused && object.is_none()).then_some(arrivals);
        let messages = object.filter(|_| !refused).and_then(|it| self.messages.get_mut(&it));
        if let Some(messages) = messages {
            messages.put(None, (1, load), &mut |_| {});
        }
    }

    /// Notes that a task reaches its timer too late: what it did before is over, and a token begins with the period.
    fn late(&mut self, task: TaskId, since: Time, at: Time) {
        let Some(thread) = self.member(task).thread else { return };
        for chain in self.chains.iter_mut().filter(|it| !it.info.begins_with_arrivals()) {
            let places: Vec<_> = chain.places(thread).collect();
            places.into_iter().for_each(|place| chain.finish(place, task, at));
            if chain.info.places[0].contains(&thread) {
                let copy = chain.begin(since);
                chain.arrive(task, vec![copy], since, false);
            }
        }
    }

    fn block(&mut self, task: TaskId, at: Time) {
        let member = *self.member(task);
        let Some(thread) = member.thread else { return };
        if self.knows_steps && member.goes_on() {
            return;
        }
        let ends = |chain: &&mut Chain| !chain.info.begins_with_arrivals();
        for chain in self.chains.iter_mut().filter(ends) {
            let places: Vec<_> = chain.places(thread).collect();
            places.into_iter().for_each(|place| chain.finish(place, task, at));
        }
    }

    fn exit(&mut self, task: TaskId, at: Time) {
        let Some(thread) = self.member(task).thread else { return };
        if let Some(object) = self.member(task).waits_at.take() {
            let lost = self.messages.get_mut(&object).map(|it| it.forget(task));
            lost.into_iter().flatten().for_each(|copy| self.chains[copy.chain].lose(&copy));
        }
        for chain in &mut self.chains {
            let places: Vec<_> = chain.places(thread).collect();
            places.into_iter().for_each(|place| chain.finish(place, task, at));
        }
    }
}
