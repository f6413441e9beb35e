//! The scheduler of a machine: one lock for each CPU around the engine, and the protocols between CPUs.
//!
//! A run queue of [`runyard_engine`] decides for one CPU and knows no other. This crate owns one run queue for each CPU
//! and decides between them. It selects a CPU for each wake-up, pushes and pulls real-time tasks, balances fair tasks,
//! and shares the budgets of limited groups.
//!
//! A host calls [`machine::Machine`]. The simulator calls it from one thread in virtual time, the runtime from many
//! threads. Time is an argument of each call. Effects on other CPUs go back to the host through [`machine::Effects`].
//! The locks of the scheduler are all in this crate.
//!
//! Start at [`machine`]. Its documentation has the three rules that hold the CPUs together, and the layers of access.
//! Then read `wake` and `select` (wake-ups), `schedule` (switches), `rt` (push and pull) and `balance` (fair tasks).
//! [`control`] explains how a request finds a task that moves. [`check`] asserts the invariants between run queues.

mod balance;
mod batch;
mod beside;
mod carry;
mod change;
pub mod check;
pub mod control;
mod cores;
mod cpu;
mod cpupri;
mod cpus;
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
mod sight;
mod site;
mod sync;
mod usage;
mod wake;
mod watch;
