//! The reasons why tasks were late: the worst wake-ups of each task, with their causes.
//!
//! The activity of the CPUs is recorded as it happens, in bounded memory (`record`). When a wait ends that is among the
//! worst of its task so far, which is rare, it is walked in pieces (`judge`). The result keeps the tasks that ran
//! meanwhile, and the cause of the largest part (`worst`). The design page is `docs/design/why-late.md`.

mod cause;
mod judge;
mod record;
mod reports;
mod ring;
mod times;
mod told;
mod worst;

pub use cause::{Cause, Entry as CauseEntry};
pub use reports::{DoingReport, Explanation, PartReport, RanReport, WorstReport};
pub(crate) use ring::Ring;
pub use times::CauseTimes;
pub use told::BlameReport;
use told::Told;
pub(crate) use worst::Bad;

use crate::account::Doing;
use crate::names::Names;
use crate::ranks::rank;
use judge::{About, Move, Piece, Scratch, Wait, judge};
use record::{Did, Record, who};
use runyard_engine::attr::{Attr, Cookie, GroupId, Policy};
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::event::{Event, What};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use worst::Worst;

/// The number of wake-ups that are kept of a task.
const MOST: usize = 10;
/// The number that are kept of all tasks, unless there are more tasks: 10 MiB.
const MOST_OF_ALL: usize = 20_000;
/// The number of moves of a waiting task that are kept. The time before them counts as spent on the CPU before the
/// first of them.
const MOVES: usize = 64;
/// The largest and the least number of record entries that are walked for one wait.
const LONGEST_WALK: u64 = 4_096;
const SHORTEST_WALK: u64 = 64;
/// The number of record entries that may be walked before the first event. Each stretch of a CPU adds one. So waits
/// that are each longer than all before take no more than a part of the run's time.
const FIRST_CREDIT: u64 = 1 << 18;

/// The facts about a machine that are needed to find causes.
#[derive(Clone, Debug, Default)]
pub struct Explained {
    /// The number of its CPUs.
    pub cpus: usize,
    /// The number of CPUs of a core whose threads heed cookies; 1 if none do.
    pub threads: usize,
    /// The parent of each task group.
    pub parents: Vec<Option<GroupId>>,
}

/// Finds the worst wake-ups.
#[derive(Debug)]
pub(crate) struct Why {
    record: Record,
    tasks: Vec<Waiter>,
    /// The number of wake-ups that are kept of a task.
    most: usize,
    /// The facts about machine and tasks, if causes are wanted.
    known: Option<Known>,
    scratch: Scratch,
    credit: u64,
    watched: Option<(TaskId, Time)>,
    /// The tasks and parts of the run of which all waits are summed.
    told: Vec<Told>,
    /// The watched wait when it has ended, and its pieces.
    story: Option<(Bad, Vec<Piece>)>,
}

/// The facts about the machine and the tasks.
#[derive(Debug)]
struct Known {
    machine: Explained,
    /// The sets of CPUs on which tasks may run; a task has the number of its set. The first set is all CPUs.
    affinities: Vec<CpuSet>,
    /// The cookie of each task, 0 for none.
    cookies: Vec<u32>,
}

/// The state of a task while it waits.
#[derive(Debug, Default)]
struct Waiter {
    /// The instant from which it could have run.
    since: Time,
    woken: Time,
    cpu: CpuId,
    by_timer: bool,
    waits: bool,
    affinity: u32,
    policy: Option<Policy>,
    group: GroupId,
    slack: Nanos,
    /// The wait began as it lost its CPU.
    lost: bool,
    moves: Vec<Move>,
    worst: Worst,
}

impl Why {
    /// A finder without causes, for this number of tasks or more.
    pub(crate) fn new(tasks: usize) -> Why {
        Why {
            record: Record::new(),
            tasks: Vec::new(),
            most: (MOST_OF_ALL / tasks.max(1)).clamp(1, MOST),
            known: None,
            scratch: Scratch::default(),
            credit: FIRST_CREDIT,
            watched: None,
            told: Vec::new(),
            story: None,
        }
    }

    /// A finder with causes.
    pub(crate) fn explaining(tasks: usize, machine: Explained) -> Why {
        let record = Record::with_ranks(machine.cpus, machine.threads.max(1));
        let affinities = vec![CpuSet::first(machine.cpus)];
        let known = Some(Known { machine, affinities, cookies: Vec::new() });
        Why { record, known, ..Why::new(tasks) }
    }

    /// Asks for the sums of all waits of `task` in `span`. They have the number of the request.
    pub(crate) fn tell(&mut self, task: TaskId, span: std::ops::Range<Time>) {
        self.told.push(Told::new(task, span));
    }

    /// The sums that were asked for by the request of this number, the longest first.
    pub(crate) fn told(&self, request: usize, names: &dyn Names) -> Vec<BlameReport> {
        self.told.get(request).map_or_else(Vec::new, |told| told.report(names))
    }

    /// Asks for the pieces of the wait of `task` that begins at `since`.
    pub(crate) fn watch(&mut self, task: TaskId, since: Time) {
        self.watched = Some((task, since));
    }

    /// Notes the present attributes of a task. Its cookie is its own or that of its group.
    pub(crate) fn asks(&mut self, task: TaskId, attr: &Attr, slack: Nanos, cookie: Option<Cookie>) {
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
        waiter.policy = Some(attr.policy);
        waiter.slack = slack;
    }

    #[inline]
    pub(crate) fn turn(&mut self, cpu: CpuId, doing: Doing, now: Time) {
        self.credit += 1;
        self.record.turn(cpu, doing, now);
    }

    /// Notes a wake-up from which a latency runs.
    #[inline]
    pub(crate) fn wake(
        &mut self,
        (task, since): (TaskId, Time),
        cpu: CpuId,
        (by_timer, now): (bool, Time),
    ) {
        let waiter = self.waiter(task);
        (waiter.since, waiter.woken, waiter.cpu, waiter.by_timer) = (since, now, cpu, by_timer);
        (waiter.waits, waiter.lost) = (true, false);
        waiter.moves.clear();
    }

    /// Notes that a task lost its CPU, and waits.
    #[inline]
    pub(crate) fn loses(&mut self, task: TaskId, (cpu, lost): (CpuId, bool), now: Time) {
        let waiter = self.waiter(task);
        (waiter.since, waiter.woken, waiter.cpu, waiter.by_timer) = (now, now, cpu, false);
        (waiter.waits, waiter.lost) = (true, lost);
        waiter.moves.clear();
    }

    /// Notes the events of waiting tasks.
    pub(crate) fn note(&mut self, event: &Event, now: Time) {
        match event.what {
            What::Moved { task } => self.moved(task, event.cpu, now),
            What::Landed { task } => {
                if let Some(last) = self.waiter(task).moves.last_mut() {
                    last.arrived = now;
                }
            }
            What::SwitchDue => self.record.switch_due(event.cpu, now),
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
            waiter.cpu = waiter.moves.remove(0).to;
        }
        waiter.moves.push(Move { sent: now, arrived: now, to: cpu });
    }

    /// Ends a wait that ran from `since`: the task executes.
    #[inline]
    pub(crate) fn ends(&mut self, task: TaskId, policy: Policy, (since, now): (Time, Time)) {
        let (most, wanted) = (self.most, self.wants(task, since));
        let waiter = self.waiter(task);
        waiter.waits = false;
        if waiter.worst.takes(now.since(since), most) || wanted {
            let bad = self.judge(task, policy, (since, now));
            let waiter = &mut self.tasks[task.index()];
            if waiter.worst.takes(bad.latency, most) {
                waiter.worst.add(bad, most);
            }
        }
    }

    /// Ends a wait that began as the task lost its CPU, if one did: the task executes.
    #[inline]
    pub(crate) fn returns(&mut self, task: TaskId, policy: Policy, now: Time) {
        let waiter = self.waiter(task);
        let since = waiter.since;
        if std::mem::take(&mut waiter.waits) && self.wants(task, since) {
            self.judge(task, policy, (since, now));
        }
    }

    /// Ends the waits that are asked for.
    pub(crate) fn finish(&mut self, now: Time) {
        let tasks = self.told.iter().map(|told| told.task);
        let tasks: std::collections::BTreeSet<_> =
            tasks.chain(self.watched.map(|(task, _)| task)).collect();
        for task in tasks {
            if let Some(policy) = self.waiter(task).policy {
                self.returns(task, policy, now);
            }
        }
    }

    #[inline]
    fn wants(&self, task: TaskId, since: Time) -> bool {
        self.watched == Some((task, since)) || self.told.iter().any(|told| told.task == task)
    }

    #[inline(never)]
    fn judge(&mut self, task: TaskId, policy: Policy, (since, end): (Time, Time)) -> Bad {
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
            lost: waiter.lost,
            most: if self.told.is_empty() {
                self.credit.clamp(SHORTEST_WALK, LONGEST_WALK) as usize
            } else {
                usize::MAX
            },
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
        self.told.iter_mut().filter(|told| told.task == task).for_each(|told| told.add(pieces));
        bad
    }

    /// Forgets the worst wake-ups so far. Waits that have begun go on.
    pub(crate) fn forget_worst(&mut self) {
        self.tasks.iter_mut().for_each(|waiter| waiter.worst = Worst::default());
    }

    /// The watched wait.
    pub(crate) fn explanation(&self, names: &dyn Names) -> Option<Explanation> {
        let (bad, pieces) = self.story.as_ref()?;
        let mut parts: Vec<PartReport> = Vec::new();
        for piece in pieces {
            let part = part(piece, names);
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
        Some(Explanation { worst: bad.report(&|task| names.task(task)), parts })
    }

    pub(crate) fn worst(&self, task: TaskId) -> &[Bad] {
        self.tasks.get(task.index()).map_or(&[], |waiter| waiter.worst.all())
    }

    /// # Panics
    /// If the longest wake-up of `task` took another time, or the parts of its worst ones do not sum to them.
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
            is_rt: policy.class().has_rt_budget(),
            cookies: (self.machine.threads > 1).then_some(&self.cookies),
        }
    }
}

/// A piece of a wait.
fn part(piece: &Piece, names: &dyn Names) -> PartReport {
    let (doing, task) = match piece.did {
        None | Some(Did::PassedOver { .. }) => (None, None),
        Some(Did::Nothing) => (Some(DoingReport::Idle), None),
        Some(Did::Forced) => (Some(DoingReport::ForcedIdle), None),
        Some(Did::Overhead) => (Some(DoingReport::Scheduler), None),
        Some(Did::Exec { task, .. }) => {
            (Some(DoingReport::Task), Some(names.task(TaskId(task.into()))))
        }
    };
    PartReport {
        from_ns: piece.from.0,
        to_ns: piece.to.0,
        cpu: piece.cpu.map(CpuId::index),
        doing,
        task,
        cause: piece.cause,
        group: piece.group.map(|group| names.group(group)),
        free_cpu: piece.free.map(CpuId::index),
    }
}
