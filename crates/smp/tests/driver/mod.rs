//! One life of a machine, encoded in bytes: the calls of a host from one thread, in any order that a host may make
//! them, each followed by all checks.
//!
//! The property test draws the bytes, and the fuzzer searches for them. Every string of bytes is a life. Four bytes
//! configure the machine, and each four that follow are an action (see [`Op`]). A host may carry a task for any time,
//! hold back the published state of a CPU, and answer a kick late; so does this one. [`World::settle`] completes all of
//! that, and then the scheduler's guarantees must hold ([`laws`]).

#[path = "../cores/mod.rs"]
mod cores;
mod fifo;
mod laws;
mod timers;

use fifo::{Queueing, Switched};
use runyard_engine::attr::{
    Attr, Cookie, GroupId, LatencyNice, Nice, Policy, RtPrio, Slice, Weight,
};
use runyard_engine::config::Config;
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::features::{self, Feature, Features};
use runyard_engine::limits::Limit;
use runyard_engine::limits::Throttling;
use runyard_engine::run_queue::{Expired, Prev, Released, Switch};
use runyard_engine::spec::GroupSpec;
use runyard_engine::task::{Change, Task, TaskId};
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::Walk;
use runyard_engine::topology::Topology;
use runyard_smp::control::Control;
use runyard_smp::machine::{Effects, Machine, Moving, TaskOf, Work};
use std::sync::Arc;
use timers::Timers;

/// The number of bytes of an action, its code included.
const ACTION: usize = 4;

/// The largest number of tasks. More tasks make a life slower, not richer.
const MAX_TASKS: usize = 32;

/// The number of calls after which a machine that is not at rest counts as never coming to rest.
const MAX_ROUNDS: usize = 10_000;

/// The actions of a host; the low bits of the first byte of an action.
#[derive(Clone, Copy, Debug)]
enum Op {
    Spawn,
    Wake,
    Schedule,
    Expire,
    /// Time passes, and every timer and kick in it is served in time.
    Live,
    /// Time passes, and no CPU serves anything.
    Oversleep,
    Arm,
    Cancel,
    Change,
    Hotplug,
    Arrive,
    Publish,
    ServeKick,
    Settle,
    Relimit,
}

impl Op {
    const ALL: [Op; 15] = [
        Op::Spawn,
        Op::Wake,
        Op::Schedule,
        Op::Expire,
        Op::Live,
        Op::Oversleep,
        Op::Arm,
        Op::Cancel,
        Op::Change,
        Op::Hotplug,
        Op::Arrive,
        Op::Publish,
        Op::ServeKick,
        Op::Settle,
        Op::Relimit,
    ];
}

/// The flag in the first byte of an action for a host that carries its tasks slowly.
const SLOWLY: u8 = 0x80;
/// The flag in the first byte of an action for hints that are held back.
const SILENTLY: u8 = 0x40;
/// The flag in the first byte of an action for a host that read the clock a while before the call.
const LATE: u8 = 0x20;

/// The data that this host needs to run a task: its identity.
type Job = TaskId;

/// The payload of this host's tasks.
pub type Payload = Work<Job>;

/// The effects that the machine requested in a call, and this host's answers.
#[derive(Debug, Default)]
pub struct Asked {
    pub slowly: bool,
    pub silently: bool,
    kicks: Vec<CpuId>,
    moving: Vec<Moving<Payload>>,
    silent: Vec<CpuId>,
    /// The tasks that left a run queue for another.
    moved: Vec<TaskId>,
    /// The CPUs on which a group was throttled or unthrottled.
    throttlings: Vec<CpuId>,
}

impl Effects<Payload> for Asked {
    fn kick(&mut self, cpu: CpuId) {
        self.kicks.push(cpu);
    }

    fn carry(&mut self, moving: Moving<Payload>) -> Option<Moving<Payload>> {
        self.moved.push(moving.task().id);
        if self.slowly {
            self.moving.push(moving);
            return None;
        }
        Some(moving)
    }

    fn throttling(&mut self, cpu: CpuId, _: Throttling) {
        self.throttlings.push(cpu);
    }

    fn hold_back(&mut self, cpu: CpuId) -> bool {
        if self.silently {
            self.silent.push(cpu);
        }
        self.silently
    }
}

/// The way in which the running task leaves its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Yields,
    Blocks,
    Exits,
    Preempted,
}

impl How {
    const ALL: [How; 8] = [
        How::Yields,
        How::Blocks,
        How::Blocks,
        How::Exits,
        How::Preempted,
        How::Preempted,
        How::Preempted,
        How::Preempted,
    ];
}

/// The host's knowledge of a CPU.
#[derive(Debug)]
struct Cpu {
    running: Option<(TaskId, Work<Job>)>,
    /// The host owes the CPU a call of `schedule`.
    kicked: bool,
    online: bool,
}

/// The host's knowledge of a task.
#[derive(Debug)]
struct Known {
    control: Arc<Control>,
    parked: Option<TaskOf<Payload>>,
    over: bool,
    /// The attributes requested for the task, merged.
    asked: Attr,
    boost: Option<RtPrio>,
    /// At some time none of the CPUs that the task may use was online.
    homeless: bool,
}

/// The origin of a wake-up.
#[derive(Clone, Copy, Debug)]
pub enum By {
    /// A caller outside of the machine.
    Nobody,
    /// A caller on this CPU.
    Cpu(CpuId),
    /// A caller on this CPU that is about to block.
    Blocking(CpuId),
    /// A caller on this CPU that looks for work.
    Idle(CpuId),
}

/// A machine and its host.
#[derive(Debug)]
pub struct World {
    pub machine: Machine<Payload>,
    pub now: Time,
    features: Features,
    cpus: Vec<Cpu>,
    tasks: Vec<Known>,
    moving: Vec<Moving<Payload>>,
    silent: Vec<CpuId>,
    timers: Timers,
    queueing: Queueing,
    pub fx: Asked,
}

/// Runs the life that `bytes` encode.
pub fn live(bytes: &[u8]) {
    let mut actions = bytes.chunks_exact(ACTION);
    let Some(&[shape, features, rt, more]) = actions.next() else { return };
    let mut world = World::new([shape, features, rt, more]);
    for action in actions {
        let &[op, a, b, c] = action else { unreachable!("a chunk has {ACTION} bytes") };
        world.act(op, [a, b, c]);
    }
    world.settle();
}

impl World {
    /// Returns a world with each feature on or off. In half of the lives, the features that all laws need are on. In half of
    /// the lives, the kernel's bandwidth throttles task by task.
    fn new([shape, features, rt, more]: [u8; ACTION]) -> World {
        let flat = [(1, 1, 1), (1, 2, 1), (1, 3, 1), (1, 2, 2), (2, 2, 1), (1, 5, 1), (3, 1, 2)];
        let cores = [(1, 1, 2), (1, 2, 2), (1, 1, 4), (2, 1, 2)];
        let has_cookies = shape >= 0x80;
        let shape = if has_cookies { pick(&cores, shape) } else { pick(&flat, shape) };
        let (nodes, cores, threads) = shape;
        let mut config = Config::new(Topology::new(nodes, cores, threads).unwrap());
        config.cookies = has_cookies;
        config.accounts = true;
        config.rules.throttles_tasks = rt / 3 % 2 == 1;
        // There are more features than bits in two bytes. Those beyond 32 are flipped with an earlier one.
        let both = features.rotate_left(4) ^ more;
        let flips = u32::from_le_bytes([features, more, both, !both]);
        for (at, feature) in Feature::ALL.into_iter().enumerate() {
            let flipped = flips.rotate_right(at as u32) & 1 == 1;
            if flipped && (rt >= 0x80 || !laws::NEEDED.contains(&feature)) {
                let on = !config.features.has(feature);
                config.features.set(features::Switched { feature, on });
            }
        }
        (config.rt_runtime, config.rt_period) = match rt % 3 {
            0 => (None, config.rt_period),
            1 => (Some(Nanos::from_millis(2)), Nanos::from_millis(5)),
            _ => (config.rt_runtime, config.rt_period),
        };
        (config.server_runtime, config.server_period) =
            (Nanos::from_millis(1), Nanos::from_millis(5));
        World::among(config, [more >> 2, more >> 4, more >> 6].map(latency_nice))
    }

    /// Returns a machine with this configuration. It has two groups below the root, one of which counts as idle and has
    /// a cookie, and an idle group below the other.
    pub fn with(config: Config) -> World {
        World::among(config, [LatencyNice::ZERO; 3])
    }

    /// Does the same as [`World::with`], with groups of these latency nice values.
    fn among(config: Config, [first, second, third]: [LatencyNice; 3]) -> World {
        let below = |parent, weight, idle, latency_nice| GroupSpec {
            parent: GroupId(parent),
            weight: Weight::new(weight).unwrap(),
            idle,
            latency_nice,
            cookie: Cookie::new(u32::from(weight == 2)),
            ..GroupSpec::ROOT
        };
        let groups = [
            GroupSpec::ROOT,
            below(0, 1024, false, first),
            below(0, 2, false, second),
            below(1, 4096, true, third),
        ];
        let cpu = |_| Cpu { running: None, kicked: false, online: true };
        World {
            features: config.features,
            cpus: config.topology.iter().map(cpu).collect(),
            machine: Machine::new(config, &groups).unwrap(),
            now: Time(1_000),
            tasks: Vec::new(),
            moving: Vec::new(),
            silent: Vec::new(),
            timers: Timers::default(),
            queueing: Queueing::default(),
            fx: Asked::default(),
        }
    }

    /// Performs one action, then all checks.
    fn act(&mut self, op: u8, [a, b, c]: [u8; ACTION - 1]) {
        (self.fx.slowly, self.fx.silently) = (op & SLOWLY != 0, op & SILENTLY != 0);
        let now = if op & LATE != 0 { Time(self.now.0 - 1_000) } else { self.now };
        let cpu = self.cpu(a);
        let op = pick(&Op::ALL, op % 16);
        match op {
            Op::Spawn => self.spawn(now, attr(&self.machine, [a, b, c]), self.cpu(c)),
            Op::Wake => {
                if let Some(task) = self.nth(a, |task| task.parked.is_some()) {
                    let waker = self.cpu(c);
                    let by = pick(
                        &[By::Nobody, By::Cpu(waker), By::Blocking(waker), By::Idle(waker)],
                        b,
                    );
                    self.wake(now, task, by);
                }
            }
            Op::Schedule => self.schedule(now, cpu, pick(&How::ALL, b)),
            Op::Expire => self.expire(now, cpu),
            Op::Live => self.live_for(span(a)),
            Op::Oversleep => self.oversleep(span(a), [b, c]),
            Op::Arm => self.timers.arm(&self.machine, cpu, self.now, [b, c]),
            Op::Cancel => self.timers.cancel(&self.machine, a),
            Op::Change => {
                if let Some(task) = self.nth(a, |_| true) {
                    let change = self.change_of(task, b, c);
                    self.change(now, task, change);
                }
            }
            Op::Hotplug => self.hotplug(now, cpu),
            Op::Arrive => {
                if let Some(at) = nth(self.moving.len(), a) {
                    self.arrive(now, at);
                }
            }
            Op::Publish => {
                if let Some(at) = nth(self.silent.len(), a) {
                    self.publish(now, at);
                }
            }
            Op::ServeKick => {
                if self.cpus[cpu.index()].kicked {
                    self.schedule(now, cpu, How::Preempted);
                }
            }
            Op::Settle => self.settle(),
            Op::Relimit => {
                let group = GroupId(u32::from(a % 3) + 1);
                self.machine.set_limit(now, group, limit(b), &mut self.fx);
            }
        }
        self.after(op);
    }

    /// Records the effects of a call, then runs the checks.
    fn after(&mut self, op: Op) {
        self.take_over();
        self.queueing.follow(&self.machine, &self.fx.moved, &self.fx.throttlings);
        self.fx.moved.clear();
        self.fx.throttlings.clear();
        for task in &mut self.tasks {
            let cpus = &self.cpus;
            task.homeless |= !task.asked.affinity.iter().any(|cpu| is_online(cpus, cpu));
        }
        self.check(op);
    }

    /// Records the effects of a call as pending.
    pub fn take_over(&mut self) {
        for cpu in self.fx.kicks.drain(..) {
            self.cpus[cpu.index()].kicked = true;
        }
        self.moving.append(&mut self.fx.moving);
        for cpu in self.fx.silent.drain(..) {
            if !self.silent.contains(&cpu) {
                self.silent.push(cpu);
            }
        }
    }

    /// Spawns a new task that starts near `near`.
    pub fn spawn(&mut self, now: Time, attr: Attr, near: CpuId) {
        let alive = self.tasks.iter().filter(|task| !task.over).count();
        if alive == MAX_TASKS {
            return;
        }
        let id = TaskId(self.tasks.len() as u64);
        let control = Arc::new(Control::default());
        let work = Work { control: control.clone(), work: id };
        let mut task = Task::new(id, attr.clone(), work);
        task.keep_account();
        let (parked, boost) = (None, None);
        self.tasks.push(Known {
            control,
            parked,
            over: false,
            asked: attr,
            boost,
            homeless: false,
        });
        self.machine.spawn(now, task, Some(near), &mut self.fx);
        self.queueing.enters(id);
    }

    /// Wakes a sleeping task.
    pub fn wake(&mut self, now: Time, task: TaskId, by: By) {
        let parked = self.tasks[task.index()].parked.take().expect("it sleeps");
        match by {
            By::Nobody => self.machine.wake(now, parked, None, &mut self.fx),
            By::Cpu(waker) => self.machine.wake(now, parked, Some(waker), &mut self.fx),
            By::Blocking(waker) => self.machine.wake_sync(now, parked, waker, &mut self.fx),
            By::Idle(waker) => self.machine.wake_here(now, parked, waker, &mut self.fx),
        };
        self.queueing.enters(task);
    }

    /// Switches `cpu`. `how` does not matter if no task runs there.
    pub fn schedule(&mut self, now: Time, cpu: CpuId, how: How) {
        let known = &mut self.cpus[cpu.index()];
        known.kicked = false;
        let before = known.running.take();
        let was = before.as_ref().map(|&(id, _)| id);
        let prev = match (before, how) {
            (None, _) => Prev::Idle,
            (Some((_, work)), How::Yields) => Prev::Yielded(work),
            (Some((_, work)), How::Blocks) => Prev::Blocked(work),
            (Some(_), How::Exits) => Prev::Exited,
            (Some((_, work)), How::Preempted) => Prev::Preempted(work),
        };
        let yielded = matches!(prev, Prev::Yielded(_));
        let Switch { next, released } = self.machine.schedule(now, cpu, prev, &mut self.fx);
        if let Some((id, work)) = &next {
            assert_eq!(*id, work.work, "a task is given its own work");
        }
        match released {
            Some((task, Released::Blocked)) => {
                let id = task.id;
                self.tasks[id.index()].parked = Some(task);
            }
            Some((task, Released::Exited)) => self.tasks[task.id.index()].over = true,
            Some((task, Released::Evicted | Released::MoveTo(_))) => {
                panic!("{} was not sent on", task.id)
            }
            None => {}
        }
        let running = next.as_ref().map(|&(id, _)| id);
        self.cpus[cpu.index()].running = next;
        let switched = Switched { cpu, was, running, yielded };
        // Core scheduling may pass tasks over.
        if !self.fx.throttlings.contains(&cpu) && !self.machine.config().cookies {
            self.queueing.switches(&self.machine, switched, &self.fx.moved);
        }
        if running.is_none() {
            self.walk(now, cpu, Walk::BeforeIdle);
        }
    }

    /// Serves the expired timers of `cpu`.
    fn expire(&mut self, now: Time, cpu: CpuId) {
        let idle = self.cpus[cpu.index()].running.is_none();
        self.walk(now, cpu, if idle { Walk::Idle } else { Walk::Busy });
        self.timers.served(cpu, now);
    }

    fn walk(&mut self, now: Time, cpu: CpuId, walk: Walk) {
        while let Some(expired) = self.machine.expire(now, cpu, walk, &mut self.fx) {
            match expired {
                Expired::Timer(expiry) => self.timers.expires(cpu, now, expiry),
                Expired::Tick => {
                    let idle = self.cpus[cpu.index()].running.is_none();
                    assert!(!idle, "an idle CPU does not tick");
                }
                Expired::RtPeriod | Expired::FairServer | Expired::Grant | Expired::Refill => {}
            }
        }
        let greedy = self.machine.config().features.has(Feature::GreedyTimers);
        if greedy && walk != Walk::Busy {
            self.timers.none_open(cpu, now);
        }
    }

    /// Lets time pass, with all interrupts and kicks in time.
    pub fn live_for(&mut self, span: Nanos) {
        let end = self.now + span;
        loop {
            let next = |cpu: &CpuId| self.machine.sight().next_expiry(*cpu).unwrap_or(Time::MAX);
            let cpu = self.all().min_by_key(next).expect("there are CPUs");
            let at = next(&cpu);
            if at > end {
                break;
            }
            self.now = self.now.max(at);
            self.expire(self.now, cpu);
            self.take_over();
            for cpu in self.all() {
                if self.cpus[cpu.index()].kicked {
                    self.schedule(self.now, cpu, How::Preempted);
                }
            }
        }
        self.now = end;
    }

    /// Lets time pass without serving anything. In half of the cases another CPU then takes a waiting task.
    fn oversleep(&mut self, span: Nanos, [b, c]: [u8; 2]) {
        self.now = self.now + span;
        if b & 1 == 1 {
            self.relieve(self.cpu(b >> 1), self.cpu(c));
        }
    }

    /// Declares `from` stalled, so that a task that waits there moves to `to`. Returns whether there is one.
    pub fn relieve(&mut self, from: CpuId, to: CpuId) -> bool {
        self.machine.cpus().relieve(self.now, from, to, &mut self.fx)
    }

    /// Requests a change of a task, wherever it is.
    pub fn change(&mut self, now: Time, task: TaskId, change: Change) {
        let known = &mut self.tasks[task.index()];
        known.asked.policy = change.policy.unwrap_or(known.asked.policy);
        known.asked.group = change.group.unwrap_or(known.asked.group);
        known.asked.latency_nice = change.latency_nice.unwrap_or(known.asked.latency_nice);
        known.asked.slice = change.slice.applied_to(known.asked.slice);
        known.asked.cookie = change.cookie.applied_to(known.asked.cookie);
        known.boost = change.boost.applied_to(known.boost);
        if let Some(affinity) = &change.affinity {
            (known.asked.affinity, known.homeless) = (affinity.clone(), false);
        }
        self.machine.change(now, &*known.control, change, &mut self.fx);
    }

    fn change_of(&self, task: TaskId, what: u8, value: u8) -> Change {
        let none = Change::default();
        match what % 10 {
            0 | 1 => Change { affinity: Some(affinity(&self.machine, value)), ..none },
            2 | 3 => Change { policy: Some(policy(value)), ..none },
            4 if value >= 0x80 => Change { inherited_group: above(value).into(), ..none },
            4 => Change { group: Some(GroupId((value % 4).into())), ..none },
            5 => Change { boost: RtPrio::new((value % 8).into()).into(), ..none },
            6 => Change { latency_nice: Some(latency_nice(value)), ..none },
            7 => Change { slice: slice(value).into(), ..none },
            8 => Change { cookie: cookie(value).into(), ..none },
            _ => Change {
                affinity: Some(affinity(&self.machine, value.rotate_left(3))),
                policy: Some(policy(value)),
                group: Some(self.tasks[task.index()].asked.group),
                ..none
            },
        }
    }

    /// Takes a CPU out of service or back into it, but never the last one.
    pub fn hotplug(&mut self, now: Time, cpu: CpuId) {
        let others = self.cpus.iter().filter(|cpu| cpu.online).count() > 1;
        let known = &mut self.cpus[cpu.index()];
        if known.online && others {
            known.online = false;
            self.machine.offline(now, cpu, &mut self.fx);
        } else if !known.online {
            known.online = true;
            self.machine.online(now, cpu, &mut self.fx);
        }
    }

    /// Lets one of the moving tasks arrive.
    pub fn arrive(&mut self, now: Time, at: usize) {
        let moving = self.moving.swap_remove(at);
        let task = moving.task().id;
        self.machine.cpus().arrive(now, moving, &mut self.fx);
        self.queueing.enters(task);
    }

    fn publish(&mut self, now: Time, at: usize) {
        let cpu = self.silent.swap_remove(at);
        self.machine.cpus().publish_held_back(now, cpu, &mut self.fx);
    }

    /// Completes all pending effects: moving tasks arrive, held-back state is published, and kicked CPUs schedule. Then
    /// asserts all laws.
    pub fn settle(&mut self) {
        (self.fx.slowly, self.fx.silently) = (false, false);
        self.take_over();
        for _ in 0..MAX_ROUNDS {
            let kicked = self.all().find(|cpu| self.cpus[cpu.index()].kicked);
            match (self.moving.len(), self.silent.len(), kicked) {
                (1.., _, _) => self.arrive(self.now, 0),
                (0, 1.., _) => self.publish(self.now, 0),
                (0, 0, Some(cpu)) => self.schedule(self.now, cpu, How::Preempted),
                (0, 0, None) => return self.check_laws(),
            }
            self.after(Op::Settle);
        }
        panic!("the machine does not come to rest: {self:?}");
    }

    fn all(&self) -> impl Iterator<Item = CpuId> + use<> {
        (0..self.cpus.len()).map(CpuId::at)
    }

    fn cpu(&self, byte: u8) -> CpuId {
        CpuId::at(usize::from(byte) % self.cpus.len())
    }

    fn nth(&self, byte: u8, of: impl Fn(&Known) -> bool) -> Option<TaskId> {
        let some: Vec<_> = (0..self.tasks.len()).filter(|&at| of(&self.tasks[at])).collect();
        nth(some.len(), byte).map(|at| TaskId(some[at] as u64))
    }
}

fn is_online(cpus: &[Cpu], cpu: CpuId) -> bool {
    cpus.get(cpu.index()).is_some_and(|cpu| cpu.online)
}

fn nth(len: usize, byte: u8) -> Option<usize> {
    (len > 0).then(|| usize::from(byte) % len)
}

fn pick<T: Copy>(from: &[T], byte: u8) -> T {
    from[usize::from(byte) % from.len()]
}

/// Returns a span from zero to more than a period of the real-time budget.
fn span(byte: u8) -> Nanos {
    let unit = pick(&[1, 1_000, 50_000, 1_000_000], byte >> 6);
    Nanos(u64::from(byte & 0x3f) * unit)
}

/// Returns a policy with one of a few priorities, so that tasks of equal priority meet.
fn policy(byte: u8) -> Policy {
    let prio = RtPrio::new(i64::from(byte >> 3 & 7) % 6 + 1).unwrap();
    let nice = Nice::new(pick(&[-20, -5, 0, 0, 0, 3, 10, 19], byte >> 3)).unwrap();
    match byte & 7 {
        0..=2 => Policy::Fifo(prio),
        3 => Policy::RoundRobin(prio),
        4 | 5 => Policy::Normal(nice),
        6 => Policy::Batch(nice),
        _ => Policy::Idle,
    }
}

/// Returns mostly the default, so that tasks with and without a latency nice value meet.
fn latency_nice(byte: u8) -> LatencyNice {
    LatencyNice::new(pick(&[0, 0, -20, 19], byte)).unwrap()
}

/// Returns no limit, or a limit of a few milliseconds in a short period, shared by all CPUs or for each.
fn limit(byte: u8) -> Option<Limit> {
    let [runtime, period] = [byte & 3, byte >> 2 & 3].map(|n| Nanos::from_millis(n.into()));
    let burst = if byte & 0x20 != 0 { runtime } else { Nanos::ZERO };
    Limit::new(runtime, Nanos(period.0 + runtime.0), burst, byte & 0x10 != 0).ok()
}

/// Returns the root, a group below it, or `None` for an inherited value.
fn above(byte: u8) -> Option<GroupId> {
    pick(&[None, Some(GroupId::ROOT), Some(GroupId(1))], byte)
}

/// Returns no slice, the shortest, a short one, or the longest.
fn slice(byte: u8) -> Option<Slice> {
    Slice::new(Nanos::from_micros(pick(&[0, 0, 100, 3_000, 100_000], byte)))
}

/// Returns no cookie, or one of a few.
fn cookie(byte: u8) -> Option<Cookie> {
    Cookie::new(u32::from(byte % 4))
}

/// Returns any set of CPUs, perhaps with one that does not exist.
fn affinity(machine: &Machine<Payload>, byte: u8) -> CpuSet {
    let set: CpuSet = (0..7).filter(|cpu| byte >> cpu & 1 == 1).map(CpuId).collect();
    if !set.iter().any(|cpu| machine.all().contains(cpu)) || byte >= 0x80 {
        return machine.all().clone();
    }
    set
}

fn attr(machine: &Machine<Payload>, [a, b, c]: [u8; ACTION - 1]) -> Attr {
    let group = GroupId(u32::from(c >> 4) % 4);
    let (latency_nice, slice, cookie) = (latency_nice(a >> 6), slice(c), cookie(c >> 2));
    let plain = Attr::normal(affinity(machine, b));
    Attr { policy: policy(a), group, latency_nice, slice, cookie, ..plain }
}
