//! Races on a core with core scheduling. After each race the core runs one cookie, a forced idle thread has no task
//! that matches, and no task is lost ([`Bench::check`]).

use crate::host::{Bench, Cpu, Handle, fifo, normal, on};
use crate::{explore, explore_ways, rt_only};
use runyard_engine::attr::Policy;
use runyard_engine::cpu::CpuId;
use runyard_engine::features::{Feature, Features};
use runyard_engine::topology::Topology;

fn machine(shape: &str, features: Features) -> Bench {
    Bench::with_cookies(shape.parse::<Topology>().unwrap(), features)
}

/// Spawns a task with a cookie, which runs or waits on `cpu`.
fn spawn(bench: &mut Bench, policy: Policy, cpu: u16, cookie: u32) -> Handle {
    let sleeper = sleeper(bench, policy, cpu, cookie);
    let woken = sleeper.clone();
    bench.act(move |cpu| cpu.wake(&woken));
    sleeper
}

/// Returns a sleeping task with a cookie, which was last on `cpu`.
fn sleeper(bench: &mut Bench, policy: Policy, cpu: u16, cookie: u32) -> Handle {
    bench.sleeper_of(policy, &[cpu], cookie)
}

fn runs(bench: &Bench) -> Option<u32> {
    let runs = bench.machine().sight().core_runs(CpuId(0))?;
    Some(runs.map_or(0, |cookie| cookie.get()))
}

#[test]
fn two_threads_block_at_once() {
    explore(None, || {
        let mut bench = machine("1x1x2", rt_only());
        for cpu in [0, 1] {
            spawn(&mut bench, fifo(3), cpu, 1);
        }
        let next = [0, 1].map(|cpu| spawn(&mut bench, fifo(2), cpu, 2));
        bench.race([on(0, Cpu::block), on(1, Cpu::block)]);
        assert!(
            next.iter().all(|task| bench.runs(task)),
            "both threads go on with the other cookie"
        );
    });
}

#[test]
fn two_threads_block_at_once_and_have_different_cookies_next() {
    explore_ways(None, || {
        let mut bench = machine("1x1x2", rt_only());
        for cpu in [0, 1] {
            spawn(&mut bench, fifo(3), cpu, 1);
        }
        for cpu in [0, 1] {
            spawn(&mut bench, fifo(2), cpu, 2 + u32::from(cpu));
        }
        bench.race([on(0, Cpu::block), on(1, Cpu::block)]);
        runs(&bench)
    });
}

#[test]
fn a_wake_up_races_the_decision_of_a_sibling() {
    explore_ways(None, || {
        let mut bench = machine("1x1x2", rt_only());
        spawn(&mut bench, fifo(3), 0, 1);
        let next = spawn(&mut bench, fifo(2), 0, 2);
        let woken = sleeper(&mut bench, fifo(2), 1, 3);
        let other = woken.clone();
        bench.race([on(0, Cpu::block), on(2, move |cpu| cpu.wake(&woken))]);
        assert_ne!(bench.runs(&next), bench.runs(&other), "one of two equals runs");
        runs(&bench)
    });
}

#[test]
fn another_cookie_of_a_running_task_races_the_decision_of_a_sibling() {
    explore(None, || {
        let mut bench = machine("1x1x2", rt_only());
        spawn(&mut bench, fifo(3), 0, 1);
        let next = spawn(&mut bench, fifo(3), 0, 2);
        let changed = spawn(&mut bench, fifo(2), 1, 1);
        let other = changed.clone();
        bench.race([on(0, Cpu::block), on(1, move |cpu| cpu.set_cookie(&changed, 2))]);
        assert!(bench.runs(&next) && bench.runs(&other), "they have one cookie now");
    });
}

#[test]
fn a_cpu_goes_offline_while_a_sibling_decides() {
    explore(None, || {
        let mut bench = machine("1x1x2", rt_only());
        spawn(&mut bench, fifo(3), 0, 1);
        let next = spawn(&mut bench, fifo(2), 0, 2);
        spawn(&mut bench, fifo(1), 1, 1);
        bench.race([on(0, Cpu::block), on(2, |cpu| cpu.offline(1))]);
        assert!(bench.runs(&next), "it is the most important, wherever the other one is");
    });
}

/// A task waits on CPU 2 that could run on CPU 1 beside the task of CPU 0. A task without that cookie arrives on CPU 1.
#[test]
fn a_steal_races_the_switch_to_the_stolen_task() {
    explore_ways(Some(3), || {
        let mut bench = machine("1x2x2", rt_only().with(Feature::LoadBalance));
        spawn(&mut bench, fifo(3), 0, 1);
        spawn(&mut bench, normal(), 2, 1);
        let wanted = spawn(&mut bench, normal(), 2, 1);
        let allowed = wanted.clone();
        bench.act(move |cpu| cpu.set_affinity(&allowed, &[1, 2]));
        let comes = sleeper(&mut bench, normal(), 1, 2);
        bench.race([
            on(1, move |cpu| {
                cpu.wake(&comes);
                cpu.reschedule();
            }),
            on(2, Cpu::block),
        ]);
        assert!(bench.runs(&wanted), "here or there");
        bench.place(&wanted).map(|(cpu, _)| cpu)
    });
}

#[test]
fn three_threads_decide_at_once() {
    explore_ways(Some(2), || {
        let mut bench = machine("1x1x4", rt_only());
        for cpu in 0..3 {
            spawn(&mut bench, fifo(3), cpu, 1);
        }
        for cpu in 0..3 {
            spawn(&mut bench, fifo(2), cpu, 2 + u32::from(cpu));
        }
        bench.race([on(0, Cpu::block), on(1, Cpu::block), on(2, Cpu::block)]);
        runs(&bench)
    });
}

/// The decision does not know a task that arrives between question and answer, so no thread acts on it.
#[test]
fn a_wake_up_races_a_decision_for_another_thread() {
    explore(Some(2), || {
        let mut bench = machine("1x1x4", rt_only());
        spawn(&mut bench, fifo(3), 0, 1);
        spawn(&mut bench, fifo(1), 1, 2);
        let woken = sleeper(&mut bench, fifo(2), 2, 3);
        bench.race([on(0, Cpu::block), on(4, move |cpu| cpu.wake(&woken))]);
        assert_eq!(runs(&bench), Some(3), "the most important task runs");
    });
}
