//! Lives to programs: the events that make a task do again what it did.
//!
//! * What it executed is `run`, in whole microseconds; the remainder goes into the next, so that no
//!   total drifts.
//! * A sleep that another task ended is `sem_wait` on a semaphore of its own, and `sem_post` in the
//!   waker's program. A semaphore has memory: a replay in which the waker comes first loses nothing.
//! * A sleep that nobody ended is a `timer`, which is due when it was: what a clock or the network
//!   decided does not depend on when the task came to sleep. So periods stay where they were, and
//!   what one wake-up is late by is not added to all later ones.
//! * If the task was blocked (state `D`), a device answered it: that takes as long as it took, from
//!   whenever the task comes to ask, so it is a `sleep`.
//! * What comes before a task was first runnable is its `delay`, whoever ended that.
//!
//! Invariant: nobody waits for ever in a replay, whatever the schedule. Each semaphore is waited for
//! by one task, in the order of its program; each wait has a post in a program, recorded before that
//! wait ended. So the recorded order is one in which all programs come to their end; and as a
//! post never takes anything from anybody, every other order comes there as well.

use super::lives::{By, Life, LifeId, Lives, Step};
use std::collections::{BTreeMap, BTreeSet};

/// The longest span that an event of the language may have, in microseconds.
pub(super) const LONGEST_US: u64 = i32::MAX as u64;

/// A task is periodic if it was woken this often at least,
const PERIODS: usize = 8;

/// and of the spans between its wake-ups three of four (first of this, then of that)
const REGULAR: (usize, usize) = (3, 4);

/// differ from their median by a tenth at most. `cyclictest` beside hogs is within a hundredth; a
/// task that waits for others comes nowhere near.
const TOLERANCE: u64 = 10;

/// An event of a program; spans in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Run(u64),
    Sleep(u64),
    /// Sleep until so long after the task's last timer was due.
    Timer(u64),
    /// Wait for somebody to post to this life, which is the task's own.
    Wait(LifeId),
    Post(LifeId),
}

/// A stretch of a program under one priority of the kernel's.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) prio: i32,
    pub(super) events: Vec<Event>,
}

/// What a task of the scenario does.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) life: LifeId,
    /// No other task has it.
    pub(super) name: String,
    /// The only CPU that it may run on.
    pub(super) cpu: Option<u32>,
    pub(super) delay: u64,
    /// Never empty, and neither is any of them.
    pub(super) stretches: Vec<Stretch>,
}

impl Program {
    /// Whether it was a task of the deadline policy at any time.
    pub(super) fn is_deadline(&self) -> bool {
        self.stretches.iter().any(|stretch| stretch.prio < 0)
    }
}

/// The programs of all tasks that ran.
pub(super) fn programs(lives: &Lives) -> Vec<Program> {
    let periods: Vec<_> = lives.all.iter().map(period).collect();
    let posts = posts(lives, &periods);
    let mut names = BTreeSet::new();
    let ran = lives.all.iter().enumerate().filter(|(_, life)| life.ran > 0);
    let program = |(id, life): (LifeId, &Life)| {
        let delay = ((life.begin - lives.begin) / 1_000).min(LONGEST_US);
        let (ran, blocked, stretches) = Default::default();
        let maker = Maker { lives, posts: &posts, id, due: delay, ran, blocked, stretches };
        Program {
            life: id,
            name: unique(life, &mut names),
            cpu: bound(&life.comm).filter(|&cpu| cpu < lives.cpus),
            delay,
            stretches: maker.make(life),
        }
    };
    ran.map(program).collect()
}

/// A name that no other task has: a number may be used again, for a task of the same name even.
fn unique(life: &Life, names: &mut BTreeSet<String>) -> String {
    let name = format!("{}-{}", life.comm, life.tid);
    let mut nth = 1;
    let mut free = name.clone();
    while !names.insert(free.clone()) {
        nth += 1;
        free = format!("{name}-{nth}");
    }
    free
}

/// The CPU that a kernel thread is bound to by its name: `migration/3`, `kworker/3:1H-kblockd`. What
/// binds other tasks is not in a recording.
fn bound(comm: &str) -> Option<u32> {
    let (name, cpu) = comm.split_once('/')?;
    let cpu = if name == "kworker" { cpu.split_once(':')?.0 } else { cpu };
    cpu.bytes().all(|byte| byte.is_ascii_digit()).then(|| cpu.parse().ok()).flatten()
}

/// The span between the wake-ups of a task that wakes periodically.
fn period(life: &Life) -> Option<u64> {
    let wakeups = life.steps.iter().filter_map(|step| match step {
        Step::Sleep { to, .. } => Some(*to),
        _ => None,
    });
    let wakeups: Vec<_> = std::iter::once(life.begin).chain(wakeups).collect();
    let mut gaps: Vec<_> = wakeups.windows(2).map(|pair| pair[1] - pair[0]).collect();
    if gaps.len() < PERIODS {
        return None;
    }
    gaps.sort_unstable();
    let median = gaps[gaps.len() / 2];
    let regular = gaps.iter().filter(|&&gap| near(gap, median)).count();
    (regular * REGULAR.1 >= gaps.len() * REGULAR.0).then_some(median)
}

fn near(gap: u64, period: u64) -> bool {
    gap.abs_diff(period) <= period / TOLERANCE
}

/// Who is woken by a post, which is a step of a life.
type Posts = BTreeMap<(LifeId, usize), LifeId>;

/// The posts that are waited for. A timer's interrupt may hit any task, which is no waker for that:
/// a periodic task that is woken when its period is over is woken by its timer.
fn posts(lives: &Lives, periods: &[Option<u64>]) -> Posts {
    let mut posts = Posts::new();
    for (id, life) in lives.all.iter().enumerate().filter(|(_, life)| life.ran > 0) {
        let mut last = life.begin;
        for step in &life.steps {
            let Step::Sleep { to, by, .. } = *step else { continue };
            let timed = periods[id].is_some_and(|period| near(to - last, period));
            last = to;
            if let By::Task(waker, post) = by
                && !timed
                && lives.all[waker].ran > 0
            {
                posts.insert((waker, post), id);
            }
        }
    }
    posts
}

/// Makes one program.
struct Maker<'l> {
    lives: &'l Lives,
    posts: &'l Posts,
    id: LifeId,
    /// When the last timer was due, in microseconds of the recording.
    due: u64,
    /// What it executed and was blocked, and how much of that is in events.
    ran: Whole,
    blocked: Whole,
    stretches: Vec<Stretch>,
}

/// A sum of spans that is told in whole microseconds.
#[derive(Default)]
struct Whole {
    nanos: u64,
    told: u64,
}

impl Whole {
    /// How many microseconds more the sum has with another `nanos`, to the nearest.
    fn add(&mut self, nanos: u64) -> u64 {
        self.nanos += nanos;
        let micros = (self.nanos + 500) / 1_000 - self.told;
        self.told += micros;
        micros
    }
}

impl Maker<'_> {
    fn make(mut self, life: &Life) -> Vec<Stretch> {
        self.stretches.push(Stretch { prio: life.prio, events: Vec::new() });
        let late = (life.begin - self.lives.begin) / 1_000 - self.due;
        self.spans(Event::Sleep, late);
        for (nth, step) in life.steps.iter().enumerate() {
            self.step(nth, *step);
        }
        self.stretches.retain(|stretch| !stretch.events.is_empty());
        if self.stretches.is_empty() {
            // It ran, for less than can be told.
            self.stretches.push(Stretch { prio: life.prio, events: vec![Event::Run(0)] });
        }
        self.stretches
    }

    fn step(&mut self, nth: usize, step: Step) {
        match step {
            Step::Run(nanos) => {
                let micros = self.ran.add(nanos);
                self.spans(Event::Run, micros);
            }
            Step::Post(_) => {
                if let Some(&woken) = self.posts.get(&(self.id, nth)) {
                    self.push(Event::Post(woken));
                }
            }
            Step::Prio(prio) => self.stretches.push(Stretch { prio, events: Vec::new() }),
            Step::Sleep { from, to, by, blocked } => {
                if matches!(by, By::Task(waker, post) if self.posts.contains_key(&(waker, post))) {
                    self.push(Event::Wait(self.id));
                } else if blocked {
                    let micros = self.blocked.add(to - from);
                    self.spans(Event::Sleep, micros);
                } else {
                    let due = (to - self.lives.begin) / 1_000;
                    self.spans(Event::Timer, due - self.due);
                    self.due = due;
                }
            }
        }
    }

    /// As many events as it takes to say a span; none says nothing.
    fn spans(&mut self, event: impl Fn(u64) -> Event, mut micros: u64) {
        while micros > 0 {
            let span = micros.min(LONGEST_US);
            self.push(event(span));
            micros -= span;
        }
    }

    /// One more event; two runs in a row, where something between them is left out, are one.
    fn push(&mut self, event: Event) {
        let events = &mut self.stretches.last_mut().expect("there is always a stretch").events;
        match (events.last_mut(), event) {
            (Some(Event::Run(last)), Event::Run(more)) if *last + more <= LONGEST_US => {
                *last += more;
            }
            _ => events.push(event),
        }
    }
}
