//! SCHED_IDLE soakers and a normal task, the experiment of the balancer for SCHED_IDLE tasks (2010).
//!
//! On every CPU a soaker uses the time that no other task wants. Then a normal task comes, which weighs several hundred
//! times as much. The machine has enough work to be busy, yet the document's machine was idle for a sixth of its time.
//! The experiment judges the idle CPU time, and the normal task's part of a CPU.
//!
//! The document has one machine. The other machines are here because a balancer may be right for one normal task on
//! four nodes, and wrong for several tasks, for many nodes, or where the weights come from task groups instead of
//! policies. These cases are simulated. [`live`] runs on this machine's CPUs, on the runtime.

mod live;
mod simulated;

use crate::setting::{Seen, Setting};

pub(crate) use live::live;
pub(crate) use simulated::{broken, experiment};

/// The scenario, the document's own case: the soakers, one for each CPU, and the normal task.
const SCENARIO: &str = include_str!("../../scenarios/idle-balance.json");

/// The scenario on a machine of so many nodes with so many cores, with so many normal tasks.
fn machine(nodes: u32, cores: u32, normal: u32) -> Setting {
    Setting::of("idle-balance.json", SCENARIO)
        .set("machine.topology", format!("{nodes}x{cores}"))
        .set("tasks.soaker.instance", nodes * cores)
        .set("tasks.normal.instance", normal)
}

/// The part of a CPU that a task had.
fn part(run: &Seen, task: usize) -> f64 {
    run.used.cpus(task..task + 1)
}

/// The names of the rows on real CPUs, for the page that has them.
#[cfg(test)]
pub(crate) fn live_names() -> Vec<String> {
    crate::price::tests::with(&live::rows(2))
}
