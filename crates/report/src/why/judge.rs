//! One wait, in pieces: what the task's CPU did in each, and why the task did not run there.
//!
//! The wait is gone through once from its begin, over three lists at a time: what the CPU did on which the task was, what was
//! throttled there, and which CPUs were free for it. How many were free at the begin follows from how many are now and what
//! changed since. A piece lasts until one of the three changes. At a moment counts what all events until then, and at that
//! moment, came to.

use super::record::{Change, Did, Entry, Lane, Rank, Ranks, Record, Who};
use super::reports::Cause;
use super::ring::Ring;
use runyard_engine::attr::GroupId;
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::time::{Nanos, Time};

/// A wait that has ended.
#[derive(Debug)]
pub(super) struct Wait<'a> {
    pub(super) task: Who,
    pub(super) rank: Rank,
    /// Since when it could have run.
    pub(super) since: Time,
    /// When it was woken.
    pub(super) woken: Time,
    pub(super) end: Time,
    /// Where it was put, and where it came to later and when.
    pub(super) cpu: CpuId,
    pub(super) moves: &'a [(Time, CpuId)],
    /// How much of each list is gone through at most. Of a longer wait the last part is told.
    pub(super) most: usize,
    /// What is known of the tasks, if causes are to be told.
    pub(super) about: Option<About<'a>>,
}

/// What is known of the task that waited, and of others.
#[derive(Debug)]
pub(super) struct About<'a> {
    /// How late its timer may have been, if one woke it.
    pub(super) slack: Nanos,
    /// `None` for all CPUs.
    pub(super) affinity: Option<&'a CpuSet>,
    /// Its task group and those above it but the root.
    pub(super) lineage: Vec<GroupId>,
    pub(super) is_rt: bool,
    /// The cookies of all tasks, if CPUs heed them.
    pub(super) cookies: Option<&'a [u32]>,
}

/// A part of a wait in which nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) from: Time,
    pub(crate) to: Time,
    /// Where the task was; `None` before it was woken.
    pub(crate) cpu: Option<CpuId>,
    /// What that CPU did; `None` if that is forgotten.
    pub(crate) did: Option<Did>,
    pub(crate) cause: Option<Cause>,
    /// A CPU that could have run it, if that is asked for.
    pub(crate) free: Option<CpuId>,
}

/// What is used again for each wait.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// By CPU: the last segment in which it began or ceased to be free.
    changed: Vec<u64>,
    segment: u64,
    pub(super) pieces: Vec<Piece>,
    pub(super) ran: Vec<(Who, u64)>,
    /// How much was gone through.
    pub(super) walked: u64,
}

/// Puts the pieces of `wait` into `scratch`. `names_free` asks for a CPU that could have run the task.
pub(super) fn judge(record: &Record, wait: &Wait<'_>, scratch: &mut Scratch, names_free: bool) {
    scratch.pieces.clear();
    scratch.walked = 0;
    before(wait, &mut scratch.pieces);
    let free = match (&record.ranks, &wait.about) {
        (Some(ranks), Some(about)) => {
            let free = Free::at(ranks, wait, about, names_free);
            scratch.walked += (ranks.changes.end() - free.next) as u64;
            scratch.changed.resize(ranks.of.len(), 0);
            Some(free)
        }
        _ => None,
    };
    let mut walk = Walk { record, wait, free, scratch };
    let (mut from, mut cpu) = (wait.woken, wait.cpu);
    for &(at, to) in wait.moves.iter().filter(|&&(at, _)| at < wait.end) {
        walk.segment(cpu, from, at);
        (from, cpu) = (at, to);
    }
    walk.segment(cpu, from, wait.end);
}

/// The part of a wait before the task was woken.
fn before(wait: &Wait<'_>, pieces: &mut Vec<Piece>) {
    let slack = wait.about.as_ref().map_or(Nanos::ZERO, |about| about.slack);
    let allowed = (wait.since + slack).min(wait.woken);
    let told = wait.about.is_some();
    let piece = |from, to, cause: Cause| Piece {
        from,
        to,
        cpu: None,
        did: None,
        cause: told.then_some(cause),
        free: None,
    };
    pieces.push(piece(wait.since, allowed, Cause::TimerSlack));
    pieces.push(piece(allowed, wait.woken, Cause::Cost));
    pieces.retain(|piece| piece.from < piece.to);
}

/// How many CPUs are free for a task at a moment that goes on.
struct Free<'a> {
    ranks: &'a Ranks,
    rank: Rank,
    affinity: Option<&'a CpuSet>,
    /// The next change that is not counted yet.
    next: usize,
    /// What was before that is forgotten.
    known: Time,
    /// Of those that the task may use, and of the others.
    inside: u32,
    outside: u32,
    /// Those that it may use, and that are free since the task came to a busy CPU.
    stay: u32,
    /// What all CPUs run, if one is to be named.
    of: Option<Vec<Rank>>,
}

impl<'a> Free<'a> {
    /// As of when the task of `wait` was woken.
    fn at(ranks: &'a Ranks, wait: &Wait<'_>, about: &About<'a>, names: bool) -> Free<'a> {
        let changes = &ranks.changes;
        let least = changes.first().max(changes.end().saturating_sub(wait.most));
        let next = changes.after(least, |change| change.at <= wait.woken);
        let is_known = next > least || least == 0;
        let oldest = changes.get(least).filter(|_| !is_known);
        let mut free = Free {
            ranks,
            rank: wait.rank,
            affinity: about.affinity,
            next,
            known: oldest.map_or(Time::ZERO, |oldest| oldest.at),
            inside: 0,
            outside: 0,
            stay: 0,
            of: names.then(|| ranks.of.clone()),
        };
        let all = ranks.free_for(wait.rank);
        free.inside = match about.affinity {
            None => all,
            Some(cpus) => cpus.iter().map(|cpu| u32::from(free.is_free_now(cpu))).sum(),
        };
        free.outside = all - free.inside;
        for nth in (next..changes.end()).rev() {
            let Change { cpu, old, new, .. } = changes.get(nth).expect("it is kept");
            free.change(cpu, (new, old));
        }
        free
    }

    fn is_free_now(&self, cpu: CpuId) -> bool {
        self.ranks.of.get(cpu.index()).is_some_and(|&rank| rank < self.rank)
    }

    fn may_use(&self, cpu: CpuId) -> bool {
        self.affinity.is_none_or(|affinity| affinity.contains(cpu))
    }

    /// The next change that makes a CPU free for the task, or not free any more.
    fn next_change(&mut self) -> Option<Change> {
        while let Some(change) = self.ranks.changes.get(self.next) {
            if (change.old < self.rank) != (change.new < self.rank) {
                return Some(change);
            }
            self.next += 1;
            self.note(change.cpu, change.new);
        }
        None
    }

    /// A CPU has another rank.
    fn change(&mut self, cpu: CpuId, (from, to): (Rank, Rank)) {
        self.note(cpu, to);
        let counted = match self.may_use(cpu) {
            true => &mut self.inside,
            false => &mut self.outside,
        };
        *counted -= u32::from(from < self.rank);
        *counted += u32::from(to < self.rank);
    }

    fn note(&mut self, cpu: CpuId, rank: Rank) {
        if let Some(of) = &mut self.of {
            of[cpu.index()] = rank;
        }
    }

    /// The first CPU that is free for the task, inside of its affinity or outside, and `suits`.
    fn name(&self, inside: bool, suits: impl Fn(usize) -> bool) -> Option<CpuId> {
        let of = self.of.as_ref()?;
        let mut all = (0..of.len()).filter(|&cpu| of[cpu] < self.rank && suits(cpu));
        all.find(|&cpu| self.may_use(CpuId::at(cpu)) == inside).map(CpuId::at)
    }
}

/// Goes through a wait.
struct Walk<'a, 's> {
    record: &'a Record,
    wait: &'a Wait<'a>,
    free: Option<Free<'a>>,
    scratch: &'s mut Scratch,
}

/// How things are on the CPU where the task waits.
struct Here {
    did: Option<Did>,
    /// The task comes before the one that executes.
    passed_over: bool,
    /// Somebody else executes than when the task came.
    chosen: bool,
    throttled: bool,
}

impl Here {
    /// The CPU does something else.
    fn turn(&mut self, wait: &Wait<'_>, last: &mut Option<Who>, did: Did) {
        match did {
            Did::PassedOver { task } => self.passed_over |= task == wait.task,
            Did::Exec { task, .. } => {
                if last.replace(task) != Some(task) {
                    (self.passed_over, self.chosen) = (false, true);
                }
                self.did = Some(did);
            }
            Did::Nothing | Did::Forced | Did::Overhead => self.did = Some(did),
        }
    }
}

impl Walk<'_, '_> {
    /// The task was on `cpu` from `from` to `to`.
    fn segment(&mut self, cpu: CpuId, from: Time, to: Time) {
        let (entries, throttlings) = match self.record.lane(cpu) {
            Some(lane) => (Some(&lane.entries), Some(lane)),
            None => (None, None),
        };
        let (mut next, mut here, mut last) = self.begin(entries, from);
        let mut throttles = throttlings.map(|lane| Throttles::at(lane, self.wait, from));
        self.come(&here, from);
        let mut now = from;
        loop {
            let entry = entries.and_then(|entries| entries.get(next));
            let change = self.free.as_mut().and_then(Free::next_change);
            let throttling = throttles.as_ref().and_then(Throttles::next_at);
            here.throttled = throttles.as_ref().is_some_and(|it| it.is_throttled(self.wait));
            let times = [entry.map(|it| it.at), change.map(|it| it.at), throttling];
            let until = times.into_iter().flatten().fold(to, Time::min);
            if until > now {
                self.tell(cpu, &here, now..until);
                now = until;
            }
            if until >= to {
                return;
            }
            if let Some(entry) = entry.filter(|it| it.at <= now) {
                here.turn(self.wait, &mut last, entry.did);
                (next, self.scratch.walked) = (next + 1, self.scratch.walked + 1);
            } else if let Some(change) = change.filter(|it| it.at <= now) {
                self.change(change);
            } else if let Some(throttles) = &mut throttles {
                throttles.step();
            }
        }
    }

    /// How things are on a CPU at `from`: the number of the next entry, that, and who executed last.
    fn begin(&self, entries: Option<&Ring<Entry>>, from: Time) -> (usize, Here, Option<Who>) {
        let mut here = Here { did: None, passed_over: false, chosen: false, throttled: false };
        let Some(entries) = entries else {
            here.did = Some(Did::Nothing);
            return (0, here, None);
        };
        let least = entries.first().max(entries.end().saturating_sub(self.wait.most));
        let next = entries.after(least, |entry| entry.at <= from);
        let (mut last, mut perhaps) = (None, false);
        for nth in (least..next).rev() {
            let entry = entries.get(nth).expect("it is kept");
            if last.is_some() && entry.at < from && !perhaps {
                break;
            }
            match entry.did {
                Did::PassedOver { task } if task == self.wait.task && entry.at == from => {
                    // By the one that executes now, if that did already.
                    here.passed_over |= last.is_none();
                    perhaps = last.is_some();
                }
                Did::PassedOver { .. } => {}
                Did::Exec { task, .. } => {
                    here.did = here.did.or(Some(entry.did));
                    here.passed_over |= perhaps && last == Some(task);
                    if last.is_some_and(|last| last != task) {
                        break;
                    }
                    (last, perhaps) = (Some(task), false);
                }
                Did::Overhead => here.did = here.did.or(Some(entry.did)),
                Did::Nothing | Did::Forced => {
                    // Whoever executed before that does not any more, also if the scheduler works since.
                    here.did = here.did.or(Some(entry.did));
                    break;
                }
            }
        }
        if here.did.is_none() && least == 0 {
            here.did = Some(Did::Nothing);
        }
        (next, here, last)
    }

    /// The task comes to a CPU: what is free then may stay so.
    fn come(&mut self, here: &Here, at: Time) {
        while let Some(change) = self.free.as_mut().and_then(Free::next_change) {
            if change.at > at {
                break;
            }
            self.change(change);
        }
        self.scratch.segment += 1;
        let rank = self.wait.rank;
        let is_free = match here.did {
            Some(Did::Nothing) => true,
            Some(Did::Exec { rank: runs, .. }) => runs < rank,
            _ => false,
        };
        if let Some(free) = &mut self.free {
            free.stay = if is_free { 0 } else { free.inside };
        }
    }

    fn change(&mut self, change: Change) {
        let Some(free) = &mut self.free else { return };
        let Change { cpu, old, new, .. } = change;
        free.next += 1;
        free.change(cpu, (old, new));
        let changed = &mut self.scratch.changed[cpu.index()];
        let stayed = std::mem::replace(changed, self.scratch.segment) != self.scratch.segment;
        if stayed && old < free.rank && free.may_use(cpu) {
            free.stay = free.stay.saturating_sub(1);
        }
    }

    fn tell(&mut self, cpu: CpuId, here: &Here, span: std::ops::Range<Time>) {
        let cause = self.wait.about.as_ref().zip(here.did);
        let cause = cause.map(|(about, did)| self.cause(about, did, (here, span.start)));
        let scratch = &*self.scratch;
        let stays = |cpu: usize| scratch.changed[cpu] != scratch.segment;
        let free = self.free.as_ref().and_then(|free| match cause {
            Some(Cause::Placement) => free.name(true, stays),
            Some(Cause::Balance) => free.name(true, |_| true),
            Some(Cause::Affinity) => free.name(false, |_| true),
            _ => None,
        });
        let (from, to) = (span.start, span.end);
        self.scratch.pieces.push(Piece { from, to, cpu: Some(cpu), did: here.did, cause, free });
    }

    fn cause(&self, about: &About<'_>, did: Did, (here, now): (&Here, Time)) -> Cause {
        if here.throttled {
            return Cause::Throttled;
        }
        let (task, rank) = match did {
            Did::Forced => return Cause::CoreCookie,
            Did::Exec { task, rank } if task != self.wait.task => (task, rank),
            _ => return Cause::Cost,
        };
        let comes_after = here.passed_over || rank < self.wait.rank;
        let cookie = |of: Who| about.cookies.and_then(|all| all.get(of as usize));
        if comes_after && cookie(task) != cookie(self.wait.task) {
            return Cause::CoreCookie;
        }
        if rank < self.wait.rank && !here.passed_over && !here.chosen {
            return Cause::Cost;
        }
        match &self.free {
            Some(free) if now >= free.known && free.stay > 0 => Cause::Placement,
            Some(free) if now >= free.known && free.inside > 0 => Cause::Balance,
            Some(free) if now >= free.known && free.outside > 0 => Cause::Affinity,
            _ if here.passed_over => Cause::ProtectedSlice,
            _ => Cause::Important,
        }
    }
}

/// What is throttled on a CPU at a moment that goes on.
struct Throttles<'a> {
    lane: &'a Lane,
    throttled: Vec<GroupId>,
    next: usize,
}

impl<'a> Throttles<'a> {
    fn at(lane: &'a Lane, wait: &Wait<'_>, from: Time) -> Throttles<'a> {
        let all = &lane.throttlings;
        let next = all.after(all.first(), |it| it.at <= from);
        let mut throttles = Throttles { lane, throttled: Vec::new(), next };
        if wait.about.is_some() {
            throttles.throttled.clone_from(&lane.throttled);
            for nth in (next..all.end()).rev() {
                let it = all.get(nth).expect("it is kept");
                throttles.set(it.group, !it.begins);
            }
        }
        throttles
    }

    fn next_at(&self) -> Option<Time> {
        self.lane.throttlings.get(self.next).map(|it| it.at)
    }

    fn step(&mut self) {
        if let Some(it) = self.lane.throttlings.get(self.next) {
            self.set(it.group, it.begins);
            self.next += 1;
        }
    }

    fn set(&mut self, group: GroupId, throttled: bool) {
        self.throttled.retain(|&it| it != group);
        if throttled {
            self.throttled.push(group);
        }
    }

    /// Whether the task may not run for that.
    fn is_throttled(&self, wait: &Wait<'_>) -> bool {
        let Some(about) = &wait.about else { return false };
        self.throttled.iter().any(|group| match *group {
            GroupId::ROOT => about.is_rt,
            _ => !about.is_rt && about.lineage.contains(group),
        })
    }
}
