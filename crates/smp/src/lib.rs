//! One lock for each CPU around the engine, and the protocols between CPUs.
//!
//! [`machine::Machine`] is what a host calls: the simulator from one thread in virtual time, the
//! runtime from many. The locks in here are the only ones of the scheduler.

mod balance;
pub mod control;
mod cpupri;
pub mod groups;
mod hints;
mod limits;
pub mod machine;
mod mask;
mod rt;
mod select;
mod sync;
