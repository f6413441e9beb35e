//! What scheduling costs on this machine: the `machine` of a scenario that is to be simulated as if it ran here.
//!
//! Each cost is a difference. A small scenario in which the cost decides runs as kernel threads
//! ([`linux`](crate::linux)), and simulated with the costs that are known by then; what the simulated run lacks is the cost.
//! The order of the probes (`costs`) follows from that. Nothing is read from the kernel's own tracing, so no permission is
//! needed but that for real-time tasks.
//!
//! A run that other processes or the machine's host disturbed is repeated (`quiet`). What is not a cost the kernel
//! says (`facts`).
//!
//! Rejected: the cost of a migration by a task whose affinity changes at a known rate. The kernel has a thread of its own
//! for that, so one move takes 35 us on a guest where a wake-up on another CPU takes 13: it is another thing than what the
//! simulator means. `migration_ns` keeps its default.

mod costs;
mod facts;
mod gaps;
mod probe;
mod quiet;

pub use probe::Simulate;

use crate::failure::Failure;
use crate::machine;
use runyard_engine::topology::Topology;
use runyard_workload::scenario::Costs;

/// This machine, as far as a simulated one can be like it.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// The kernel's release, and what its command line says of scheduling.
    pub kernel: String,
    /// The CPUs of this process.
    pub topology: Topology,
    /// Scheduler ticks a second on a busy CPU.
    pub tick_hz: u32,
    /// Whether the kernel schedules groups of real-time tasks.
    pub rt_group_sched: bool,
    /// A waking task stays on a busy CPU of which fair tasks use less than so many per cent.
    pub packs_below: Option<u32>,
    /// What was measured. [`Costs::migration`] is the default.
    pub costs: Costs,
    /// What the user should know of the figures.
    pub notes: Vec<String>,
}

/// Measures this machine, for some thirty seconds.
///
/// # Errors
/// If the kernel refuses what a probe asks for, as a real-time policy.
pub fn calibrate(simulate: Simulate<'_>) -> Result<Calibration, Failure> {
    let cpus = machine::cpus()?;
    let mut notes = Vec::new();
    let topology = facts::topology(&cpus, &mut notes);
    let tick_hz = facts::tick_hz()?;
    let rt_group_sched = facts::rt_group_sched(&mut notes);
    let bench = probe::Bench::new(cpus, tick_hz, simulate);
    let costs = costs::measure(&bench, &mut notes)?;
    notes.extend(bench.disturbance());
    let packs_below = facts::packs_below();
    let kernel = facts::kernel();
    Ok(Calibration { kernel, topology, tick_hz, rt_group_sched, packs_below, costs, notes })
}
