//! The machine: one lock for each CPU's run queue, and what CPUs tell each other without locks.
//!
//! One run-queue lock is held at a time, always. Under it at most one other is taken, a leaf: that of
//! a task's control cell, of a group's pools, or of the host's in an effect that says so. So there is
//! no order between CPUs to get wrong, and a host may be preempted between any two. A task that changes
//! CPU is between queues for a moment, owned by the call that carries it, seen by nobody; and what a
//! CPU knows of another is stale. The rules that make this enough:
//!
//! - **Publish, then look.** A CPU that has a real-time task to give away publishes that, fences, and
//!   looks for a CPU that runs something less important (`Machine::push`). A CPU that comes to run
//!   something less important publishes that, fences, and looks for CPUs that have something to give
//!   away (`Machine::pull`). Of two fences the second sees the other CPU; both may act. So every change
//!   of a run queue is published before its lock is released (`Machine::with`), and its caller reacts
//!   after that (`Machine::react`).
//! - **Offer, may be refused.** A choice made on stale hints is checked under the lock of the CPU
//!   that was chosen. A task that is refused is sent elsewhere, at most `MAX_REFUSALS` times;
//!   then it goes back to where it came from, which looks once more.
//! - **Hints never decide alone.** They choose whom to ask.
//!
//! What a call wants of other CPUs goes to the host through [`Effects`], in order.
//!
//! Legend of access: `(l)` under the lock.

use crate::balance::Balance;
use crate::control::{Control, Home};
use crate::groups::GroupTable;
use crate::hints::{Hints, Snapshot};
use crate::sync::{Arc, Mutex, lock};
use runyard_engine::attr::RtPrio;
use runyard_engine::balance::{Balanced, Domain};
use runyard_engine::config::{BadConfig, Config};
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::features::Feature;
use runyard_engine::group::Groups;
use runyard_engine::limits::Throttling;
use runyard_engine::run_queue::{
    Enqueue, Expired, Importance, Prev, Released, Resched, RunQueue, Switch,
};
use runyard_engine::spec::GroupSpec;
use runyard_engine::task::{Change, QueueIndex, Task};
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::{TimerId, Token, Walk, Window};
use runyard_engine::topology::Level;

/// How often a task is offered to CPUs that may refuse it before it goes back.
pub(crate) const MAX_REFUSALS: u8 = 3;

/// What a host gives a task to run it; the task's control cell is in it somewhere.
pub trait Controlled {
    /// The control cell, the same for the task's whole life.
    fn control(&self) -> &Control;
}

/// The plain form of that: the control cell, and whatever else the host needs.
#[derive(Debug)]
pub struct Work<W> {
    /// The task's control cell.
    pub control: Arc<Control>,
    /// The host's part.
    pub work: W,
}

impl<W> Controlled for Work<W> {
    fn control(&self) -> &Control {
        &self.control
    }
}

/// A task of a machine whose host needs `W` to run one.
pub type TaskOf<W> = Box<Task<W>>;

type Queue<W> = RunQueue<W, GroupTable>;

/// A task on its way to a run queue.
#[derive(Debug)]
pub struct Moving<W> {
    pub(crate) task: TaskOf<W>,
    /// Where it goes.
    pub to: CpuId,
    /// Where it was.
    pub from: CpuId,
    why: Enqueue,
    refusals: u8,
    /// With which priority `to` pulled it, and so passed over others.
    pub(crate) pulled: Option<RtPrio>,
}

impl<W> Moving<W> {
    pub(crate) fn new(task: TaskOf<W>, from: CpuId, to: CpuId, why: Enqueue) -> Moving<W> {
        Moving { task, to, from, why, refusals: 0, pulled: None }
    }

    /// The task that is moved.
    #[must_use]
    pub fn task(&self) -> &Task<W> {
        &self.task
    }
}

/// What a call asks of its host, in the order in which it must be done.
pub trait Effects<W> {
    /// `cpu` must call [`Machine::schedule`] as soon as it can.
    fn kick(&mut self, cpu: CpuId);

    /// A task is on its way. A host on which that takes no time gives it back; one that keeps it
    /// must bring it to [`Machine::arrive`] later.
    fn carry(&mut self, moving: Moving<W>) -> Option<Moving<W>> {
        Some(moving)
    }

    /// `cpu` compared itself with others, or searched them for tasks. For accounts; nothing is to be done.
    fn balanced(&mut self, cpu: CpuId, balanced: Balanced) {
        let _ = (cpu, balanced);
    }

    /// A task group is throttled on `cpu` from now on, or all real-time tasks are; or they are not any
    /// more. For accounts; nothing is to be done, and the run queue's lock is held.
    fn throttling(&mut self, cpu: CpuId, throttling: Throttling) {
        let _ = (cpu, throttling);
    }

    /// Whether `cpu` publishes nothing now: the host will call [`Machine::publish_held_back`] later.
    /// Only simulators do that, to make others decide on stale hints.
    fn hold_back(&mut self, cpu: CpuId) -> bool {
        let _ = cpu;
        false
    }
}

/// All CPUs. See the module's documentation.
#[derive(Debug)]
pub struct Machine<W> {
    pub(crate) config: Arc<Config>,
    pub(crate) cpus: Box<[Cpu<W>]>,
    pub(crate) all: CpuSet,
    pub(crate) hints: Hints,
    /// The levels at which there is somebody to balance with, from small to large.
    pub(crate) domains: Box<[(Level, Domain)]>,
    pub(crate) groups: Arc<GroupTable>,
}

/// One CPU, away from its neighbours' cache lines.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Cpu<W> {
    queue: Mutex<Locked<W>>,
}

/// (l) What a run-queue lock protects.
#[derive(Debug)]
struct Locked<W> {
    rq: Queue<W>,
    /// What this CPU published last.
    published: Snapshot,
    published_expiry: Option<Time>,
    /// It publishes nothing until [`Machine::publish_held_back`]: the most important thing that it had
    /// since it last did.
    held_back: Option<Importance>,
    balance: Balance,
}

/// What a change of a run queue means for its CPU and the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delta {
    pub(crate) resched: Resched,
    importance: Importance,
    /// It is not published yet.
    held_back: bool,
    /// The most important thing here is less important than before, or than it was meanwhile.
    lowered: bool,
    /// There are real-time tasks to give away.
    pushable: bool,
    /// Budget was given back for which another CPU waits.
    refilled: bool,
}

/// A task arrived at a CPU, which took it.
#[must_use]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Landed {
    pub(crate) on: CpuId,
    /// What that means for the others, if the task is real-time.
    delta: Option<Delta>,
}

/// What came of a request at the run queue where its task was seen.
#[derive(Debug)]
enum Visit<W> {
    /// The task has left, and is to be reacted for again.
    Missed,
    /// It was carried out, here or by whoever brought the task; or the task is over.
    Done {
        /// The task, if it may not stay here.
        evicted: Option<TaskOf<W>>,
    },
}

impl<W: Controlled> Machine<W> {
    /// Idle CPUs, all online.
    ///
    /// # Errors
    /// If `config` contradicts itself.
    ///
    /// # Panics
    /// If `groups` does not start with the root or a parent does not come before its children.
    pub fn new(config: Config, groups: &[GroupSpec]) -> Result<Machine<W>, BadConfig> {
        Machine::with_room(config, groups, 0)
    }

    /// As [`Machine::new`], with room for so many groups to be added later.
    ///
    /// # Errors
    /// If `config` contradicts itself.
    ///
    /// # Panics
    /// As [`Machine::new`].
    pub fn with_room(
        config: Config,
        specs: &[GroupSpec],
        room: usize,
    ) -> Result<Machine<W>, BadConfig> {
        config.validate()?;
        let config = Arc::new(config);
        let n = config.topology.cpus();
        let features = config.features;
        let groups = GroupTable::new(specs, room, n)
            .heeding(features.has(Feature::HardLimits), features.has(Feature::RuntimeShare));
        groups.set_limits(specs, n);
        let groups = Arc::new(groups);
        let cpu = |cpu| Cpu {
            queue: Mutex::new(Locked {
                rq: RunQueue::new(cpu, config.clone(), groups.clone()),
                published: Snapshot::NOTHING,
                published_expiry: None,
                held_back: None,
                balance: Balance::new(config.topology),
            }),
        };
        let cpus = config.topology.iter().map(cpu).collect();
        let (all, hints) = (CpuSet::first(n), Hints::new(n));
        let topology = config.topology;
        let domains = topology.levels().map(|level| (level, Domain::of(level, topology))).collect();
        let machine = Machine { cpus, all, hints, domains, groups, config };
        for cpu in machine.config.topology.iter() {
            machine.hints.online.set(cpu, true);
            let mut locked = lock(&machine.cpus[cpu.index()].queue);
            machine.publish(cpu, &mut locked);
            machine.hints.publish_times(cpu, &locked.rq);
        }
        Ok(machine)
    }

    /// What the machine was told.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The CPUs of the machine.
    #[must_use]
    pub fn all(&self) -> &CpuSet {
        &self.all
    }

    /// Makes room on each CPU for `len` tasks and group queues. Up to that, [`Machine::wake`],
    /// [`Machine::schedule`] and [`Machine::expire`] do not allocate.
    pub fn reserve(&self, len: usize) {
        for cpu in &self.cpus {
            lock(&cpu.queue).rq.reserve(len);
        }
    }

    /// Brings a carried task to the run queue that it was sent to.
    pub fn arrive(&self, now: Time, moving: Moving<W>, fx: &mut impl Effects<W>) {
        match self.land(now, moving, fx) {
            Ok(landed) => self.after_landing(now, landed, fx),
            Err(refused) => self.migrate(now, refused, fx),
        }
    }

    /// Decides what `cpu` runs next and hands over what left it for good; a task that may not stay
    /// on this CPU is sent on. An idle CPU looks for work before it goes idle.
    pub fn schedule(
        &self,
        now: Time,
        cpu: CpuId,
        prev: Prev<W>,
        fx: &mut impl Effects<W>,
    ) -> Switch<W> {
        let newly = !matches!(prev, Prev::Idle);
        let mut prev = prev;
        let mut kept = None;
        loop {
            let (Switch { next, released }, delta) = self.with(cpu, fx, |rq| {
                let switch = rq.schedule(now, prev);
                if let Some((task, _)) = &switch.released {
                    control(task).into_iter().for_each(|cell| cell.set_home(Home::Away));
                }
                switch
            });
            let mut reacted = false;
            match released {
                Some((task, Released::Evicted)) => {
                    reacted = true;
                    self.migrate_away(now, task, cpu, fx);
                }
                Some((task, Released::MoveTo(to))) => {
                    reacted = true;
                    self.migrate(now, Moving::new(task, cpu, to, Enqueue::Moved), fx);
                }
                Some(gone) => kept = Some(gone),
                None => {}
            }
            reacted |= self.react(now, cpu, delta, fx);
            if next.is_none() && self.has(Feature::LoadBalance) {
                reacted |= self.balance_without_work(now, cpu, newly, fx);
            }
            // That may have brought a task here that goes first.
            if reacted && self.resched(cpu) == Resched::Yes {
                prev = next.map_or(Prev::Idle, |(_, payload)| Prev::Preempted(payload));
                continue;
            }
            return Switch { next, released: kept };
        }
    }

    /// Whether `cpu` should call [`Machine::schedule`].
    pub fn resched(&self, cpu: CpuId) -> Resched {
        lock(&self.cpus[cpu.index()].queue).rq.resched()
    }

    /// Takes the next thing whose time has come on `cpu`, doing the scheduler's part of it: call
    /// it until it gives `None`. A due reschedule is a kick.
    pub fn expire(
        &self,
        now: Time,
        cpu: CpuId,
        walk: Walk,
        fx: &mut impl Effects<W>,
    ) -> Option<Expired> {
        let mut locked = lock(&self.cpus[cpu.index()].queue);
        let Some(expired) = locked.rq.expire(now, walk) else {
            tell_throttlings(cpu, &mut locked.rq, fx);
            return None;
        };
        if let Expired::Timer(_) = expired {
            // That of the host is the only change.
            self.publish_expiry(cpu, &mut locked);
            let resched = locked.rq.resched();
            drop(locked);
            kick_if(resched, cpu, fx);
            return Some(expired);
        }
        let mut balances = false;
        if expired == Expired::Tick {
            self.hints.publish_times(cpu, &locked.rq);
            balances = locked.balance.is_due(now);
        }
        let delta = self.publish_after(cpu, &mut locked, fx);
        drop(locked);
        if expired == Expired::Tick {
            self.balance_tick(now, cpu, balances, fx);
        } else {
            self.react(now, cpu, delta, fx);
        }
        kick_if(delta.resched, cpu, fx);
        Some(expired)
    }

    /// When the next timer interrupt of `cpu` must come.
    #[must_use]
    pub fn next_expiry(&self, cpu: CpuId) -> Option<Time> {
        self.hints.next_expiry(cpu)
    }

    /// Whether somebody waits for `cpu`, as far as is known without its lock.
    #[must_use]
    pub fn is_wanted(&self, cpu: CpuId) -> bool {
        self.hints.overloaded.contains(cpu) || self.hints.pushable.contains(cpu)
    }

    /// Arms a timer on `cpu`.
    pub fn arm(&self, cpu: CpuId, window: Window, token: Token) -> TimerId {
        self.with_timers(cpu, |rq| rq.timers().arm(window, token))
    }

    /// Arms a timer on `cpu` that expires in each `period` until it is cancelled.
    pub fn arm_periodic(&self, cpu: CpuId, window: Window, period: Nanos, token: Token) -> TimerId {
        self.with_timers(cpu, |rq| rq.timers().arm_periodic(window, period, token))
    }

    /// Changes the window of a timer of `cpu`; `false` if it was taken before.
    pub fn rearm(&self, cpu: CpuId, timer: TimerId, window: Window) -> bool {
        self.with_timers(cpu, |rq| rq.timers().change(timer, window))
    }

    /// Cancels a timer of `cpu`, from anywhere; `false` if it was taken before.
    pub fn cancel(&self, cpu: CpuId, timer: TimerId) -> bool {
        self.with_timers(cpu, |rq| rq.timers().cancel(timer))
    }

    /// Asks for a change of the task that `cell` belongs to, wherever it is.
    pub fn change(&self, now: Time, cell: &Control, change: Change, fx: &mut impl Effects<W>) {
        cell.ask(change);
        while let Home::At(cpu, slot) = cell.home() {
            let (visit, delta) = self.with(cpu, fx, |rq| visit(rq, now, cell, slot));
            let Visit::Done { evicted } = visit else { continue };
            if let Some(task) = evicted {
                self.migrate_away(now, task, cpu, fx);
            }
            kick_if(delta.resched, cpu, fx);
            self.react(now, cpu, delta, fx);
            return;
        }
    }

    /// Takes `cpu` out of service: its tasks go elsewhere, its timers stay and are served.
    /// The machine must keep another CPU.
    pub fn offline(&self, now: Time, cpu: CpuId, fx: &mut impl Effects<W>) {
        self.hints.online.set(cpu, false);
        let (resched, _) = self.with(cpu, fx, |rq| rq.set_online(now, false));
        kick_if(resched, cpu, fx);
        self.rescale(now, fx);
        loop {
            let (task, _) = self.with(cpu, fx, |rq| rq.evict(now).inspect(mark_away));
            let Some(task) = task else { return };
            self.migrate_away(now, task, cpu, fx);
        }
    }

    /// Takes `cpu` into service again.
    pub fn online(&self, now: Time, cpu: CpuId, fx: &mut impl Effects<W>) {
        let (_, delta) = self.with(cpu, fx, |rq| rq.set_online(now, true));
        // Not before: who reads this and is refused all the same would try for ever.
        self.hints.online.set(cpu, true);
        self.react(now, cpu, delta, fx);
        fx.kick(cpu);
        self.rescale(now, fx);
    }

    /// The fair class's spans, with them the offsets of latency nice, and the parts of limits follow the
    /// CPUs that are online. Of two of these at a time the last to come looks at all CPUs again.
    fn rescale(&self, now: Time, fx: &mut impl Effects<W>) {
        self.groups.rescale(now, || self.nr_online());
        let config = self.config.with_online(self.nr_online());
        let known = |cpu| self.inspect(cpu, |rq| rq.config() == &config);
        if self.config.topology.iter().all(known) {
            return;
        }
        let config = Arc::new(config);
        for cpu in self.config.topology.iter() {
            let (_, delta) = self.with(cpu, fx, |rq| rq.set_config(now, Arc::clone(&config)));
            kick_if(delta.resched, cpu, fx);
        }
    }

    pub(crate) fn nr_online(&self) -> usize {
        self.hints.online.count(&self.all, 0..self.cpus.len())
    }

    /// Publishes what `cpu` held back, and reacts to it.
    pub fn publish_held_back(&self, now: Time, cpu: CpuId, fx: &mut impl Effects<W>) {
        let delta = {
            let mut locked = lock(&self.cpus[cpu.index()].queue);
            self.publish(cpu, &mut locked)
        };
        self.react(now, cpu, delta, fx);
        kick_if(delta.resched, cpu, fx);
    }

    /// Calls `ask` with the run queue of `cpu`.
    pub fn inspect<R>(&self, cpu: CpuId, ask: impl FnOnce(&Queue<W>) -> R) -> R {
        ask(&lock(&self.cpus[cpu.index()].queue).rq)
    }

    /// Sends a task that cannot stay at `from` to a CPU that takes it.
    fn migrate_away(&self, now: Time, mut task: TaskOf<W>, from: CpuId, fx: &mut impl Effects<W>) {
        apply_pending(&mut task);
        let to = self.select_cpu(now, &task, None);
        self.migrate(now, Moving::new(task, from, to, Enqueue::Moved), fx);
    }

    /// Sends a task on its way, again and again until a CPU takes it or the host carries it.
    pub(crate) fn migrate(&self, now: Time, moving: Moving<W>, fx: &mut impl Effects<W>) {
        if let Some(landed) = self.land_somewhere(now, moving, fx) {
            self.after_landing(now, landed, fx);
        }
    }

    /// As [`Machine::migrate`], but the caller is to call [`Machine::after_landing`].
    pub(crate) fn land_somewhere(
        &self,
        now: Time,
        moving: Moving<W>,
        fx: &mut impl Effects<W>,
    ) -> Option<Landed> {
        let mut next = fx.carry(moving);
        loop {
            match self.land(now, next?, fx) {
                Ok(landed) => return Some(landed),
                Err(refused) => next = fx.carry(refused),
            }
        }
    }

    /// Reacts to the arrival of a real-time task.
    pub(crate) fn after_landing(&self, now: Time, landed: Landed, fx: &mut impl Effects<W>) {
        if let Landed { on, delta: Some(delta) } = landed {
            self.react(now, on, delta, fx);
        }
    }

    /// Offers a task to the CPU it was sent to; if that refuses, says where it is to go instead.
    fn land(
        &self,
        now: Time,
        mut moving: Moving<W>,
        fx: &mut impl Effects<W>,
    ) -> Result<Landed, Moving<W>> {
        apply_pending(&mut moving.task);
        let Moving { task, to, from, why, refusals, pulled } = moving;
        let (offered, delta) = self.with(to, fx, |rq| self.offer(rq, now, task, why));
        kick_if(delta.resched, to, fx);
        if pulled.is_some_and(|prio| delta.importance < Importance::Rt(prio)) {
            // It was changed on its way, or may not run here any more.
            self.pull(now, to, fx);
        }
        match offered {
            Ok(prio) => Ok(Landed { on: to, delta: prio.map(|_| delta) }),
            Err(task) => {
                if delta.held_back {
                    // Else the task would be sent here for ever.
                    self.publish_held_back(now, to, fx);
                }
                let (refusals, pulled) = (refusals + 1, None);
                Err(self.elsewhere(Moving { task, to, from, why, refusals, pulled }))
            }
        }
    }

    /// Offers a task under the lock, and carries out what was asked of it meanwhile. Gives it back
    /// if it may not stay, else tells its real-time priority.
    fn offer(
        &self,
        rq: &mut Queue<W>,
        now: Time,
        task: TaskOf<W>,
        why: Enqueue,
    ) -> Result<Option<RtPrio>, TaskOf<W>> {
        let id = task.id;
        let (slot, _) = rq.offer(now, task, why)?;
        let cell = rq.get(slot).and_then(control).expect("an offered task waits here");
        // Nothing else would tell that somebody forgot to say so: see `control`.
        debug_assert_eq!(cell.home(), Home::Away, "{id} was in no run queue");
        cell.enter(id, Home::At(rq.cpu(), slot));
        if cell.was_asked_meanwhile()
            && let Some(change) = cell.take()
            && let Some(task) = rq.change(now, slot, change).evicted
        {
            mark_away(&task);
            return Err(task);
        }
        let prio = rq.get(slot).and_then(Task::rt_prio);
        if prio.is_some() && why == Enqueue::Woken && self.has(Feature::RtPush) {
            let cpu = rq.cpu();
            let _ = rq.make_way(slot, |task| {
                task.rt_prio().is_some_and(|prio| self.find_lowest(task, prio, cpu).is_some())
            });
        }
        Ok(prio)
    }

    /// Where a refused task goes: while it may be refused, where it is important enough; then back.
    fn elsewhere(&self, mut moving: Moving<W>) -> Moving<W> {
        let task = &moving.task;
        let target = task.rt_prio().and_then(|prio| self.find_lowest(task, prio, moving.from));
        if let Some(to) = target
            && moving.refusals < MAX_REFUSALS
        {
            (moving.to, moving.why) = (to, Enqueue::Pushed);
            return moving;
        }
        moving.why = Enqueue::Moved;
        let affinity = &task.attr().affinity;
        let usable = |cpu| affinity.contains(cpu) && self.hints.online.contains(cpu);
        let n = self.cpus.len();
        let first = self.hints.online.ring(affinity, 0..n, CpuId(0)).next();
        match Some(moving.from).filter(|&from| usable(from) && from != moving.to).or(first) {
            Some(to) => moving.to = to,
            None => {
                // None of its CPUs is online: as the kernel, run it anywhere rather than never.
                let change = Change { affinity: Some(self.all.clone()), ..Change::default() };
                moving.task.apply(change);
                let first = self.hints.online.ring(&self.all, 0..n, CpuId(0)).next();
                moving.to = first.expect("a machine keeps a CPU online");
            }
        }
        moving
    }

    /// After what `delta` says was published: acts on what the other side of publish-then-look may have
    /// missed. Tells whether there was a cause to push or pull.
    #[inline]
    pub(crate) fn react(
        &self,
        now: Time,
        cpu: CpuId,
        delta: Delta,
        fx: &mut impl Effects<W>,
    ) -> bool {
        let has_cause = delta.lowered || delta.pushable || delta.refilled;
        has_cause && self.push_and_pull(now, cpu, delta, fx)
    }

    #[inline(never)]
    fn push_and_pull(&self, now: Time, cpu: CpuId, delta: Delta, fx: &mut impl Effects<W>) -> bool {
        let pull = delta.lowered && self.has(Feature::RtPull);
        let push = delta.pushable && self.has(Feature::RtPush);
        if pull {
            self.pull(now, cpu, fx);
        }
        if push {
            self.push(now, cpu, fx);
        }
        if delta.refilled {
            self.refill_others(now, cpu, fx);
        }
        pull || push
    }

    pub(crate) fn has(&self, feature: Feature) -> bool {
        self.config.features.has(feature)
    }

    pub(crate) fn with_balance<R>(&self, cpu: CpuId, f: impl FnOnce(&mut Balance) -> R) -> R {
        f(&mut lock(&self.cpus[cpu.index()].queue).balance)
    }

    fn with_timers<R>(&self, cpu: CpuId, f: impl FnOnce(&mut Queue<W>) -> R) -> R {
        let mut locked = lock(&self.cpus[cpu.index()].queue);
        let result = f(&mut locked.rq);
        self.publish_expiry(cpu, &mut locked);
        result
    }

    /// Does something to a run queue under its lock, and publishes what that changed. The caller is to
    /// [react](Machine::react).
    pub(crate) fn with<R>(
        &self,
        cpu: CpuId,
        fx: &mut impl Effects<W>,
        f: impl FnOnce(&mut Queue<W>) -> R,
    ) -> (R, Delta) {
        let mut locked = lock(&self.cpus[cpu.index()].queue);
        let result = f(&mut locked.rq);
        (result, self.publish_after(cpu, &mut locked, fx))
    }

    /// After a change of a run queue: publishes it, unless the host will have that done later.
    fn publish_after(&self, cpu: CpuId, locked: &mut Locked<W>, fx: &mut impl Effects<W>) -> Delta {
        tell_throttlings(cpu, &mut locked.rq, fx);
        if locked.held_back.is_some() || fx.hold_back(cpu) {
            self.publish_expiry(cpu, locked);
            let (resched, importance) = (locked.rq.resched(), locked.rq.load().level);
            locked.held_back = locked.held_back.max(Some(importance));
            let refilled = locked.rq.has_news();
            let (lowered, pushable) = (false, false);
            return Delta { resched, importance, held_back: true, lowered, pushable, refilled };
        }
        self.publish(cpu, locked)
    }

    /// As [`Machine::with`], for what takes a task out.
    pub(crate) fn detach<R>(
        &self,
        cpu: CpuId,
        fx: &mut impl Effects<W>,
        f: impl FnOnce(&mut Queue<W>) -> R,
    ) -> (R, Resched) {
        let (result, delta) = self.with(cpu, fx, f);
        (result, delta.resched)
    }

    /// Publishes what has changed since this CPU last did.
    fn publish(&self, cpu: CpuId, locked: &mut Locked<W>) -> Delta {
        self.publish_expiry(cpu, locked);
        let new = Snapshot::of(&locked.rq);
        let old = std::mem::replace(&mut locked.published, new);
        self.hints.publish(cpu, old, new);
        if new.is_idle() != old.is_idle() {
            self.hints.publish_times(cpu, &locked.rq);
        }
        let (load, was) = (new.load, old.load);
        // For what it had meanwhile it may have passed over others.
        let highest = locked.held_back.take().max(Some(was.level));
        Delta {
            resched: locked.rq.resched(),
            importance: load.level,
            held_back: false,
            lowered: Some(load.level) < highest,
            pushable: load.pushable.is_some(),
            refilled: locked.rq.has_news(),
        }
    }

    fn publish_expiry(&self, cpu: CpuId, locked: &mut Locked<W>) {
        let at = locked.rq.next_expiry();
        if at != std::mem::replace(&mut locked.published_expiry, at) {
            self.hints.publish_expiry(cpu, at);
        }
    }

    /// Asserts every run queue's invariants, and those between them.
    ///
    /// # Panics
    /// If one does not hold. Only for a machine that nobody is using meanwhile.
    pub fn check(&self) {
        let mut loads = vec![0; self.groups.count()];
        for cpu in self.config.topology.iter() {
            self.check_hints(cpu);
            self.inspect(cpu, |rq| {
                rq.check();
                for (slot, task) in rq.tasks() {
                    let home = control(task).map(Control::home);
                    let known = home.is_none_or(|home| home == Home::At(cpu, slot));
                    assert!(known, "{} knows its home, {home:?}\n{rq}", task.id);
                }
                for (group, load) in rq.group_loads() {
                    loads[group.index()] += load;
                }
            });
        }
        self.check_limits();
        for group in self.groups.ids().skip(1) {
            let sum = loads[group.index()];
            assert_eq!(sum, self.groups.load(group), "the load of {group:?} is that of its CPUs");
        }
    }
}

impl<W: Controlled> Machine<W> {
    /// Hints are stale only while they are held back.
    fn check_hints(&self, cpu: CpuId) {
        let locked = lock(&self.cpus[cpu.index()].queue);
        if locked.held_back.is_some() {
            return;
        }
        let is = Snapshot::of(&locked.rq);
        assert_eq!(locked.published, is, "CPU {cpu} has published what it is\n{}", locked.rq);
        self.hints.check(cpu, is, &locked.rq);
    }
}

/// Kicks `cpu` if its run queue asks for a switch.
pub(crate) fn kick_if<W>(resched: Resched, cpu: CpuId, fx: &mut impl Effects<W>) {
    if resched == Resched::Yes {
        fx.kick(cpu);
    }
}

/// Carries out what was asked of the task that `cell` belongs to, if it is at `at` still.
fn visit<W: Controlled>(rq: &mut Queue<W>, now: Time, cell: &Control, at: QueueIndex) -> Visit<W> {
    if cell.home() != Home::At(rq.cpu(), at) {
        return Visit::Missed;
    }
    let lives = rq.get(at).is_some_and(|task| cell.is_of(task.id));
    let change = if lives { cell.take() } else { None };
    let evicted = change.and_then(|change| rq.change(now, at, change).evicted);
    Visit::Done { evicted: evicted.inspect(mark_away) }
}

/// Tells the host what is throttled on `cpu` since it was last told, or not any more.
fn tell_throttlings<W: Controlled>(cpu: CpuId, rq: &mut Queue<W>, fx: &mut impl Effects<W>) {
    if rq.has_news() {
        rq.drain_throttlings(|throttling| fx.throttling(cpu, throttling));
    }
}

/// The task's control cell; a running task's is with its host.
fn control<W: Controlled>(task: &Task<W>) -> Option<&Control> {
    task.payload.as_ref().map(Controlled::control)
}

/// The task is in no run queue from now on. The caller holds the lock of the one it left.
pub(crate) fn mark_away<W: Controlled>(task: &TaskOf<W>) {
    control(task).expect("a task that leaves has its payload").set_home(Home::Away);
}

/// Carries out what was asked while the task was with its host, which may do so before it brings it.
pub fn apply_pending<W: Controlled>(task: &mut TaskOf<W>) {
    let cell = control(task).expect("a task that is with its host has its payload");
    if cell.was_asked()
        && let Some(change) = cell.take()
    {
        task.apply(change);
    }
}
