//! Random programs on eight CPUs in many random interleavings, which are too large for the exhaustive models. The laws
//! are the same.
//!
//! Each CPU answers a kick at its next step, unless it has no step left.
#![cfg(shuttle)]

mod host;

use host::{Bench, Cpu, GROUP, Handle, fifo, normal, on};
use runyard_engine::attr::{GroupId, Policy};
use runyard_engine::cpu::CpuId;
use runyard_engine::features::Features;
use runyard_engine::time::Time;
use runyard_engine::topology::Topology;
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

const CPUS: usize = 8;
const TASKS: usize = 24;
const STEPS: u64 = 12;

/// The CPU that goes offline and comes back, by its own action only.
const FLAPPING: u16 = 7;

type Board = Arc<[AtomicBool; CPUS]>;

fn random_policy() -> Policy {
    match thread_rng().gen_range(0..5) {
        prio @ 1..=3 => fifo(prio),
        4 => Policy::Idle,
        _ => normal(),
    }
}

/// Returns one CPU, two, or all.
fn random_affinity() -> Vec<u16> {
    let mut rng = thread_rng();
    let one = rng.gen_range(0..CPUS as u16);
    match rng.gen_range(0..3) {
        0 => vec![one],
        1 => vec![one, (one + rng.gen_range(1..CPUS as u16)) % CPUS as u16],
        _ => (0..CPUS as u16).collect(),
    }
}

/// Performs one step of a CPU's program.
fn step(cpu: &mut Cpu, id: u16, now: u64, tasks: &[Handle]) {
    let mut rng = thread_rng();
    let task = &tasks[rng.gen_range(0..tasks.len())];
    match rng.gen_range(0..18) {
        0..=2 if cpu.is_busy() => cpu.block(),
        3 if cpu.is_busy() => cpu.yield_now(),
        4 if cpu.is_busy() && rng.gen_ratio(1, 4) => cpu.exit(),
        5..=9 => cpu.wake(task),
        10 => cpu.set_policy(task, random_policy()),
        11 => cpu.set_affinity(task, &random_affinity()),
        12 => cpu.set_group(task, if rng.r#gen() { GROUP } else { GroupId::ROOT }),
        13 => {
            cpu.expire(Time(now * 1_000_000));
        }
        14 if id == FLAPPING => cpu.offline(id),
        15 if id == FLAPPING => cpu.online(id),
        16 => cpu.set_cookie(task, rng.gen_range(0..3)),
        _ => cpu.reschedule(),
    }
}

/// Runs one life of a machine. Half of the machines have cookies.
fn life_of_a_machine() {
    let topology = Topology::new(2, 2, 2).unwrap();
    let mut bench = match thread_rng().r#gen() {
        true => Bench::with_cookies(topology, Features::default()),
        false => Bench::new(topology, Features::default()),
    };
    let tasks: Arc<[Handle]> = (0..TASKS)
        .map(|nth| match nth % 3 {
            0 => bench.sleeper(random_policy(), &random_affinity()),
            _ => bench.spawn(random_policy(), &random_affinity()),
        })
        .collect();
    let board = Board::default();
    let parts = std::array::from_fn::<_, CPUS, _>(|id| {
        let (board, tasks) = (board.clone(), tasks.clone());
        on(id as u16, move |cpu| {
            for now in 1..=STEPS {
                step(cpu, id as u16, now, &tasks);
                for kicked in cpu.take_kicks() {
                    board[kicked.index()].store(true, Ordering::SeqCst);
                }
                if board[id].swap(false, Ordering::SeqCst) {
                    cpu.reschedule();
                }
            }
        })
    });
    bench.play(parts);
    for (id, kicked) in board.iter().enumerate() {
        if kicked.load(Ordering::SeqCst) {
            bench.kick(CpuId::at(id));
        }
    }
    bench.settle();
    bench.check();
}

#[test]
fn any_life_in_any_order() {
    shuttle::check_random(life_of_a_machine, 3_000);
}

#[test]
fn any_life_in_orders_with_few_switches() {
    shuttle::check_pct(life_of_a_machine, 3_000, 3);
}
