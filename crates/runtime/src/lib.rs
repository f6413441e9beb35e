//! A preemptive runtime for Rust programs, with the scheduling policies of Linux.
//!
//! A task is a future with a policy. A short poll costs the same as on a cooperative runtime. If a long poll keeps a
//! more important task waiting, a signal stops it in the middle. It continues later, on the thread on which it began.
//! This needs no privilege, and no code in the task.
//!
//! ```
//! use runyard::{Runtime, Task, spawn, time};
//! use std::time::Duration;
//!
//! Runtime::new().block_on(async {
//!     let report = Task::builder().nice(10).spawn(async { (0..1_000_000_u64).sum::<u64>() });
//!     let alarm = Task::builder().fifo(50).name("alarm").spawn(time::sleep(Duration::from_millis(1)));
//!     alarm.await.unwrap();
//!     spawn(async { /* an ordinary task */ }).await.unwrap();
//!     assert_eq!(report.await.unwrap(), 499_999_500_000);
//! });
//! ```
//! # Where to begin
//! * [`Runtime`] and its [`Builder`] start a runtime. The attributes [`main`](macro@main) and [`test`](macro@test) do
//!   so for a function. [`Builder::new_current_thread`] starts one whose tasks run on the calling thread.
//! * [`spawn`], [`Task::builder`] and [`spawn_blocking`] start tasks. A [`Group`] of tasks shares a weight and a
//!   [`Limit`]. A [`LocalSet`] has tasks that stay on one thread and need not be `Send`.
//! * [`time`](mod@time) has timers, and [`sync::Mutex`] is a lock with priority inheritance.
//! * [`Runtime::snapshot`], an [`Observer`] and [`Builder::on_stall`] show how tasks run.
//! # Notes
//! * [`Allocator`], as the allocator of the program, keeps tasks from being stopped while they hold its lock.
//! * [`blocking`] gives the CPU away before a call that blocks. Otherwise the runtime detects the blocked task later.
//! * Locks of the standard library work: a task that waits for a stopped task's lock gives its CPU to that task.
//!   [`without_preemption`] keeps a short section from being stopped at all.
//! * A CPU in a deep idle state wakes up late, by tens of microseconds. [`Builder::cpu_latency`] prevents that.
//! * Threads and programs that a task starts have the CPUs and the unmasked signals with which the runtime was built,
//!   unless [workers are pinned](Builder::pin_workers).
//! * Cargo features: `tokio` lets tasks use tokio's timers and sockets, and libraries on these. `hyper` has a server
//!   for axum's routers and other tower services. `rayon` makes pools of rayon's whose threads are tasks. `metrics`
//!   publishes snapshots.
//! * Preemption needs Linux, on x86-64 or 64-bit Arm. On macOS and Windows, and where the kernel refuses a resource
//!   that it needs, a task keeps its CPU until its poll ends ([`Runtime::preempts`]).
#![cfg(not(loom))] // The model checker builds parts of the crate in a separate program: tests/models.rs.

mod adapters;
mod crew;
mod current;
mod deferred;
#[cfg(feature = "tokio")]
mod driver;
#[cfg(not(feature = "tokio"))]
#[path = "driver/absent.rs"]
mod driver;
mod group;
mod local;
mod mutex;
mod observe;
#[expect(unsafe_code, reason = "the only module of the project with unsafe code")]
mod os;
#[cfg(doctest)]
mod pages;
mod paused;
mod protocol;
mod registry;
mod runtime;
mod shared;
mod single;
mod snapshot;
mod stall;
mod task;
pub mod time;
#[doc(hidden)]
pub mod trial;
mod unwind;
mod worker;

#[cfg(feature = "hyper")]
pub use adapters::hyper::{self, serve};
#[cfg(feature = "rayon")]
pub use adapters::rayon;
pub use current::runtime::TryCurrentError;
pub use current::section::{blocking, wake_at_once, without_preemption};
pub use group::latency_nice::LatencyNiceError;
pub use group::limit::Limit;
pub use group::quota::{CpuQuota, ThrottledPeriods};
pub use group::{Group, GroupBuilder, GroupError, GroupUsage, UsageOnCpu};
pub use local::{LocalEnterGuard, LocalJoinHandle, LocalSet, spawn_local};
pub use observe::Observer;
pub use os::alloc::Allocator;
pub use paused::test;
pub use runtime::experiments;
pub use runtime::handle::{EnterGuard, Handle, RuntimeId};
pub use runtime::{BuildError, Builder, Runtime};
pub use runyard_engine::attr::{Cookie, GroupId, LatencyNice, Nice, Policy, RtPrio, Slice};
pub use runyard_engine::cpu::CpuId;
pub use runyard_engine::event::{Event, Left, What};
pub use runyard_engine::limits::BadLimit;
pub use runyard_engine::task::TaskId;
pub use runyard_engine::time::{Nanos, Time};
pub use shared::cookies::NoCookies;
pub use snapshot::{
    Counts, CpuSnapshot, DeafThread, GroupSnapshot, OldestWait, Preemptions, Snapshot,
    TaskSnapshot, TaskState,
};
pub use stall::{NoBacktrace, StallBacktrace, StallReport};
pub use task::builder::{SpawnError, TaskBuilder, spawn, spawn_blocking, yield_now};
pub use task::{AbortHandle, JoinError, JoinHandle, JoinSet, Task, TaskHandle, TaskUsage};

/// The types of the event [`What::Balanced`].
pub mod balance {
    pub use runyard_engine::balance::{Balanced, Found, IdleKind, Measure};
    pub use runyard_engine::topology::Level;
}

/// Runs an `async fn` as the main function of a program, on a [`Runtime`] of its own.
///
/// The function runs in [`Runtime::block_on`], on the main thread. It is not a task, and need not be `Send`. When it
/// returns, the runtime ends with all tasks.
///
/// | argument | meaning | default |
/// |---|---|---|
/// | `workers = N`, or tokio's `worker_threads = N` | [`Builder::workers`] | all CPUs, as far as the limit of the process goes |
/// | `max_threads = N` | [`Builder::max_threads`] | nine tenths of the system's limit |
/// | `preempt = BOOL` | [`Builder::preempt`] | `true` |
/// | `shutdown_timeout = "5s"` | [`Runtime::shutdown_timeout`]; units from `ns` to `m` | the end waits for all tasks |
/// | `tokio`, or `tokio = BOOL` | `Builder::enable_tokio`, with the feature `tokio` | `false` |
/// | `flavor = "current_thread"` | [`Builder::new_current_thread`]: no workers; tasks run on the thread of the function | |
/// | `flavor = "multi_thread"` | no effect | |
/// | `crate = PATH` | path of this crate | `::runyard` |
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
/// An argument or a function that the attribute does not accept is a compile error at its place:
///
/// ```compile_fail
/// #[runyard::main(threads = 2)] // `threads` is not an argument of this attribute
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
/// The arguments are those of [`main`](macro@main). `workers = N` gives the test more workers, and `flavor =
/// "multi_thread"` one for each CPU. Other attributes of the test stay in force, and its result type is kept.
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
/// With `paused` the test runs in virtual time, on `cpus = N` simulated CPUs (default 1), with `seed = N` (default 0)
/// for the random choices of the schedule.
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
/// #[test] // the attribute already makes the function a test
/// async fn twice() {}
/// ```
pub use runyard_macros::test;

/// Locks that the scheduler takes part in.
pub mod sync {
    pub use crate::mutex::{Lock, LockOwned, Mutex, MutexGuard, OwnedMutexGuard, TryLockError};
}

/// Kernel attributes of threads, the use of children, and the list of mounts, for `runyard linux`. Not part of the
/// interface.
#[doc(hidden)]
pub mod kernel {
    pub use crate::os::mounts::Mount;
    pub use crate::os::thread::{ahead_of_fair, children, set_deadline, set_slice};
    pub use crate::os::threads::ChildUsage;
}
