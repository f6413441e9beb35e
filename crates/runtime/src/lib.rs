//! A preemptive runtime for Rust programs, with the scheduling policies of Linux.
//!
//! A task is a future with a policy. Short polls cost what they cost on a cooperative runtime; one
//! that overstays while somebody more important waits is stopped by a signal, in the middle, and
//! goes on later on the thread on which it began.

/// The programs of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(not(loom))]
mod builder;
mod handoff;
#[cfg(not(loom))]
mod keeper;
#[cfg(not(loom))]
mod observe;
#[cfg(not(loom))]
#[expect(unsafe_code, reason = "the only place of the project that has any")]
mod os;
#[cfg(not(loom))]
mod runtime;
#[cfg(not(loom))]
mod shared;
mod sync;
#[cfg(not(loom))]
mod task;
#[cfg(not(loom))]
pub mod time;
#[cfg(not(loom))]
mod worker;

#[cfg(not(loom))]
pub use builder::{
    Task, TaskBuilder, blocking, spawn, spawn_blocking, without_preemption, yield_now,
};
#[cfg(not(loom))]
pub use observe::Observer;
#[cfg(not(loom))]
pub use os::alloc::Allocator;
#[cfg(not(loom))]
pub use runtime::{Builder, Runtime};
#[cfg(not(loom))]
pub use task::{JoinError, JoinHandle};

/// What benchmarks compare preemption with, and what tests disturb it with. No part of the interface.
#[cfg(not(loom))]
#[doc(hidden)]
pub mod floor {
    pub use crate::os::floor::{Way, handoffs, ring_everybody};
}
