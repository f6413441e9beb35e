//! A runtime. Its construction is in [`builder`], and its end in [`end`]. [`current`](crate::current) knows
//! which runtime the calling code belongs to.

mod block_on;
mod builder;
mod end;
mod error;
pub mod experiments;
pub(crate) mod handle;
#[cfg(feature = "tokio")]
mod tokio;

pub(crate) use block_on::block_on;
pub use builder::Builder;
pub use error::BuildError;

use crate::group::GroupBuilder;
use crate::local::LocalSet;
use crate::os::sync::Arc;
use crate::os::{self, cpu_latency, here};
use crate::runtime::handle::{EnterGuard, Handle};
use crate::shared::Shared;
use crate::shared::cookies::NoCookies;
use crate::shared::outside::Outside;
use crate::snapshot::Snapshot;
use crate::task::JoinHandle;
use std::fmt;
use std::fs::File;
use std::future::Future;
use std::mem;
use std::thread;
use std::time::{Duration, Instant};

/// A preemptive runtime.
///
/// # The end
/// When the runtime is dropped, every task ends at its next await. The drop waits for the tasks and for the threads; it
/// never returns if a poll never ends. [`Runtime::shutdown_timeout`] waits for a limited time, and
/// [`Runtime::shutdown_background`] does not wait. None of them waits in a task of the runtime itself. Tasks that a
/// [handle](Handle) spawns later are cancelled.
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
    /// The open request for a [CPU latency](Builder::cpu_latency), if there is one.
    cpu_latency: Option<File>,
    /// Set when the runtime is ending or has ended.
    has_ended: bool,
}

impl Runtime {
    /// Starts a runtime with the [usual number of workers](Builder::workers).
    ///
    /// # Panics
    /// As [`Builder::build`]. [`Builder::try_build`] returns the refusal as an error.
    #[must_use]
    #[track_caller]
    pub fn new() -> Runtime {
        Runtime::builder().build()
    }

    /// Returns a builder with the default settings.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns a handle of the runtime, which may be cloned and may go to other threads.
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

    /// Makes this the runtime of the calling thread until the guard is dropped, as [`Handle::enter`].
    ///
    /// ```
    /// let runtime = runyard::Runtime::new();
    /// let _guard = runtime.enter();
    /// runyard::spawn(async {});
    /// ```
    pub fn enter(&self) -> EnterGuard<'_> {
        self.handle.enter()
    }

    /// Returns whether tasks are stopped in the middle of their polls. That is so on Linux, unless preemption is
    /// [switched off](Builder::preempt) or the kernel refuses a resource that it needs. It is `false` for a time
    /// while a worker cannot be asked for its CPU, because a task has blocked the runtime's signal on its thread
    /// ([`Snapshot::deaf`](crate::Snapshot::deaf)).
    ///
    /// Without preemption a task keeps its CPU until its next await, even while it blocks in the kernel. It gives its
    /// CPU away only in [`blocking`](crate::blocking). A function of [`spawn_blocking`](crate::spawn_blocking) then has
    /// no CPU of the runtime, and runs beside its tasks. A runtime [on the calling thread](Builder::new_current_thread)
    /// never has preemption.
    ///
    /// ```
    /// use runyard::Runtime;
    ///
    /// assert!(!Runtime::builder().preempt(false).build().preempts());
    /// ```
    #[must_use]
    pub fn preempts(&self) -> bool {
        self.handle.shared.scheduler.crew().preempts_everywhere()
    }

    /// Returns whether tasks with different [cookies](Builder::cookies) are kept apart.
    ///
    /// # Errors
    /// The reason why they are not.
    ///
    /// ```
    /// use runyard::{NoCookies, Runtime};
    ///
    /// assert_eq!(Runtime::new().keeps_cookies(), Err(NoCookies::NotAsked));
    /// ```
    pub fn keeps_cookies(&self) -> Result<(), NoCookies> {
        self.handle.shared.bounds.cookies
    }

    /// Starts a task with the default policy. [`Task::builder`](crate::Task::builder) starts one with other attributes.
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

    /// Runs a function that computes for long, or blocks, as a task with one long poll.
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

    /// Returns a builder for a task group without a parent group.
    #[must_use]
    pub fn group(&self, name: impl Into<String>) -> GroupBuilder {
        self.handle.group(name)
    }

    /// Writes the current state of each slot and each worker, for tests that hang; not part of the interface. It takes
    /// no lock and allocates nothing.
    ///
    /// # Errors
    /// Those of `out`.
    #[doc(hidden)]
    pub fn picture(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let shared = &self.handle.shared;
        shared.scheduler.picture(shared.registry.nr_live(), out)
    }

    /// Returns the CPU time that the runtime may use in a second. That is a second for each of its CPUs where the process
    /// may run, or the limit of the process's control groups, if that is less. Both are read each second, so that this
    /// follows a container's new limit, `taskset` and cpusets. [Parts of the
    /// machine](crate::Limit::percent_of_machine) are parts of this.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = runyard::Runtime::builder().workers(1).build();
    /// assert!(runtime.capacity() <= Duration::from_secs(1));
    /// ```
    #[must_use]
    pub fn capacity(&self) -> Duration {
        Duration::from_nanos(self.handle.shared.bounds.capacity.get().0.0)
    }

    /// Returns the state of the CPUs, the tasks and the groups, and their totals so far. See [`Snapshot`].
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

    /// Returns the zero point of the times that an [observer](Builder::observer) receives.
    #[must_use]
    pub fn started(&self) -> Instant {
        self.handle.shared.observation.started
    }

    /// Runs a future on the calling thread until it is ready. The future can spawn tasks. Before the call returns, the
    /// [observer](Builder::observer), if there is one, has received all earlier events.
    ///
    /// The future itself is not a task. The kernel schedules its thread, and the future need not be `Send`. A runtime
    /// [on the calling thread](Builder::new_current_thread) runs its tasks in this call, and the future takes turns with
    /// them as one of them.
    ///
    /// # Panics
    /// If the future panics; in virtual time; in a child of fork; in a task or a `block_on` of the same runtime on this
    /// thread, if that is a runtime on the calling thread.
    ///
    /// ```
    /// use runyard::{Runtime, spawn};
    ///
    /// let runtime = Runtime::new();
    /// assert_eq!(runtime.block_on(async { spawn(async { 7 }).await.unwrap() }), 7);
    /// ```
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.handle.block_on(future)
    }
}

impl LocalSet {
    /// Runs a future as [`LocalSet::run_until`] on the calling thread, in the context of a runtime.
    ///
    /// # Panics
    /// As [`Runtime::block_on`].
    #[track_caller]
    pub fn block_on<F: Future>(&self, runtime: &Runtime, future: F) -> F::Output {
        runtime.block_on(self.run_until(future))
    }
}

impl Default for Runtime {
    fn default() -> Runtime {
        Runtime::new()
    }
}

/// The most task groups of a runtime. Their room is made at the start: 25 MiB, and 12 more for each CPU.
const MOST_GROUPS: usize = 65_536;

impl Builder {
    /// Starts the threads and returns the runtime.
    ///
    /// Some refusals of the operating system only cost a feature. The runtime reports each of them once on standard
    /// error:
    /// * Without the means for preemption, tasks keep their CPU until their next await.
    /// * Without a [CPU latency](Builder::cpu_latency), CPUs idle as the machine decides.
    /// * Without [pinned workers](Builder::pin_workers), workers run on any CPU of the process.
    ///
    /// Workers have the signal mask and the CPUs of the calling thread, and so have the threads and programs that tasks
    /// start. Only [the signal](Builder::signal) of the runtime is always unmasked in workers.
    ///
    /// # Panics
    /// If the operating system refuses a thread, or in a child of fork ([`BuildError::Forked`]). The threads that were
    /// started have ended by then.
    /// [`Builder::try_build`] returns the refusal as an error.
    #[must_use]
    #[track_caller]
    pub fn build(self) -> Runtime {
        match self.try_build() {
            Ok(runtime) => runtime,
            Err(error) => panic!("{error}"),
        }
    }

    /// Starts the threads as [`Builder::build`] does, and returns an error where `build` panics.
    ///
    /// # Errors
    /// The resource that the operating system refuses. The threads that were started have ended by then. `?` turns a
    /// [`BuildError`] into an [`io::Error`](std::io::Error).
    ///
    /// ```
    /// use runyard::Runtime;
    ///
    /// fn main() -> std::io::Result<()> {
    ///     let runtime = Runtime::builder().workers(2).try_build()?;
    ///     runtime.block_on(async { /* the program */ });
    ///     Ok(())
    /// }
    /// ```
    pub fn try_build(mut self) -> Result<Runtime, BuildError> {
        assert!(!here::is_paused(), "a live runtime cannot start in virtual time");
        let asked = self.settings.max_groups;
        if asked > MOST_GROUPS {
            return Err(BuildError::Groups { asked, most: MOST_GROUPS });
        }
        let mut cpus = os::thread::allowed_cpus();
        if cpus.is_empty() {
            cpus = (0..thread::available_parallelism().map_or(1, usize::from)).collect();
        }
        if self.settings.single {
            self.settings.workers = Some(1);
            self.settings.pins = false;
        }
        let outside = Outside::new(self.settings.workers);
        let ours = outside.most_workers().min(cpus.len());
        let preempts = self.preempt
            && !self.settings.single
            && os::PREEMPTS
            && may_preempt(self.settings.signal, ours);
        self.settings.pins = self.settings.pins && may_pin(cpus[0]);
        self.settings.cores = self.cores(&mut cpus[..ours]);
        let cpu_latency = self.cpu_latency.and_then(cpu_latency::ask);
        let driver = mem::take(&mut self.driver).open(preempts).map_err(BuildError::Driver)?;
        if !os::fork::begin() {
            return Err(BuildError::Forked);
        }
        let shared = Arc::new(Shared::new((&cpus, outside), preempts, self.settings, driver));
        shared.start()?;
        Ok(Runtime { handle: Handle { shared }, cpu_latency, has_ended: false })
    }
}

/// Returns whether the operating system lets the runtime stop threads. Reports a refusal on standard error.
fn may_preempt(signal: i32, cpus: usize) -> bool {
    let refused = if !os::signal::install(signal) {
        "the signal has another handler"
    } else if !os::timer::Timer::are_possible(signal, 2 * cpus) {
        "the kernel refuses timers"
    } else {
        return true;
    };
    eprintln!("runyard: {refused}: long polls are not preempted (signal {signal})");
    false
}

/// Returns whether the operating system lets the runtime bind threads to CPUs. Reports a refusal on standard error.
fn may_pin(cpu: usize) -> bool {
    let may = os::thread::may_pin(cpu);
    if !may {
        eprintln!("runyard: the kernel refuses to bind threads to CPUs: workers are not pinned");
    }
    may
}

#[cfg(test)]
mod tests {
    use super::*;
    use runyard_engine::time::Time;

    #[test]
    fn h25_no_two_cpus_tick_at_once() {
        let runtime = Runtime::new();
        let config = runtime.handle.shared.scheduler.machine().config();
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
