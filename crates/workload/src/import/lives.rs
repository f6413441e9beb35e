//! From records to lives: the states of each task over time, and the waker of each of its sleeps.
//!
//! ```text
//!              woken, new                 switched to
//!   Asleep ------------------> Ready ------------------> Running --- exits
//!     ^                          ^   switched from, R       |
//!     |                          +--------------------------+
//!     +-----------------------------------------------------+ switched from, any other state
//! ```
//!
//! Recordings are incomplete. They begin in the middle of lives, events are lost, and some kernels do not record how
//! the idle task of a CPU switches. But each line names the task that runs on its CPU. If that is not the task that the
//! last switch left there, a switch was not recorded. The missing switch is placed where the kernel's accounts say that
//! the task began to run, else as early as possible. The state of the other task stays open until its next record. If
//! that is a wake-up, it slept; if that is a switch to it, it was preempted.
//!
//! A recording has no run queues of its begin. But a task that gets a CPU without a wake-up was runnable before. So it
//! was runnable from the begin, if the recording has wake-ups and the recorder lost no events. If it gets the CPU late and
//! soon sleeps, it was not: some kernels do not record each wake-up.
//!
//! Invariants: a task runs on one CPU and a CPU runs one task; the states of a life cover it without gaps; a
//! [`Step::Post`] precedes the end of the sleep that it ends, in time and in the waker's life.

use super::latency::Latencies;
use super::record::{Context, IDLE, Left, Named, Record, What};
use super::records::Records;
use super::tick::Beats;
use std::collections::BTreeMap;

/// The number of records that are searched for an account of the time at which a task began to run.
const LOOK_AHEAD: usize = 64;

/// The priority of a task without a known one: nice 0.
const NICE_0: i32 = 120;

/// A task that gets its first CPU without a wake-up, this soon after the begin of the recording, was runnable from the
/// begin.
const QUEUED_NS: u64 = 100_000_000;

/// A task that gets its CPU this soon after a wake-up may have preempted the other task at any time, in nanoseconds. A
/// task that waited longer followed at a tick.
const WAITED_NS: u64 = 100_000;

/// The place of a life in [`Lives::all`].
pub(super) type LifeId = usize;

/// The cause of the end of a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// An interrupt, the idle task, or an unknown waker.
    Nobody,
    /// A task, with the step of its life that ended the sleep.
    Task { waker: LifeId, post: usize },
    /// The same, unless an interrupt hit this task by chance. The CPU is that of the wake-up, which was in a soft
    /// interrupt if the recording says so.
    Perhaps { waker: LifeId, post: usize, cpu: u32, softirq: bool },
}

/// A step of a task's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The task executed for so long.
    Run(u64),
    /// The task slept, or was blocked, and was woken.
    Sleep { from: u64, to: u64, by: By, blocked: bool },
    /// The task woke another one, or tried to.
    Post(LifeId),
    /// The task made another one.
    Fork(LifeId),
    /// The task had this kernel priority from here on.
    Prio(i32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asleep {
        since: u64,
        blocked: bool,
    },
    /// The task had no CPU, after a wake-up or a preemption.
    Ready {
        since: u64,
        woken: bool,
    },
    Running {
        since: u64,
        cpu: u32,
    },
    /// The task had no CPU, for an unknown reason. If it is woken next, it slept; if it runs next, it was preempted.
    Away {
        since: u64,
    },
    Exited,
}

impl State {
    fn since(self) -> u64 {
        match self {
            State::Asleep { since, .. } | State::Ready { since, .. } => since,
            State::Running { since, .. } | State::Away { since } => since,
            State::Exited => 0,
        }
    }
}

/// The recorded life of one task.
#[derive(Debug)]
pub(super) struct Life {
    pub(super) tid: u32,
    pub(super) comm: String,
    /// The life of the task that forked it, if that is recorded.
    pub(super) parent: Option<LifeId>,
    /// Whether it began in the recording.
    pub(super) is_born: bool,
    /// The priority at the beginning.
    pub(super) prio: i32,
    /// The time at which it was first runnable.
    pub(super) begin: u64,
    pub(super) steps: Vec<Step>,
    pub(super) ran: u64,
    /// The part of that on each CPU.
    pub(super) ran_on: BTreeMap<u32, u64>,
    pub(super) waited: u64,
    pub(super) slept: u64,
    /// The CPU time that the kernel charged; 0 if it is not recorded.
    pub(super) charged: u64,
    /// The number of wake-ups. The begin counts.
    pub(super) wakeups: u64,
    /// The number of times that it got a CPU, and of those on another CPU than the last time.
    pub(super) switches: u64,
    pub(super) migrations: u64,
    /// The delay from each wake-up to a CPU.
    pub(super) delays: Vec<u64>,
    /// Whether it was runnable when the recording ended. It wanted more CPU time than it got.
    pub(super) wants_more: bool,
    state: State,
    last_prio: Option<i32>,
    last_cpu: Option<u32>,
    /// Whether it has been runnable.
    begun: bool,
    /// Whether it may have been runnable since the begin of the recording, before [`Life::begin`]. Its first turn tells.
    perhaps_queued: bool,
    /// The waker that tried to wake it while it was still running, on its way to sleep.
    early: Option<By>,
    /// The time at which it began to run by the kernel's accounts, on a CPU that has no record of it yet.
    ran_since: Option<u64>,
    /// The CPU of its last wake-up, and what that CPU did.
    woken_on: Option<(u32, Context)>,
}

impl Life {
    /// Returns whether its end is recorded.
    pub(super) fn has_ended(&self) -> bool {
        self.state == State::Exited
    }
}

/// Gaps of one kind in a recording.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gaps {
    pub(super) number: u64,
    /// The place of the record that tells the first one.
    pub(super) first: Option<u32>,
}

impl Gaps {
    fn note(&mut self, place: u32) {
        self.number += 1;
        self.first.get_or_insert(place);
    }
}

/// All lives, and the gaps of the recording.
#[derive(Debug, Default)]
pub(super) struct Lives {
    /// The lives, in the order in which the tasks were first seen.
    pub(super) all: Vec<Life>,
    /// The begin and the end of the recording.
    pub(super) begin: u64,
    pub(super) end: u64,
    /// The smallest number of CPUs that the machine can have.
    pub(super) cpus: u32,
    /// The switches that were not recorded, as later records tell.
    pub(super) missed: Gaps,
    /// The records that give a task a CPU while it has another one.
    pub(super) twice: Gaps,
    pub(super) beats: Beats,
    /// Whether a task that gets a CPU without a wake-up was runnable from the begin.
    queued_at_begin: bool,
    pub(super) latencies: Latencies,
    by_tid: BTreeMap<u32, LifeId>,
    /// The place of the present record.
    place: u32,
    /// For each CPU, the task that runs there and the time of its last record.
    on: Vec<(Option<u32>, u64)>,
}

/// Follows the records, which are in the order of time. `is_whole` says that the recorder lost none.
pub(super) fn follow(records: &Records, is_whole: bool) -> Lives {
    let mut lives = Lives::default();
    let mut ends = records.iter();
    let Some(first) = ends.next() else { return lives };
    let last = ends.next_back().unwrap_or(first);
    (lives.begin, lives.end) = (first.at, last.at);
    lives.cpus = records.iter().map(|record| record.cpu).max().unwrap_or(0) + 1;
    lives.on = vec![(None, first.at); lives.cpus as usize];
    // If wakers record their wake-ups, the later record of the woken task's CPU has no new information.
    let wakers_tell = records.iter().any(|record| matches!(record.what, What::Waking(_)));
    let has_wakeups = records.iter().any(|record| matches!(record.what, What::Wakeup(_)));
    lives.queued_at_begin = is_whole && (wakers_tell || has_wakeups);
    for (nth, record) in records.iter().enumerate() {
        lives.place = record.place;
        lives.observe(&record, records.from(nth));
        lives.happen(&record, wakers_tell);
        lives.beats.see(&record);
        lives.on[record.cpu as usize].1 = record.at;
    }
    lives.finish();
    lives
}

impl Lives {
    /// Compares the task of a record with the one that the last switch left on its CPU, and inserts a missed switch.
    /// `ahead` has this record and those after it.
    fn observe<'t>(&mut self, record: &Record<'t>, ahead: impl Iterator<Item = Record<'t>>) {
        let here = match record.what {
            What::Switch { prev, .. } => Some((prev.tid, prev.comm)),
            _ => record.who,
        };
        let Some((tid, comm)) = here else { return };
        let (before, last) = self.on[record.cpu as usize];
        if before == Some(tid) {
            return;
        }
        if before.is_some() {
            self.missed.note(record.place);
        }
        if tid == IDLE {
            // The last kernel action before a task sleeps is to charge it.
            self.leave(record.cpu, Some(Left::Asleep), last);
            self.on[record.cpu as usize].0 = Some(IDLE);
            return;
        }
        let since = match before {
            Some(_) => self.account(tid, ahead).unwrap_or(last).clamp(last, record.at),
            None => last,
        };
        let life = self.life(tid, comm, since);
        // The task was elsewhere until then.
        let since = since.max(self.all[life].state.since());
        if before == Some(IDLE) {
            self.starts(record.cpu, life, (since, true));
        }
        self.leave(record.cpu, None, since);
        self.enter(record.cpu, life, since);
    }

    /// Returns the time at which a task began to run by the kernel's accounts, for a task that a CPU turns out to run.
    fn account<'t>(&self, tid: u32, ahead: impl Iterator<Item = Record<'t>>) -> Option<u64> {
        let known = self.by_tid.get(&tid).and_then(|&life| self.all[life].ran_since);
        known.or_else(|| {
            ahead.take(LOOK_AHEAD).find_map(|record| match record.what {
                What::Charged { tid: charged, nanos } if charged == tid => {
                    Some(record.at.saturating_sub(nanos))
                }
                _ => None,
            })
        })
    }

    fn happen(&mut self, record: &Record<'_>, wakers_tell: bool) {
        let at = record.at;
        match record.what {
            What::Switch { prev, left, next } => self.switch(record, prev, left, next),
            What::Waking(task) => self.wake(record, task),
            What::Wakeup(task) if !wakers_tell => self.wake(record, task),
            What::New(task) if task.tid != IDLE => {
                self.forget(task.tid, at);
                // Nothing forks in an interrupt. A trace of a simulation has tasks that begin by themselves.
                let forks = matches!(record.context, Context::Task | Context::Unknown);
                let parent = record.who.filter(|_| forks);
                let parent = parent.and_then(|(tid, _)| self.by_tid.get(&tid).copied());
                let life = self.life(task.tid, task.comm, at);
                (self.all[life].parent, self.all[life].is_born) = (parent, true);
                if let Some(parent) = parent {
                    self.flush(parent, at);
                    self.all[parent].steps.push(Step::Fork(life));
                }
                self.name(life, task);
                self.ready(life, at, By::Nobody);
            }
            What::Charged { tid, nanos } if tid != IDLE => {
                let Some(&life) = self.by_tid.get(&tid) else { return };
                let life = &mut self.all[life];
                life.charged += nanos.min(at - self.begin);
                if !matches!(life.state, State::Running { .. }) {
                    life.ran_since.get_or_insert(at.saturating_sub(nanos));
                }
            }
            What::Wakeup(_)
            | What::New(_)
            | What::Charged { .. }
            | What::Begins(_)
            | What::Other => {}
        }
    }

    fn switch(&mut self, record: &Record<'_>, prev: Named<'_>, left: Left, next: Named<'_>) {
        if let Some(&life) = self.by_tid.get(&prev.tid) {
            self.flush(life, record.at);
            self.name(life, prev);
        }
        self.leave(record.cpu, Some(left), record.at);
        if next.tid == IDLE {
            self.on[record.cpu as usize].0 = Some(IDLE);
            return;
        }
        let life = self.life(next.tid, next.comm, record.at);
        self.name(life, next);
        if prev.tid == IDLE || left == Left::Ready {
            self.starts(record.cpu, life, (record.at, prev.tid == IDLE));
        }
        if let State::Ready { since, woken } = self.all[life].state
            && left == Left::Ready
            && prev.tid != IDLE
            && (!woken || record.at - since > WAITED_NS)
        {
            self.beats.turn_ends(record);
        }
        self.enter(record.cpu, life, record.at);
    }

    /// Notes the delay of a woken task that gets a CPU which was idle, or which another task had to leave for it.
    fn starts(&mut self, cpu: u32, life: LifeId, (at, was_idle): (u64, bool)) {
        let life = &self.all[life];
        if let (State::Ready { since, woken: true }, Some(woken)) = (life.state, life.woken_on) {
            self.latencies.note(at.saturating_sub(since), cpu, was_idle, woken);
        }
    }

    /// Returns the life of a task, which begins asleep if the task is new.
    fn life(&mut self, tid: u32, comm: &str, at: u64) -> LifeId {
        let next = self.all.len();
        let id = *self.by_tid.entry(tid).or_insert(next);
        if id == next {
            self.all.push(Life {
                tid,
                comm: comm.to_owned(),
                parent: None,
                is_born: false,
                prio: NICE_0,
                begin: at,
                steps: Vec::new(),
                ran: 0,
                waited: 0,
                slept: 0,
                charged: 0,
                wakeups: 0,
                switches: 0,
                migrations: 0,
                delays: Vec::new(),
                wants_more: false,
                state: State::Asleep { since: self.begin, blocked: false },
                last_prio: None,
                last_cpu: None,
                begun: false,
                perhaps_queued: false,
                early: None,
                ran_since: None,
                ran_on: BTreeMap::new(),
                woken_on: None,
            });
        }
        id
    }

    /// Records the name and the priority that an event gives for a task.
    fn name(&mut self, life: LifeId, task: Named<'_>) {
        let life = &mut self.all[life];
        if life.comm != task.comm && task.comm != "<...>" {
            task.comm.clone_into(&mut life.comm);
        }
        match life.last_prio.replace(task.prio) {
            None => life.prio = task.prio,
            Some(last) if last != task.prio => life.steps.push(Step::Prio(task.prio)),
            Some(_) => {}
        }
    }

    /// Records a wake-up. A task that does not sleep is not woken, unless it is about to sleep.
    fn wake(&mut self, record: &Record<'_>, task: Named<'_>) {
        if task.tid == IDLE {
            return;
        }
        let woken = self.life(task.tid, task.comm, record.at);
        self.name(woken, task);
        let by = match record.who.filter(|_| record.context != Context::Interrupt) {
            Some((waker, _)) if waker != IDLE && waker != task.tid => {
                self.post(waker, woken, record)
            }
            _ => By::Nobody,
        };
        self.all[woken].woken_on = Some((record.cpu, record.context));
        match self.all[woken].state {
            State::Asleep { .. } | State::Away { .. } => self.ready(woken, record.at, by),
            State::Running { .. } => self.all[woken].early = Some(by),
            State::Ready { .. } | State::Exited => {}
        }
    }

    fn post(&mut self, waker: u32, woken: LifeId, record: &Record<'_>) -> By {
        let Some(&waker) = self.by_tid.get(&waker) else { return By::Nobody };
        self.flush(waker, record.at);
        let steps = &mut self.all[waker].steps;
        steps.push(Step::Post(woken));
        let post = steps.len() - 1;
        match record.context {
            Context::Task => By::Task { waker, post },
            context => {
                let softirq = context == Context::Softirq;
                By::Perhaps { waker, post, cpu: record.cpu, softirq }
            }
        }
    }

    /// Makes a sleeping task runnable.
    fn ready(&mut self, life: LifeId, at: u64, by: By) {
        let life = &mut self.all[life];
        let (since, blocked) = match life.state {
            State::Asleep { since, blocked } => (since, blocked),
            State::Away { since } => (since, false),
            _ => return,
        };
        life.early = None;
        life.ran_since = None;
        life.state = State::Ready { since: at, woken: true };
        life.wakeups += 1;
        if life.begun {
            life.slept += at - since;
            life.steps.push(Step::Sleep { from: since, to: at, by, blocked });
        } else {
            life.begun = true;
            life.begin = at;
        }
    }

    /// Gives a task a CPU.
    fn enter(&mut self, cpu: u32, life: LifeId, at: u64) {
        if let State::Running { cpu: other, .. } = self.all[life].state {
            // It is not recorded how the task left the other CPU.
            self.twice.note(self.place);
            self.leave(other, None, at);
            self.on[other as usize].0 = None;
        }
        if !self.all[life].begun && self.queued_at_begin {
            let is_soon = at - self.begin <= QUEUED_NS;
            self.ready(life, if is_soon { self.begin } else { at }, By::Nobody);
            self.all[life].perhaps_queued = !is_soon;
        }
        if let State::Asleep { since, .. } = self.all[life].state {
            let early = self.all[life].early.take();
            let woken = if early.is_some() { since } else { at };
            self.ready(life, woken, early.unwrap_or(By::Nobody));
        }
        let life = &mut self.all[life];
        if let State::Ready { since, .. } | State::Away { since } = life.state {
            life.waited += at.saturating_sub(since);
        }
        if let State::Ready { since, woken: true } = life.state {
            life.delays.push(at.saturating_sub(since));
        }
        life.early = None;
        life.ran_since = None;
        life.state = State::Running { since: at, cpu };
        life.switches += 1;
        life.migrations += u64::from(life.last_cpu.replace(cpu).is_some_and(|last| last != cpu));
        self.on[cpu as usize].0 = Some(life.tid);
    }

    /// Takes the CPU from its task, in the recorded way if there is one.
    fn leave(&mut self, cpu: u32, left: Option<Left>, at: u64) {
        let Some(tid) = self.on[cpu as usize].0.take() else { return };
        let Some(&id) = self.by_tid.get(&tid) else { return };
        if !matches!(self.all[id].state, State::Running { cpu: on, .. } if on == cpu) {
            return;
        }
        self.flush(id, at);
        if self.all[id].perhaps_queued {
            self.first_turn_ends(id, left == Some(Left::Ready));
        }
        self.all[id].state = match left {
            None => State::Away { since: at },
            Some(Left::Ready) => State::Ready { since: at, woken: false },
            Some(Left::Asleep) => State::Asleep { since: at, blocked: false },
            Some(Left::Blocked) => State::Asleep { since: at, blocked: true },
            Some(Left::Exited) => State::Exited,
        };
        if left == Some(Left::Exited) {
            self.by_tid.remove(&tid);
        }
    }

    /// Decides since when a task waited that got its first CPU late and without a wake-up. A task that goes on was
    /// runnable from the begin. One that sleeps was woken, which is not in the recording.
    fn first_turn_ends(&mut self, life: LifeId, goes_on: bool) {
        let life = &mut self.all[life];
        life.perhaps_queued = false;
        if goes_on {
            let more = life.begin - self.begin;
            life.begin = self.begin;
            life.waited += more;
            if let Some(delay) = life.delays.first_mut() {
                *delay += more;
            }
        }
    }

    /// Ends the life of a task number. A reused number is another task.
    fn forget(&mut self, tid: u32, at: u64) {
        let Some(old) = self.by_tid.remove(&tid) else { return };
        self.flush(old, at);
        self.all[old].state = State::Exited;
        for (on, _) in self.on.iter_mut().filter(|(on, _)| *on == Some(tid)) {
            *on = None;
        }
    }

    /// Adds the time up to now to a running task's life.
    fn flush(&mut self, life: LifeId, at: u64) {
        let life = &mut self.all[life];
        let State::Running { since, cpu } = life.state else { return };
        let span = at.saturating_sub(since);
        life.state = State::Running { since: since.max(at), cpu };
        life.ran += span;
        if span > 0 {
            *life.ran_on.entry(cpu).or_default() += span;
        }
        match life.steps.last_mut() {
            Some(Step::Run(last)) => *last += span,
            _ if span > 0 => life.steps.push(Step::Run(span)),
            _ => {}
        }
    }

    /// Ends all lives with the recording.
    fn finish(&mut self) {
        for id in 0..self.all.len() {
            self.flush(id, self.end);
            if self.all[id].perhaps_queued {
                self.first_turn_ends(id, true);
            }
            let life = &mut self.all[id];
            life.wants_more = matches!(life.state, State::Ready { .. } | State::Running { .. });
            match life.state {
                State::Ready { since, .. } => life.waited += self.end - since,
                State::Asleep { since, .. } | State::Away { since } if life.begun => {
                    life.slept += self.end - since;
                }
                _ => {}
            }
        }
    }
}
