//! One interpreter of the tasks' programs, for every host that has a wall clock.
//!
//! A task is the future of `play`. A host is a `Stage`: it has the clock, the sleeps, and the scheduler. The `World`
//! has the things that tasks share. Work is spinning (`spin`): on either host only those steps of the clock count in
//! which the thread executed.
//!
//! All tasks know the end of the run: none sleeps or spins beyond it, and a task that waits for another is woken then.

mod marks;
pub(crate) mod mutexes;
mod player;
mod spin;
mod stage;
pub(crate) mod world;

pub(crate) use player::{TaskStats, play};
pub(crate) use stage::Stage;
pub(crate) use world::{Asked, NewTask, Section, World};
pub use world::{Plan, Watch};
