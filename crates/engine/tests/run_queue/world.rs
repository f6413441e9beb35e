//! A run queue with all the state of a host: time, the running task, and the tasks that are away.

use proptest::prelude::*;
use runyard_engine::attr::{Attr, GroupId, LatencyNice, Nice, Policy, RtPrio, Slice, Weight};
use runyard_engine::balance::Measure;
use runyard_engine::config::Config;
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::features::Feature;
use runyard_engine::group::Groups;
use runyard_engine::limits::Pools;
use runyard_engine::run_queue::{Enqueue, Expired, Prev, Released, Resched, RunQueue, Switch};
use runyard_engine::run_queue::{FairPull, NotPulled};
use runyard_engine::task::{Change, QueueIndex, Task, TaskId};
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::Walk;
use runyard_engine::topology::Topology;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Groups 1 and 2 below the root, and 3 below 1. The loads include those of other CPUs.
#[derive(Default)]
pub struct Tree {
    pub loads: [AtomicU64; 4],
    pub idle: [bool; 4],
    pub latency_nice: [LatencyNice; 4],
}

impl Tree {
    /// Returns a tree with groups 1, 2 and 3 idle or not, each with some latency nice value.
    pub fn with([one, two, three]: [bool; 3], latency_nice: [u8; 3]) -> Tree {
        let value = |any: u8| LatencyNice::new(i64::from(any % 40) - 20).unwrap();
        let [first, second, third] = latency_nice.map(value);
        Tree {
            idle: [false, one, two, three],
            latency_nice: [LatencyNice::ZERO, first, second, third],
            ..Tree::default()
        }
    }

    /// Returns the groups from below the root down to `group`.
    pub fn lineage(&self, group: GroupId) -> Vec<GroupId> {
        let mut above = match group {
            GroupId::ROOT => return Vec::new(),
            group => self.lineage(self.parent(group)),
        };
        above.push(group);
        above
    }
}

impl Pools for Tree {}

impl Groups for Tree {
    fn count(&self) -> usize {
        4
    }

    fn parent(&self, group: GroupId) -> GroupId {
        GroupId([0, 0, 0, 1][group.index()])
    }

    fn weight(&self, group: GroupId) -> Weight {
        match self.is_idle(group) {
            true => Weight::IDLE,
            false => Weight::new([0, 2, 1024, 4096][group.index()]).unwrap(),
        }
    }

    fn is_idle(&self, group: GroupId) -> bool {
        self.idle[group.index()]
    }

    fn latency_nice(&self, group: GroupId) -> LatencyNice {
        self.latency_nice[group.index()]
    }

    fn exchange_load(&self, group: GroupId, old: u64, new: u64) -> u64 {
        let cell = &self.loads[group.index()];
        let total = cell.load(Relaxed) - old + new;
        cell.store(total, Relaxed);
        total + 512
    }
}

#[derive(Clone, Debug)]
pub enum Action {
    Wake(u32),
    New {
        policy: Policy,
        cpus: u16,
        group: u32,
    },
    Schedule(u8),
    Sleep(u32),
    Detach(u32),
    Change {
        nth: u32,
        policy: Option<Policy>,
        cpus: Option<u16>,
        group: Option<u32>,
        boost: Option<u8>,
    },
    /// Changes the request of any task.
    Ask {
        nth: u32,
        latency_nice: i64,
        slice: Option<u32>,
    },
    /// Changes a task that is away.
    Away {
        nth: u32,
        policy: Option<Policy>,
        cpus: Option<u16>,
        group: Option<u32>,
    },
    /// Changes the number of online CPUs of the machine.
    Online(usize),
    /// Takes this CPU offline for a moment, in which the running task may block.
    Offline(bool),
    Push(u8),
    /// Lets CPU 1 take a waiting task, or ask for the running one.
    Pull {
        measure: u8,
        max_load: u32,
        running: bool,
    },
}

pub fn policy() -> impl Strategy<Value = Policy> {
    prop_oneof![
        (1..=99_i64).prop_map(|p| Policy::Fifo(RtPrio::new(p).unwrap())),
        (1..=3_i64).prop_map(|p| Policy::RoundRobin(RtPrio::new(p).unwrap())),
        (-20..=19_i64).prop_map(|n| Policy::Normal(Nice::new(n).unwrap())),
        (-20..=19_i64).prop_map(|n| Policy::Batch(Nice::new(n).unwrap())),
        Just(Policy::Idle),
    ]
}

pub fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        2 => any::<u32>().prop_map(Action::Wake),
        2 => (policy(), 1..4_u16, 0..4_u32)
            .prop_map(|(policy, cpus, group)| Action::New { policy, cpus, group }),
        5 => any::<u8>().prop_map(Action::Schedule),
        4 => (0..5_000_000_u32).prop_map(Action::Sleep),
        1 => any::<u32>().prop_map(Action::Detach),
        2 => (
            any::<u32>(),
            prop::option::of(policy()),
            prop::option::of(1..4_u16),
            prop::option::of(0..4_u32),
            prop::option::of(0..100_u8),
        )
            .prop_map(|(nth, policy, cpus, group, boost)| {
                Action::Change { nth, policy, cpus, group, boost }
            }),
        2 => (any::<u32>(), -20..=19_i64, prop::option::of(100..100_000_u32))
            .prop_map(|(nth, latency_nice, slice)| Action::Ask { nth, latency_nice, slice }),
        1 => (
            any::<u32>(),
            prop::option::of(policy()),
            prop::option::of(1..4_u16),
            prop::option::of(0..4_u32),
        )
            .prop_map(|(nth, policy, cpus, group)| Action::Away { nth, policy, cpus, group }),
        1 => (1..9_usize).prop_map(Action::Online),
        1 => any::<bool>().prop_map(Action::Offline),
        1 => any::<u8>().prop_map(Action::Push),
        1 => (0..3_u8, any::<u32>(), any::<bool>())
            .prop_map(|(measure, max_load, running)| Action::Pull { measure, max_load, running }),
    ]
}

/// A task in the form in which it moves.
pub type Owned = Box<Task<TaskId>>;

/// Returns a subset of CPUs {0, 1} by bits; CPU 0 is the one under test.
pub fn cpus(bits: u16) -> CpuSet {
    (0..2).filter(|cpu| bits >> cpu & 1 == 1).map(CpuId).collect()
}

pub struct World {
    pub rq: RunQueue<TaskId, Tree>,
    pub config: Config,
    pub tree: Arc<Tree>,
    pub now: Time,
    pub running: Option<TaskId>,
    /// Tasks that are blocked or elsewhere.
    pub away: Vec<Owned>,
    pub made: u64,
    pub exited: usize,
    /// The running task, if CPU 1 asked for it.
    pub asked_for: Option<TaskId>,
}

impl World {
    pub fn new(rt_runtime: Option<Nanos>) -> World {
        let config = Config { rt_runtime, ..Config::new(Topology::flat(2).unwrap()) };
        World::with(config, Tree::default())
    }

    pub fn with(config: Config, tree: Tree) -> World {
        let tree = Arc::new(tree);
        World {
            rq: RunQueue::new(CpuId(0), Arc::new(config.clone()), Arc::clone(&tree)),
            config,
            tree,
            now: Time(1),
            running: None,
            away: Vec::new(),
            made: 0,
            exited: 0,
            asked_for: None,
        }
    }

    pub fn act(&mut self, action: &Action) {
        match *action {
            Action::Wake(nth) => {
                if !self.away.is_empty() {
                    let task = self.away.swap_remove(nth as usize % self.away.len());
                    self.offer(task);
                }
            }
            Action::New { policy, cpus: bits, group } => {
                let attr = Attr { policy, group: GroupId(group), ..Attr::normal(cpus(bits)) };
                let id = TaskId(self.made);
                self.made += 1;
                self.offer(Task::new(id, attr, id));
            }
            Action::Schedule(how) => self.schedule(how),
            Action::Sleep(ns) => self.sleep(Nanos(ns.into())),
            Action::Detach(nth) => {
                if let Some(slot) = self.nth(nth)
                    && let Some(task) = self.rq.detach(self.now, slot)
                {
                    self.away.push(task);
                }
            }
            Action::Change { nth, policy, cpus: bits, group, boost } => {
                let change = Change {
                    policy,
                    affinity: bits.map(cpus),
                    group: group.map(GroupId),
                    boost: boost.map(|level| RtPrio::new(level.into()).into()).unwrap_or_default(),
                    ..Change::default()
                };
                if let Some(slot) = self.nth(nth) {
                    let changed = self.rq.change(self.now, slot, change);
                    self.away.extend(changed.evicted);
                }
            }
            Action::Ask { nth, latency_nice, slice } => {
                let slice = slice.and_then(|us| Slice::new(Nanos::from_micros(us.into())));
                let change = Change {
                    latency_nice: LatencyNice::new(latency_nice),
                    slice: slice.into(),
                    ..Change::default()
                };
                if let Some(slot) = self.nth(nth) {
                    let changed = self.rq.change(self.now, slot, change);
                    assert!(changed.evicted.is_none(), "the task may stay where it was");
                }
            }
            Action::Away { nth, policy, cpus: bits, group } => {
                let (affinity, group) = (bits.map(cpus), group.map(GroupId));
                self.change_away(nth, Change { policy, affinity, group, ..Change::default() });
            }
            Action::Offline(blocks) => self.go_offline(blocks),
            Action::Online(cpus) => {
                self.rq.at(self.now).set_config(Arc::new(self.config.with_online(cpus)));
            }
            Action::Pull { measure, max_load, running } => {
                let measure = [Measure::All, Measure::Normal, Measure::Idle][usize::from(measure)];
                if running {
                    self.ask_for_curr(measure);
                } else {
                    self.pull(measure, max_load.into());
                }
            }
            Action::Push(floor) => self.push(RtPrio::new(floor.into())),
        }
    }

    fn push(&mut self, floor: Option<RtPrio>) {
        let pushed = self
            .rq
            .classes_mut()
            .take_pushable(floor, |task| task.attr().affinity.iter().find(|&cpu| cpu == CpuId(1)));
        self.away.extend(pushed.map(|(task, _)| task));
    }

    fn change_away(&mut self, nth: u32, change: Change) {
        if !self.away.is_empty() {
            let nth = nth as usize % self.away.len();
            self.away[nth].apply(change);
        }
    }

    pub fn nth(&self, nth: u32) -> Option<QueueIndex> {
        let slots: Vec<_> = self.rq.tasks().iter().map(|(slot, _)| slot).collect();
        (!slots.is_empty()).then(|| slots[nth as usize % slots.len()])
    }

    pub fn offer(&mut self, task: Box<Task<TaskId>>) {
        // Budget that is used up by now is a cause of its own.
        self.rq.charge_until(self.now);
        let verdict = self.rq.tasks().curr().and_then(|curr| self.idle_verdict(curr, &task));
        let verdict = verdict.filter(|_| self.rq.resched() == Resched::No);
        match self.rq.offer(self.now, task, Enqueue::Woken) {
            Ok((_, resched)) => {
                assert!(resched.is_due() || self.running.is_some());
                let preempts = resched.is_due();
                assert!(
                    verdict.is_none_or(|wanted| wanted == preempts),
                    "{verdict:?}\n{}",
                    self.rq
                );
            }
            Err(task) => {
                assert!(!task.attr().affinity.contains(CpuId(0)));
                self.away.push(task);
            }
        }
    }

    /// Returns whether `woken` preempts `curr`, if that follows only from idleness: of the tasks
    /// themselves, then of the entities where their paths from the root diverge.
    pub fn idle_verdict(&self, curr: &Task<TaskId>, woken: &Task<TaskId>) -> Option<bool> {
        let fair = curr.class().is_fair() && woken.class().is_fair();
        if !fair || !self.config.rules.idle_tasks_first {
            return None;
        }
        let policies = (curr.attr().policy, woken.attr().policy);
        match policies {
            (Policy::Idle, Policy::Normal(_) | Policy::Batch(_)) => return Some(true),
            (_, Policy::Normal(_)) if self.config.features.has(Feature::WakeupPreemption) => {}
            _ => return Some(false),
        }
        let way = |task: &Task<TaskId>| {
            let idle_task = task.attr().policy == Policy::Idle;
            let groups = self.tree.lineage(task.attr().group).into_iter();
            let mut way: Vec<_> = groups.map(|id| (Some(id), self.tree.is_idle(id))).collect();
            way.push((None, idle_task));
            way
        };
        let (curr, woken) = (way(curr), way(woken));
        let part = curr.iter().zip(&woken).find(|(a, b)| a != b || a.0.is_none());
        let (curr, woken) =
            part.expect("their paths diverge, at the tasks themselves at the latest");
        (curr.1 != woken.1).then_some(curr.1)
    }

    /// Lets time pass, with the interrupts in it.
    pub fn sleep(&mut self, span: Nanos) {
        let end = self.now + span;
        while let Some(at) = self.rq.next_expiry().filter(|&at| at <= end) {
            self.now = self.now.max(at);
            while let Some(expired) = self.rq.expire(self.now, Walk::Busy) {
                assert!(expired != Expired::Tick || self.running.is_some(), "idle CPUs don't tick");
            }
            self.rq.check();
        }
        self.now = end;
    }

    pub fn schedule(&mut self, how: u8) {
        // Brings the accounts up to date: throttling is a cause, too.
        let due = self.rq.at(self.now).set_online(true).is_due();
        let prev = match (self.running, how % 8) {
            (None, _) => Prev::Idle,
            (Some(id), 0) => Prev::Yielded(id),
            (Some(id), 1 | 2) => Prev::Blocked(id),
            (Some(_), 3) => Prev::Exited,
            (Some(id), _) => Prev::Preempted(id),
        };
        let preempted = matches!(prev, Prev::Preempted(_));
        let asked_for = self.asked_for.take();
        let Switch { next, released } = self.rq.schedule(self.now, prev);
        let next = next.map(|(id, payload)| {
            assert_eq!(id, payload, "the payload is the task's own");
            id
        });
        assert!(due || !preempted || next == self.running, "no preemption without a cause");
        self.running = next;
        match released {
            Some((_, Released::Exited)) => self.exited += 1,
            Some((task, Released::Blocked | Released::Evicted)) => self.away.push(task),
            Some((task, Released::MoveTo(to))) => {
                let asked = asked_for == Some(task.id) && preempted;
                let may = task.class().is_fair() && task.attr().affinity.contains(to);
                assert!(
                    asked && may && to == CpuId(1),
                    "{task:?} goes to the CPU that asked for it"
                );
                self.away.push(task);
            }
            None => {}
        }
        self.check_choice();
    }

    /// Takes all tasks from the CPU.
    fn go_offline(&mut self, blocks: bool) {
        let _ = self.rq.at(self.now).set_online(false);
        self.check();
        while let Some(task) = self.rq.evict(self.now) {
            self.away.push(task);
        }
        if let Some(id) = self.running.take() {
            let prev = if blocks { Prev::Blocked(id) } else { Prev::Preempted(id) };
            let Switch { next, released } = self.rq.schedule(self.now, prev);
            assert!(next.is_none(), "{next:?}");
            self.away.extend(released.map(|(task, _)| task));
        }
        self.asked_for = None;
        self.check();
        let _ = self.rq.at(self.now).set_online(true);
    }

    pub fn counts(&self, task: &Task<TaskId>, measure: Measure) -> bool {
        let mut above = task.attr().group;
        let mut idle = task.attr().policy == Policy::Idle;
        while above != GroupId::ROOT {
            idle |= self.tree.counts_as_idle(above);
            above = self.tree.parent(above);
        }
        task.class().is_fair() && (measure == Measure::All || idle == (measure == Measure::Idle))
    }

    /// A task that counts and may run on CPU 1 goes, unless it is too heavy.
    pub fn pull(&mut self, measure: Measure, max_load: u64) {
        let waiting =
            self.rq.tasks().iter().map(|(_, task)| task).filter(|it| Some(it.id) != self.running);
        let counted: Vec<_> = waiting.filter(|task| self.counts(task, measure)).collect();
        let may: Vec<_> = counted
            .iter()
            .filter(|it| it.attr().affinity.contains(CpuId(1)))
            .map(|it| it.id)
            .collect();
        let none = counted.is_empty();
        let runs = self.rq.tasks().curr().is_some_and(|curr| {
            self.counts(curr, measure) && curr.attr().affinity.contains(CpuId(1))
        });
        let may_later = runs && self.rq.site().config().features.has(Feature::BalanceByRoom);
        let pull =
            FairPull { to: CpuId(1), measure, max_load, hot: true, eligible: false, runs: None };
        match self.rq.at(self.now).detach_fair(pull) {
            Ok((task, load)) => {
                assert!(may.contains(&task.id) && load / 2 <= max_load, "{task:?} fits");
                self.away.push(task);
            }
            Err(NotPulled::Nobody) => assert!(none, "a counted task waits"),
            Err(NotPulled::Pinned) => assert!(may.is_empty() && !none, "a task may go"),
            Err(NotPulled::NotNow) => assert!(!may.is_empty() || may_later, "none was too heavy"),
        }
    }

    pub fn ask_for_curr(&mut self, measure: Measure) {
        let curr = self.rq.tasks().curr();
        let goes = curr.is_some_and(|task| {
            self.counts(task, measure) && task.attr().affinity.contains(CpuId(1))
        });
        match self.rq.at(self.now).give_curr(CpuId(1), measure) {
            Ok(resched) => assert!(goes && resched.is_due()),
            Err(stays) => {
                assert!(!goes || stays == NotPulled::NotNow && self.asked_for == self.running);
            }
        }
        if goes {
            self.asked_for = self.running;
        }
    }

    /// The running task is as important as any other here; while a fair task runs, no real-time
    /// task waits.
    pub fn check_choice(&self) {
        let load = self.rq.classes().load();
        let best = self.rq.tasks().iter().map(|(_, task)| task.class()).max();
        let running = self.rq.tasks().curr().map(Task::class);
        assert_eq!(self.rq.tasks().curr().map(|task| task.id), self.running);
        assert!(running.is_some() || load.nr_fair == 0, "never idle while a fair task waits");
        let throttled = best.is_some_and(|best| !best.is_fair()) && running != best;
        assert!(!throttled || load.pushable.is_none(), "only throttling hides the best task");
    }

    pub fn check(&self) {
        self.rq.check();
        let here = self.rq.tasks().iter().count();
        assert_eq!(here + self.away.len() + self.exited, self.made as usize, "no task is lost");
        let idle = self.rq.tasks().iter().filter(|(_, task)| self.is_idle_class(task)).count();
        assert_eq!(
            self.rq.classes().load().nr_idle as usize,
            idle,
            "idle-class tasks\n{}",
            self.rq
        );
    }

    pub fn is_idle_class(&self, task: &Task<TaskId>) -> bool {
        let light = |&id: &GroupId| self.tree.is_idle(id) || self.tree.weight(id).get() <= 3;
        let below = self.tree.lineage(task.attr().group).iter().any(light);
        task.class().is_fair() && (below || task.attr().policy == Policy::Idle)
    }
}
