//! The policy of the Linux scheduler as data structures: what runs next, where, for how long.
//!
//! No lock, no clock, no I/O, no float, no threads: a host passes the time in and carries the
//! effects out. The same code decides in the simulator and in the runtime.
//!
//! - [`run_queue::RunQueue`] is one CPU: its tasks, its timers, its choice of who runs.
//! - [`task::Task`] is an owned box; it is in exactly one run queue or with its host.
//! - [`attr`], [`spec`], [`features`], [`config`] and [`topology`] say what is asked for; [`kernel`] has the
//!   kernels by name, which are features, [`rules`] and numbers.
//! - [`inherit`] says what waiters lend to whom they wait for.
//! - [`balance`] chooses between CPUs, from snapshots.
//! - [`core`] is what the hardware threads of a core run together.
//! - [`event`] is what hosts tell of what happened, for reports and checks.
//!
//! Snapshots of several run queues are taken by `runyard-smp`, which has the locks.

pub mod account;
pub mod attr;
pub mod balance;
pub mod config;
pub mod core;
pub mod cpu;
mod ensure;
pub mod event;
mod fair;
pub mod features;
pub mod group;
pub mod inherit;
pub mod kernel;
pub mod limits;
mod rt;
pub mod rules;
pub mod run_queue;
pub mod spec;
mod store;
pub mod task;
pub mod time;
pub mod timer;
pub mod told;
pub mod topology;
pub mod tuned;
mod wakees;
