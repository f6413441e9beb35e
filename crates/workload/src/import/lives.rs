//! Records to lives: what each task did with its time, and who ended its sleeps.
//!
//! ```text
//!              woken, new                 switched to
//!   Asleep ------------------> Ready ------------------> Running --- exits
//!     ^                          ^   switched from, R       |
//!     |                          +--------------------------+
//!     +-----------------------------------------------------+ switched from, any other state
//! ```
//!
//! Recordings are incomplete. They begin in the middle of lives; events are lost; some kernels do
//! not tell how the idle task of a CPU switches. But each line says who runs on its CPU. If that is
//! somebody else than the last switch left there, a switch was not recorded, and it is put where
//! the kernel's accounts say that the task began to run, else as early as it can have been. How the
//! other one left is open until it is heard of again: woken, it slept; switched to, it was preempted.
//!
//! Invariants: a task runs on one CPU and a CPU runs one task; the states of a life tile it; a
//! [`Step::Post`] precedes the end of the sleep that it ends, in time and in the waker's life.

use super::parse::{IDLE, Left, Named, Record, What};
use std::collections::BTreeMap;

/// How far ahead an account is looked for that says when a task began to run.
const LOOK_AHEAD: usize = 64;

/// The first of the kernel's priorities that is not real-time.
const FAIR: i32 = 100;

/// The priority of a task of which none is known yet: nice 0.
const NICE_0: i32 = 120;

/// The place of a life in [`Lives::all`].
pub(super) type LifeId = usize;

/// Who ended a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// An interrupt, the idle task, or nobody who is known.
    Nobody,
    /// A task, with the step of its life in which it did.
    Task(LifeId, usize),
}

/// What a task did next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It executed for so long.
    Run(u64),
    /// It slept, or was blocked, and was woken.
    Sleep { from: u64, to: u64, by: By, blocked: bool },
    /// It woke somebody, or tried to.
    Post(LifeId),
    /// The kernel's priority was another from here on.
    Prio(i32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asleep {
        since: u64,
        blocked: bool,
    },
    /// Without a CPU: woken, or else preempted.
    Ready {
        since: u64,
        woken: bool,
    },
    Running {
        since: u64,
        cpu: u32,
    },
    /// Without a CPU, and nobody told why: who is woken next slept, who runs next was preempted.
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

/// What one task did, as far as it was recorded.
#[derive(Debug)]
pub(super) struct Life {
    pub(super) tid: u32,
    pub(super) comm: String,
    /// The priority at the beginning.
    pub(super) prio: i32,
    /// When it was first runnable.
    pub(super) begin: u64,
    pub(super) steps: Vec<Step>,
    pub(super) ran: u64,
    pub(super) waited: u64,
    pub(super) slept: u64,
    /// What the kernel charged it for; 0 if it does not say.
    pub(super) charged: u64,
    /// How often it was woken from a sleep.
    pub(super) wakeups: u64,
    /// How long each time it was woken and came to a CPU after that.
    pub(super) delays: Vec<u64>,
    state: State,
    last_prio: Option<i32>,
    /// Whether it has been runnable.
    begun: bool,
    /// Who tried to wake it while it was still running, on its way to sleep.
    early: Option<By>,
    /// When the kernel's accounts say that it began to run, on a CPU that has not told yet.
    ran_since: Option<u64>,
}

/// All lives, and what was missing.
#[derive(Debug, Default)]
pub(super) struct Lives {
    /// In the order in which the tasks were first seen.
    pub(super) all: Vec<Life>,
    /// When the recording begins and ends.
    pub(super) begin: u64,
    pub(super) end: u64,
    /// How many CPUs the machine has at least.
    pub(super) cpus: u32,
    /// How many switches were not recorded.
    pub(super) missed: u64,
    /// How long woken tasks waited for whom nobody else had to leave or could stay.
    latencies: Vec<u64>,
    by_tid: BTreeMap<u32, LifeId>,
    /// By CPU: who runs there, and when its last record was.
    on: Vec<(Option<u32>, u64)>,
}

/// Follows the records, which are in the order of time.
pub(super) fn follow(records: &[Record<'_>]) -> Lives {
    let mut lives = Lives::default();
    let (Some(first), Some(last)) = (records.first(), records.last()) else { return lives };
    (lives.begin, lives.end) = (first.at, last.at);
    lives.cpus = records.iter().map(|record| record.cpu).max().unwrap_or(0) + 1;
    lives.on = vec![(None, first.at); lives.cpus as usize];
    // Where wakers tell, what the woken task's CPU tells later is nothing new.
    let wakers_tell = records.iter().any(|record| matches!(record.what, What::Waking(_)));
    for (nth, record) in records.iter().enumerate() {
        lives.observe(record, &records[nth..]);
        lives.happen(record, wakers_tell);
        lives.on[record.cpu as usize].1 = record.at;
    }
    lives.finish();
    lives
}

impl Lives {
    /// How long the machine took from a wake-up to the woken task where no policy had a say: for a
    /// CPU that was idle, and for real-time tasks. The lower quartile, since some of them waited
    /// for each other, and deep sleep of a CPU is no matter of most wake-ups.
    pub(super) fn latency(&self) -> u64 {
        let mut latencies = self.latencies.clone();
        latencies.sort_unstable();
        latencies.get(latencies.len() / 4).copied().unwrap_or(0)
    }

    /// Who runs on the record's CPU must be who was left there, or a switch was missed. `ahead` are
    /// this record and those after it.
    fn observe(&mut self, record: &Record<'_>, ahead: &[Record<'_>]) {
        let here = match record.what {
            What::Switch { prev, .. } => Some((prev.tid, prev.comm)),
            _ => record.who,
        };
        let Some((tid, comm)) = here else { return };
        let (before, last) = self.on[record.cpu as usize];
        if before == Some(tid) {
            return;
        }
        if tid == IDLE {
            // The last thing before a task sleeps is that the kernel charges it.
            self.missed += u64::from(before.is_some());
            self.leave(record.cpu, Some(Left::Asleep), last);
            self.on[record.cpu as usize].0 = Some(IDLE);
            return;
        }
        let since = match before {
            Some(_) => self.account(tid, ahead).unwrap_or(last).clamp(last, record.at),
            None => last,
        };
        self.missed += u64::from(before.is_some());
        let life = self.life(tid, comm, since);
        // It was elsewhere until then.
        let since = since.max(self.all[life].state.since());
        self.leave(record.cpu, None, since);
        self.enter(record.cpu, life, since);
    }

    /// When the kernel's accounts say that a task began to run which a CPU now turns out to run.
    fn account(&self, tid: u32, ahead: &[Record<'_>]) -> Option<u64> {
        let known = self.by_tid.get(&tid).and_then(|&life| self.all[life].ran_since);
        known.or_else(|| {
            ahead.iter().take(LOOK_AHEAD).find_map(|record| match record.what {
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
                let life = self.life(task.tid, task.comm, at);
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
            What::Wakeup(_) | What::New(_) | What::Charged { .. } | What::Other => {}
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
        if let State::Ready { since, woken: true } = self.all[life].state
            && (prev.tid == IDLE || next.prio < FAIR)
        {
            self.latencies.push(record.at - since);
        }
        self.enter(record.cpu, life, record.at);
    }

    /// The life of a task, which begins asleep if it was not seen before.
    fn life(&mut self, tid: u32, comm: &str, at: u64) -> LifeId {
        let next = self.all.len();
        let id = *self.by_tid.entry(tid).or_insert(next);
        if id == next {
            self.all.push(Life {
                tid,
                comm: comm.to_owned(),
                prio: NICE_0,
                begin: at,
                steps: Vec::new(),
                ran: 0,
                waited: 0,
                slept: 0,
                charged: 0,
                wakeups: 0,
                delays: Vec::new(),
                state: State::Asleep { since: self.begin, blocked: false },
                last_prio: None,
                begun: false,
                early: None,
                ran_since: None,
            });
        }
        id
    }

    /// What an event says of a task's name and priority.
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

    /// Somebody wakes a task. One that does not sleep is not woken, unless it is about to.
    fn wake(&mut self, record: &Record<'_>, task: Named<'_>) {
        if task.tid == IDLE {
            return;
        }
        let woken = self.life(task.tid, task.comm, record.at);
        self.name(woken, task);
        let by = match record.who.filter(|_| !record.interrupt) {
            Some((waker, _)) if waker != IDLE && waker != task.tid => {
                self.post(waker, woken, record.at)
            }
            _ => By::Nobody,
        };
        match self.all[woken].state {
            State::Asleep { .. } | State::Away { .. } => self.ready(woken, record.at, by),
            State::Running { .. } => self.all[woken].early = Some(by),
            State::Ready { .. } | State::Exited => {}
        }
    }

    fn post(&mut self, waker: u32, woken: LifeId, at: u64) -> By {
        let Some(&waker) = self.by_tid.get(&waker) else { return By::Nobody };
        self.flush(waker, at);
        let steps = &mut self.all[waker].steps;
        steps.push(Step::Post(woken));
        By::Task(waker, steps.len() - 1)
    }

    /// A task that sleeps is runnable from now on.
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
        if life.begun {
            life.slept += at - since;
            life.wakeups += 1;
            life.steps.push(Step::Sleep { from: since, to: at, by, blocked });
        } else {
            life.begun = true;
            life.begin = at;
        }
    }

    /// A task gets a CPU.
    fn enter(&mut self, cpu: u32, life: LifeId, at: u64) {
        if let State::Running { cpu: other, .. } = self.all[life].state {
            // Nobody told that it left the other one.
            self.leave(other, None, at);
            self.on[other as usize].0 = None;
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
        self.on[cpu as usize].0 = Some(life.tid);
    }

    /// Whoever has a CPU leaves it, if it was told how.
    fn leave(&mut self, cpu: u32, left: Option<Left>, at: u64) {
        let Some(tid) = self.on[cpu as usize].0.take() else { return };
        let Some(&id) = self.by_tid.get(&tid) else { return };
        if !matches!(self.all[id].state, State::Running { cpu: on, .. } if on == cpu) {
            return;
        }
        self.flush(id, at);
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

    /// A number that is used again is another task; the one that had it is gone.
    fn forget(&mut self, tid: u32, at: u64) {
        let Some(old) = self.by_tid.remove(&tid) else { return };
        self.flush(old, at);
        self.all[old].state = State::Exited;
        for (on, _) in self.on.iter_mut().filter(|(on, _)| *on == Some(tid)) {
            *on = None;
        }
    }

    /// What a running task did up to now counts.
    fn flush(&mut self, life: LifeId, at: u64) {
        let life = &mut self.all[life];
        let State::Running { since, cpu } = life.state else { return };
        let span = at.saturating_sub(since);
        life.state = State::Running { since: since.max(at), cpu };
        life.ran += span;
        match life.steps.last_mut() {
            Some(Step::Run(last)) => *last += span,
            _ if span > 0 => life.steps.push(Step::Run(span)),
            _ => {}
        }
    }

    /// The recording ends.
    fn finish(&mut self) {
        for life in 0..self.all.len() {
            self.flush(life, self.end);
            let life = &mut self.all[life];
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
