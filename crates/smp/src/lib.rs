//! One lock for each CPU around the engine, and the protocols between CPUs.
//!
//! [`machine::Machine`] is what a host calls: the simulator from one thread in virtual time, the
//! runtime from many. The locks in here are the only ones of the scheduler.

mod balance;
mod batch;
mod beside;
mod carry;
mod change;
pub mod check;
pub mod control;
mod cores;
mod cpupri;
mod expire;
pub mod groups;
mod hints;
mod host;
mod hotplug;
mod limits;
pub mod machine;
mod mask;
mod progress;
mod react;
mod relieve;
mod rt;
mod schedule;
mod select;
mod sync;
mod usage;
mod watch;
