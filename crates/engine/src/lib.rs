//! The policy of the Linux scheduler as data structures: which task runs next, on which CPU, and
//! for how long.
//!
//! The crate has no lock, no clock, no I/O, no thread, and no float in a decision. A *host* passes
//! the time in as an argument, runs the tasks, and carries out the returned effects. The same code
//! decides in the simulator (virtual time) and in the runtime (real threads), so every decision can
//! be replayed.
//!
//! # Overview
//!
//! A [`RunQueue`](run_queue::RunQueue) is one CPU: its tasks, its timers, and the choice of the
//! next task. A [`Task`](task::Task) is an owned box: it is in exactly one run queue, or with its
//! host. State changes such as [`offer`](run_queue::RunQueue::offer) return whether a switch is
//! due. [`schedule`](run_queue::RunQueue::schedule) switches. The documentation of `RunQueue` has
//! an example.
//!
//! # Modules
//!
//! - [`run_queue`] is one CPU, with the classes and the limits behind it. [`task`] and [`timer`]
//!   are its contents.
//! - [`attr`] has the attributes of a task (policy, priority, affinity, group), [`class`] the class
//!   that follows from them, [`spec`] the attributes of a task group. [`group`] is the run queue's interface to the groups of the machine, [`limits`]
//!   has their budgets.
//! - [`config`] has the parameters of a machine, [`tuned`] the user's changes to them, and
//!   [`topology`] its shape, [`root_domains`] the parts into which cpusets divide it. [`features`] has the switches, each with its description, and
//!   [`rules`] the differences between the fair classes. [`kernel`] names Linux releases; each is a
//!   set of features, rules and numbers.
//! - [`balance`] chooses between CPUs, from snapshots. [`core`] decides for the hardware threads of
//!   a core. [`inherit`] computes the priority that waiting tasks lend to a lock holder.
//! - [`event`] is the stream from which reports, traces and checks are made. [`account`] has the
//!   counters of tasks and CPUs.
//!
//! `runyard-smp` has the locks, and takes the snapshots of several run queues.

pub mod account;
pub mod attr;
pub mod balance;
pub mod class;
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
mod release;
pub mod root_domains;
mod rt;
pub mod rules;
pub mod run_queue;
pub mod spec;
mod store;
pub mod task;
pub mod time;
pub mod timer;
pub mod topology;
pub mod tuned;
mod wakees;
