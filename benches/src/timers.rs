//! The timers of one CPU, of which a fixed number is armed at any time.
//!
//! Most timers are timeouts that are cancelled before they expire: here each is cancelled once the same number of
//! others was armed after it. The rest expire: the first is taken and another armed. Each expires at a random moment of
//! the next second. Its slack is that of a mixed process (none, 50 us or 10 ms), or the same for all.
//!
//! The same operations run on other queues: one with the same deadlines and no soft expiries, a `BTreeMap`, and tokio's
//! wheel through its public interface, a `Sleep` that is polled once and dropped.

use crate::rig::Clock;
use crate::{Operation, Runner};
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::deadlines::{Deadline, Deadlines};
use runyard_engine::timer::{Expiry, TimerId, TimerQueue, Token, Window};
use slab::Slab;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::pin::Pin;
use std::task::{Context, Waker};

/// Numbers of armed timers.
const ARMED: [usize; 4] = [10, 1_000, 100_000, 1_000_000];

/// Span within which a timer expires after it is armed.
const HORIZON: Nanos = Nanos::from_secs(1);

/// The slacks that timers have in turn.
pub(crate) type Slacks = &'static [Nanos];
pub(crate) const MIXED: Slacks = &[Nanos::ZERO, Nanos::from_micros(50), Nanos::from_millis(10)];
const UNIFORM: Slacks = &[Nanos::from_micros(50)];

/// A queue of timers.
pub(crate) trait Queue: Default + 'static {
    /// The name of an armed timer.
    type Id: Copy + Debug;
    fn arm(&mut self, window: Window) -> Self::Id;
    fn cancel(&mut self, id: Self::Id) -> bool;
    /// Returns the time of the next interrupt.
    fn first(&self) -> Time;
    /// Takes the first timer.
    fn take(&mut self, now: Time) -> bool;
}

impl Queue for TimerQueue {
    type Id = TimerId;

    fn arm(&mut self, window: Window) -> TimerId {
        TimerQueue::arm(self, window, Token(0))
    }

    fn cancel(&mut self, id: TimerId) -> bool {
        TimerQueue::cancel(self, id)
    }

    fn first(&self) -> Time {
        TimerQueue::first(self)
    }

    fn take(&mut self, now: Time) -> bool {
        self.take_expired(now).is_some()
    }
}

/// A queue of timers with hard expiries alone.
#[derive(Default)]
pub(crate) struct Plain {
    timers: Slab<PlainTimer>,
    by_hard: Deadlines,
    armed: u64,
}

struct PlainTimer {
    hard: Time,
    period: Nanos,
    token: Token,
    generation: u32,
    place: u32,
}

impl Plain {
    fn remove(&mut self, slot: u32) {
        let Plain { timers, by_hard, .. } = self;
        let PlainTimer { place, .. } = timers.remove(slot as usize);
        by_hard.remove(place, |slot, place| timers[slot as usize].place = place);
    }

    fn take_expired(&mut self, now: Time) -> Option<Expiry> {
        let (_, slot) = self.by_hard.first().filter(|(deadline, _)| deadline.at <= now)?;
        let timer = &mut self.timers[slot as usize];
        let PlainTimer { token, hard, period, place, .. } = *timer;
        if period == Nanos::ZERO {
            self.remove(slot);
            return Some(Expiry { token, greedy: false, overruns: 0 });
        }
        let overruns = now.since(hard).0 / period.0;
        timer.hard = hard + Nanos(period.0 * (overruns + 1));
        let deadline = Deadline { at: timer.hard, nth: self.armed };
        self.armed += 1;
        let timers = &mut self.timers;
        self.by_hard.change(place, deadline, |slot, place| timers[slot as usize].place = place);
        Some(Expiry { token, greedy: false, overruns })
    }
}

impl Queue for Plain {
    type Id = (u32, u32);

    fn arm(&mut self, window: Window) -> (u32, u32) {
        let Plain { timers, by_hard, armed } = self;
        let generation = *armed as u32;
        let (hard, period, token) = (window.hard, Nanos::ZERO, Token(0));
        let timer = PlainTimer { hard, period, token, generation, place: 0 };
        let slot = timers.insert(timer) as u32;
        let deadline = Deadline { at: hard, nth: *armed };
        let _ = by_hard.insert(deadline, slot, |slot, place| timers[slot as usize].place = place);
        *armed += 1;
        (slot, generation)
    }

    fn cancel(&mut self, (slot, generation): (u32, u32)) -> bool {
        let there = self.timers.get(slot as usize).is_some_and(|it| it.generation == generation);
        if there {
            self.remove(slot);
        }
        there
    }

    fn first(&self) -> Time {
        self.by_hard.first().map_or(Time::MAX, |(deadline, _)| deadline.at)
    }

    fn take(&mut self, now: Time) -> bool {
        self.take_expired(now).is_some()
    }
}

/// A queue on a tree of the standard library.
#[derive(Default)]
struct Tree {
    timers: BTreeMap<Deadline, Token>,
    armed: u64,
}

impl Queue for Tree {
    type Id = Deadline;

    fn arm(&mut self, window: Window) -> Deadline {
        let id = Deadline { at: window.hard, nth: self.armed };
        self.timers.insert(id, Token(0));
        self.armed += 1;
        id
    }

    fn cancel(&mut self, id: Deadline) -> bool {
        self.timers.remove(&id).is_some()
    }

    fn first(&self) -> Time {
        self.timers.first_key_value().map_or(Time::MAX, |(deadline, _)| deadline.at)
    }

    fn take(&mut self, now: Time) -> bool {
        let first = self.timers.first_entry().filter(|entry| entry.key().at <= now);
        first.is_some_and(|entry| entry.remove() == Token(0))
    }
}

/// Armed timers in the order in which they were armed.
struct Timers<Q: Queue> {
    queue: Q,
    ids: VecDeque<Q::Id>,
    clock: Clock,
    slacks: Slacks,
    armed: usize,
}

pub(crate) fn operations() -> Vec<Operation> {
    let mut operations = Vec::new();
    for armed in ARMED {
        add::<TimerQueue>(&mut operations, ("soft", MIXED), armed);
        add::<TimerQueue>(&mut operations, ("soft-uniform", UNIFORM), armed);
        add::<Plain>(&mut operations, ("plain", MIXED), armed);
        add::<Tree>(&mut operations, ("btree", MIXED), armed);
        let name = format!("timer/soft/arm-walk/{armed}");
        operations.push(Operation::new(name, move || walks(armed)));
        let name = format!("timer/tokio/arm-cancel/{armed}");
        operations.push(Operation::new(name, move || sleeps(armed)));
    }
    operations
}

fn add<Q: Queue>(operations: &mut Vec<Operation>, (queue, slacks): (&str, Slacks), armed: usize) {
    let name = format!("timer/{queue}/arm-cancel/{armed}");
    operations.push(Operation::new(name, move || cancellations::<Q>(slacks, armed)));
    let name = format!("timer/{queue}/arm-expire/{armed}");
    operations.push(Operation::new(name, move || expiries::<Q>(slacks, armed)));
}

/// Prepares timers that are armed and cancelled.
pub(crate) fn cancellations<Q: Queue>(slacks: Slacks, armed: usize) -> Runner {
    let mut timers = Timers::<Q>::new(slacks, armed);
    Box::new(move |times| {
        for _ in 0..times {
            let id = timers.arm();
            timers.ids.push_back(id);
            let oldest = timers.ids.pop_front().expect("timers are armed");
            assert!(timers.queue.cancel(oldest), "no timer expires");
        }
    })
}

/// Prepares timers that are armed and expire when their windows close.
pub(crate) fn expiries<Q: Queue>(slacks: Slacks, armed: usize) -> Runner {
    let mut timers = Timers::<Q>::new(slacks, armed);
    Box::new(move |times| {
        for _ in 0..times {
            timers.clock.now = timers.queue.first();
            assert!(timers.queue.take(timers.clock.now), "a timer expires when its window closes");
            timers.arm();
        }
    })
}

/// Prepares walks of an idle CPU. It walks at the mean interval at which timers open, and arms each timer that it takes
/// again.
fn walks(armed: usize) -> Runner {
    let mut timers = Timers::<TimerQueue>::new(MIXED, armed);
    let between = Nanos(HORIZON.0 / armed as u64);
    Box::new(move |times| {
        for _ in 0..times {
            while timers.queue.take_open(timers.clock.now).is_none() {
                timers.clock.after(between);
            }
            timers.arm();
        }
    })
}

impl<Q: Queue> Timers<Q> {
    fn new(slacks: Slacks, armed: usize) -> Timers<Q> {
        let (queue, ids, clock) = (Q::default(), VecDeque::new(), Clock::default());
        let mut timers = Timers { queue, ids, clock, slacks, armed: 0 };
        for _ in 0..armed {
            let id = timers.arm();
            timers.ids.push_back(id);
        }
        timers
    }

    fn arm(&mut self) -> Q::Id {
        let soft = self.clock.now + self.clock.below(HORIZON);
        self.armed += 1;
        let slack = self.slacks[self.armed % self.slacks.len()];
        self.queue.arm(Window { soft, hard: soft + slack })
    }
}

/// A span beyond the measurement, so that no timer expires.
const LATER: std::time::Duration = std::time::Duration::from_secs(1_000);

fn sleeps(armed: usize) -> Runner {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_time().build().expect("a runtime starts");
    let mut clock = Clock::default();
    let begin = tokio::time::Instant::now() + LATER;
    let mut arm = move || {
        let at = std::time::Duration::from_nanos(clock.below(HORIZON).0);
        let mut sleep = Box::pin(tokio::time::sleep_until(begin + at));
        let mut context = Context::from_waker(Waker::noop());
        assert!(Future::poll(sleep.as_mut(), &mut context).is_pending(), "nothing expires");
        sleep
    };
    let mut sleeps: VecDeque<Pin<Box<tokio::time::Sleep>>> = {
        let _context = runtime.enter();
        (0..armed).map(|_| arm()).collect()
    };
    Box::new(move |times| {
        let _context = runtime.enter();
        for _ in 0..times {
            sleeps.push_back(arm());
            drop(sleeps.pop_front());
        }
    })
}
