//! A runtime. How it is made: [`builder`]. How it ends: [`end`]. Which one the calling code belongs to: [`context`].

mod block_on;
mod builder;
pub(crate) mod ceiling;
mod context;
pub(crate) mod cookies;
mod end;
pub mod experiments;
pub(crate) mod handle;
mod hooks;

pub(crate) use block_on::{Unpark, block_on};
pub use builder::{BuildError, Builder};
pub use context::TryCurrentError;
pub(crate) use context::{Entered, current, current_if_any, is_current, try_current};
pub(crate) use hooks::Hooks;

use crate::group::GroupBuilder;
use crate::runtime::cookies::NoCookies;
use crate::runtime::handle::{EnterGuard, Handle};
use crate::snapshot::Snapshot;
use crate::task::JoinHandle;
use std::fmt;
use std::fs::File;
use std::future::Future;
use std::time::{Duration, Instant};

/// A preemptive runtime.
///
/// # The end
/// Dropping it ends every task at its next await, and waits for that and for the threads; a poll that never ends is waited
/// for for ever. [`Runtime::shutdown_timeout`] waits for so long at the most, [`Runtime::shutdown_background`]
/// not at all. In a task of its own nothing waits. From then on [handles](Handle) spawn only tasks that are
/// cancelled.
///
/// ```
/// use runyard::{Runtime, spawn};
///
/// let runtime = Runtime::new();
/// let seven = runtime.block_on(async { spawn(async { 7 }).await.unwrap() });
/// assert_eq!(seven, 7);
/// ```
#[derive(Debug)]
pub struct Runtime {
    handle: Handle,
    /// Open as long as idle CPUs are to come back in time.
    cpu_latency: Option<File>,
    /// It ends, or has ended.
    has_ended: bool,
}

impl Runtime {
    /// A runtime on all CPUs that the process may use.
    ///
    /// # Panics
    /// As [`Builder::build`]; [`Builder::try_build`] returns that as an error.
    #[must_use]
    pub fn new() -> Runtime {
        Runtime::builder().build()
    }

    /// To say more.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A handle of the runtime, which may be cloned and sent away.
    ///
    /// ```
    /// let runtime = runyard::Runtime::new();
    /// let handle = runtime.handle().clone();
    /// let task = std::thread::spawn(move || handle.spawn(async { 7 }));
    /// assert_eq!(runtime.block_on(task.join().unwrap()).unwrap(), 7);
    /// ```
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// As [`Handle::enter`].
    ///
    /// ```
    /// let runtime = runyard::Runtime::new();
    /// let _guard = runtime.enter();
    /// runyard::spawn(async {});
    /// ```
    pub fn enter(&self) -> EnterGuard<'_> {
        self.handle.enter()
    }

    /// Whether tasks are stopped in the middle of their polls: on Linux, unless that is
    /// [switched off](Builder::preempt) or the kernel refuses what it needs. Otherwise a task keeps its CPU until
    /// its next await. It keeps it also while it blocks in the kernel, but not in [`blocking`](crate::blocking). A
    /// function of [`spawn_blocking`](crate::spawn_blocking) has no CPU of the runtime then, and runs beside its tasks.
    ///
    /// ```
    /// use runyard::Runtime;
    ///
    /// assert!(!Runtime::builder().preempt(false).build().preempts());
    /// ```
    #[must_use]
    pub fn preempts(&self) -> bool {
        self.handle.shared.preempts
    }

    /// Whether tasks with different [cookies](Builder::cookies) are kept apart.
    ///
    /// # Errors
    /// Why they are not.
    ///
    /// ```
    /// use runyard::{NoCookies, Runtime};
    ///
    /// assert_eq!(Runtime::new().keeps_cookies(), Err(NoCookies::NotAsked));
    /// ```
    pub fn keeps_cookies(&self) -> Result<(), NoCookies> {
        self.handle.shared.cpus.cookies
    }

    /// Starts a task.
    ///
    /// ```
    /// let runtime = runyard::Runtime::new();
    /// let task = runtime.spawn(async { 7 });
    /// assert_eq!(runtime.block_on(task).unwrap(), 7);
    /// ```
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.handle.spawn(future)
    }

    /// Runs a function that computes for long, or blocks: a task with one long poll.
    ///
    /// ```
    /// let runtime = runyard::Runtime::new();
    /// let sum = runtime.spawn_blocking(|| (0..1_000_000_u64).sum::<u64>());
    /// assert_eq!(runtime.block_on(sum).unwrap(), 499_999_500_000);
    /// ```
    pub fn spawn_blocking<T: Send + 'static>(
        &self,
        function: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        self.handle.spawn_blocking(function)
    }

    /// A task group, to be created below none.
    #[must_use]
    pub fn group(&self, name: impl Into<String>) -> GroupBuilder {
        self.handle.group(name)
    }

    /// What each slot and each worker does at the moment, for tests that hang; no part of the interface.
    /// Nothing is locked for it, nor allocated.
    ///
    /// # Errors
    /// Those of `out`.
    #[doc(hidden)]
    pub fn picture(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.handle.shared.picture(out)
    }

    /// How much CPU time the runtime may use in a second: a second for each of its CPUs, or what the
    /// control groups of the process leave it, if that is less. Those were looked at once, when the
    /// runtime was made. What is said as a [part of the
    /// machine](crate::Limit::percent_of_machine) is a part of this.
    #[must_use]
    pub fn capacity(&self) -> Duration {
        Duration::from_nanos(self.handle.shared.capacity.0)
    }

    /// What the CPUs, the tasks and the groups have done until now. See [`Snapshot`].
    ///
    /// ```
    /// use runyard::{Runtime, Task};
    ///
    /// let runtime = Runtime::builder().workers(1).build();
    /// let sums = Task::builder().name("sums");
    /// runtime.block_on(async move { sums.spawn(async { (0..1_000).sum::<u64>() }).await.unwrap() });
    /// let snapshot = runtime.snapshot();
    /// assert_eq!(snapshot.cpus.len(), 1);
    /// println!("{snapshot}");
    /// ```
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.handle.snapshot()
    }

    /// From when the times count that an [observer](Builder::observer) is told.
    #[must_use]
    pub fn started(&self) -> Instant {
        self.handle.shared.observation.started
    }

    /// Runs a future on the calling thread until it is ready. Tasks are spawned from within it. If the runtime has
    /// an [observer](Builder::observer), it has heard of all that happened until then when this returns.
    ///
    /// The future itself is no task: the kernel schedules its thread, and it need not be `Send`.
    ///
    /// ```
    /// use runyard::{Runtime, spawn};
    ///
    /// let runtime = Runtime::new();
    /// assert_eq!(runtime.block_on(async { spawn(async { 7 }).await.unwrap() }), 7);
    /// ```
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.handle.block_on(future)
    }
}

impl Default for Runtime {
    fn default() -> Runtime {
        Runtime::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runyard_engine::time::Time;

    #[test]
    fn h25_no_two_cpus_tick_at_once() {
        let runtime = Runtime::new();
        let config = runtime.handle.shared.machine.config();
        let ticks = |now| config.topology.iter().map(move |cpu| config.next_tick(cpu, now));
        for now in [0, 1, 499_999, 500_000, 999_999, 7_654_321].map(Time) {
            let mut all: Vec<_> = ticks(now).collect();
            assert!(all.iter().all(|&tick| tick > now && tick <= now + config.tick), "{all:?}");
            all.sort();
            all.dedup();
            assert_eq!(all.len(), config.topology.cpus());
        }
    }

    #[test]
    fn a_number_of_a_task_never_comes_again() {
        let runtime = Runtime::builder().workers(1).build();
        let many = u64::from(u32::MAX) - 1;
        runtime.handle.shared.registry.skip_to(many);
        let ids: Vec<_> = (0..4).map(|_| runtime.spawn(async {}).id().0).collect();
        assert_eq!(ids, [many, many + 1, many + 2, many + 3]);
    }
}
