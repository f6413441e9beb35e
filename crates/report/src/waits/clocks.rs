//! The clocks that waiting tasks read: what each CPU did while a CPU was free for a kind of tasks, or while none was.
//!
//! A clock of a CPU runs only while a task waits there. The span of a stretch is added to the clocks when the stretch ends
//! ([`Clocks::turn`]) or when a task reads them ([`Clocks::read`]).

use crate::ranks::{CpuRanks, Rank};
use crate::why::Ring;
use runyard_engine::attr::{GroupId, Policy};
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::task::TaskId;
use runyard_engine::time::Time;
use std::ops::Range;

/// The largest number of kinds of tasks. The tasks of further ones count as of a similar kind.
const KINDS: usize = u32::BITS as usize;

/// The number of changes of a kind that are kept: those since the last tick.
const CHANGES: usize = 64;

/// The states of a CPU for a kind of tasks that wait there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It is forced idle, or executes a task of lower rank and another cookie.
    Cookie,
    /// It executes a task although a switch is due.
    Due,
    /// It executes a task, and a CPU is free that the waiting tasks may use.
    Inside,
    /// It executes a task, and only CPUs are free that they may not use.
    Outside,
    /// It executes a task of another rank, or a real-time task, and no CPU is free.
    First,
    /// It executes a fair task, which is of the same rank, and no CPU is free.
    Turn,
}

impl State {
    /// All states, those in which tasks wait most first.
    pub(super) const ALL: [State; 6] =
        [State::Turn, State::First, State::Inside, State::Outside, State::Due, State::Cookie];
}

/// The nanoseconds in each [`State`].
type Spent = [u64; State::ALL.len()];

/// The clocks of a CPU for a kind of tasks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    pub(super) spent: Spent,
    /// The nanoseconds in all states.
    pub(super) all: u64,
}

/// The CPUs that tasks of a kind may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Usable {
    All,
    /// One, where they wait. It is no place elsewhere.
    One,
    Some(CpuSet),
}

/// Tasks for which the same CPUs are free.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) rank: Rank,
    cookie: u32,
    usable: Usable,
    /// The numbers of free CPUs that its tasks may use, and of others.
    inside: u32,
    outside: u32,
    /// [`Kind::numbers`], and the nanoseconds with each of them up to `since`, the last change.
    numbers: usize,
    clocks: [u64; 6],
    since: Time,
    /// The last changes: the time, the clocks then, and the new numbers.
    changes: Ring<(Time, [u64; 6], usize)>,
    /// Its tasks that wait since a moment at which a CPU inside was free, which has not ended. Some do not wait any more.
    pub(super) placed: Vec<u32>,
    /// The number of its tasks that wait in the run queues of busy CPUs, and are not throttled.
    pub(super) waiting: u32,
}

/// What a CPU did for the tasks of a kind that wait there.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    spent: Spent,
    /// The number of tasks of the kind that wait here, and are not throttled.
    waiting: u32,
}

/// The activity of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Did {
    Nothing,
    Forced,
    Overhead,
    /// It executes the last task.
    Exec,
}

/// A task that a CPU executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Last {
    pub(super) task: TaskId,
    pub(super) policy: Policy,
    pub(super) rank: Rank,
    pub(super) cookie: u32,
}

#[derive(Debug)]
pub(super) struct Cpu {
    pub(super) did: Did,
    /// A switch is due.
    pub(super) due: bool,
    /// The task that it executed last since it was idle.
    pub(super) last: Option<Last>,
    /// It is idle, or works for the scheduler to leave its idle state.
    pub(super) is_starting: bool,
    /// The beginning of the open stretch.
    since: Time,
    /// The nanoseconds in any [`State`] while tasks waited.
    spent: u64,
    /// By kind; those that are missing are zero.
    accounts: Vec<Account>,
    /// The kinds of which some task waits here and is not throttled, by bit.
    kinds_waiting: u32,
    /// The tasks that wait in its run queue.
    pub(super) waiting: Vec<u32>,
    /// Those of them whose state ends with the next switch. Some do not wait any more.
    pub(super) until_switch: Vec<u32>,
    /// The groups that are throttled here; `/` for all real-time tasks.
    pub(super) throttled: Vec<GroupId>,
}

/// The clocks of all CPUs.
#[derive(Debug)]
pub(super) struct Clocks {
    pub(super) ranks: CpuRanks,
    pub(super) kinds: Vec<Kind>,
    pub(super) cpus: Vec<Cpu>,
}

impl Kind {
    /// The numbers of free CPUs as far as they matter to a task: whether there are some besides its own.
    #[inline]
    fn count(&self) -> usize {
        match (self.inside, self.outside) {
            (0, 0) => 0,
            (0, 1) => 1,
            (0, _) => 2,
            (1, 0) => 3,
            (1, _) => 4,
            _ => 5,
        }
    }

    /// The part of a stretch with another free CPU inside, and the part with other free CPUs only outside. `own_is_free` says
    /// that the CPU where its tasks wait counts as free.
    #[inline]
    fn free_in(&self, own_is_free: bool, stretch: Range<Time>) -> [u64; 2] {
        let mut parts = [0; 6];
        if self.since <= stretch.start {
            parts[self.numbers] = stretch.end.since(stretch.start).0;
        } else {
            parts = self.parts_of(stretch);
        }
        let [_, one_outside, outside, one, one_and_outside, inside] = parts;
        match (own_is_free, &self.usable) {
            (false, _) => [inside + one + one_and_outside, outside + one_outside],
            (true, Usable::One) => [0, outside],
            (true, _) => [inside, one_and_outside],
        }
    }

    /// The parts of a stretch in which the numbers changed. Of more changes than are kept, only the last count.
    #[cold]
    fn parts_of(&self, stretch: Range<Time>) -> [u64; 6] {
        let mut parts = self.clocks;
        parts[self.numbers] += stretch.end.since(self.since).0;
        let changes = &self.changes;
        let next = changes.after(changes.first(), |&(at, ..)| at <= stretch.start);
        let before = next.max(changes.first() + 1) - 1;
        if let Some((at, mut clocks, numbers)) = changes.get(before) {
            clocks[numbers] += stretch.start.max(at).since(at).0;
            parts.iter_mut().zip(clocks).for_each(|(part, before)| *part -= before);
        }
        parts
    }

    pub(super) fn has_inside(&self) -> bool {
        self.inside > 0
    }

    /// Changes the rank of a CPU. Returns whether the last free CPU inside is free no more.
    #[inline(always)]
    pub(super) fn change(&mut self, cpu: CpuId, (old, new): (Rank, Rank), now: Time) -> bool {
        let (was, is) = (old < self.rank, new < self.rank);
        if was == is {
            return false;
        }
        let is_inside = match &self.usable {
            Usable::All => true,
            Usable::One => false,
            Usable::Some(cpus) => cpus.contains(cpu),
        };
        let count = if is_inside { &mut self.inside } else { &mut self.outside };
        *count = if is { *count + 1 } else { *count - 1 };
        let numbers = self.count();
        if numbers != self.numbers {
            self.clocks[self.numbers] += now.since(self.since).0;
            (self.numbers, self.since) = (numbers, now);
            self.changes.push((now, self.clocks, numbers));
        }
        is_inside && self.inside == 0
    }
}

impl Reading {
    /// The time in each state since an earlier reading, without states of none.
    #[inline(always)]
    pub(super) fn since(&self, seen: &Reading) -> impl Iterator<Item = (State, u64)> {
        let mut left = self.all - seen.all;
        let parts = State::ALL.into_iter().map_while(move |state| {
            if left == 0 {
                return None;
            }
            let part = self.spent[state as usize] - seen.spent[state as usize];
            left -= part;
            Some((state, part))
        });
        parts.filter(|&(_, part)| part > 0)
    }
}

impl Account {
    /// Adds an executing stretch.
    #[inline]
    fn add(&mut self, kind: &Kind, (rank, cookie): (Rank, u32), stretch: Range<Time>) {
        let span = stretch.end.since(stretch.start).0;
        if rank < kind.rank && cookie != kind.cookie {
            self.spent[State::Cookie as usize] += span;
            return;
        }
        let state = if rank == kind.rank && rank <= 0 { State::Turn } else { State::First };
        if kind.numbers == 0 && kind.since <= stretch.start {
            self.spent[state as usize] += span;
            return;
        }
        let [inside, outside] = kind.free_in(rank < kind.rank, stretch);
        self.spent[State::Inside as usize] += inside;
        self.spent[State::Outside as usize] += outside;
        self.spent[state as usize] += span - inside - outside;
    }
}

impl Cpu {
    fn new() -> Cpu {
        Cpu {
            did: Did::Nothing,
            due: false,
            last: None,
            is_starting: true,
            since: Time::ZERO,
            spent: 0,
            accounts: Vec::new(),
            kinds_waiting: 0,
            waiting: Vec::new(),
            until_switch: Vec::new(),
            throttled: Vec::new(),
        }
    }

    /// Says whether it executed this task last, with this policy, and was not idle since.
    #[inline]
    pub(super) fn executed_last(&self, task: TaskId, policy: Policy) -> bool {
        self.last.is_some_and(|last| last.task == task && last.policy == policy)
    }

    /// The numbers of tasks that wait here and are not throttled, by kind.
    pub(super) fn waiting_by_kind(&self) -> impl Iterator<Item = u32> {
        self.accounts.iter().map(|account| account.waiting)
    }

    /// Counts a task of a kind that waits here and is not throttled, or no more.
    #[inline]
    pub(super) fn count(&mut self, kind: u16, more: bool) {
        let waiting = &mut self.accounts[usize::from(kind)].waiting;
        *waiting = if more { *waiting + 1 } else { *waiting - 1 };
        let some = u32::from(*waiting > 0);
        self.kinds_waiting = self.kinds_waiting & !(1 << kind) | some << kind;
    }

    /// Whether its clocks run while tasks wait.
    #[inline(always)]
    fn is_counted(&self) -> bool {
        matches!(self.did, Did::Exec | Did::Forced)
    }

    /// The state for all kinds, or the task by which it is another one for each kind.
    #[inline(always)]
    fn state(&self) -> (State, Option<Last>) {
        match (self.did, self.last) {
            (Did::Exec, Some(last)) => (State::Due, Some(last).filter(|_| !self.due)),
            _ => (State::Cookie, None),
        }
    }

    /// Adds the open stretch, and opens the next one.
    #[inline(always)]
    pub(super) fn close_stretch(&mut self, kinds: &[Kind], now: Time) {
        let begun = std::mem::replace(&mut self.since, now);
        if !self.is_counted() || begun == now || self.waiting.is_empty() {
            return;
        }
        let span = now.since(begun).0;
        self.spent += span;
        let (state, last) = self.state();
        let Some(last) = last else {
            self.accounts.iter_mut().for_each(|account| account.spent[state as usize] += span);
            return;
        };
        let mut left = self.kinds_waiting;
        while left > 0 {
            let at = left.trailing_zeros() as usize;
            self.accounts[at].add(&kinds[at], (last.rank, last.cookie), begun..now);
            left &= left - 1;
        }
    }
}

impl Clocks {
    pub(super) fn new(cpus: usize, threads: usize) -> Clocks {
        let ranks = CpuRanks::new(cpus, threads);
        Clocks { ranks, kinds: Vec::new(), cpus: (0..cpus).map(|_| Cpu::new()).collect() }
    }

    /// The kind of tasks of this rank and cookie that may use these CPUs.
    pub(super) fn kind(&mut self, (rank, cookie): (Rank, u32), usable: Usable, now: Time) -> u16 {
        let is = |kind: &Kind| (kind.rank, kind.cookie) == (rank, cookie) && kind.usable == usable;
        let place = match self.kinds.iter().position(is) {
            Some(place) => place,
            None if self.kinds.len() < KINDS => {
                self.add_kind((rank, cookie), usable, now);
                self.kinds.len() - 1
            }
            None => {
                let far = |kind: &Kind| (kind.rank.abs_diff(rank), kind.cookie != cookie);
                (0..KINDS).min_by_key(|&at| far(&self.kinds[at])).expect("there are kinds")
            }
        };
        place as u16
    }

    fn add_kind(&mut self, (rank, cookie): (Rank, u32), usable: Usable, now: Time) {
        let mut kind = Kind {
            rank,
            cookie,
            usable,
            inside: 0,
            outside: 0,
            numbers: 0,
            clocks: [0; 6],
            since: now,
            changes: Ring::new(CHANGES),
            placed: Vec::new(),
            waiting: 0,
        };
        kind.changes.push((now, kind.clocks, kind.numbers));
        for (cpu, &of) in self.ranks.all().iter().enumerate() {
            kind.change(CpuId::at(cpu), (rank, of), now);
        }
        self.kinds.push(kind);
    }

    /// The clocks of a CPU for a kind of tasks that wait there.
    #[inline]
    pub(super) fn read(&mut self, cpu: CpuId, kind: u16, now: Time) -> Reading {
        let cpu = &mut self.cpus[cpu.index()];
        cpu.close_stretch(&self.kinds, now);
        Reading { spent: cpu.accounts[usize::from(kind)].spent, all: cpu.spent }
    }

    /// The clocks of a CPU for a kind of which a task waits there and is not throttled. The open stretch stays open.
    pub(super) fn peek(&self, cpu: CpuId, kind: u16, now: Time) -> Reading {
        let cpu = &self.cpus[cpu.index()];
        let mut account = cpu.accounts[usize::from(kind)];
        let span = if cpu.is_counted() { now.since(cpu.since).0 } else { 0 };
        match cpu.state() {
            _ if span == 0 => {}
            (state, None) => account.spent[state as usize] += span,
            (_, Some(last)) => {
                let kind = &self.kinds[usize::from(kind)];
                account.add(kind, (last.rank, last.cookie), cpu.since..now);
            }
        }
        Reading { spent: account.spent, all: cpu.spent + span }
    }

    /// Adds a task to those that wait on a CPU, and returns its place there.
    #[inline]
    pub(super) fn enter(&mut self, cpu: CpuId, (task, kind): (u32, u16)) -> u32 {
        let cpu = &mut self.cpus[cpu.index()];
        if cpu.accounts.len() <= usize::from(kind) {
            cpu.accounts.resize(self.kinds.len(), Account::default());
        }
        cpu.waiting.push(task);
        cpu.waiting.len() as u32 - 1
    }

    /// Removes the task at this place from those that wait on a CPU. Returns the task that has its place now.
    #[inline]
    pub(super) fn leave(&mut self, cpu: CpuId, place: u32) -> Option<u32> {
        let waiting = &mut self.cpus[cpu.index()].waiting;
        waiting.swap_remove(place as usize);
        waiting.get(place as usize).copied()
    }

    /// Notes that a switch of a CPU is due, although it goes on with its task.
    pub(super) fn is_due(&mut self, cpu: CpuId, now: Time) {
        let own = &mut self.cpus[cpu.index()];
        own.close_stretch(&self.kinds, now);
        own.due = true;
    }
}
