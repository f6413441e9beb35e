//! What it costs that a real-time task goes to another CPU: pushed away by one that has something
//! more important, or pulled by one that comes to do something less important.
//!
//! The machine is full but for what the task needs, and the task has to be found, or a place for
//! it, at the far end. One *mover* goes round. The same happens with a mover that cannot leave
//! (`stays`); what an operation costs beyond that is the price of one task moved, its switch on the
//! CPU where it comes to run included.

use crate::rig::{Clock, Payload, Quiet, Seat, attr, fifo, machine, task};
use crate::{Operation, Runner};
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::features::Features;
use runyard_engine::task::TaskId;
use runyard_engine::time::Nanos;
use runyard_smp::machine::{Machine, TaskOf};

/// Sizes of the machine.
const CPUS: [u32; 4] = [2, 16, 256, 1_024];

/// The priority of the task that moves.
const MOVER_PRIO: i64 = 40;

/// The priority of the tasks that are bound to a CPU each and keep the mover from it.
const BOUND_PRIO: i64 = 50;

/// Between any two things that happen.
const MOMENT: Nanos = Nanos::from_micros(1);

/// Whether the mover may go to other CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mover {
    Moves,
    Stays,
}

/// A machine in which every CPU runs a task that is bound to it; a task has the number of its CPU,
/// and the mover the number after the last.
struct Full {
    machine: Machine<Payload>,
    seats: Vec<Seat>,
    clock: Clock,
    mover: TaskId,
}

pub(crate) fn operations() -> Vec<Operation> {
    let mut operations = Vec::new();
    for cpus in CPUS {
        for (word, mover) in [("moves", Mover::Moves), ("stays", Mover::Stays)] {
            let name = format!("push/{word}/{cpus}");
            operations.push(Operation::new(name, move || pushes(cpus, mover)));
            let name = format!("pull/{word}/{cpus}");
            operations.push(Operation::new(name, move || pulls(cpus, mover)));
        }
    }
    operations
}

/// The first and the last CPU have nothing to do but what is measured: the one on which the mover
/// runs wakes up its bound task, which sends the mover to the other, and blocks again.
fn pushes(cpus: u32, mover: Mover) -> Runner {
    let mut full = Full::new(cpus);
    let (mut at, mut other) = (0, cpus as usize - 1);
    let (mut asleep, mut other_asleep) = (Some(full.block(at)), Some(full.block(other)));
    let running = full.mover;
    full.wake(full.new_mover(mover));
    full.switch_to(at, running);
    Box::new(move |times| {
        for _ in 0..times {
            let bound = asleep.take().expect("it blocked again");
            let id = bound.id;
            full.wake(bound);
            full.switch_to(at, id);
            if mover == Mover::Moves {
                full.switch_to(other, running);
            }
            asleep = Some(full.block(at));
            if mover == Mover::Moves {
                (at, other) = (other, at);
                std::mem::swap(&mut asleep, &mut other_asleep);
            }
        }
    })
}

/// The mover waits on one CPU; the bound task of the next blocks, which fetches the mover, and
/// wakes up again, so that the mover waits there.
fn pulls(cpus: u32, mover: Mover) -> Runner {
    let mut full = Full::new(cpus);
    full.wake(full.new_mover(mover));
    let (mut at, cpus) = (0, cpus as usize);
    Box::new(move |times| {
        for _ in 0..times {
            at = (at + 1) % cpus;
            if mover == Mover::Stays && at == 0 {
                at = 1;
            }
            let bound = full.block(at);
            let expected = (mover == Mover::Moves).then_some(full.mover);
            assert_eq!(full.seats[at].runs(), expected, "CPU {at} fetches what it can");
            let id = bound.id;
            full.wake(bound);
            full.switch_to(at, id);
        }
    })
}

impl Full {
    fn new(cpus: u32) -> Full {
        let machine = machine(cpus, Features::default());
        let seats = (0..cpus as usize).map(|at| Seat::idle(CpuId::at(at))).collect();
        let mut full = Full { machine, seats, clock: Clock::default(), mover: TaskId(cpus.into()) };
        for id in 0..cpus {
            let cpu = CpuId::at(id as usize);
            full.wake(task(id, attr(fifo(BOUND_PRIO), CpuSet::only(cpu)), cpu));
            full.switch_to(cpu.index(), TaskId(id.into()));
        }
        full
    }

    /// A task that waits on the first CPU or runs there.
    fn new_mover(&self, mover: Mover) -> TaskOf<Payload> {
        let first = CpuId(0);
        let affinity = match mover {
            Mover::Moves => self.machine.all().clone(),
            Mover::Stays => CpuSet::only(first),
        };
        task(self.mover.0, attr(fifo(MOVER_PRIO), affinity), first)
    }

    fn wake(&mut self, task: TaskOf<Payload>) {
        self.machine.wake(self.clock.after(MOMENT), task, None, &mut Quiet);
    }

    fn switch_to(&mut self, at: usize, task: TaskId) {
        self.seats[at].switch_to(&self.machine, self.clock.after(MOMENT), task);
    }

    fn block(&mut self, at: usize) -> TaskOf<Payload> {
        self.seats[at].block(&self.machine, self.clock.after(MOMENT))
    }
}
