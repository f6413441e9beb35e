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
//! * A thread or a program that a task starts may run on the CPUs on which the runtime was built, and hears the signals
//!   that were heard there. It is bound to fewer CPUs only where [that was asked for](Builder::pin_workers).
//! * With the feature `tokio` tasks use tokio's timers and sockets, and libraries on these; with the feature `hyper` there is
//!   a server for axum's routers and other tower services; with the feature `rayon` the threads of
//!   rayon's pools are tasks.
//! * Preemption needs Linux, on x86-64 or 64-bit Arm. On macOS and Windows, and where the kernel refuses what it
//!   needs, polls end by themselves ([`Runtime::preempts`]).
#![cfg(not(loom))] // The model checker builds parts of it in a program of its own: tests/models.rs.

mod adapters;
mod crew;
mod deferred;
mod group;
mod mutex;
mod observe;
#[expect(unsafe_code, reason = "the only place of the project that has any")]
mod os;
#[cfg(doctest)]
mod pages;
mod paused;
mod protocol;
mod runtime;
mod shared;
mod snapshot;
mod stall;
mod task;
pub mod time;
#[doc(hidden)]
pub mod trial;
mod worker;

#[cfg(feature = "hyper")]
pub use adapters::hyper::{self, serve};
#[cfg(feature = "rayon")]
pub use adapters::rayon;
pub use group::limit::Limit;
pub use group::{Group, GroupBuilder, GroupError, GroupUsage, UsageOnCpu};
pub use observe::Observer;
pub use os::alloc::Allocator;
pub use paused::test;
pub use runtime::cookies::NoCookies;
pub use runtime::experiments;
pub use runtime::handle::{EnterGuard, Handle};
pub use runtime::{BuildError, Builder, Runtime, TryCurrentError};
pub use runyard_engine::attr::{Cookie, GroupId, LatencyNice, Nice, Policy, RtPrio, Slice};
pub use runyard_engine::cpu::CpuId;
pub use runyard_engine::event::{Event, Left, What};
pub use runyard_engine::limits::BadLimit;
pub use runyard_engine::task::TaskId;
pub use runyard_engine::time::{Nanos, Time};
pub use snapshot::{
    Counts, CpuSnapshot, GroupSnapshot, OldestWait, Preemptions, Snapshot, TaskSnapshot, TaskState,
};
pub use stall::{NoBacktrace, StallBacktrace, StallReport};
pub use task::builder::{
    LatencyNiceError, SpawnError, TaskBuilder, blocking, spawn, spawn_blocking, wake_at_once,
    without_preemption, yield_now,
};
pub use task::{AbortHandle, JoinError, JoinHandle, JoinSet, Task, TaskHandle, TaskUsage};

/// What [`What::Balanced`] tells.
pub mod balance {
    pub use runyard_engine::balance::{Balanced, Found, IdleKind, Measure};
    pub use runyard_engine::topology::Level;
}

/// Runs an `async fn` as a program, on a [`Runtime`] of its own.
///
/// The function runs in [`Runtime::block_on`], on the thread of the program: it is no task, and need not be `Send`. When it
/// returns, the runtime is dropped, which ends all tasks.
///
/// | argument | means | if not said |
/// |---|---|---|
/// | `workers = N`, or tokio's `worker_threads = N` | [`Builder::workers`] | all CPUs |
/// | `max_threads = N` | [`Builder::max_threads`] | what the system allows |
/// | `preempt = BOOL` | [`Builder::preempt`] | `true` |
/// | `tokio`, or `tokio = BOOL` | `Builder::enable_tokio`, with the feature `tokio` | `false` |
/// | `flavor = "current_thread"` | one worker | |
/// | `flavor = "multi_thread"` | nothing more | |
/// | `crate = PATH` | where this crate is, if it is not `::runyard` | |
///
/// ```
/// #[runyard::main]
/// async fn main() -> Result<(), runyard::JoinError> {
///     let seven = runyard::spawn(async { 7 }).await?;
///     assert_eq!(seven, 7);
///     Ok(())
/// }
/// ```
///
/// What it does not know it refuses, at the place where that stands:
///
/// ```compile_fail
/// #[runyard::main(threads = 2)] // `threads` is no argument of this attribute
/// async fn main() {}
/// ```
/// ```compile_fail
/// #[runyard::main(workers = 0)] // a whole number above 0 is expected here
/// async fn main() {}
/// ```
/// ```compile_fail
/// #[runyard::main]
/// fn main() {} // is for an `async fn`
/// ```
/// ```compile_fail
/// #[runyard::main]
/// async fn main(arguments: Vec<String>) {} // without arguments
/// ```
pub use runyard_macros::main;

/// Runs an `async fn` as a test, on a [`Runtime`] of its own with one worker, or in [virtual time](mod@test).
///
/// The arguments are those of [`main`](macro@main); a test that needs more CPUs says so by `workers = N`, or by `flavor =
/// "multi_thread"` for all. Other attributes of the test stay, and so does its result.
///
/// ```
/// # use std::time::Duration;
/// #[runyard::test(workers = 2)]
/// #[should_panic(expected = "on purpose")]
/// async fn a_panic_comes_to_whoever_waits() {
///     runyard::spawn(async { panic!("on purpose") }).await.unwrap()
/// }
///
/// #[runyard::test]
/// async fn a_sleep_is_never_short() -> Result<(), std::io::Error> {
///     runyard::time::sleep(Duration::from_millis(1)).await;
///     Ok(())
/// }
/// ```
///
/// With `paused` the test is in virtual time, on as many simulated CPUs as `cpus` says (one if not said), with the seed
/// `seed` (0 if not said).
///
/// ```
/// # use runyard::time;
/// # use std::time::Duration;
/// #[runyard::test(paused, seed = 7, cpus = 2)]
/// async fn an_hour_passes_at_once() {
///     let begin = time::now();
///     time::sleep(Duration::from_secs(3_600)).await;
///     assert_eq!(time::now() - begin, Duration::from_secs(3_600));
/// }
/// ```
///
/// ```compile_fail
/// #[runyard::test]
/// #[test] // this makes it a test a second time
/// async fn twice() {}
/// ```
pub use runyard_macros::test;

/// Locks that the scheduler knows.
pub mod sync {
    pub use crate::mutex::{Lock, LockOwned, Mutex, MutexGuard, OwnedMutexGuard, TryLockError};
}

/// What `runyard linux` asks the kernel for its threads. No part of the interface.
#[doc(hidden)]
pub mod kernel {
    pub use crate::os::thread::{set_deadline, set_slice};
}
