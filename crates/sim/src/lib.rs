//! A deterministic simulator of any number of CPUs under the Runyard scheduler.
//!
//! [`sim::Sim`] runs a [`runyard_workload::Scenario`] in virtual time on the same
//! [`runyard_smp::machine::Machine`] that real CPUs use, and tells an observer everything that
//! happens. The same scenario, options and seed give the same events, on every machine.

mod ahead;
mod calendar;
mod check;
mod check_cores;
mod cores;
mod cost;
mod cpu;
mod exec;
mod explain;
mod inherit;
mod program;
pub mod sim;
mod smt;
mod steps;
mod touched;
mod watch;

pub use sim::{Hotplug, Limited, Observer, Options, Outcome, Relimit, Sim, Simulated, Violation};
pub use watch::Check;
