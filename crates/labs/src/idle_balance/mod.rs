//! SCHED_IDLE soakers and a normal task, the experiment of the balancer for SCHED_IDLE tasks (2010).
//!
//! On every CPU a task soaks up what nobody else wants; then a normal task comes, that weighs
//! several hundred times as much. Nothing is missing that the machine needs to be busy, and yet the
//! document's was idle for a sixth of its time. What is judged is that: how much CPU time is idle,
//! and what the normal task has of a CPU.
//!
//! The document has one machine. The others are here because a balancer may well be right for one
//! normal task on four nodes and wrong for several, for many nodes, or where task groups weigh
//! what policies do in the document. All of them are simulated; [`live()`] is on the CPUs that there
//! are, on the runtime.

mod case;
mod live;
mod mpstat;
mod simulated;

pub use live::live;
pub use simulated::simulated;
