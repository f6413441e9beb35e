//! The invariants of each core of a machine with cookies, once no kick is pending.

use runyard_engine::cpu::CpuId;
use runyard_engine::run_queue::Importance;
use runyard_engine::task::Task;
use runyard_engine::topology::Level;
use runyard_smp::control::Controlled;
use runyard_smp::machine::Machine;

/// Asserts that each core runs one cookie, and that each forced idle thread is idle because of that cookie. No
/// real-time task may wait there if all running tasks are less important.
pub fn check<W: Controlled>(machine: &Machine<W>) {
    let topology = machine.config().topology;
    for first in topology.iter().step_by(topology.threads()) {
        let threads = || topology.span(first, Level::Smt).map(CpuId::at);
        let runs =
            |cpu| machine.cpu(cpu).inspect(|rq| Some(rq.site().cookie_of(rq.tasks().curr()?)));
        let mut cookies: Vec<_> = threads().filter_map(runs).collect();
        cookies.dedup();
        assert!(cookies.len() <= 1, "the core of CPU {first} runs one cookie: {cookies:?}");
        let forced: Vec<_> = threads().filter_map(|cpu| machine.cpu(cpu).forced_idle()).collect();
        let by = forced.iter().all(|by| cookies.first() == Some(by));
        assert!(by, "CPU {first} and its siblings run {cookies:?}, and idle because of {forced:?}");
        check_order(machine, threads());
    }
}

/// The most important real-time task of a core runs, on any of its threads.
fn check_order<W: Controlled>(machine: &Machine<W>, threads: impl Iterator<Item = CpuId>) {
    let prio = |task: &Task<_>| task.class().push_prio();
    let (mut runs, mut waits, mut serves) = (None, None, false);
    for cpu in threads {
        machine.cpu(cpu).inspect(|rq| {
            let running = rq.tasks().curr().and_then(prio);
            let best = rq.queues().competing().filter_map(|(_, task)| prio(task)).max();
            let closed = rq.classes().load().importance == Importance::Closed;
            runs = running.max(runs);
            waits = best.filter(|_| !closed).max(waits);
            serves |= rq.classes().is_serving();
        });
    }
    assert!(serves || runs >= waits, "{waits:?} waits while {runs:?} runs");
}
