//! The cost of balancing fair tasks: the addition to a wake-up, and the cost of each scan of the machine.
//!
//! * `wake-up/balanced` and `wake-up/not-balanced` are the same operation with and without `LOAD_BALANCE`. A task wakes
//!   on an idle CPU, runs and blocks, after which its CPU searches for tasks of others. The busy CPUs tick meanwhile
//!   and balance at their ticks.
//! * `wake-up/.../in-vain` adds a bound waiting task on each busy CPU. Every balance attempt then fails.
//! * `pass` is one balance pass of a busy CPU over the whole machine.
//! * `search` is the search of a CPU that becomes idle while every other CPU has a waiting task that is bound.

use crate::rig::{Clock, Payload, Quiet, Seat, attr, machine, task};
use crate::{Operation, Runner};
use runyard_engine::attr::{Nice, Policy};
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::features::{Feature, Features};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::Walk;
use runyard_smp::machine::{Machine, TaskOf};

/// Number of CPUs of the machine for wake-ups; half of them are busy.
const CPUS: u32 = 16;
const BUSY: u32 = CPUS / 2;

/// Sizes of the scanned machines, in CPUs.
const SIZES: [u32; 4] = [16, 64, 256, 1_024];

/// Run time of a woken task. With it, one busy CPU has its tick for each wake-up.
const STINT: Nanos = Nanos(1_000_000 / BUSY as u64);

/// A span longer than the balance interval of a busy CPU in a node.
const PAUSE: Nanos = Nanos::from_millis(300);

pub(crate) fn operations() -> Vec<Operation> {
    let all = Features::default();
    let without = all.without(Feature::LoadBalance);
    let mut wakeups = Vec::new();
    for (word, features) in [("balanced", all), ("not-balanced", without)] {
        let name = format!("wake-up/{word}/{CPUS}");
        wakeups.push(Operation::new(name.clone(), move || wake_ups(features, 0)));
        wakeups.push(Operation::new(name + "/in-vain", move || wake_ups(features, BUSY)));
    }
    let passes = SIZES.map(|cpus| Operation::new(format!("pass/{cpus}"), move || passes(cpus)));
    let searches =
        SIZES.map(|cpus| Operation::new(format!("search/{cpus}"), move || searches(cpus)));
    wakeups.into_iter().chain(passes).chain(searches).collect()
}

/// A machine with its CPUs and tasks. A running task's id is the number of its CPU.
struct World {
    machine: Machine<Payload>,
    seats: Vec<Seat>,
    clock: Clock,
}

impl World {
    /// Creates a world in which each of the first `busy` CPUs runs a bound task.
    fn new(cpus: u32, busy: u32, features: Features) -> World {
        let machine = machine(cpus, features);
        let seats = (0..cpus as usize).map(|at| Seat::idle(CpuId::at(at))).collect();
        let mut world = World { machine, seats, clock: Clock::default() };
        for id in 0..busy {
            world.start(id, CpuId::at(id as usize));
        }
        world
    }

    fn start(&mut self, id: u32, on: CpuId) {
        self.wake(bound(id, on));
        self.seats[on.index()].switch_to(&self.machine, self.clock.now, TaskId(id.into()));
    }

    fn wake(&self, task: TaskOf<Payload>) {
        self.machine.wake(self.clock.now, task, None, &mut Quiet);
    }

    /// Serves the due ticks of `cpu`.
    fn tick(&self, cpu: CpuId) {
        while self.machine.expire(self.clock.now, cpu, Walk::Busy, &mut Quiet).is_some() {}
    }
}

fn bound(id: u32, on: CpuId) -> TaskOf<Payload> {
    let normal = Policy::Normal(Nice::default());
    task(id, attr(normal, CpuSet::only(on)), on)
}

/// Prepares wake-ups. On each of the first `crowded` CPUs a second, bound task waits.
fn wake_ups(features: Features, crowded: u32) -> Runner {
    let mut world = World::new(CPUS, BUSY, features);
    for id in 0..crowded {
        world.wake(bound(CPUS + id, CpuId::at(id as usize)));
    }
    let free = (BUSY..CPUS).map(|cpu| CpuId::at(cpu as usize));
    let all = world.machine.all().clone();
    let sleeper = |cpu: CpuId| {
        let normal = Policy::Normal(Nice::default());
        Some(task(cpu.index() as u32, attr(normal, all.clone()), cpu))
    };
    let mut asleep: Vec<_> = free.clone().map(sleeper).collect();
    let mut turns = free.clone().enumerate().cycle();
    Box::new(move |times| {
        for _ in 0..times {
            let (nth, cpu) = turns.next().expect("a cycle has no end");
            let woken = asleep[nth].take().expect("it sleeps between its turns");
            let id = woken.id;
            world.wake(woken);
            world.seats[cpu.index()].switch_to(&world.machine, world.clock.now, id);
            let now = world.clock.after(STINT);
            asleep[nth] = Some(world.seats[cpu.index()].block(&world.machine, now));
            world.tick(CpuId::at(nth));
        }
    })
}

fn passes(cpus: u32) -> Runner {
    let mut world = World::new(cpus, cpus, Features::default());
    Box::new(move |times| {
        for _ in 0..times {
            world.clock.after(PAUSE);
            world.tick(CpuId(0));
        }
    })
}

fn searches(cpus: u32) -> Runner {
    let mut world = World::new(cpus, cpus, Features::default());
    let first = CpuId(0);
    for id in 1..cpus {
        world.wake(bound(cpus + id, CpuId::at(id as usize)));
    }
    let mut asleep = Some(world.seats[0].block(&world.machine, Time(1)));
    Box::new(move |times| {
        for _ in 0..times {
            // After this span an idle CPU searches again, unless a recent search failed.
            world.clock.after(Nanos::from_millis(2));
            world.wake(asleep.take().expect("it blocked again"));
            world.seats[0].switch_to(&world.machine, world.clock.now, TaskId(0));
            asleep = Some(world.seats[0].block(&world.machine, world.clock.after(STINT)));
            assert_eq!(world.seats[first.index()].runs(), None, "no task may leave");
        }
    })
}
