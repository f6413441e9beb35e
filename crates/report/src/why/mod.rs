//! Why tasks were late: the worst wake-ups of each task, with what they waited for.
//!
//! What the CPUs do is recorded as it happens, in bounded memory (`record`). When a wait ends that is among the worst of its
//! task so far, which is rare, it is gone through in pieces (`judge`), and what is kept of it is who ran meanwhile and the
//! cause of most of it (`worst`). The design page is `docs/design/why-late.md`.

mod judge;
mod record;
mod reports;
mod ring;
mod worst;

pub use reports::{Cause, DoingReport, Explanation, PartReport, RanReport, WorstReport};
pub(crate) use worst::Bad;

use crate::account::Doing;
use judge::{About, Piece, Scratch, Wait, judge};
use record::{Did, Record, rank, who};
use runyard_engine::attr::{Attr, Cookie, GroupId, Policy};
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::event::{Event, What};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use worst::Worst;

/// How many wake-ups are kept of a task.
const MOST: usize = 10;
/// How many are kept of all tasks, unless there are more tasks: 10 MiB.
const MOST_OF_ALL: usize = 20_000;
/// How often a waiting task may be moved; what was before the last moves counts as on the CPU before them.
const MOVES: usize = 64;
/// How much of a record is gone through for one wait at most, and at least.
const LONGEST_WALK: u64 = 4_096;
const SHORTEST_WALK: u64 = 64;
/// How much of records may be gone through before there was any event. Each stretch of a CPU adds one, so that waits that are
/// all longer than those before take no more time than a part of the run's.
const FIRST_CREDIT: u64 = 1 << 18;

/// What is known beforehand of a machine, so that it can be said why tasks wait.
#[derive(Clone, Debug, Default)]
pub struct Explained {
    /// How many CPUs it has.
    pub cpus: usize,
    /// How many of them are a core whose threads heed cookies; 1 if none does.
    pub threads: usize,
    /// The parent of each task group.
    pub parents: Vec<Option<GroupId>>,
}

/// Finds the worst wake-ups.
#[derive(Debug)]
pub(crate) struct Why {
    record: Record,
    tasks: Vec<Waiter>,
    /// How many wake-ups are kept of a task.
    most: usize,
    /// If causes are told.
    known: Option<Known>,
    scratch: Scratch,
    credit: u64,
    watched: Option<(TaskId, Time)>,
    /// The wait that is watched, when it has ended, and its pieces.
    story: Option<(Bad, Vec<Piece>)>,
}

/// What is known of the machine and of tasks.
#[derive(Debug)]
struct Known {
    machine: Explained,
    /// The CPUs on which tasks may run; a task has the number of its own. The first are all CPUs.
    affinities: Vec<CpuSet>,
    /// By task, 0 for none.
    cookies: Vec<u32>,
}

/// A task, as far as it waits.
#[derive(Debug, Default)]
struct Waiter {
    woken: Time,
    cpu: CpuId,
    by_timer: bool,
    waits: bool,
    affinity: u32,
    group: GroupId,
    slack: Nanos,
    moves: Vec<(Time, CpuId)>,
    worst: Worst,
}

impl Why {
    /// Tells no causes. So many tasks are expected.
    pub(crate) fn new(tasks: usize) -> Why {
        Why {
            record: Record::new(),
            tasks: Vec::new(),
            most: (MOST_OF_ALL / tasks.max(1)).clamp(1, MOST),
            known: None,
            scratch: Scratch::default(),
            credit: FIRST_CREDIT,
            watched: None,
            story: None,
        }
    }

    /// Tells causes too.
    pub(crate) fn explaining(tasks: usize, machine: Explained) -> Why {
        let record = Record::with_ranks(machine.cpus, machine.threads.max(1));
        let affinities = vec![CpuSet::first(machine.cpus)];
        let known = Some(Known { machine, affinities, cookies: Vec::new() });
        Why { record, known, ..Why::new(tasks) }
    }

    /// The pieces of the wait of `task` that begins at `since` are to be kept.
    pub(crate) fn watch(&mut self, task: TaskId, since: Time) {
        self.watched = Some((task, since));
    }

    /// This is asked for a task, whose cookie is that or the one of its group.
    pub(crate) fn asks(&mut self, task: TaskId, attr: &Attr, cookie: Option<Cookie>) {
        let Some(known) = &mut self.known else { return };
        let nth = known.affinities.iter().position(|it| *it == attr.affinity);
        let affinity = nth.unwrap_or_else(|| {
            known.affinities.push(attr.affinity.clone());
            known.affinities.len() - 1
        });
        if known.cookies.len() <= task.index() {
            known.cookies.resize(task.index() + 1, 0);
        }
        known.cookies[task.index()] = cookie.map_or(0, Cookie::get);
        let waiter = self.waiter(task);
        (waiter.affinity, waiter.group) = (affinity as u32, attr.group);
        waiter.slack = attr.effective_slack();
    }

    #[inline]
    pub(crate) fn turn(&mut self, cpu: CpuId, doing: Doing, now: Time) {
        self.credit += 1;
        self.record.turn(cpu, doing, now);
    }

    /// A wake-up from which a latency will run.
    #[inline]
    pub(crate) fn wake(&mut self, task: TaskId, cpu: CpuId, (by_timer, now): (bool, Time)) {
        let waiter = self.waiter(task);
        (waiter.woken, waiter.cpu, waiter.by_timer) = (now, cpu, by_timer);
        waiter.waits = true;
        waiter.moves.clear();
    }

    /// Takes note of what happens to tasks that wait.
    pub(crate) fn note(&mut self, event: &Event, now: Time) {
        match event.what {
            What::Moved { task } => self.moved(task, event.cpu, now),
            What::PassedOver { task } => self.record.passed_over(event.cpu, task, now),
            What::Throttled { group } => self.record.throttle(event.cpu, group, (true, now)),
            What::Unthrottled { group } => self.record.throttle(event.cpu, group, (false, now)),
            _ => {}
        }
    }

    fn moved(&mut self, task: TaskId, cpu: CpuId, now: Time) {
        let waiter = self.waiter(task);
        if !waiter.waits {
            return;
        }
        if waiter.moves.len() == MOVES {
            waiter.cpu = waiter.moves.remove(0).1;
        }
        waiter.moves.push((now, cpu));
    }

    /// A wait that ran from `since` ends: the task executes.
    #[inline]
    pub(crate) fn ends(&mut self, task: TaskId, policy: Policy, (since, now): (Time, Time)) {
        let (most, watched) = (self.most, self.watched == Some((task, since)));
        let waiter = self.waiter(task);
        waiter.waits = false;
        if waiter.worst.takes(now.since(since), most) || watched {
            self.judge(task, policy, (since, now));
        }
    }

    #[inline(never)]
    fn judge(&mut self, task: TaskId, policy: Policy, (since, end): (Time, Time)) {
        let watched = self.watched == Some((task, since));
        let Waiter { woken, cpu, .. } = self.tasks[task.index()];
        let waiter = &self.tasks[task.index()];
        let wait = Wait {
            task: who(task),
            rank: rank(policy),
            since,
            woken: woken.clamp(since.min(end), end),
            end,
            cpu,
            moves: &waiter.moves,
            most: self.credit.clamp(SHORTEST_WALK, LONGEST_WALK) as usize,
            about: self.known.as_ref().map(|known| known.about(waiter, policy)),
        };
        judge(&self.record, &wait, &mut self.scratch, watched);
        self.credit = self.credit.saturating_sub(self.scratch.walked);
        let latency = end.since(since);
        let Scratch { pieces, ran, .. } = &mut self.scratch;
        let bad = Bad::new(who(task), (since, latency), cpu, (pieces, ran));
        if watched {
            self.story = Some((bad.clone(), pieces.clone()));
        }
        let (most, waiter) = (self.most, &mut self.tasks[task.index()]);
        if waiter.worst.takes(latency, most) {
            waiter.worst.add(bad, most);
        }
    }

    /// The wait that is watched, if it has ended.
    pub(crate) fn explanation(&self, name: &dyn Fn(TaskId) -> String) -> Option<Explanation> {
        let (bad, pieces) = self.story.as_ref()?;
        let mut parts: Vec<PartReport> = Vec::new();
        for piece in pieces {
            let part = part(piece, name);
            match parts.last_mut() {
                Some(last)
                    if (PartReport { to_ns: part.to_ns, ..last.clone() })
                        == (PartReport { from_ns: last.from_ns, ..part.clone() }) =>
                {
                    last.to_ns = part.to_ns;
                }
                _ => parts.push(part),
            }
        }
        Some(Explanation { worst: bad.report(name), parts })
    }

    pub(crate) fn worst(&self, task: TaskId) -> &[Bad] {
        self.tasks.get(task.index()).map_or(&[], |waiter| waiter.worst.all())
    }

    /// # Panics
    /// Unless the longest wake-up of `task` took as long, and the parts of its worst ones are all of them.
    pub(crate) fn check(&self, task: TaskId, longest: Option<Nanos>) {
        match self.tasks.get(task.index()) {
            Some(waiter) => waiter.worst.check(longest),
            None => assert_eq!(longest, None, "no wake-up of {task} is known"),
        }
    }

    #[inline]
    fn waiter(&mut self, task: TaskId) -> &mut Waiter {
        if task.index() >= self.tasks.len() {
            self.tasks.resize_with(task.index() + 1, Waiter::default);
        }
        &mut self.tasks[task.index()]
    }
}

impl Known {
    fn about(&self, waiter: &Waiter, policy: Policy) -> About<'_> {
        let parent = |group: &GroupId| self.machine.parents.get(group.index()).copied().flatten();
        let lineage = std::iter::successors(Some(waiter.group), parent);
        let affinity = &self.affinities[waiter.affinity as usize];
        About {
            slack: if waiter.by_timer { waiter.slack } else { Nanos::ZERO },
            affinity: (waiter.affinity > 0).then_some(affinity),
            lineage: lineage.take_while(|&group| group != GroupId::ROOT).collect(),
            is_rt: policy.rt_prio().is_some(),
            cookies: (self.machine.threads > 1).then_some(&self.cookies),
        }
    }
}

/// A piece of a wait, with these names of tasks.
fn part(piece: &Piece, name: &dyn Fn(TaskId) -> String) -> PartReport {
    let (doing, task) = match piece.did {
        None | Some(Did::PassedOver { .. }) => (None, None),
        Some(Did::Nothing) => (Some(DoingReport::Idle), None),
        Some(Did::Forced) => (Some(DoingReport::ForcedIdle), None),
        Some(Did::Overhead) => (Some(DoingReport::Scheduler), None),
        Some(Did::Exec { task, .. }) => (Some(DoingReport::Task), Some(name(TaskId(task.into())))),
    };
    PartReport {
        from_ns: piece.from.0,
        to_ns: piece.to.0,
        cpu: piece.cpu.map(CpuId::index),
        doing,
        task,
        cause: piece.cause,
        free_cpu: piece.free.map(CpuId::index),
    }
}
