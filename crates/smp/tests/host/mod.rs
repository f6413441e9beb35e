//! A host for the model checkers: threads play CPUs, tasks park, kicks are served late, and laws hold once no work is
//! left.
//!
//! A kick promises that the CPU will call `schedule`, but not at once. Here each thread keeps the kicks that it was
//! asked for, and [`Bench::settle`] serves them after all threads have ended. So the race itself need not repair a
//! state that a kick repairs. It must have repaired any other state.

#[path = "../cores/mod.rs"]
mod cores;

#[cfg(loom)]
use loom::{sync::Mutex, thread};
use runyard_engine::attr::{Attr, Cookie, GroupId, Nice, Policy, RtPrio};
use runyard_engine::balance::{Balanced, Found};
use runyard_engine::config::Config;
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::features::Features;
#[cfg(loom)]
use runyard_engine::limits::Limit;
use runyard_engine::run_queue::{Expired, Importance, Prev, Released, Resched, Switch};
use runyard_engine::spec::GroupSpec;
use runyard_engine::task::{Change, Task, TaskId};
#[cfg(loom)]
use runyard_engine::time::Nanos;
use runyard_engine::time::Time;
use runyard_engine::timer::Walk;
use runyard_engine::topology::Topology;
use runyard_smp::control::Control;
use runyard_smp::machine::{Effects, Machine, Moving, TaskOf, Work};
#[cfg(shuttle)]
use shuttle::{sync::Mutex, thread};
use std::sync::Arc;

/// The time at which all races begin. Little here depends on time: only ticks and the work done at them.
const NOW: Time = Time(1);

/// The one group below the root.
pub const GROUP: GroupId = GroupId(1);

/// The place of a blocked task: the host's half of ownership.
#[derive(Debug)]
enum Slot {
    /// The task is in the machine, or between the machine and its host.
    Awake,
    /// The task is asleep. The thread that takes it out wakes it.
    Parked(TaskOf<Work<Job>>),
    /// The task was woken before it parked, so it will not sleep.
    Notified,
}

/// The data that this host needs to run a task.
#[derive(Debug)]
pub struct Job {
    slot: Arc<Mutex<Slot>>,
}

/// A handle of a task, for threads that wake it or request a change.
#[derive(Clone, Debug)]
pub struct Handle {
    id: TaskId,
    control: Arc<Control>,
    slot: Arc<Mutex<Slot>>,
}

impl Handle {
    /// Returns whether a wake-up is stored for a task that is awake.
    #[cfg(loom)]
    pub fn is_notified(&self) -> bool {
        matches!(*self.slot.lock().unwrap(), Slot::Notified)
    }

    /// Returns whether the task sleeps.
    pub fn is_parked(&self) -> bool {
        matches!(*self.slot.lock().unwrap(), Slot::Parked(_))
    }
}

/// Effects that keep the kicks for later. They also record the other effects, to detect whether a race took place.
#[derive(Debug, Default)]
struct Asked {
    kicks: Vec<CpuId>,
    /// The tasks sent to each CPU.
    sent: Vec<(TaskId, CpuId)>,
    /// The results of balancing.
    found: Vec<Found>,
}

impl Effects<Work<Job>> for Asked {
    fn kick(&mut self, cpu: CpuId) {
        self.kicks.push(cpu);
    }

    fn carry(&mut self, moving: Moving<Work<Job>>) -> Option<Moving<Work<Job>>> {
        self.sent.push((moving.task().id, moving.to));
        Some(moving)
    }

    fn balanced(&mut self, _: CpuId, balanced: Balanced) {
        self.found.push(balanced.found);
    }
}

/// One CPU, played by one thread at a time. An id beyond the last CPU is a device that only interrupts.
#[derive(Debug)]
pub struct Cpu {
    machine: Arc<Machine<Work<Job>>>,
    id: CpuId,
    running: Option<(TaskId, Work<Job>)>,
    asked: Asked,
    /// The time of its last action.
    now: Time,
    exited: Vec<TaskId>,
}

impl Cpu {
    /// Wakes a task, now or as soon as it tries to sleep.
    pub fn wake(&mut self, task: &Handle) {
        let found = std::mem::replace(&mut *task.slot.lock().unwrap(), Slot::Notified);
        if let Slot::Parked(parked) = found {
            *task.slot.lock().unwrap() = Slot::Awake;
            self.machine.wake(self.now, parked, None, &mut self.asked);
        }
    }

    /// Blocks the running task, unless it was woken before.
    pub fn block(&mut self) {
        let (_, work) = self.running.take().expect("a task runs");
        self.schedule(Prev::Blocked(work));
    }

    /// Ends the running task.
    pub fn exit(&mut self) {
        self.running.take().expect("a task runs");
        self.schedule(Prev::Exited);
    }

    /// Lets the running task yield.
    pub fn yield_now(&mut self) {
        let (_, work) = self.running.take().expect("a task runs");
        self.schedule(Prev::Yielded(work));
    }

    /// Answers a kick.
    pub fn reschedule(&mut self) {
        let prev = self.running.take().map_or(Prev::Idle, |(_, work)| Prev::Preempted(work));
        self.schedule(prev);
    }

    /// Answers a kick at a given time.
    #[cfg(loom)]
    pub fn reschedule_at(&mut self, now: Time) {
        self.now = now;
        self.reschedule();
    }

    pub fn change(&mut self, task: &Handle, change: Change) {
        self.machine.change(self.now, &*task.control, change, &mut self.asked);
    }

    pub fn set_policy(&mut self, task: &Handle, policy: Policy) {
        self.change(task, Change { policy: Some(policy), ..Change::default() });
    }

    pub fn set_affinity(&mut self, task: &Handle, affinity: &[u16]) {
        self.change(task, Change { affinity: Some(cpus(affinity)), ..Change::default() });
    }

    pub fn set_group(&mut self, task: &Handle, group: GroupId) {
        self.change(task, Change { group: Some(group), ..Change::default() });
    }

    pub fn set_cookie(&mut self, task: &Handle, cookie: u32) {
        self.change(task, Change { cookie: Cookie::new(cookie).into(), ..Change::default() });
    }

    /// Limits the group to so many milliseconds in 100 from now on.
    #[cfg(loom)]
    pub fn set_limit(&mut self, millis: Option<u64>) {
        let limit = |millis| {
            let runtime = Nanos::from_millis(millis);
            Limit::new(runtime, Limit::PERIOD, Nanos::ZERO, false).unwrap()
        };
        self.machine.set_limit(self.now, GROUP, millis.map(limit), &mut self.asked);
    }

    /// Blocks the running task at a given time.
    #[cfg(loom)]
    pub fn block_at(&mut self, now: Time) {
        self.now = now;
        self.block();
    }

    pub fn offline(&mut self, cpu: u16) {
        self.machine.offline(self.now, CpuId(cpu), &mut self.asked);
    }

    pub fn online(&mut self, cpu: u16) {
        self.machine.online(self.now, CpuId(cpu), &mut self.asked);
    }

    /// Takes all timers that have expired by `now`, and returns their number.
    pub fn expire(&mut self, now: Time) -> usize {
        self.now = now;
        std::iter::from_fn(|| self.machine.expire(now, self.id, Walk::Busy, &mut self.asked))
            .filter(|expired| matches!(expired, Expired::Timer(_)))
            .count()
    }

    #[cfg(loom)]
    pub fn cancel(&mut self, cpu: u16, timer: runyard_engine::timer::TimerId) -> bool {
        self.machine.cpu(CpuId(cpu)).cancel(timer)
    }

    /// Returns the CPUs kicked since the last call.
    pub fn take_kicks(&mut self) -> Vec<CpuId> {
        std::mem::take(&mut self.asked.kicks)
    }

    /// Returns whether a task runs here.
    pub fn is_busy(&self) -> bool {
        self.running.is_some()
    }

    fn running(&self) -> Option<TaskId> {
        self.running.as_ref().map(|&(id, _)| id)
    }

    fn schedule(&mut self, prev: Prev<Work<Job>>) {
        let switch = self.machine.schedule(self.now, self.id, prev, &mut self.asked);
        let Switch { next, released } = switch;
        self.running = next;
        match released {
            Some((task, Released::Blocked)) => self.park(task),
            Some((task, Released::Exited)) => self.exited.push(task.id),
            Some((task, Released::Evicted | Released::MoveTo(_))) => {
                panic!("{} was not sent on", task.id)
            }
            None => {}
        }
    }

    fn park(&mut self, task: TaskOf<Work<Job>>) {
        let slot = task.payload.as_ref().expect("a sleeper has its payload").work.slot.clone();
        let mut place = slot.lock().unwrap();
        match std::mem::replace(&mut *place, Slot::Awake) {
            Slot::Awake => *place = Slot::Parked(task),
            Slot::Notified => {
                drop(place);
                self.machine.wake(self.now, task, None, &mut self.asked);
            }
            Slot::Parked(_) => panic!("{} sleeps twice", task.id),
        }
    }
}

/// The program of one thread, and the CPU that it plays.
pub type Part = (u16, Box<dyn FnOnce(&mut Cpu) + Send>);

fn act((mut cpu, part): (Cpu, Box<dyn FnOnce(&mut Cpu) + Send>)) -> Cpu {
    part(&mut cpu);
    cpu
}

/// Returns the part of `cpu`.
pub fn on(cpu: u16, part: impl FnOnce(&mut Cpu) + Send + 'static) -> Part {
    (cpu, Box::new(part))
}

/// A machine and its players.
pub struct Bench {
    cpus: Vec<Cpu>,
    tasks: Vec<Handle>,
}

impl Bench {
    /// Returns a bench with CPUs without tasks, and one device.
    pub fn new(topology: Topology, features: Features) -> Bench {
        Bench::of(Config { features, ..Config::new(topology) })
    }

    /// Does the same as [`Bench::new`], with core scheduling.
    pub fn with_cookies(topology: Topology, features: Features) -> Bench {
        Bench::of(Config { features, cookies: true, ..Config::new(topology) })
    }

    fn of(config: Config) -> Bench {
        let topology = config.topology;
        let config = Config { rt_runtime: None, ..config };
        let groups = [GroupSpec::ROOT; 2];
        let machine = Arc::new(Machine::new(config, &groups).unwrap());
        // The id after the last CPU is the device.
        let cpus = 0..=topology.cpus() as u16;
        let cpu = |id| Cpu {
            machine: machine.clone(),
            id: CpuId(id),
            running: None,
            asked: Asked::default(),
            now: NOW,
            exited: Vec::new(),
        };
        Bench { cpus: cpus.map(cpu).collect(), tasks: Vec::new() }
    }

    pub fn machine(&self) -> &Machine<Work<Job>> {
        &self.cpus[0].machine
    }

    /// Spawns a task that runs or waits on the first CPU of its affinity.
    pub fn spawn(&mut self, policy: Policy, affinity: &[u16]) -> Handle {
        let (task, handle) = self.make(policy, affinity);
        let spawner = &mut self.cpus[0];
        spawner.machine.wake(NOW, task, None, &mut spawner.asked);
        self.settle();
        handle
    }

    /// Returns a sleeping task that was last on the first CPU of its affinity.
    pub fn sleeper(&mut self, policy: Policy, affinity: &[u16]) -> Handle {
        let (task, handle) = self.make(policy, affinity);
        *handle.slot.lock().unwrap() = Slot::Parked(task);
        handle
    }

    /// Does the same as [`Bench::sleeper`], with a cookie.
    #[cfg(loom)]
    pub fn sleeper_of(&mut self, policy: Policy, affinity: &[u16], cookie: u32) -> Handle {
        let (mut task, handle) = self.make(policy, affinity);
        task.apply(Change { cookie: Cookie::new(cookie).into(), ..Change::default() });
        *handle.slot.lock().unwrap() = Slot::Parked(task);
        handle
    }

    fn make(&mut self, policy: Policy, affinity: &[u16]) -> (TaskOf<Work<Job>>, Handle) {
        let id = TaskId(self.tasks.len() as u64);
        let slot = Arc::new(Mutex::new(Slot::Awake));
        let control = Arc::new(Control::default());
        let work = Work { control: control.clone(), work: Job { slot: slot.clone() } };
        let attr = Attr { policy, ..Attr::normal(cpus(affinity)) };
        let mut task = Task::new(id, attr, work);
        task.set_cpu(CpuId(affinity[0]));
        let handle = Handle { id, control, slot };
        self.tasks.push(handle.clone());
        (task, handle)
    }

    /// Plays the parts concurrently: each on its CPU, the last on the calling thread. The device is the CPU after the
    /// last.
    pub fn play<const N: usize>(&mut self, parts: [Part; N]) {
        let mut idle: Vec<_> = self.cpus.drain(..).map(Some).collect();
        let players = parts.map(|(cpu, part)| (idle[usize::from(cpu)].take().unwrap(), part));
        self.cpus.extend(idle.into_iter().flatten());
        let mut players = players.into_iter();
        let own = players.next_back().expect("there is a part");
        let threads: Vec<_> = players.map(|player| thread::spawn(|| act(player))).collect();
        self.cpus.push(act(own));
        self.cpus.extend(threads.into_iter().map(|thread| thread.join().unwrap()));
        self.cpus.sort_by_key(|cpu| cpu.id);
    }

    /// Serves all kicks, and the kicks that follow from them.
    pub fn settle(&mut self) {
        loop {
            let kicked: Vec<_> = self.cpus.iter_mut().flat_map(Cpu::take_kicks).collect();
            if kicked.is_empty() {
                return;
            }
            for cpu in kicked {
                self.cpus[cpu.index()].reschedule();
            }
        }
    }

    /// Serves the kick of a CPU that did not answer while the parts were played.
    #[cfg(shuttle)]
    pub fn kick(&mut self, cpu: CpuId) {
        self.cpus[cpu.index()].asked.kick(cpu);
    }

    /// Asserts the laws of a machine at rest.
    pub fn check(&self) {
        let machine = self.machine();
        machine.check();
        let (device, cpus) = self.cpus.split_last().expect("there is the device");
        assert!(!device.is_busy(), "no task runs on the device");
        let parked = self.tasks.iter().filter(|task| task.is_parked()).map(|task| task.id);
        let mut held: Vec<_> = parked.collect();
        for cpu in cpus {
            held.extend(&cpu.exited);
            machine.cpu(cpu.id).inspect(|rq| {
                assert_eq!(rq.resched(), Resched::No, "every switch was asked for\n{rq}");
                assert_eq!(rq.tasks().curr().map(|task| task.id), cpu.running(), "one task runs");
                assert!(
                    rq.site().is_online() || rq.tasks().iter().count() == 0,
                    "all have left\n{rq}"
                );
                for (_, task) in rq.tasks().iter() {
                    held.push(task.id);
                    assert!(
                        task.attr().affinity.contains(rq.site().cpu()),
                        "{} may be here",
                        task.id
                    );
                }
            });
        }
        held.sort_unstable();
        let made: Vec<_> = self.tasks.iter().map(|task| task.id).collect();
        assert_eq!(held, made, "tasks are conserved");
        match machine.config().cookies {
            true => cores::check(machine),
            false => self.check_priorities(cpus),
        }
    }

    /// Asserts that no CPU on which a waiting real-time task may run does less important work.
    fn check_priorities(&self, cpus: &[Cpu]) {
        let machine = self.machine();
        let levels: Vec<_> = cpus
            .iter()
            .map(|cpu| machine.cpu(cpu.id).inspect(|rq| rq.classes().load().importance))
            .collect();
        for cpu in cpus {
            machine.cpu(cpu.id).inspect(|rq| {
                let waits = |id| cpu.running() != Some(id);
                for (_, task) in rq.tasks().iter().filter(|(_, task)| waits(task.id)) {
                    let Some(prio) = task.class().push_prio() else { continue };
                    let better = |on: &CpuId| levels[on.index()] < Importance::Rt(prio);
                    let wasted = task.attr().affinity.iter().find(better);
                    assert_eq!(wasted, None, "{} waits for nothing\n{rq}", task.id);
                }
            });
        }
    }
}

/// The calls that only the models use, which know the end of their race.
#[cfg(loom)]
impl Bench {
    /// Does the same as [`Bench::play`], then settles and checks the laws.
    pub fn race<const N: usize>(&mut self, parts: [Part; N]) {
        for Cpu { asked, .. } in &mut self.cpus {
            asked.sent.clear();
            asked.found.clear();
        }
        self.play(parts);
        self.settle();
        self.check();
    }

    /// Lets CPU 0 act while no other thread does.
    pub fn act(&mut self, act: impl FnOnce(&mut Cpu)) {
        act(&mut self.cpus[0]);
        self.settle();
        self.check();
    }

    /// Returns whether `cpu` was kicked and has not answered.
    pub fn is_kicked(&self, cpu: u16) -> bool {
        self.cpus.iter().any(|by| by.asked.kicks.contains(&CpuId(cpu)))
    }

    /// Returns the CPU that has sent the task to `cpu` since the last race began.
    pub fn sender(&self, task: &Handle, cpu: u16) -> Option<u16> {
        let sent = (task.id, CpuId(cpu));
        self.cpus.iter().find(|by| by.asked.sent.contains(&sent)).map(|by| by.id.0)
    }

    /// Returns whether balancing has had this result since the last race began.
    pub fn found(&self, what: Found) -> bool {
        self.cpus.iter().any(|by| by.asked.found.contains(&what))
    }

    /// Returns the CPU on which the task runs or waits, and its policy there.
    pub fn place(&self, task: &Handle) -> Option<(u16, Policy)> {
        let (_, cpus) = self.cpus.split_last().expect("there is the device");
        cpus.iter().find_map(|cpu| {
            self.machine().cpu(cpu.id).inspect(|rq| {
                let (_, found) = rq.tasks().iter().find(|(_, other)| other.id == task.id)?;
                Some((cpu.id.0, found.attr().policy))
            })
        })
    }

    pub fn is_busy(&self, cpu: usize) -> bool {
        self.cpus[cpu].is_busy()
    }

    /// Returns whether the task runs, as opposed to waits.
    pub fn runs(&self, task: &Handle) -> bool {
        self.cpus.iter().any(|cpu| cpu.running() == Some(task.id))
    }
}

fn cpus(list: &[u16]) -> CpuSet {
    list.iter().copied().map(CpuId).collect()
}

pub fn fifo(prio: i64) -> Policy {
    Policy::Fifo(RtPrio::new(prio).unwrap())
}

pub fn normal() -> Policy {
    Policy::Normal(Nice::default())
}
