//! A deterministic simulator of any number of CPUs under the Runyard scheduler.
//!
//! [`sim::Sim`] runs a [`runyard_workload::Scenario`] in virtual time. It calls the same
//! [`runyard_smp::machine::Machine`] that the runtime calls from real threads, and passes every event to an observer.
//! The same scenario, options and seed give the same events on every computer.
//!
//! A kick, a migration and an interrupt take virtual time here, as on hardware. Hints can be held back
//! ([`sim::Options::hint_delay`]), and CPUs can go offline. So a simulation also exercises the code that repairs
//! decisions on stale hints. With [`Check`], a run verifies the invariants that span CPUs and reports each
//! violation with its time.
//!
//! Start at [`sim`], the loop over events. `exec` has the work of a CPU, `steps` interprets the program of a task, and
//! `check` has the invariants.

mod ahead;
mod arrivals;
mod calendar;
mod check;
mod check_cores;
mod cores;
mod cost;
mod cpu;
mod exec;
mod explain;
mod giveway;
mod inherit;
mod program;
mod requests;
pub mod sim;
mod smt;
mod steps;
mod timeline;
mod touched;
mod watch;
mod window;

pub use sim::{Observer, Options, Outcome, Sim, Simulated, Violation};
pub use watch::Check;
pub use window::Limited;
