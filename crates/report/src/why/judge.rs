//! One wait in pieces: in each, the activity of the task's CPU, and the reason why the task did not run there.
//!
//! Three records tell the reason: the activity of the task's CPU, the task's throttled groups, and the CPUs that were
//! free for the task. They are read together, once, from the beginning of the wait to its end. A piece lasts until one
//! of the three changes. Of the free CPUs only the present number is known: the changes since the beginning are
//! subtracted from it first. The state at an instant includes all events at that instant.

use super::cause::Cause;
use super::record::{Change, Did, Entry, Lane, Ranks, Record, Who};
use super::ring::Ring;
use crate::ranks::Rank;
use runyard_engine::attr::GroupId;
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::time::{Nanos, Time};

/// A wait that has ended.
#[derive(Debug)]
pub(super) struct Wait<'a> {
    pub(super) task: Who,
    pub(super) rank: Rank,
    /// The instant from which it could have run.
    pub(super) since: Time,
    /// The instant of the wake-up.
    pub(super) woken: Time,
    pub(super) end: Time,
    /// The CPU on which it was put, and the CPUs to which it moved later, with the times.
    pub(super) cpu: CpuId,
    pub(super) moves: &'a [Move],
    /// It began as the task lost its CPU.
    pub(super) lost: bool,
    /// The largest number of entries of each list that are walked. Of a longer wait the last part is described.
    pub(super) most: usize,
    /// The facts about the tasks, if causes are wanted.
    pub(super) about: Option<About<'a>>,
}

/// The way of a waiting task to another CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    pub(super) sent: Time,
    pub(super) arrived: Time,
    pub(super) to: CpuId,
}

/// The facts about the waiting task, and about others.
#[derive(Debug)]
pub(super) struct About<'a> {
    /// The largest delay of its timer, if a timer woke it.
    pub(super) slack: Nanos,
    /// The CPUs that it may use; `None` for all CPUs.
    pub(super) affinity: Option<&'a CpuSet>,
    /// Its task group and the ancestors of that, without the root.
    pub(super) lineage: Vec<GroupId>,
    pub(super) is_rt: bool,
    /// The cookies of all tasks, if CPUs heed them.
    pub(super) cookies: Option<&'a [u32]>,
}

/// A part of a wait without a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) from: Time,
    pub(crate) to: Time,
    /// The CPU of the task; `None` before it was woken.
    pub(crate) cpu: Option<CpuId>,
    /// The activity of that CPU; `None` if it is forgotten.
    pub(crate) did: Option<Did>,
    pub(crate) cause: Option<Cause>,
    /// The group without budget, if that is the cause.
    pub(crate) group: Option<GroupId>,
    /// A CPU that could have run the task, if that is wanted.
    pub(crate) free: Option<CpuId>,
}

/// Buffers that all waits share.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) pieces: Vec<Piece>,
    pub(super) ran: Vec<(Who, u64)>,
    /// The number of walked entries.
    pub(super) walked: u64,
}

/// Puts the pieces of `wait` into `scratch`. With `names_free` it also names a CPU that could have run the task.
pub(super) fn judge(record: &Record, wait: &Wait<'_>, scratch: &mut Scratch, names_free: bool) {
    scratch.pieces.clear();
    scratch.walked = 0;
    before(wait, &mut scratch.pieces);
    let free = match (&record.ranks, &wait.about) {
        (Some(ranks), Some(about)) => {
            let free = Free::at(ranks, wait, about, names_free);
            scratch.walked += (ranks.changes.end() - free.next) as u64;
            Some(free)
        }
        _ => None,
    };
    let mut walk = Walk { record, wait, free, scratch };
    let (mut from, mut cpu) = (wait.woken, wait.cpu);
    for &Move { sent, arrived, to } in wait.moves.iter().filter(|it| it.sent < wait.end) {
        walk.segment(cpu, from, sent);
        walk.fly(to, sent..arrived);
        (from, cpu) = (arrived, to);
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
        group: None,
        free: None,
    };
    pieces.push(piece(wait.since, allowed, Cause::TimerSlack));
    pieces.push(piece(allowed, wait.woken, Cause::Cost));
    pieces.retain(|piece| piece.from < piece.to);
}

/// The number of CPUs that are free for a task, at an instant that advances.
struct Free<'a> {
    ranks: &'a Ranks,
    rank: Rank,
    affinity: Option<&'a CpuSet>,
    /// The next change that is not counted yet.
    next: usize,
    /// The instant before which changes are forgotten.
    known: Time,
    /// The free CPUs that the task may use, and the others.
    inside: u32,
    outside: u32,
    /// Some CPU that it may use has been free since the task came to a busy CPU.
    stays: bool,
    /// The rank of each CPU, if a free CPU is to be named.
    of: Option<Vec<Rank>>,
}

impl<'a> Free<'a> {
    /// The state at the wake-up of the task of `wait`.
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
            stays: false,
            of: names.then(|| ranks.all().to_vec()),
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
        self.ranks.all().get(cpu.index()).is_some_and(|&rank| rank < self.rank)
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

    /// Changes the rank of a CPU.
    fn change(&mut self, cpu: CpuId, (from, to): (Rank, Rank)) {
        self.note(cpu, to);
        let counted = match self.may_use(cpu) {
            true => &mut self.inside,
            false => &mut self.outside,
        };
        *counted -= u32::from(from < self.rank);
        *counted += u32::from(to < self.rank);
        self.stays &= self.inside > 0;
    }

    fn note(&mut self, cpu: CpuId, rank: Rank) {
        if let Some(of) = &mut self.of {
            of[cpu.index()] = rank;
        }
    }

    /// The first CPU that is free for the task, inside of its affinity or outside.
    fn name(&self, inside: bool) -> Option<CpuId> {
        let of = self.of.as_ref()?;
        let mut all = (0..of.len()).filter(|&cpu| of[cpu] < self.rank);
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

/// The state of the CPU where the task waits.
struct Here {
    did: Option<Did>,
    /// Whether the waiting task comes before the executing one.
    passed_over: bool,
    /// Whether another task executes than when the waiting task came.
    chosen: bool,
    /// The throttled group that keeps the task from running, and the cause.
    throttled: Option<(GroupId, Cause)>,
}

impl Here {
    /// Changes the activity of the CPU.
    fn turn(&mut self, wait: &Wait<'_>, last: &mut Option<Who>, did: Did) {
        match did {
            Did::PassedOver { task } => self.passed_over |= task == wait.task,
            Did::Exec { task, .. } => {
                if last.replace(task) != Some(task) {
                    (self.passed_over, self.chosen) = (false, true);
                }
                self.did = Some(did);
            }
            Did::Nothing | Did::Forced => (self.did, *last) = (Some(did), None),
            Did::Overhead => self.did = Some(did),
        }
    }
}

impl Walk<'_, '_> {
    /// Walks the part of the wait in which the task is on its way to `cpu`.
    fn fly(&mut self, cpu: CpuId, span: std::ops::Range<Time>) {
        let cause = self.wait.about.as_ref().map(|_| Cause::Migration);
        let (from, to) = (span.start, span.end.min(self.wait.end));
        if from < to {
            let cpu = Some(cpu);
            let piece = Piece { from, to, cpu, did: None, cause, group: None, free: None };
            self.scratch.pieces.push(piece);
        }
    }

    /// Walks the part of the wait on `cpu` from `from` to `to`.
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
            here.throttled = throttles.as_ref().and_then(|it| it.throttled(self.wait));
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

    /// The state of a CPU at `from`: the number of the next entry, the state, and the last executing task.
    fn begin(&self, entries: Option<&Ring<Entry>>, from: Time) -> (usize, Here, Option<Who>) {
        let mut here = Here { did: None, passed_over: false, chosen: false, throttled: None };
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
                    // The executing task passed it over, if it already executed then.
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
                    // An earlier task does not execute any more, even if the scheduler has worked since.
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

    /// Notes that the task comes to a CPU. CPUs that are free then may stay free.
    fn come(&mut self, here: &Here, at: Time) {
        while let Some(change) = self.free.as_mut().and_then(Free::next_change) {
            if change.at > at {
                break;
            }
            self.change(change);
        }
        let rank = self.wait.rank;
        let is_free = match here.did {
            Some(Did::Nothing) => true,
            Some(Did::Exec { rank: runs, .. }) => runs < rank,
            _ => false,
        };
        if let Some(free) = &mut self.free {
            free.stays = !is_free && free.inside > 0;
        }
    }

    fn change(&mut self, change: Change) {
        let Some(free) = &mut self.free else { return };
        free.next += 1;
        free.change(change.cpu, (change.old, change.new));
    }

    fn tell(&mut self, cpu: CpuId, here: &Here, span: std::ops::Range<Time>) {
        let cause = self.wait.about.as_ref().zip(here.did);
        let cause = cause.map(|(about, did)| self.cause(about, did, (here, cpu, span.start)));
        let free = self.free.as_ref().and_then(|free| match cause {
            Some(Cause::Placement | Cause::Balance) => free.name(true),
            Some(Cause::Affinity) => free.name(false),
            _ => None,
        });
        let (from, to) = (span.start, span.end);
        let group = here.throttled.map(|(group, _)| group).filter(|&it| it != GroupId::ROOT);
        let (cpu, did) = (Some(cpu), here.did);
        self.scratch.pieces.push(Piece { from, to, cpu, did, cause, group, free });
    }

    fn cause(&self, about: &About<'_>, did: Did, (here, cpu, now): (&Here, CpuId, Time)) -> Cause {
        if let Some((_, cause)) = here.throttled {
            return cause;
        }
        let (task, rank) = match did {
            Did::Forced => return Cause::CoreCookie,
            Did::Exec { task, .. } if task == self.wait.task => return Cause::Cost,
            Did::Exec { due: true, .. } => return Cause::Kernel,
            Did::Exec { task, rank, .. } => (task, rank),
            _ => return Cause::Cost,
        };
        let own = self.wait.rank;
        let first = if self.wait.lost { Cause::Preempted } else { Cause::Important };
        let cookie = |of: Who| about.cookies.and_then(|all| all.get(of as usize));
        if (here.passed_over || rank < own) && cookie(task) != cookie(self.wait.task) {
            return Cause::CoreCookie;
        }
        if rank < own && !here.passed_over && !here.chosen {
            return Cause::Cost;
        }
        // Its own CPU may count as free, and is no place elsewhere.
        let but = |free: &Free<'_>, inside| u32::from(rank < own && free.may_use(cpu) == inside);
        match self.free.as_ref().filter(|free| now >= free.known) {
            Some(free) if free.inside > but(free, true) => match free.stays {
                true => Cause::Placement,
                false => Cause::Balance,
            },
            Some(free) if free.outside > but(free, false) => Cause::Affinity,
            _ if here.passed_over => Cause::ProtectedSlice,
            _ if rank == own && rank <= 0 => Cause::Turn,
            _ => first,
        }
    }
}

/// The throttled groups of a CPU, at an instant that advances.
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

    /// A throttled group that keeps the task from running, with the cause; of several the uppermost.
    fn throttled(&self, wait: &Wait<'_>) -> Option<(GroupId, Cause)> {
        let about = wait.about.as_ref()?;
        if about.is_rt {
            let is_throttled = self.throttled.contains(&GroupId::ROOT);
            return is_throttled.then_some((GroupId::ROOT, Cause::RtThrottled));
        }
        let group = about.lineage.iter().rev().find(|group| self.throttled.contains(group))?;
        Some((*group, Cause::Throttled))
    }
}
