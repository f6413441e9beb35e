//! A preemptive runtime for Rust programs, with the scheduling policies of Linux.
//!
//! A task is a future with a policy. Short polls cost what they cost on a cooperative runtime; one
//! that overstays while somebody more important waits is stopped by a signal, in the middle, and
//! goes on later on the thread on which it began. No privilege is needed.
//!
//! ```
//! use runyard::{Runtime, Task, spawn, spawn_blocking, time};
//! use std::time::Duration;
//!
//! Runtime::new().block_on(async {
//!     let report = Task::builder().nice(10).spawn(async { (0..1_000_000_u64).sum::<u64>() });
//!     let file = spawn_blocking(|| std::fs::read("/proc/self/status"));
//!     let alarm = Task::builder().fifo(50).name("alarm").spawn(async {
//!         time::sleep(Duration::from_millis(1)).await;
//!     });
//!     alarm.await.unwrap();
//!     spawn(async { /* an ordinary task */ }).await.unwrap();
//!     assert_eq!(report.await.unwrap(), 499_999_500_000);
//!     assert!(file.await.unwrap().is_ok());
//! });
//! ```
//!
//! Worth knowing:
//! * [`Allocator`] as the program's allocator keeps tasks from being stopped with its lock.
//! * [`blocking`] gives the CPU away for a call that blocks; without it the runtime finds out, a
//!   little later.
//! * Locks of the standard library work: who waits for one that a stopped task holds gives its CPU
//!   to that task. [`without_preemption`] spares short sections the trouble. [`sync::Mutex`] lends who
//!   has it the priority of who waits.
//! * A [`Group`] of tasks can be held to so much CPU time ([`Limit`]), whatever its polls are like.
//! * A CPU that idles deeply comes back late, by tens of microseconds: [`Builder::cpu_latency`].
//! * A thread that a task makes inherits the worker's one CPU and its blocked signals.
//! * Linux only; where the kernel refuses what preemption needs, polls end by themselves.

#[cfg(not(target_os = "linux"))]
compile_error!("runyard needs Linux: it stops threads by its signals, timers and futexes");

/// The programs of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

mod baton;
#[cfg(not(loom))]
mod builder;
#[cfg(not(loom))]
mod ceiling;
#[cfg(not(loom))]
mod cgroup;
#[cfg(not(loom))]
mod cpu_latency;
#[cfg(not(loom))]
mod errands;
#[cfg(not(loom))]
mod foreign;
#[cfg(not(loom))]
mod group;
#[cfg(not(loom))]
mod guards;
mod handoff;
#[cfg(not(loom))]
mod harmless;
mod in_kernel;
#[cfg(not(loom))]
mod keeper;
#[cfg(not(loom))]
mod limit;
mod list;
#[cfg(not(loom))]
mod maker;
#[cfg(not(loom))]
mod mutex;
#[cfg(not(loom))]
mod observe;
#[cfg(not(loom))]
#[expect(unsafe_code, reason = "the only place of the project that has any")]
mod os;
mod places;
#[path = "sync.rs"]
mod primitives;
#[cfg(not(loom))]
mod quota;
#[cfg(not(loom))]
mod rescue;
#[cfg(not(loom))]
mod rubbish;
#[cfg(not(loom))]
mod runtime;
#[cfg(not(loom))]
mod shared;
#[cfg(not(loom))]
mod siege;
#[cfg(not(loom))]
mod spares;
#[cfg(not(loom))]
mod task;
#[cfg(not(loom))]
mod teller;
#[cfg(not(loom))]
mod threads;
#[cfg(not(loom))]
pub mod time;
#[cfg(not(loom))]
mod timers;
mod turns;
#[cfg(not(loom))]
mod worker;

#[cfg(not(loom))]
pub use builder::{
    LatencyNiceError, Task, TaskBuilder, blocking, spawn, spawn_blocking, wake_at_once,
    without_preemption, yield_now,
};
#[cfg(not(loom))]
pub use group::{Group, GroupBuilder, GroupError, GroupUsage, UsageOnCpu};
#[cfg(not(loom))]
pub use limit::Limit;
#[cfg(not(loom))]
pub use observe::Observer;
#[cfg(not(loom))]
pub use os::alloc::Allocator;
#[cfg(not(loom))]
pub use runtime::{Builder, Runtime};
#[cfg(not(loom))]
pub use runyard_engine::attr::{LatencyNice, Nice, Policy, RtPrio, Slice};
#[cfg(not(loom))]
pub use runyard_engine::features::{Feature, Features};
#[cfg(not(loom))]
pub use runyard_engine::limits::BadLimit;
#[cfg(not(loom))]
pub use task::{JoinError, JoinHandle};

/// Locks that the scheduler knows.
#[cfg(not(loom))]
pub mod sync {
    pub use crate::mutex::{Lock, Mutex, MutexGuard};
}

/// What tests disturb the runtime with. No part of the interface.
#[cfg(not(loom))]
#[doc(hidden)]
pub mod trial {
    pub use crate::os::trial::{
        COMPUTED, OneLock, Strict, Vectors, call_in_library, compute_before_exec, fork_and_compute,
        handle_slowly, hold_in_vectors, interrupt_by, interruptions, is_handling, is_in_own_code,
        ring, stack_left,
    };
}

/// What `runyard linux` asks the kernel for its threads. No part of the interface.
#[cfg(not(loom))]
#[doc(hidden)]
pub mod kernel {
    pub use crate::os::thread::set_slice;
}
