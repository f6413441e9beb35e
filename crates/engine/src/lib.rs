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
//! due. [`schedule`](run_queue::RunQueue::schedule) switches.
//!
//! ```
//! use runyard_engine::attr::{Attr, Policy, RtPrio};
//! use runyard_engine::config::Config;
//! use runyard_engine::cpu::{CpuId, CpuSet};
//! use runyard_engine::run_queue::{Enqueue, Prev, Resched, RunQueue};
//! use runyard_engine::task::{Task, TaskId};
//! use runyard_engine::time::Time;
//! use runyard_engine::topology::Topology;
//! use std::sync::Arc;
//!
//! let config = Arc::new(Config::new(Topology::flat(1).unwrap()));
//! let mut rq: RunQueue<&str, ()> = RunQueue::new(CpuId(0), config, Arc::new(()));
//!
//! // A normal task wakes up on the idle CPU. The host gets its payload and runs it.
//! let normal = Attr::normal(CpuSet::only(CpuId(0)));
//! let task = Task::new(TaskId(1), normal.clone(), "normal");
//! let (_, resched) = rq.offer(Time(0), task, Enqueue::Woken).unwrap();
//! assert_eq!(resched, Resched::Yes);
//! assert_eq!(rq.schedule(Time(0), Prev::Idle).next, Some((TaskId(1), "normal")));
//!
//! // After 1 ms a real-time task wakes up and preempts it.
//! let fifo = Attr { policy: Policy::Fifo(RtPrio::MIN), ..normal };
//! let task = Task::new(TaskId(2), fifo, "fifo");
//! let (_, resched) = rq.offer(Time(1_000_000), task, Enqueue::Woken).unwrap();
//! assert_eq!(resched, Resched::Yes);
//! let switch = rq.schedule(Time(1_000_000), Prev::Preempted("normal"));
//! assert_eq!(switch.next, Some((TaskId(2), "fifo")));
//!
//! // The real-time task ends. The host owns its box, and the normal task continues.
//! let switch = rq.schedule(Time(3_000_000), Prev::Exited);
//! assert!(switch.released.is_some());
//! assert_eq!(switch.next, Some((TaskId(1), "normal")));
//! ```
//!
//! # Modules
//!
//! - [`run_queue`] is one CPU, with the classes and the limits behind it. [`task`] and [`timer`]
//!   are its contents.
//! - [`attr`] has the attributes of a task (policy, priority, affinity, group), [`spec`] those of a
//!   task group. [`group`] is the run queue's interface to the groups of the machine, [`limits`]
//!   has their budgets.
//! - [`config`] has the parameters of a machine, [`tuned`] the user's changes to them, and
//!   [`topology`] its shape. [`features`] has the switches, and [`rules`] the differences between
//!   the fair classes. [`kernel`] names Linux releases; each is a set of features, rules and
//!   numbers. [`told`] describes each feature in a sentence.
//! - [`balance`] chooses between CPUs, from snapshots. [`core`] decides for the hardware threads of
//!   a core. [`inherit`] computes the priority that waiting tasks lend to a lock holder.
//! - [`event`] is the stream from which reports, traces and checks are made. [`account`] has the
//!   counters of tasks and CPUs.
//!
//! `runyard-smp` has the locks, and takes the snapshots of several run queues.

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
