//! A scenario on real CPUs: one interpreter of the tasks' programs for every host that has a clock
//! on the wall.
//!
//! A task is the future of `play`. A host is a `Stage`: it has the clock, the sleeps, and the
//! scheduler that is asked for policies. The `World` has the things that tasks share. Work is spinning, of
//! which only the steps of the clock count in which the thread executed (`spin`), on either host.
//!
//! The end of the run is known to all tasks: none sleeps or spins beyond it, and who waits for
//! another is woken then.

pub(crate) mod mutexes;
mod player;
mod spin;
mod stage;
pub(crate) mod world;

pub(crate) use player::{TaskStats, play};
pub(crate) use stage::Stage;
pub(crate) use world::{Asked, NewTask, Section, World};
pub use world::{Plan, Watch};
