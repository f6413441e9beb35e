//! The collection of a snapshot, from the live tasks and from the places where each of them may be.
//!
//! The list of live tasks comes first, and defines the tasks of the snapshot. Then each run queue is read once under
//! its lock. After that come the places of tasks that are in no run queue: their cells, the threads on which they block
//! in the kernel, the lobby. A task that moves meanwhile may be missed. Then all places are read again for it, at most
//! [`ROUNDS`] times in total. If a task was seen twice, the last state counts.
//!
//! Invariants: no lock is held while memory is allocated or freed, or foreign code called: a task that is found under a
//! lock goes to a list that has room for it; one lock is held at a time.
//!
//! Rejected: to stop all CPUs for a moment. Then tasks would pay the cost of a snapshot, and not its caller.

use super::{
    Counts, CpuSnapshot, DeafThread, GroupSnapshot, OldestWait, Snapshot, TaskSnapshot, TaskState,
};
use crate::crew::kick::KickNow;
use crate::crew::threads::Threads;
use crate::group::{Group, WeakGroup};
use crate::os;
use crate::os::above::without_preemption;
use crate::os::list::List;
use crate::os::sync::{Arc, Mutex, lock};
use crate::protocol::company::MEMBERS;
use crate::shared::{Scheduler, Shared};
use crate::task::{Cell, Job, Todo};
use crate::worker::batch::STAND_IN;
use runyard_engine::account::Account;
use runyard_engine::attr::GroupId;
use runyard_engine::cpu::CpuId;
use runyard_engine::group::Groups as _;
use runyard_engine::task::{Task, TaskId};
use runyard_engine::time::{Nanos, Time};
use runyard_smp::machine::TaskOf;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Maximum number of rounds in which tasks are searched. A task that is missed moved between two reads.
const ROUNDS: usize = 3;

/// Room in a list for tasks that arrive after its size was read.
const MORE: usize = 64;

/// The existing groups.
#[derive(Debug, Default)]
pub(crate) struct Groups(Mutex<List<WeakGroup>>);

impl Groups {
    /// Adds a group that was created.
    pub(crate) fn note(&self, group: WeakGroup) {
        without_preemption(|| lock(&self.0).push(group));
    }

    /// Removes a group that is about to end.
    pub(crate) fn forget(&self, id: GroupId) {
        let gone = without_preemption(|| {
            let mut all = lock(&self.0);
            let at = all.iter().position(|group| group.is_of(id));
            at.map(|at| all.swap_remove(at))
        });
        drop(gone);
    }

    /// Returns the groups that exist.
    pub(crate) fn all(&self) -> Vec<Group> {
        let known = without_preemption(|| lock(&self.0).clone());
        known.iter().filter_map(WeakGroup::upgrade).collect()
    }
}

/// The state in which a task was found.
#[derive(Clone, Copy, Debug)]
struct Seen {
    id: TaskId,
    state: TaskState,
    cpu: CpuId,
    waits: Option<Nanos>,
    account: Account,
}

impl Seen {
    /// Returns the state of a task that is in no run queue.
    fn out_of_queue(task: &Task<Job>, state: TaskState) -> Seen {
        Seen { id: task.id, state, cpu: task.cpu(), waits: None, account: task.account() }
    }

    fn in_queue(task: &Task<Job>, now: Time) -> Seen {
        let state = match &task.payload {
            None => TaskState::Running,
            Some(Job { todo: Todo::Resume(_), .. }) => TaskState::Stopped,
            Some(_) => TaskState::Waiting,
        };
        let waits = task.payload.as_ref().map(|_| now.since(task.waits_since()));
        Seen { state, waits, ..Seen::out_of_queue(task, state) }
    }
}

/// The state in which a CPU was found.
struct SeenCpu {
    online: bool,
    running: Option<TaskId>,
    waiting: usize,
    account: Account,
    ended: Account,
    /// CPU time that the tasks of groups used on this CPU. The time of a group that is not listed counts for the
    /// nearest listed group above it.
    used: Vec<(GroupId, Nanos)>,
}

impl Shared {
    /// Returns a snapshot. Called in foreign code, because it allocates memory.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let uptime = self.observation.started.elapsed();
        let cells: Vec<_> = self.registry.cells().collect();
        // These handles keep the groups alive while CPUs are read, so that no new group gets the number of one of them.
        let groups = self.observation.groups.all();
        let listed: BTreeSet<_> = groups.iter().map(Group::id).collect();
        let (cpus, seen) = self.scheduler.find(&cells, &listed);
        let is_there = |cell: &&Arc<Cell>| seen.contains_key(&cell.id) || !cell.is_done();
        let mut groups = Totals::of(groups);
        cpus.iter()
            .flat_map(|cpu| &cpu.used)
            .for_each(|&(group, used)| groups.add_used(group, used));
        let tasks = cells.iter().filter(is_there).map(|cell| {
            let seen = seen.get(&cell.id).copied();
            groups.add(cell.group(), seen.map_or_else(Account::default, |seen| seen.account));
            task(cell, seen)
        });
        let mut tasks: Vec<_> = tasks.collect();
        tasks.sort_unstable_by_key(|task| task.id);
        let mut ended = Account::default();
        cpus.iter().for_each(|cpu| ended.add(&cpu.ended));
        // Each stopped task keeps the thread of its poll.
        let stops = |task: &&TaskSnapshot| task.state == TaskState::Stopped;
        let stopped_threads = tasks.iter().filter(stops).count();
        Snapshot {
            uptime,
            statistics: self.scheduler.machine().config().accounts,
            quota: self.bounds.quota_now(),
            oldest_wait: oldest_wait(&tasks),
            cpus: cpus.into_iter().enumerate().map(|(nth, seen)| cpu(nth, seen)).collect(),
            tasks,
            groups: groups.shown(),
            ended: ended.into(),
            threads: self.scheduler.crew().threads().nr_running(),
            stopped_threads,
            deaf: deaf_threads(self.scheduler.crew().threads()),
        }
    }
}

impl Scheduler {
    /// Searches the tasks of these cells, until all were found or the last round is over.
    fn find(
        &self,
        cells: &[Arc<Cell>],
        listed: &BTreeSet<GroupId>,
    ) -> (Vec<SeenCpu>, BTreeMap<TaskId, Seen>) {
        let mut found = BTreeMap::new();
        let mut list = Vec::with_capacity(cells.len() + MORE);
        let mut cpus = Vec::new();
        for _ in 0..ROUNDS {
            list.clear();
            let topology = self.machine().config().topology;
            cpus =
                topology.iter().map(|cpu| self.look_into_queue(cpu, &mut list, listed)).collect();
            self.look_elsewhere(&mut list);
            for cell in cells {
                let see = |task: &mut TaskOf<Job>| Seen::out_of_queue(task, TaskState::Blocked);
                list.extend(without_preemption(|| cell.look_at_parked(see)));
            }
            // A task that was seen before in this round has moved since.
            found.extend(list.iter().map(|seen| (seen.id, *seen)));
            let is_missed = |cell: &Arc<Cell>| !found.contains_key(&cell.id) && !cell.is_done();
            if !cells.iter().any(is_missed) {
                break;
            }
        }
        (cpus, found)
    }

    /// Adds the tasks of a run queue.
    fn look_into_queue(
        &self,
        cpu: CpuId,
        list: &mut Vec<Seen>,
        listed: &BTreeSet<GroupId>,
    ) -> SeenCpu {
        // A group for which this CPU holds CPU time is not removed before the lock is free.
        let nearest = |mut group: GroupId| {
            while group != GroupId::ROOT && !listed.contains(&group) {
                group = self.machine().groups().parent(group);
            }
            group
        };
        let mut used = Vec::new();
        loop {
            let now = os::thread::now();
            let looked = without_preemption(|| {
                self.machine().watch(now, cpu, &mut KickNow(self), |rq| {
                    let (tasks, groups) = (rq.tasks().iter().count(), rq.time().by_group().count());
                    if list.capacity() - list.len() < tasks || used.capacity() < groups {
                        return Err((tasks, groups));
                    }
                    used.extend(rq.time().by_group().map(|(group, used)| (nearest(group), used)));
                    let tasks_here = rq.tasks().iter().filter(|(_, task)| task.id != STAND_IN);
                    tasks_here.for_each(|(_, task)| list.push(Seen::in_queue(task, now)));
                    let running = rq.tasks().curr().map(|task| task.id);
                    let waiting = tasks - running.iter().len();
                    let (account, ended) = (rq.time().account(), rq.time().ended());
                    Ok((running, waiting, account, ended))
                })
            });
            match looked {
                Ok((running, waiting, account, ended)) => {
                    let (running, waiting) = match self.look_into_batch(cpu, now, list) {
                        Some((polled, members)) => (Some(polled), waiting + members),
                        None => (running, waiting),
                    };
                    let online = self.machine().sight().is_online(cpu);
                    return SeenCpu { online, running, waiting, account, ended, used };
                }
                Err((tasks, groups)) => {
                    list.reserve(tasks + MORE);
                    used.reserve(groups + MORE);
                }
            }
        }
    }

    /// Adds the tasks of a CPU's batch, if there is one: the task that is polled, and the waiting ones.
    fn look_into_batch(
        &self,
        cpu: CpuId,
        now: Time,
        list: &mut Vec<Seen>,
    ) -> Option<(TaskId, usize)> {
        let batches = self.dispatch().of(cpu)?;
        list.reserve(MORE + 2 * MEMBERS);
        let (mut polled, mut waiting) = (None, 0);
        without_preemption(|| {
            batches.company.look(|_, task, is_polled| {
                list.push(Seen::in_queue(task, now));
                match is_polled {
                    true => polled = Some(task.id),
                    false => waiting += 1,
                }
                None::<()>
            });
        });
        polled.map(|polled| (polled, waiting))
    }

    /// Adds the tasks that block in the kernel, and those that wait for threads.
    fn look_elsewhere(&self, list: &mut Vec<Seen>) {
        list.reserve(self.crew().threads().nr_running() + self.crew().maker().nr_in_lobby() + MORE);
        // If more tasks than that have just arrived, the rest is missed.
        let add = |list: &mut Vec<Seen>, task: &Task<Job>, state| {
            if list.len() < list.capacity() {
                list.push(Seen::out_of_queue(task, state));
            }
        };
        for worker in self.crew().threads().workers() {
            let state =
                if worker.hearing.is_deaf() { TaskState::Deaf } else { TaskState::InKernel };
            let see = |task: &Task<Job>| add(list, task, state);
            without_preemption(|| worker.part.look_in_kernel(see));
        }
        let see = |task: &Task<Job>| add(list, task, TaskState::AwaitsThread);
        without_preemption(|| self.crew().maker().look_into_lobby(see));
    }
}

/// Returns the threads that do not answer.
fn deaf_threads(threads: &Threads) -> Vec<DeafThread> {
    let deaf = threads.workers().filter(|worker| worker.hearing.is_deaf());
    deaf.filter_map(|worker| {
        let cell = worker.poll.cell(&worker.shared.registry)?;
        let (task, name) = (cell.id, cell.name().map(str::to_owned));
        Some(DeafThread { thread: worker.thread.tid().0, task, name })
    })
    .collect()
}

fn cpu(cpu: usize, seen: SeenCpu) -> CpuSnapshot {
    let SeenCpu { online, running, waiting, account, .. } = seen;
    CpuSnapshot { cpu, online, running, waiting, counts: account.into() }
}

fn task(cell: &Cell, seen: Option<Seen>) -> TaskSnapshot {
    let account = seen.map_or_else(Account::default, |seen| seen.account);
    TaskSnapshot {
        id: cell.id,
        name: cell.name().map(str::to_owned),
        policy: without_preemption(|| lock(&cell.asked).policy),
        group: cell.group().map(|group| group.path()),
        state: seen.map_or(TaskState::Moving, |seen| seen.state),
        cpu: seen.map_or(0, |seen| seen.cpu.index()),
        waits: seen.and_then(|seen| seen.waits).map(|waits| Duration::from_nanos(waits.0)),
        counts: Counts::from(account),
    }
}

fn oldest_wait(tasks: &[TaskSnapshot]) -> Option<OldestWait> {
    let waiting = tasks.iter().filter_map(|task| Some((task.waits?, task)));
    let (waits, task) = waiting.max_by_key(|&(waits, _)| waits)?;
    Some(OldestWait { task: task.id, name: task.name.clone(), cpu: task.cpu, waits })
}

/// The groups, each with the number of its tasks and its total account.
struct Totals(BTreeMap<GroupId, (Group, usize, Account)>);

impl Totals {
    fn of(groups: Vec<Group>) -> Totals {
        let mut totals = Totals(BTreeMap::new());
        for group in &groups {
            let ended = Account { run: Nanos::ZERO, ..group.ended() };
            totals.add_to_all(group, 0, ended);
        }
        totals
    }

    /// Adds a task and its account to its group, if it has one. The CPU time that it used there comes from the CPUs.
    fn add(&mut self, group: Option<Group>, account: Account) {
        let account = Account { run: Nanos::ZERO, ..account };
        group.iter().for_each(|group| self.add_to_all(group, 1, account));
    }

    /// Adds CPU time that the tasks of a group used on a CPU. Tasks in no group are not counted.
    fn add_used(&mut self, group: GroupId, used: Nanos) {
        if let Some((group, ..)) = self.0.get(&group) {
            let account = Account { run: used, ..Account::default() };
            self.add_to_all(&group.clone(), 0, account);
        }
    }

    /// Adds to the group and to those above it.
    fn add_to_all(&mut self, group: &Group, tasks: usize, account: Account) {
        for group in group.lineage() {
            let new = || (group.clone(), 0, Account::default());
            let total = self.0.entry(group.id()).or_insert_with(new);
            total.1 += tasks;
            total.2.add(&account);
        }
    }

    fn shown(self) -> Vec<GroupSnapshot> {
        let totals = self.0.into_values();
        let shown = totals.map(|(group, tasks, account)| GroupSnapshot {
            path: group.path(),
            tasks,
            counts: account.into(),
        });
        let mut shown: Vec<_> = shown.collect();
        shown.sort_by(|one, other| one.path.cmp(&other.path));
        shown
    }
}
