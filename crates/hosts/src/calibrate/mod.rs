//! Measures the costs of scheduling on this machine, as the `machine` of a scenario that simulates it.
//!
//! Each cost is a difference. A small scenario in which the cost matters runs as kernel threads
//! ([`linux`](crate::linux)), and simulated with the costs known so far. The time that the simulated run lacks is the
//! cost. This gives the order of the probes (`costs`). The measurement does not read the kernel's tracing, so it needs
//! no permission except for real-time tasks.
//!
//! A run that other processes or the machine's host disturbed is repeated (`quiet`). The kernel itself provides
//! everything that is no cost (`facts`).
//!
//! Rejected: the cost of a migration, from a task whose affinity changes at a known rate. The kernel uses a thread of
//! its own for such a move. One move takes 35 us on a guest where a wake-up on another CPU takes 13 us, so it is not
//! the migration that the simulator means. `migration_ns` keeps its default.

mod costs;
mod facts;
mod gaps;
mod probe;
mod quiet;

pub use probe::Simulate;

use crate::machine;
use runyard_engine::topology::Topology;
use runyard_outcome::Failure;
use runyard_workload::scenario::Costs;

/// The properties of this machine that a simulated machine can have.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// The kernel's release, and the words on its command line about scheduling.
    pub kernel: String,
    /// The CPUs of this process.
    pub topology: Topology,
    /// Scheduler ticks a second on a busy CPU.
    pub tick_hz: u32,
    /// Whether the kernel schedules groups of real-time tasks.
    pub rt_group_sched: bool,
    /// A waking task stays on a busy CPU if fair tasks use less than this many per cent of that CPU.
    pub packs_below: Option<u32>,
    /// The measured costs. [`Costs::migration`] is the default.
    pub costs: Costs,
    /// Remarks for the user about the figures.
    pub notes: Vec<String>,
}

/// Measures this machine, for about a minute.
///
/// # Errors
/// If the kernel refuses a probe, for example its real-time policy.
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
