//! From lives to programs: the events that make a task repeat its recorded work.
//!
//! * The time that it executed is `run`, in whole microseconds. The remainder goes into the next `run`, so that no
//!   total drifts.
//! * A sleep that another task ended is `sem_wait` on a semaphore of its own, with `sem_post` in the waker's program. A
//!   semaphore has memory, so a replay in which the waker comes first loses no wake-up.
//! * A sleep without a known waker is a `timer`, due at the recorded time. A clock or the network ended it, at a time
//!   that does not depend on the begin of the sleep. So periods keep their places, and the delay of one wake-up does
//!   not shift all later ones.
//! * If the task was blocked (state `D`), a device ended the sleep. The device takes the recorded time from any begin,
//!   so this is a `sleep`.
//! * A task that another one made in the recording begins by a `fork` in that one's program. The time before any other
//!   task was first runnable is its `delay`.
//! * A task that was runnable when the recording ended wanted more than it got. It goes on to `run` until the replay
//!   ends. Otherwise it would leave its CPU to others, who would wait less than they did.
//!
//! Invariant: no task waits for ever in a replay, under any schedule. One task waits for each semaphore, in the order
//! of its program. Each wait has a post in a program, recorded before that wait ended, and each task that is made has a
//! `fork`, recorded before its begin. So in the recorded order all programs reach their end. A post and a fork never take
//! anything from another task, so they reach it in every other order as well.

use super::lives::{By, Life, LifeId, Lives, Step};
use super::snapshot::Seat;
use std::collections::{BTreeMap, BTreeSet};

/// The longest span of an event of the language, in microseconds.
pub(super) const LONGEST_US: u64 = i32::MAX as u64;

/// The smallest number of wake-ups of which a rule can be seen.
const PERIODS: usize = 8;

/// The part of the spans between the wake-ups of a periodic task that must be close to their median: the first number
/// out of the second.
const REGULAR: (usize, usize) = (3, 4);

/// How many standard deviations more often than expected an interrupt hits a task by chance.
const DEVIATIONS: f64 = 3.0;

/// The largest deviation of these spans: the median divided by this. `cyclictest` beside hogs is within a hundredth; a
/// task that waits for other tasks is far outside.
const TOLERANCE: u64 = 10;

/// An event of a program; spans in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Run(u64),
    /// Run on, since the task was runnable when the recording ended.
    RunOn(u64),
    Sleep(u64),
    /// Sleep until so long after the task's last timer was due.
    Timer(u64),
    /// Wait for a post to this life, which is the task's own.
    Wait(LifeId),
    Post(LifeId),
    Fork(LifeId),
}

/// A stretch of a program with one priority of the kernel's.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) prio: i32,
    pub(super) events: Vec<Event>,
}

/// The program of a task of the scenario.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) life: LifeId,
    /// The name, which is unique.
    pub(super) name: String,
    /// The CPUs that it may run on; empty for all.
    pub(super) cpus: BTreeSet<u32>,
    pub(super) seat: Seat,
    /// Whether another program has its `fork`. Then its delay is 0.
    pub(super) is_forked: bool,
    /// The time from the begin of the recording until it was first runnable, in microseconds.
    pub(super) delay: u64,
    /// The stretches: at least one, each with at least one event.
    pub(super) stretches: Vec<Stretch>,
}

impl Program {
    /// Returns whether the task had the deadline policy at any time.
    pub(super) fn is_deadline(&self) -> bool {
        self.stretches.iter().any(|stretch| stretch.prio < 0)
    }
}

/// Returns the programs of all tasks that ran. `seats` has one for each life.
pub(super) fn programs(lives: &Lives, seats: &[Seat]) -> Vec<Program> {
    let posts = posts(lives);
    let mut names = BTreeSet::new();
    let ran = lives.all.iter().enumerate().filter(|(_, life)| life.ran > 0);
    let program = |(id, life): (LifeId, &Life)| {
        let is_forked = is_forked(lives, life);
        let begin = (life.begin - lives.begin) / 1_000;
        let delay = if is_forked { 0 } else { begin.min(LONGEST_US) };
        let due = if is_forked { begin } else { delay };
        let (ran, blocked, stretches) = Default::default();
        let maker = Maker { lives, posts: &posts, id, due, ran, blocked, stretches };
        Program {
            life: id,
            name: unique(life, &mut names),
            cpus: cpus(life, &seats[id], lives.cpus),
            seat: seats[id].clone(),
            is_forked,
            delay,
            stretches: maker.make(life),
        }
    };
    ran.map(program).collect()
}

/// Returns whether the program of another task makes this one.
fn is_forked(lives: &Lives, life: &Life) -> bool {
    life.parent.is_some_and(|parent| lives.all[parent].ran > 0)
}

/// Returns a unique name. A number may be reused, even for a task of the same name.
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

/// Returns the CPUs of this many that a task may run on; none stands for all.
fn cpus(life: &Life, seat: &Seat, number: u32) -> BTreeSet<u32> {
    let exist = |cpus: BTreeSet<u32>| cpus.into_iter().filter(|&cpu| cpu < number).collect();
    let allowed: BTreeSet<u32> = exist(seat.cpus.clone());
    match bound(&life.comm) {
        Some(cpu) if seat.cpus.is_empty() => exist(BTreeSet::from([cpu])),
        _ if allowed.len() < number as usize => allowed,
        _ => BTreeSet::new(),
    }
}

/// The names of the kernel's threads of one CPU: those of Linux 6.1 to 6.18 that `smp_hotplug_thread`s and
/// `kthread_create_on_cpu` make.
const PER_CPU: [&str; 10] = [
    "backlog_napi",
    "cpuhp",
    "idle_inject",
    "irq_work",
    "ksoftirqd",
    "ktimers",
    "kworker",
    "migration",
    "rcuc",
    "watchdog",
];

/// Returns the CPU that a kernel thread is bound to by its name: `migration/3`, `kworker/3:1H-kblockd`. A recording
/// does not contain the affinity of other tasks.
fn bound(comm: &str) -> Option<u32> {
    let (name, cpu) = comm.split_once('/')?;
    if !PER_CPU.contains(&name) {
        return None;
    }
    let cpu = if name == "kworker" { cpu.split_once(':')?.0 } else { cpu };
    cpu.bytes().all(|byte| byte.is_ascii_digit()).then(|| cpu.parse().ok()).flatten()
}

/// Returns whether a task wakes periodically.
fn is_periodic(life: &Life) -> bool {
    let wakeups = life.steps.iter().filter_map(|step| match step {
        Step::Sleep { to, .. } => Some(*to),
        _ => None,
    });
    let wakeups: Vec<_> = std::iter::once(life.begin).chain(wakeups).collect();
    let mut gaps: Vec<_> = wakeups.windows(2).map(|pair| pair[1] - pair[0]).collect();
    if gaps.len() < PERIODS {
        return false;
    }
    gaps.sort_unstable();
    let median = gaps[gaps.len() / 2];
    let regular = gaps.iter().filter(|gap| gap.abs_diff(median) <= median / TOLERANCE).count();
    regular * REGULAR.1 >= gaps.len() * REGULAR.0
}

/// Returns whether interrupts wake this kernel thread, whatever task they interrupt.
fn serves_interrupts(comm: &str) -> bool {
    comm.starts_with("ksoftirqd/")
        || ["rcu_", "rcuc/", "rcub/", "rcuop/", "rcuog/"].iter().any(|it| comm.starts_with(it))
}

/// The task that each post, a step of a life, wakes.
type Posts = BTreeMap<(LifeId, usize), LifeId>;

/// Returns the posts that a task waits for. A timer's interrupt may hit any task, which is not the waker.
///
/// If the recording does not tell an interrupt, a task is not the waker if chance explains how often it is hit
/// ([`Chance`]). Nor is it the waker of a periodic task if it has not slept since it last woke that one. A task that
/// serves a periodic one is periodic too, but its waker sleeps in between.
fn posts(lives: &Lives) -> Posts {
    let mut posts = Posts::new();
    let busy = busy(lives);
    let after_sleep = posts_after_sleep(lives);
    let ran = |&(_, life): &(LifeId, &Life)| life.ran > 0 && !serves_interrupts(&life.comm);
    for (id, life) in lives.all.iter().enumerate().filter(ran) {
        let is_periodic = is_periodic(life);
        let chance = Chance::new(life, &busy);
        for step in &life.steps {
            let Step::Sleep { by, .. } = *step else { continue };
            let (waker, post, is_sure) = match by {
                By::Nobody => continue,
                By::Task { waker, post } => (waker, post, true),
                By::Perhaps { waker, post, .. } => (waker, post, false),
            };
            let other = &lives.all[waker];
            let woke = || {
                let slept = !is_periodic || after_sleep.contains(&(waker, post));
                slept && !chance.explains(waker, other)
            };
            if other.ran > 0 && (is_sure || woke()) {
                posts.insert((waker, post), id);
            }
        }
    }
    posts
}

/// Returns how long each CPU executed tasks.
fn busy(lives: &Lives) -> BTreeMap<u32, u64> {
    let mut busy = BTreeMap::new();
    for (&cpu, &nanos) in lives.all.iter().flat_map(|life| &life.ran_on) {
        *busy.entry(cpu).or_default() += nanos;
    }
    busy
}

/// The wake-ups of one task that may have come from interrupts. These hit another task as often as it runs.
struct Chance<'l> {
    busy: &'l BTreeMap<u32, u64>,
    /// The number of these wake-ups on each CPU, and by each task.
    on: BTreeMap<u32, u64>,
    by: BTreeMap<LifeId, u64>,
    number: u64,
    softirqs: u64,
}

impl Chance<'_> {
    fn new<'l>(life: &Life, busy: &'l BTreeMap<u32, u64>) -> Chance<'l> {
        let (on, by) = Default::default();
        let mut chance = Chance { busy, on, by, number: 0, softirqs: 0 };
        for step in &life.steps {
            if let Step::Sleep { by: By::Perhaps { waker, cpu, softirq, .. }, .. } = *step {
                *chance.on.entry(cpu).or_default() += 1;
                *chance.by.entry(waker).or_default() += 1;
                chance.number += 1;
                chance.softirqs += u64::from(softirq);
            }
        }
        chance
    }

    /// Returns whether this task is not the waker: it was running in as many of the wake-ups as interrupts would have hit
    /// it, or in at most [`DEVIATIONS`] more. Of a few wake-ups nothing can be said. Then tasks have most of them, but for
    /// those in soft interrupts, which timers have.
    fn explains(&self, waker: LifeId, other: &Life) -> bool {
        if self.number < PERIODS as u64 {
            return self.softirqs * 2 > self.number;
        }
        let part = |(cpu, &number): (&u32, &u64)| {
            let (ran, busy) = (other.ran_on.get(cpu)?, self.busy.get(cpu)?);
            Some(number as f64 * *ran as f64 / *busy as f64)
        };
        let expected: f64 = self.on.iter().filter_map(part).sum();
        let found = self.by.get(&waker).copied().unwrap_or(0) as f64;
        found <= expected + DEVIATIONS * expected.sqrt()
    }
}

/// Returns the posts of all tasks that have slept since they last woke the same task.
fn posts_after_sleep(lives: &Lives) -> BTreeSet<(LifeId, usize)> {
    let mut after_sleep = BTreeSet::new();
    for (id, life) in lives.all.iter().enumerate() {
        // The last sleep, and the last post to each task.
        let (mut slept, mut posted) = (None, BTreeMap::new());
        for (nth, step) in life.steps.iter().enumerate() {
            match step {
                Step::Sleep { .. } => slept = Some(nth),
                Step::Post(woken) => {
                    if slept > posted.insert(woken, nth) {
                        after_sleep.insert((id, nth));
                    }
                }
                Step::Run(_) | Step::Fork(_) | Step::Prio(_) => {}
            }
        }
    }
    after_sleep
}

/// The state while one program is made.
struct Maker<'l> {
    lives: &'l Lives,
    posts: &'l Posts,
    id: LifeId,
    /// The time at which the last timer was due, in microseconds of the recording.
    due: u64,
    /// The time that the task executed and was blocked, with the part that is in events already.
    ran: Whole,
    blocked: Whole,
    stretches: Vec<Stretch>,
}

/// A sum of spans that is written in whole microseconds.
#[derive(Default)]
struct Whole {
    nanos: u64,
    told: u64,
}

impl Whole {
    /// Adds `nanos`, and returns by how many microseconds the rounded sum grows.
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
        if life.wants_more {
            let rest = (self.lives.end - self.lives.begin).div_ceil(1_000);
            self.spans(Event::RunOn, rest);
        }
        self.stretches.retain(|stretch| !stretch.events.is_empty());
        if self.stretches.is_empty() {
            // The task ran for less than a microsecond.
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
            Step::Fork(child) => {
                let child_life = &self.lives.all[child];
                if child_life.ran > 0 && child_life.parent == Some(self.id) {
                    self.push(Event::Fork(child));
                }
            }
            Step::Prio(prio) => self.stretches.push(Stretch { prio, events: Vec::new() }),
            Step::Sleep { from, to, by, blocked } => {
                let post = match by {
                    By::Task { waker, post } | By::Perhaps { waker, post, .. } => {
                        Some((waker, post))
                    }
                    By::Nobody => None,
                };
                if post.is_some_and(|post| self.posts.contains_key(&post)) {
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

    /// Adds as many events as a span needs; none for an empty span.
    fn spans(&mut self, event: impl Fn(u64) -> Event, mut micros: u64) {
        while micros > 0 {
            let span = micros.min(LONGEST_US);
            self.push(event(span));
            micros -= span;
        }
    }

    /// Adds an event. Two adjacent runs are merged, when an event between them was left out.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_kernels_own_threads_are_bound_by_their_names() {
        let bound = [
            "migration/3",
            "kworker/3:1H-kblockd",
            "rcuc/3",
            "worker/3",
            "kworker/u8:1",
            "rcuop/3",
        ];
        assert_eq!(bound.map(super::bound), [Some(3), Some(3), Some(3), None, None, None]);
        assert!(["ksoftirqd/0", "rcu_sched", "rcuop/1"].into_iter().all(serves_interrupts));
        assert!(!serves_interrupts("rcupdate"));
    }
}
