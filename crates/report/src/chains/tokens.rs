//! The tokens of one chain: their copies, and their ends.
//!
//! A token is over when its last copy is, or with [`ChainInfo::first`] when the first copy reaches the end. The tasks that had
//! the copy that ended it are its way.

use super::info::ChainInfo;
use crate::course::Course;
use crate::histogram::Histogram;
use crate::within::Within;
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use std::collections::BTreeMap;
use std::iter::successors;
use std::sync::Arc;

/// The largest number of tokens of a chain that are under way. Of more the oldest are dropped.
const MOST: usize = 1 << 16;

/// The number of the slowest tokens in a report.
const WORST: usize = 10;

/// A copy of a token.
#[derive(Clone, Debug)]
pub(super) struct TokenCopy {
    /// The number of the chain, for a copy in an object that several chains use.
    pub(super) chain: usize,
    token: u64,
    /// The place at which the copy is, or to which it goes.
    pub(super) place: usize,
    way: Way,
}

/// The tasks that had a copy of a token, the last one first, each with the moment of its arrival.
type Way = Option<Arc<Hop>>;

#[derive(Debug)]
struct Hop {
    task: TaskId,
    at: Time,
    before: Way,
}

/// The copy that a task has.
#[derive(Clone, Debug)]
struct Held {
    copy: TokenCopy,
    /// Whether it went on from here, so that the task no longer needs its own.
    went_on: bool,
}

#[derive(Debug)]
struct Token {
    since: Time,
    /// The number of its copies.
    copies: u32,
    /// The last end of a copy.
    end: Option<(Time, Way)>,
}

/// A token that ended.
#[derive(Debug)]
pub(super) struct Slow {
    pub(super) latency: Nanos,
    pub(super) since: Time,
    way: Way,
}

impl Slow {
    /// The tasks that had it, the first one first.
    pub(super) fn way(&self) -> Vec<(TaskId, Time)> {
        let hops = successors(self.way.as_ref(), |hop| hop.before.as_ref());
        let mut way: Vec<_> = hops.map(|hop| (hop.task, hop.at)).collect();
        way.reverse();
        way
    }
}

/// A chain with its tokens.
#[derive(Debug)]
pub(super) struct Chain {
    pub(super) info: ChainInfo,
    nth: usize,
    held: BTreeMap<(usize, TaskId), Vec<Held>>,
    tokens: BTreeMap<u64, Token>,
    /// The number of the next token.
    next: u64,
    pub(super) began: u64,
    pub(super) dropped: u64,
    pub(super) refused: u64,
    pub(super) missed: u64,
    pub(super) latency: Histogram,
    pub(super) within: Within,
    /// The latencies over time, if they are kept, and the beginning of the report.
    pub(super) course: Option<(Time, Course)>,
    /// The slowest tokens, the slowest first.
    pub(super) worst: Vec<Slow>,
}

impl Chain {
    pub(super) fn new(nth: usize, info: ChainInfo) -> Chain {
        Chain {
            info,
            nth,
            held: BTreeMap::new(),
            tokens: BTreeMap::new(),
            next: 0,
            began: 0,
            dropped: 0,
            refused: 0,
            missed: 0,
            latency: Histogram::default(),
            within: Within::default(),
            course: None,
            worst: Vec::new(),
        }
    }

    /// Begins the counts anew at `at`. The tokens that are under way count among those that began.
    pub(super) fn count_from(&mut self, at: Time) {
        self.began = self.tokens.len() as u64;
        (self.dropped, self.refused, self.missed) = (0, 0, 0);
        self.latency = Histogram::default();
        self.worst.clear();
        self.course = self.course.take().map(|_| (at, Course::new()));
    }

    pub(super) fn last(&self) -> usize {
        self.info.places.len() - 1
    }

    /// The places of a thread.
    pub(super) fn places(&self, thread: u32) -> impl Iterator<Item = usize> + use<'_> {
        let has = move |(_, place): &(usize, &Vec<u32>)| place.contains(&thread);
        self.info.places.iter().enumerate().filter(has).map(|(at, _)| at)
    }

    pub(super) fn holds(&self, place: usize, task: TaskId) -> bool {
        self.held.contains_key(&(place, task))
    }

    /// Begins a token, on its way to the first place.
    pub(super) fn begin(&mut self, since: Time) -> TokenCopy {
        if self.tokens.len() >= MOST && self.tokens.pop_first().is_some() {
            self.dropped += 1;
        }
        let token = self.next;
        (self.next, self.began) = (token + 1, self.began + 1);
        self.tokens.insert(token, Token { since, copies: 1, end: None });
        TokenCopy { chain: self.nth, token, place: 0, way: None }
    }

    /// Notes that there is one more of a copy.
    pub(super) fn copied(&mut self, copy: &TokenCopy) {
        if let Some(token) = self.tokens.get_mut(&copy.token) {
            token.copies += 1;
        }
    }

    /// Returns the copies of a task at a place that go on to the next.
    pub(super) fn pass(&mut self, place: usize, task: TaskId) -> Vec<TokenCopy> {
        let Some(held) = self.held.get_mut(&(place, task)) else { return Vec::new() };
        held.iter_mut().for_each(|it| it.went_on = true);
        let copies: Vec<_> = held.iter().map(|it| it.copy.clone()).collect();
        copies.iter().for_each(|copy| self.copied(copy));
        copies.into_iter().map(|copy| TokenCopy { place: place + 1, ..copy }).collect()
    }

    /// Gives copies to a task at their place. Those that it has there are over, unless it `gathers`, and are lost unless they
    /// went on or meet another copy of their token.
    pub(super) fn arrive(&mut self, task: TaskId, copies: Vec<TokenCopy>, at: Time, gathers: bool) {
        let Some(place) = copies.first().map(|copy| copy.place) else { return };
        let old = self.held.remove(&(place, task)).unwrap_or_default();
        let is_new = |held: &Held| copies.iter().any(|copy| copy.token == held.copy.token);
        let mut all = Vec::with_capacity(copies.len());
        for held in old {
            match gathers && !is_new(&held) {
                true => all.push(held),
                false if held.went_on || is_new(&held) => self.settle(held.copy.token),
                false => self.lose(&held.copy),
            }
        }
        for mut copy in copies {
            copy.way = Some(Arc::new(Hop { task, at, before: copy.way.take() }));
            // Of the copies that come together, the last one was waited for: its way is told.
            match all.iter_mut().find(|held| held.copy.token == copy.token) {
                Some(held) => {
                    self.settle(copy.token);
                    held.copy = copy;
                }
                None => all.push(Held { copy, went_on: false }),
            }
        }
        self.held.insert((place, task), all);
    }

    /// Notes that the work of a task for what it has at a place is over. At the last place its copies end; elsewhere those are
    /// over that went on.
    pub(super) fn finish(&mut self, place: usize, task: TaskId, at: Time) {
        let Some(held) = self.held.remove(&(place, task)) else { return };
        let is_last = place == self.last();
        let mut stay = Vec::new();
        for held in held {
            match held.went_on {
                _ if is_last => self.end(held.copy, at),
                true => self.settle(held.copy.token),
                false => stay.push(held),
            }
        }
        if !stay.is_empty() {
            self.held.insert((place, task), stay);
        }
    }

    /// Notes that a copy is lost, and its token with it.
    pub(super) fn lose(&mut self, copy: &TokenCopy) {
        self.dropped += u64::from(self.tokens.remove(&copy.token).is_some());
    }

    /// Notes that a copy is over that others replace.
    fn settle(&mut self, token: u64) {
        let Some(known) = self.tokens.get_mut(&token) else { return };
        known.copies -= 1;
        if known.copies == 0
            && let Some(over) = self.tokens.remove(&token)
        {
            match over.end {
                Some((at, way)) => self.record(over.since, at, way),
                None => self.dropped += 1,
            }
        }
    }

    fn end(&mut self, copy: TokenCopy, at: Time) {
        let Some(token) = self.tokens.get_mut(&copy.token) else { return };
        if self.info.first {
            let since = token.since;
            self.tokens.remove(&copy.token);
            return self.record(since, at, copy.way);
        }
        token.end = Some((at, copy.way));
        self.settle(copy.token);
    }

    fn record(&mut self, since: Time, at: Time, way: Way) {
        let latency = at.since(since);
        self.latency.record(latency);
        self.within.record(at, latency);
        if let Some((begin, course)) = &mut self.course {
            course.record(Time::ZERO + at.since(*begin), latency);
        }
        self.missed += u64::from(self.info.deadline.is_some_and(|deadline| latency > deadline));
        let slower = self.worst.partition_point(|slow| slow.latency >= latency);
        if slower < WORST {
            self.worst.insert(slower, Slow { latency, since, way });
            self.worst.truncate(WORST);
        }
    }

    /// Asserts that each token is counted once, and each of its copies. `waiting` are the copies in objects.
    pub(super) fn check<'c>(&'c self, waiting: impl Iterator<Item = &'c TokenCopy>) {
        let over = self.latency.count() + self.dropped + self.refused;
        assert_eq!(self.began, over + self.tokens.len() as u64, "{}: tokens", self.info.name);
        let mut copies: BTreeMap<u64, u32> = BTreeMap::new();
        let held = self.held.values().flatten().map(|held| &held.copy);
        for copy in held.chain(waiting.filter(|copy| copy.chain == self.nth)) {
            if self.tokens.contains_key(&copy.token) {
                *copies.entry(copy.token).or_default() += 1;
            }
        }
        let counted = self.tokens.iter().map(|(&token, it)| (token, it.copies)).collect();
        assert_eq!(copies, counted, "{}: copies", self.info.name);
    }
}
