//! All time that tasks wait, by cause. A task that begins to wait reads the clocks of its CPU (`clocks`), and reads them again
//! at the end. What is true of this task alone is its [`Waiter`]; before that changes, the task is *settled*: the
//! differences of the clocks get their causes. The design page is `docs/design/why-late.md`.
//!
//! Invariant: the causes of a task sum to the time that its account counts as waiting.

mod clocks;
mod steps;
mod waste;

pub(crate) use steps::WaitSteps;

use crate::account::Doing;
use crate::ranks::rank;
use crate::why::{Cause, CauseTimes, Explained};
use clocks::{Clocks, Did, Last, Reading, State, Usable};
use runyard_engine::attr::{Attr, Cookie, GroupId};
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, What};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use waste::Waste;

/// No kind.
const NONE: u16 = u16::MAX;

/// The waits of all tasks.
#[derive(Debug)]
pub(crate) struct Waits {
    machine: Explained,
    clocks: Clocks,
    tasks: Vec<Waiter>,
    waste: Waste,
    /// By CPU, the waits there.
    cpus: Vec<CauseTimes>,
    /// By group, the waits of tasks that have left it.
    left_groups: Vec<CauseTimes>,
}

/// A task.
#[derive(Debug)]
struct Waiter {
    /// It waits in a run queue, on the way to one, or throttled.
    waits: bool,
    /// The CPU where it waits, and its place among those that wait there. In flight it has no place.
    cpu: CpuId,
    place: u32,
    kind: u16,
    /// The kind in whose list of placed tasks it is; [`NONE`] if it is in none.
    listed: u16,
    cookie: u32,
    group: GroupId,
    is_rt: bool,
    /// The moment up to which its waits are counted, and the clocks at that moment.
    since: Time,
    seen: Reading,
    /// The cause that holds whatever its CPU does: it is in flight or throttled.
    held: Option<Cause>,
    /// The wait began as it lost its CPU.
    lost: bool,
    /// Its CPU still executes the less important task that it executed when this one came, and that is still less important.
    unswitched: bool,
    outranks: bool,
    /// A task that comes after it keeps the CPU, and whether that has another cookie.
    passed_over: Option<bool>,
    /// A CPU that it may use has been free since it came to a busy one.
    placed: bool,
    causes: CauseTimes,
    /// Its waits before it came to its group, if it has left one.
    before: Option<Box<CauseTimes>>,
}

impl Waits {
    pub(crate) fn new(machine: Explained) -> Waits {
        let mut clocks = Clocks::new(machine.cpus, machine.threads.max(1));
        clocks.kind((0, 0), Usable::All, Time::ZERO);
        Waits {
            clocks,
            tasks: Vec::new(),
            waste: Waste::new(machine.cpus as u32),
            cpus: vec![CauseTimes::default(); machine.cpus],
            left_groups: vec![CauseTimes::default(); machine.parents.len().max(1)],
            machine,
        }
    }

    /// Notes the present attributes of a task. Its cookie is its own or that of its group.
    pub(crate) fn asks(&mut self, task: TaskId, attr: &Attr, cookie: Option<Cookie>, now: Time) {
        let usable = match attr.affinity.len() {
            all if all >= self.machine.cpus => Usable::All,
            1 => Usable::One,
            _ => Usable::Some(attr.affinity.clone()),
        };
        let cookie = cookie.filter(|_| self.machine.threads > 1).map_or(0, Cookie::get);
        let kind = self.clocks.kind((rank(attr.policy), cookie), usable, now);
        let at = task.index();
        self.waiter(task);
        let is_here = self.tasks[at].held != Some(Cause::Migration);
        let waits = self.tasks[at].waits && is_here;
        if waits {
            self.leave(at, now);
        }
        if self.tasks[at].cookie != cookie {
            self.change_cookie(task, cookie, now);
        }
        let waiter = &mut self.tasks[at];
        if waiter.group != attr.group {
            let earlier = waiter.before.take().unwrap_or_default();
            self.left_groups[waiter.group.index()].add(&waiter.causes.since(&earlier));
            waiter.before = Some(Box::new(waiter.causes));
        }
        (waiter.kind, waiter.cookie, waiter.group) = (kind, cookie, attr.group);
        waiter.is_rt = attr.policy.class().has_rt_budget();
        if waits {
            self.enter(at, now);
        }
    }

    /// Notes that a task begins to wait in the run queue of a CPU, or has `lost` it.
    #[inline]
    pub(crate) fn begin(&mut self, task: TaskId, (cpu, lost): (CpuId, bool), now: Time) {
        let waiter = self.waiter(task);
        (waiter.waits, waiter.cpu, waiter.lost) = (true, cpu, lost);
        self.enter(task.index(), now);
    }

    /// Notes that a task waits no more.
    #[inline]
    pub(crate) fn end(&mut self, task: TaskId, now: Time) {
        if std::mem::take(&mut self.waiter(task).waits) {
            self.leave(task.index(), now);
        }
    }

    /// Counts the time in which a task waited although it had this CPU.
    #[inline]
    pub(crate) fn count_interrupted(&mut self, task: TaskId, cpu: CpuId, span: Nanos) {
        self.waiter(task).causes[Cause::Cost] += span.0;
        self.cpus[cpu.index()][Cause::Cost] += span.0;
    }

    /// Changes the activity of a CPU.
    #[inline]
    pub(crate) fn turn(&mut self, cpu: CpuId, doing: Doing, now: Time) {
        let Clocks { kinds, cpus, .. } = &mut self.clocks;
        let own = &mut cpus[cpu.index()];
        own.close_stretch(kinds, now);
        match doing {
            Doing::Overhead if own.did != Did::Nothing => own.did = Did::Overhead,
            Doing::Exec { task, policy } if own.executed_last(task, policy) => own.did = Did::Exec,
            _ => self.turn_to_another(cpu, doing, now),
        }
    }

    /// Changes the activity of a CPU that goes idle, leaves that state, or executes another task or the same with another
    /// policy.
    fn turn_to_another(&mut self, cpu: CpuId, doing: Doing, now: Time) {
        let (did, last) = match doing {
            Doing::Overhead => (Did::Overhead, None),
            Doing::Idle => (Did::Nothing, None),
            Doing::Forced { .. } => (Did::Forced, None),
            Doing::Exec { task, policy } => {
                let cookie = match self.machine.threads > 1 {
                    true => self.tasks.get(task.index()).map_or(0, |waiter| waiter.cookie),
                    false => 0,
                };
                (Did::Exec, Some(Last { task, policy, rank: rank(policy), cookie }))
            }
        };
        self.turn_to(cpu, (did, last), now);
        self.change_rank(cpu, doing, now);
    }

    /// Changes the activity of a CPU, and the task that it executed last.
    fn turn_to(&mut self, cpu: CpuId, (did, last): (Did, Option<Last>), now: Time) {
        let own = &mut self.clocks.cpus[cpu.index()];
        if own.last != last && !own.until_switch.is_empty() {
            self.switch(cpu, last, now);
        }
        self.change_idle(cpu, did, now);
        let own = &mut self.clocks.cpus[cpu.index()];
        let another = own.last.map(|last| last.task) != last.map(|last| last.task);
        (own.did, own.last) = (did, last);
        own.due &= !another;
    }

    /// Changes the rank of a CPU, for which it is free.
    #[inline]
    fn change_rank(&mut self, cpu: CpuId, doing: Doing, now: Time) {
        let Waits { clocks: Clocks { ranks, kinds, .. }, waste, .. } = self;
        let mut ends = false;
        ranks.turn(cpu, doing, |cpu, old, new| {
            waste.advance(kinds, now);
            for kind in &mut *kinds {
                ends |= kind.change(cpu, (old, new), now) && !kind.placed.is_empty();
            }
        });
        if ends {
            self.end_placed(now);
        }
    }

    /// Notes the events of waiting tasks.
    pub(crate) fn note(&mut self, event: &Event, now: Time) {
        let cpu = event.cpu;
        match event.what {
            What::Moved { task } if self.waiter(task).waits => {
                self.leave(task.index(), now);
                let waiter = &mut self.tasks[task.index()];
                (waiter.cpu, waiter.held) = (cpu, Some(Cause::Migration));
                self.count(task.index(), true, now);
            }
            What::Landed { task } if self.waiter(task).held == Some(Cause::Migration) => {
                self.settle(task.index(), now);
                self.count(task.index(), false, now);
                self.tasks[task.index()].held = None;
                self.enter(task.index(), now);
            }
            What::PassedOver { task } => self.pass_over(task, cpu, now),
            What::SwitchDue => self.clocks.is_due(cpu, now),
            What::Throttled { group } => {
                self.clocks.cpus[cpu.index()].throttled.push(group);
                self.throttle(cpu, now);
            }
            What::Unthrottled { group } => {
                self.clocks.cpus[cpu.index()].throttled.retain(|&it| it != group);
                self.throttle(cpu, now);
            }
            _ => {}
        }
    }

    /// Begins anew at `now`: what was before does not count. Waits go on.
    pub(crate) fn count_from(&mut self, now: Time) {
        for at in 0..self.tasks.len() {
            if self.tasks[at].waits {
                self.settle(at, now);
            }
        }
        self.waste.advance(&self.clocks.kinds, now);
        self.waste.wasted = CauseTimes::NONE;
        for waiter in &mut self.tasks {
            (waiter.causes, waiter.before) = (CauseTimes::NONE, None);
        }
        self.cpus.fill(CauseTimes::NONE);
        self.left_groups.fill(CauseTimes::NONE);
    }

    /// Ends all waits.
    pub(crate) fn finish(&mut self, now: Time) {
        for task in (0..self.tasks.len() as u64).map(TaskId) {
            self.end(task, now);
        }
        self.waste.advance(&self.clocks.kinds, now);
    }

    /// The time that a task waited up to `now`, without what is not counted yet of its interruptions.
    pub(crate) fn waited(&self, task: TaskId, now: Time) -> u64 {
        let Some(waiter) = self.tasks.get(task.index()) else { return 0 };
        let open = if waiter.waits { now.since(waiter.since).0 } else { 0 };
        waiter.causes.total() + open
    }

    /// The waits of a task, up to the moment at which they were counted last.
    pub(crate) fn of_task(&self, task: TaskId) -> CauseTimes {
        self.tasks.get(task.index()).map_or_else(CauseTimes::default, |waiter| waiter.causes)
    }

    /// The waits of all tasks up to `now`, without what is not counted yet of their interruptions. Nothing is settled.
    pub(crate) fn sums(&self, now: Time) -> CauseTimes {
        let mut sums = CauseTimes::NONE;
        self.cpus.iter().for_each(|cpu| sums.add(cpu));
        let mut open = |waiter: &Waiter| {
            let span = now.since(waiter.since).0;
            if let Some(cause) = waiter.held {
                sums[cause] += span;
            } else if span > 0 {
                let reading = self.clocks.peek(waiter.cpu, waiter.kind, now);
                sums[Cause::Cost] += span - (reading.all - waiter.seen.all).min(span);
                let parts = reading.since(&waiter.seen);
                parts.for_each(|(state, part)| sums[waiter.cause(state)] += part);
            }
        };
        let queued = self.clocks.cpus.iter().flat_map(|cpu| &cpu.waiting);
        queued.for_each(|&at| open(&self.tasks[at as usize]));
        if self.waste.moving > 0 {
            let is_moving = |it: &&Waiter| it.waits && it.held == Some(Cause::Migration);
            self.tasks.iter().filter(is_moving).for_each(open);
        }
        sums
    }

    /// The task that each CPU executed last since it was idle.
    pub(crate) fn executed_last(&self) -> impl Iterator<Item = (CpuId, TaskId)> {
        let cpus = self.clocks.cpus.iter().enumerate();
        cpus.filter_map(|(cpu, own)| Some((CpuId::at(cpu), own.last?.task)))
    }

    /// Says whether the causes of CPUs or groups differ from those of tasks, as far as they are counted.
    pub(crate) fn broken_sums(&self) -> Option<String> {
        let sum = |all: &mut dyn Iterator<Item = CauseTimes>| {
            all.fold(CauseTimes::default(), |mut sum, one| {
                sum.add(&one);
                sum
            })
        };
        let tasks = sum(&mut self.tasks.iter().map(|waiter| waiter.causes));
        let cpus = sum(&mut self.cpus.iter().copied());
        let groups = sum(&mut self.of_groups().into_iter());
        let broken = tasks != cpus || tasks != groups;
        broken.then(|| format!("tasks waited {tasks:?}, on CPUs {cpus:?}, in groups {groups:?}"))
    }

    /// The waits on a CPU.
    pub(crate) fn of_cpu(&self, cpu: CpuId) -> CauseTimes {
        self.cpus.get(cpu.index()).copied().unwrap_or_default()
    }

    /// The waits of the tasks of each group, without the groups below it.
    pub(crate) fn of_groups(&self) -> Vec<CauseTimes> {
        let mut groups = self.left_groups.clone();
        for waiter in &self.tasks {
            let earlier = waiter.before.as_deref().copied().unwrap_or_default();
            groups[waiter.group.index()].add(&waiter.causes.since(&earlier));
        }
        groups
    }

    /// The idle CPU time that waiting tasks could have used. It lacks what cookies forced.
    pub(crate) fn wasted(&self) -> CauseTimes {
        self.waste.wasted
    }

    #[inline]
    fn waiter(&mut self, task: TaskId) -> &mut Waiter {
        if task.index() >= self.tasks.len() {
            self.add_waiters(task);
        }
        &mut self.tasks[task.index()]
    }

    #[cold]
    fn add_waiters(&mut self, last: TaskId) {
        self.tasks.resize_with(last.index() + 1, Waiter::new);
    }

    /// Puts a task among those that wait on its CPU.
    fn enter(&mut self, at: usize, now: Time) {
        let Waits { clocks, tasks, machine, .. } = self;
        let waiter = &mut tasks[at];
        let Waiter { cpu, kind, .. } = *waiter;
        waiter.place = clocks.enter(cpu, (at as u32, kind));
        waiter.since = now;
        waiter.seen = clocks.read(cpu, kind, now);
        let (own, of) = (&mut clocks.cpus[cpu.index()], &mut clocks.kinds[usize::from(kind)]);
        waiter.held = waiter.is_throttled(&own.throttled, machine);
        waiter.passed_over = None;
        waiter.unswitched = own.last.is_some_and(|last| last.rank < of.rank);
        waiter.outranks = waiter.unswitched;
        if waiter.unswitched {
            own.until_switch.push(at as u32);
        }
        let is_free = match own.did {
            Did::Nothing => true,
            Did::Exec => own.last.is_some_and(|last| last.rank < of.rank),
            Did::Forced | Did::Overhead => false,
        };
        waiter.placed = !is_free && of.has_inside();
        if waiter.placed && waiter.listed != kind {
            waiter.listed = kind;
            of.placed.push(at as u32);
        }
        self.count(at, true, now);
    }

    /// Takes a task out of those that wait on its CPU, or of those in flight.
    fn leave(&mut self, at: usize, now: Time) {
        self.settle(at, now);
        self.count(at, false, now);
        let Waiter { cpu, place, held, .. } = self.tasks[at];
        if held == Some(Cause::Migration) {
            return;
        }
        if let Some(moved) = self.clocks.leave(cpu, place) {
            self.tasks[moved as usize].place = place;
        }
    }

    /// Gives the time since the task was settled to its causes.
    #[inline]
    fn settle(&mut self, at: usize, now: Time) {
        let Waits { clocks, tasks, cpus, .. } = self;
        let waiter = &mut tasks[at];
        let span = now.since(waiter.since).0;
        waiter.since = now;
        if span == 0 {
            return;
        }
        let on_cpu = &mut cpus[waiter.cpu.index()];
        let mut add = |causes: &mut CauseTimes, cause: Cause, span: u64| {
            causes[cause] += span;
            on_cpu[cause] += span;
        };
        if let Some(cause) = waiter.held {
            return add(&mut waiter.causes, cause, span);
        }
        let reading = clocks.read(waiter.cpu, waiter.kind, now);
        let told = reading.all - waiter.seen.all;
        if span > told {
            add(&mut waiter.causes, Cause::Cost, span - told);
        }
        for (state, part) in reading.since(&waiter.seen) {
            let cause = waiter.cause(state);
            add(&mut waiter.causes, cause, part);
        }
        waiter.seen = reading;
    }

    /// Counts a waiting task for the wasted time, or no more.
    #[inline(always)]
    fn count(&mut self, at: usize, more: bool, now: Time) {
        let Waits { clocks: Clocks { kinds, cpus, .. }, waste, .. } = self;
        waste.advance(kinds, now);
        let Waiter { cpu, kind, held, .. } = self.tasks[at];
        let by = |count: &mut u32| *count = if more { *count + 1 } else { *count - 1 };
        by(&mut waste.waiting);
        match held {
            None => {
                let own = &mut cpus[cpu.index()];
                own.count(kind, more);
                match own.is_starting {
                    true => by(&mut waste.starting),
                    false => by(&mut kinds[usize::from(kind)].waiting),
                }
            }
            Some(Cause::Migration) => by(&mut waste.moving),
            Some(Cause::RtThrottled) => by(&mut waste.rt_throttled),
            Some(_) => by(&mut waste.throttled),
        }
    }

    /// Counts a CPU that becomes idle or busy, and the tasks that wait there.
    #[inline]
    fn change_idle(&mut self, cpu: CpuId, did: Did, now: Time) {
        let Waits { clocks: Clocks { kinds, cpus, .. }, waste, .. } = self;
        let own = &mut cpus[cpu.index()];
        let is_starting = did == Did::Nothing || (did == Did::Overhead && own.is_starting);
        let (was_idle, is_idle) = (own.did == Did::Nothing, did == Did::Nothing);
        if is_starting == own.is_starting && is_idle == was_idle {
            return;
        }
        waste.advance(kinds, now);
        waste.idle = waste.idle + u32::from(is_idle) - u32::from(was_idle);
        if std::mem::replace(&mut own.is_starting, is_starting) != is_starting {
            for (kind, count) in kinds.iter_mut().zip(own.waiting_by_kind()) {
                if is_starting {
                    (kind.waiting, waste.starting) = (kind.waiting - count, waste.starting + count);
                } else {
                    (kind.waiting, waste.starting) = (kind.waiting + count, waste.starting - count);
                }
            }
        }
    }

    /// Notes that a CPU is to execute another task or none, or its task with other attributes. What a task waits for that the
    /// CPU is to execute ends now.
    fn switch(&mut self, cpu: CpuId, next: Option<Last>, now: Time) {
        let own = &mut self.clocks.cpus[cpu.index()];
        let begins = next.map(|next| next.task);
        let another = own.last.map(|last| last.task) != begins;
        let mut tasks = std::mem::take(&mut own.until_switch);
        for &at in tasks.iter().filter(|&&at| begins != Some(TaskId(at.into()))) {
            let waiter = &self.tasks[at as usize];
            if waiter.waits && waiter.cpu == cpu {
                self.settle(at as usize, now);
                let waiter = &mut self.tasks[at as usize];
                let rank = self.clocks.kinds[usize::from(waiter.kind)].rank;
                match next.filter(|_| !another) {
                    None => (waiter.unswitched, waiter.passed_over) = (false, None),
                    Some(next) => {
                        waiter.outranks = next.rank < rank;
                        let differs = waiter.passed_over.map(|_| next.cookie != waiter.cookie);
                        waiter.passed_over = differs;
                    }
                }
            }
        }
        if another {
            tasks.clear();
        }
        self.clocks.cpus[cpu.index()].until_switch = tasks;
    }

    /// Changes the cookie of a task that CPUs may execute.
    fn change_cookie(&mut self, of: TaskId, cookie: u32, now: Time) {
        for cpu in (0..self.clocks.cpus.len()).map(CpuId::at) {
            let Clocks { cpus, kinds, .. } = &mut self.clocks;
            let own = &mut cpus[cpu.index()];
            if let Some(last) = own.last.filter(|last| last.task == of) {
                own.close_stretch(kinds, now);
                let last = Some(Last { cookie, ..last });
                self.switch(cpu, last, now);
                self.clocks.cpus[cpu.index()].last = last;
            }
        }
    }

    /// Notes that kinds have no free CPU inside any more.
    fn end_placed(&mut self, now: Time) {
        for kind in 0..self.clocks.kinds.len() {
            if self.clocks.kinds[kind].has_inside() {
                continue;
            }
            let mut tasks = std::mem::take(&mut self.clocks.kinds[kind].placed);
            for at in tasks.drain(..).map(|at| at as usize) {
                if usize::from(self.tasks[at].listed) == kind {
                    self.tasks[at].listed = NONE;
                }
                if self.tasks[at].waits && usize::from(self.tasks[at].kind) == kind {
                    self.settle(at, now);
                    self.tasks[at].placed = false;
                }
            }
            self.clocks.kinds[kind].placed = tasks;
        }
    }

    fn pass_over(&mut self, task: TaskId, cpu: CpuId, now: Time) {
        let waiter = self.waiter(task);
        let waits = waiter.waits && waiter.cpu == cpu && waiter.held.is_none();
        if !waits || waiter.passed_over.is_some() {
            return;
        }
        self.settle(task.index(), now);
        let (waiter, own) = (&mut self.tasks[task.index()], &mut self.clocks.cpus[cpu.index()]);
        let Some(last) = own.last else { return };
        waiter.passed_over = Some(last.cookie != waiter.cookie);
        own.until_switch.push(task.index() as u32);
    }

    /// Notes that groups are throttled on a CPU, or no more.
    fn throttle(&mut self, cpu: CpuId, now: Time) {
        for nth in 0..self.clocks.cpus[cpu.index()].waiting.len() {
            let own = &self.clocks.cpus[cpu.index()];
            let at = own.waiting[nth] as usize;
            let held = self.tasks[at].is_throttled(&own.throttled, &self.machine);
            if held == self.tasks[at].held {
                continue;
            }
            self.settle(at, now);
            self.count(at, false, now);
            let waiter = &mut self.tasks[at];
            waiter.held = held;
            waiter.seen = self.clocks.read(cpu, waiter.kind, now);
            self.count(at, true, now);
        }
    }
}

impl Waiter {
    fn new() -> Waiter {
        Waiter {
            waits: false,
            cpu: CpuId::at(0),
            place: 0,
            kind: 0,
            listed: NONE,
            cookie: 0,
            group: GroupId::ROOT,
            is_rt: false,
            since: Time::ZERO,
            seen: Reading::default(),
            held: None,
            lost: false,
            unswitched: false,
            outranks: false,
            passed_over: None,
            placed: false,
            causes: CauseTimes::default(),
            before: None,
        }
    }

    /// The cause while its CPU is in this state.
    #[inline]
    fn cause(&self, state: State) -> Cause {
        match state {
            State::Due => Cause::Kernel,
            State::Cookie => Cause::CoreCookie,
            _ if self.passed_over == Some(true) => Cause::CoreCookie,
            _ if self.passed_over.is_none() && self.unswitched && self.outranks => Cause::Cost,
            State::Inside if self.placed => Cause::Placement,
            State::Inside => Cause::Balance,
            State::Outside => Cause::Affinity,
            _ if self.passed_over.is_some() => Cause::ProtectedSlice,
            State::Turn => Cause::Turn,
            State::First if self.lost => Cause::Preempted,
            State::First => Cause::Important,
        }
    }

    /// The cause by which throttled groups keep it from running.
    #[inline]
    fn is_throttled(&self, throttled: &[GroupId], machine: &Explained) -> Option<Cause> {
        let none = throttled.is_empty();
        if none { None } else { self.find_throttled(throttled, machine) }
    }

    #[cold]
    fn find_throttled(&self, throttled: &[GroupId], machine: &Explained) -> Option<Cause> {
        if self.is_rt {
            return throttled.contains(&GroupId::ROOT).then_some(Cause::RtThrottled);
        }
        let parent = |group: &GroupId| machine.parents.get(group.index()).copied().flatten();
        let lineage = std::iter::successors(Some(self.group), parent);
        let mut below_root = lineage.take_while(|&group| group != GroupId::ROOT);
        below_root.any(|group| throttled.contains(&group)).then_some(Cause::Throttled)
    }
}
