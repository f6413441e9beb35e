//! The cost of migrating a real-time task. A push moves the task away when a more important task takes its CPU; a pull
//! fetches it when the CPU is about to run a less important task.
//!
//! Every other CPU of the machine is busy, and the task or its destination is at the far end of the machine. One
//! *mover* migrates from CPU to CPU. The `stays` variants repeat the operation with a mover that is bound to its CPU.
//! The difference between `moves` and `stays` is the cost of one migration, including the mover's switch on the
//! destination CPU.

use crate::rig::{Clock, Payload, Quiet, Seat, attr, fifo, machine, task};
use crate::{Operation, Runner};
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::features::Features;
use runyard_engine::task::TaskId;
use runyard_engine::time::Nanos;
use runyard_smp::machine::{Machine, TaskOf};

/// Machine sizes, in CPUs.
const CPUS: [u32; 4] = [2, 16, 256, 1_024];

/// Priority of the mover.
const MOVER_PRIO: i64 = 40;

/// Priority of the bound tasks, one for each CPU, that keep the mover off their CPU.
const BOUND_PRIO: i64 = 50;

/// Virtual time between two events.
const MOMENT: Nanos = Nanos::from_micros(1);

/// Whether the mover can migrate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mover {
    Moves,
    Stays,
}

/// A machine in which every CPU runs a bound task. A bound task's id is the number of its CPU; the mover's id is the
/// next number.
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

/// Prepares pushes. The bound tasks of the first and the last CPU are blocked. The CPU that runs the mover wakes its
/// bound task, which pushes the mover to the other CPU and blocks again.
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

/// Prepares pulls. The mover waits on one CPU. The bound task of the next CPU blocks, so that this CPU pulls the mover.
/// The bound task then wakes again, so the mover waits there.
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
            assert_eq!(full.seats[at].runs(), expected, "CPU {at} pulls the mover if it can");
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

    /// Returns the mover, last on the first CPU.
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
