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

mod baton;
#[cfg(not(loom))]
mod builder;
#[cfg(not(loom))]
mod ceiling;
#[cfg(not(loom))]
mod cgroup;
mod company;
#[cfg(not(loom))]
mod cookies;
#[cfg(not(loom))]
mod cpu_latency;
#[cfg(all(feature = "tokio", not(loom)))]
mod driver;
#[cfg(not(any(feature = "tokio", loom)))]
#[path = "driver/absent.rs"]
mod driver;
#[cfg(not(loom))]
mod errands;
#[cfg(not(loom))]
pub mod experiments;
#[cfg(not(loom))]
mod foreign;
#[cfg(not(loom))]
mod group;
#[cfg(not(loom))]
mod guards;
#[cfg(not(loom))]
mod handle;
mod handoff;
#[cfg(not(loom))]
mod harmless;
#[cfg(not(loom))]
mod homes;
#[cfg(all(feature = "hyper", not(loom)))]
pub mod hyper;
mod in_kernel;
#[cfg(not(loom))]
mod keeper;
#[cfg(not(loom))]
mod late;
#[cfg(not(loom))]
mod lending;
#[cfg(not(loom))]
mod limit;
mod list;
#[cfg(not(loom))]
mod maker;
#[cfg(not(loom))]
mod meter;
#[cfg(not(loom))]
mod mutex;
mod newcomers;
#[cfg(not(loom))]
mod observe;
#[cfg(not(loom))]
#[expect(unsafe_code, reason = "the only place of the project that has any")]
mod os;
#[cfg(loom)]
#[expect(unsafe_code, reason = "a model of what is in that folder")]
mod os {
    pub(crate) mod biased;
    pub(crate) mod seat;
}
#[cfg(doctest)]
mod pages;
#[cfg(not(loom))]
mod paused;
mod places;
#[path = "sync.rs"]
mod primitives;
#[cfg(not(loom))]
mod quota;
#[cfg(all(feature = "rayon", not(loom)))]
pub mod rayon;
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
mod slotless;
#[cfg(not(loom))]
mod snapshot;
#[cfg(not(loom))]
mod spares;
#[cfg(not(loom))]
mod stall;
#[cfg(not(loom))]
mod standing;
mod steering;
#[cfg(not(loom))]
mod task;
#[cfg(not(loom))]
mod teller;
#[cfg(not(loom))]
pub mod test;
#[cfg(not(loom))]
mod threads;
#[cfg(not(loom))]
pub mod time;
#[cfg(not(loom))]
mod timers;
mod turns;
#[cfg(any(feature = "tokio", loom))]
mod wheel;
#[cfg(not(loom))]
mod worker;

#[cfg(all(feature = "hyper", not(loom)))]
pub use crate::hyper::serve;
#[cfg(not(loom))]
pub use builder::{
    LatencyNiceError, SpawnError, TaskBuilder, blocking, spawn, spawn_blocking, wake_at_once,
    without_preemption, yield_now,
};
#[cfg(not(loom))]
pub use cookies::NoCookies;
#[cfg(not(loom))]
pub use group::{Group, GroupBuilder, GroupError, GroupUsage, UsageOnCpu};
#[cfg(not(loom))]
pub use handle::{EnterGuard, Handle};
#[cfg(not(loom))]
pub use limit::Limit;
#[cfg(not(loom))]
pub use observe::Observer;
#[cfg(not(loom))]
pub use os::alloc::Allocator;
#[cfg(not(loom))]
pub use runtime::{BuildError, Builder, Runtime, TryCurrentError};
#[cfg(not(loom))]
pub use runyard_engine::attr::{Cookie, GroupId, LatencyNice, Nice, Policy, RtPrio, Slice};
#[cfg(not(loom))]
pub use runyard_engine::cpu::CpuId;
#[cfg(not(loom))]
pub use runyard_engine::event::{Event, Left, What};
#[cfg(not(loom))]
pub use runyard_engine::limits::BadLimit;
#[cfg(not(loom))]
pub use runyard_engine::task::TaskId;
#[cfg(not(loom))]
pub use runyard_engine::time::{Nanos, Time};
#[cfg(not(loom))]
pub use snapshot::{
    Counts, CpuSnapshot, GroupSnapshot, OldestWait, Preemptions, Snapshot, TaskSnapshot, TaskState,
};
#[cfg(not(loom))]
pub use stall::{NoBacktrace, StallBacktrace, StallReport};
#[cfg(not(loom))]
pub use task::{AbortHandle, JoinError, JoinHandle, JoinSet, Task, TaskHandle, TaskUsage};

/// What [`What::Balanced`] tells.
#[cfg(not(loom))]
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
#[cfg(not(loom))]
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
#[cfg(not(loom))]
pub use runyard_macros::test;

/// Locks that the scheduler knows.
#[cfg(not(loom))]
pub mod sync {
    pub use crate::mutex::{Lock, LockOwned, Mutex, MutexGuard, OwnedMutexGuard, TryLockError};
}

/// What tests disturb the runtime with. No part of the interface.
#[cfg(not(loom))]
#[doc(hidden)]
pub mod trial {
    pub use crate::os::disturb::*;
    pub use crate::os::trial::{OneLock, Strict, is_in_own_code};
}

/// What `runyard linux` asks the kernel for its threads. No part of the interface.
#[cfg(not(loom))]
#[doc(hidden)]
pub mod kernel {
    pub use crate::os::thread::{set_deadline, set_slice};
}
