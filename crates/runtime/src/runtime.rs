//! A runtime, how it is made, and which one the calling code belongs to.

use crate::builder::Task;
use crate::ceiling;
use crate::cpu_latency;
use crate::group::GroupBuilder;
use crate::observe::Observer;
use crate::os;
use crate::primitives::{Arc, OnceLock};
use crate::shared::Shared;
use crate::task::JoinHandle;
use runyard_engine::attr::LatencyNice;
use runyard_engine::features::Features;
use std::cell::RefCell;
use std::fmt;
use std::fs::File;
use std::future::Future;
use std::pin::pin;
use std::ptr;
use std::task::{Context, Poll, RawWakerVTable, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// A preemptive runtime. Dropping it ends every task at its next await, and waits for that and for
/// the threads; a poll that never ends is waited for for ever.
#[derive(Debug)]
pub struct Runtime {
    shared: Arc<Shared>,
    /// Open as long as idle CPUs are to come back in time.
    cpu_latency: Option<File>,
}

/// How many task groups there is room for, if not said: a machine of a kernel has some hundred, most of
/// which never run.
const MAX_GROUPS: usize = 256;

/// How a [`Runtime`] is made.
#[derive(Clone, Debug)]
pub struct Builder {
    pub(crate) workers: Option<usize>,
    pub(crate) pins: bool,
    pub(crate) signal: i32,
    preempt: bool,
    cpu_latency: Option<Duration>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) lowest_latency_nice: LatencyNice,
    pub(crate) max_groups: usize,
    max_threads: Option<usize>,
    pub(crate) stack_size: Option<usize>,
    pub(crate) features: Features,
    pub(crate) siege: Option<u64>,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder {
            workers: None,
            pins: false,
            signal: libc::SIGURG,
            preempt: true,
            cpu_latency: None,
            observer: None,
            lowest_latency_nice: LatencyNice::MIN,
            max_groups: MAX_GROUPS,
            max_threads: None,
            stack_size: None,
            features: Features::default(),
            siege: None,
        }
    }
}

impl Builder {
    /// How many CPUs to use, of those that the process may; all of them if not said.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Builder {
        self.workers = Some(workers);
        self
    }

    /// Binds each worker to the CPU behind its slot; without this workers run where the process may, and
    /// the kernel chooses. It may help where the process has its CPUs for itself. Where other processes
    /// compute on the same CPUs, a bound worker waits for its CPU while others are idle.
    ///
    /// What a task starts inherits the one CPU: its threads, those of thread pools that libraries begin in it,
    /// for as long as they live, and its programs. `std::thread::available_parallelism` is 1 in it.
    ///
    /// ```
    /// use runyard::{Runtime, spawn};
    /// use std::thread::available_parallelism;
    ///
    /// let cpus = |runtime: Runtime| {
    ///     let task = async { available_parallelism().unwrap().get() };
    ///     runtime.block_on(async { spawn(task).await.unwrap() })
    /// };
    /// assert_eq!(cpus(Runtime::new()), available_parallelism().unwrap().get());
    /// assert_eq!(cpus(Runtime::builder().pin_workers(true).build()), 1);
    /// ```
    #[must_use]
    pub fn pin_workers(mut self, pins: bool) -> Builder {
        self.pins = pins;
        self
    }

    /// The signal that stops a thread; SIGURG if not said. It is ignored by default, passed on by
    /// debuggers, and used by nobody else.
    #[must_use]
    pub fn signal(mut self, signal: i32) -> Builder {
        self.signal = signal;
        self
    }

    /// Without preemption a task keeps its CPU until its next await.
    #[must_use]
    pub fn preempt(mut self, preempt: bool) -> Builder {
        self.preempt = preempt;
        self
    }

    /// The longest that an idle CPU may take to come back; what the machine does by itself if not said.
    /// Zero keeps CPUs from every idle state: what they wake up for is as early as on busy ones.
    ///
    /// This is the kernel's CPU latency QoS, which `cyclictest` asks for too, always zero. A request
    /// holds on the whole machine, on CPUs of others too, until the last task of the runtime has ended;
    /// it costs energy, and what an idle CPU leaves to its siblings or its host. It needs the permission
    /// to write `/dev/cpu_dma_latency`, which usually root has. The kernel counts whole microseconds;
    /// what is less counts as zero.
    ///
    /// ```
    /// use runyard::{Runtime, spawn};
    /// use std::time::Duration;
    ///
    /// let runtime = Runtime::builder().cpu_latency(Duration::from_micros(20)).build();
    /// assert_eq!(runtime.block_on(async { spawn(async { 7 }).await.unwrap() }), 7);
    /// ```
    #[must_use]
    pub fn cpu_latency(mut self, longest: Duration) -> Builder {
        self.cpu_latency = Some(longest);
        self
    }

    /// Who hears of everything that happens; nobody if not said.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Builder {
        self.observer = Some(observer);
        self
    }

    /// The lowest latency nice value that tasks may ask for; -20 if not said. Whoever shares a runtime
    /// with code of others decides here how far that may put itself before the rest.
    ///
    /// # Panics
    /// If the value is not in -20..=0: a task that asks for nothing has 0.
    #[must_use]
    pub fn min_latency_nice(mut self, lowest: i8) -> Builder {
        let allowed = LatencyNice::new(lowest.into()).filter(|&lowest| lowest <= LatencyNice::ZERO);
        self.lowest_latency_nice = allowed.expect("the lowest latency nice value is in -20..=0");
        self
    }

    /// How many task groups there may be at a time; 256 if not said. Room for one more costs some 400
    /// bytes, and some 200 on each CPU.
    #[must_use]
    pub fn max_groups(mut self, groups: usize) -> Builder {
        self.max_groups = groups;
        self
    }

    /// The most kernel threads that run tasks; if not said, what the system lets the process have, less a
    /// tenth. Each task that is stopped in the middle of a poll keeps one, and so does each that blocks in
    /// the kernel. At least three for each CPU are allowed, whatever is said.
    ///
    /// At the ceiling, and wherever the system refuses a thread, tasks whose last poll ended without blocking
    /// go on, tasks that never began wait, and nothing is stopped until there are threads again. The runtime
    /// says so once on standard error. Threads that nobody needed for a minute end.
    ///
    /// ```
    /// use runyard::{Runtime, spawn};
    ///
    /// let runtime = Runtime::builder().workers(1).max_threads(64).stack_size(256 << 10).build();
    /// assert_eq!(runtime.block_on(async { spawn(async { 7 }).await.unwrap() }), 7);
    /// ```
    #[must_use]
    pub fn max_threads(mut self, threads: usize) -> Builder {
        self.max_threads = Some(threads);
        self
    }

    /// How many bytes the stack of each thread that runs tasks has; the standard library's default, which is
    /// 2 MiB, if not said. The kernel provides memory for the part that was used.
    #[must_use]
    pub fn stack_size(mut self, bytes: usize) -> Builder {
        self.stack_size = Some(bytes);
        self
    }

    /// The most threads of a runtime with so many CPUs.
    pub(crate) fn most_threads(&self, cpus: usize) -> usize {
        self.max_threads.unwrap_or_else(ceiling::of_this_process).max(3 * cpus)
    }

    /// Which of the scheduler's mechanisms are on; the defaults of [`Features`] if not said. Off, each is
    /// what a measurement compares with; nobody else needs to say anything, but who wants `EEVDF`.
    ///
    /// ```
    /// use runyard::{Feature, Features, Runtime};
    ///
    /// let runtime = Runtime::builder().features(Features::default().without(Feature::RtPull)).build();
    /// assert_eq!(runtime.block_on(async { runyard::spawn(async { 7 }).await.unwrap() }), 7);
    /// ```
    #[must_use]
    pub fn features(mut self, features: Features) -> Builder {
        self.features = features;
        self
    }

    /// A mode for tests, no part of the interface: tasks are stopped at random instants, every 20 to 200 us
    /// on each CPU, and have other attributes and CPUs for moments. The seed fixes what is drawn. A task
    /// with CPUs of its own may lose that.
    #[doc(hidden)]
    #[must_use]
    pub fn siege(mut self, seed: u64) -> Builder {
        self.siege = Some(seed);
        self
    }

    /// Starts the threads. Where the operating system refuses what preemption needs, it says so on
    /// standard error, once, and tasks keep their CPU until their next await. So it does where a [CPU
    /// latency](Builder::cpu_latency) is refused, and CPUs idle as they would; and where it refuses to
    /// [pin workers](Builder::pin_workers), which then run where the process may.
    ///
    /// Workers have the signal mask and the CPUs of the calling thread, and so has what tasks start; only
    /// [the signal](Builder::signal) of the runtime they hear in any case.
    ///
    /// # Panics
    /// If the operating system refuses a thread; those that were started have ended.
    #[must_use]
    pub fn build(mut self) -> Runtime {
        let mut cpus = os::thread::allowed_cpus();
        if cpus.is_empty() {
            cpus = (0..thread::available_parallelism().map_or(1, usize::from)).collect();
        }
        let ours = self.workers.unwrap_or(usize::MAX).clamp(1, cpus.len());
        let preempts = self.preempt && may_preempt(self.signal, ours);
        self.pins = self.pins && may_pin(cpus[0]);
        let cpu_latency = self.cpu_latency.and_then(cpu_latency::ask);
        let shared = Arc::new(Shared::new(cpus, preempts, self));
        if let Err(refusal) = shared.start() {
            panic!("a runtime cannot start: {refusal}");
        }
        Runtime { shared, cpu_latency }
    }
}

/// Whether the operating system lets us stop threads. Says what it refuses.
fn may_preempt(signal: i32, cpus: usize) -> bool {
    let refused = if !os::signal::install(signal) {
        "the signal is somebody else's"
    } else if !os::timer::Timer::are_possible(signal, 2 * cpus) {
        "the kernel makes no timers"
    } else {
        return true;
    };
    eprintln!("runyard: {refused}: long polls are not preempted (signal {signal})");
    false
}

/// Whether the operating system lets us bind threads to CPUs. Says if not.
fn may_pin(cpu: usize) -> bool {
    let may = os::thread::may_pin(cpu);
    if !may {
        eprintln!("runyard: the kernel does not bind threads to CPUs: workers are not pinned");
    }
    may
}

impl Runtime {
    /// A runtime on all CPUs that the process may use.
    #[must_use]
    pub fn new() -> Runtime {
        Runtime::builder().build()
    }

    /// To say more.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Starts a task.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Task::builder().spawn_in(&self.shared, future)
    }

    /// A task group, to be created below none.
    #[must_use]
    pub fn group(&self, name: impl Into<String>) -> GroupBuilder {
        GroupBuilder::new(&self.shared, name)
    }

    /// What each slot and each worker does at the moment, for tests that hang; no part of the interface.
    /// Nothing is locked for it, nor allocated.
    ///
    /// # Errors
    /// Those of `out`.
    #[doc(hidden)]
    pub fn picture(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.shared.picture(out)
    }

    /// How much CPU time the runtime may use in a second: a second for each of its CPUs, or what the
    /// control groups of the process leave it, if that is less. Those were looked at once, when the
    /// runtime was made. What is said as a [part of the
    /// machine](crate::Limit::percent_of_machine) is a part of this.
    #[must_use]
    pub fn capacity(&self) -> Duration {
        Duration::from_nanos(self.shared.capacity.0)
    }

    /// From when the times count that an [observer](Builder::observer) is told.
    #[must_use]
    pub fn started(&self) -> Instant {
        self.shared.started
    }

    /// Runs a future on the calling thread until it is ready. Tasks are spawned from within it. If the runtime has
    /// an [observer](Builder::observer), it has heard of all that happened until then when this returns.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let _context = Entered::enter(&self.shared);
        let waker = Unpark::this_thread();
        let mut cx = Context::from_waker(&waker);
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
                self.shared.flush();
                return value;
            }
            thread::park();
        }
    }
}

impl Default for Runtime {
    fn default() -> Runtime {
        Runtime::new()
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        let (shared, cpu_latency) = (self.shared.clone(), self.cpu_latency.take());
        let end = move || {
            shared.shut_down();
            drop(cpu_latency);
        };
        match self.shared.here(|_| ()) {
            // A task of its own cannot wait for itself.
            Some(()) => drop(thread::spawn(end)),
            None => end(),
        }
    }
}

/// Lets a thread go on that waits for something.
pub(crate) struct Unpark(Thread);

/// What all wakers have in common that let a thread go on; there when the first of them is.
static UNPARKS: OnceLock<&'static RawWakerVTable> = OnceLock::new();

impl Unpark {
    /// A waker for the calling thread.
    pub(crate) fn this_thread() -> Waker {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        UNPARKS.get_or_init(|| waker.vtable());
        waker
    }

    /// Whether it is a waker for a thread that waits so: another with the same functions does the same.
    pub(crate) fn is_behind(waker: &Waker) -> bool {
        UNPARKS.get().is_some_and(|&unparks| ptr::eq(unparks, waker.vtable()))
    }
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    /// The runtime of the code that runs on this thread. Never read in a signal handler.
    static CONTEXT: RefCell<Vec<Arc<Shared>>> = const { RefCell::new(Vec::new()) };
}

/// While it lives, the calling thread belongs to a runtime.
pub(crate) struct Entered;

impl Entered {
    pub(crate) fn enter(shared: &Arc<Shared>) -> Entered {
        CONTEXT.with_borrow_mut(|stack| stack.push(shared.clone()));
        Entered
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CONTEXT.with_borrow_mut(Vec::pop);
    }
}

/// The runtime that the calling code belongs to.
///
/// # Panics
/// If it belongs to none.
pub(crate) fn current() -> Arc<Shared> {
    current_if_any().expect("this is called in a task, or within Runtime::block_on")
}

/// Whether the calling code belongs to this runtime.
pub(crate) fn is_current(shared: &Arc<Shared>) -> bool {
    CONTEXT.with_borrow(|stack| stack.last().is_some_and(|last| Arc::ptr_eq(last, shared)))
}

/// The runtime that the calling code belongs to, if it belongs to one.
pub(crate) fn current_if_any() -> Option<Arc<Shared>> {
    CONTEXT.with_borrow(|stack| stack.last().cloned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::Ordering;
    use runyard_engine::time::Time;

    #[test]
    fn h25_no_two_cpus_tick_at_once() {
        let runtime = Runtime::new();
        let config = runtime.shared.machine.config();
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
        runtime.shared.next_task.store(many, Ordering::Relaxed);
        let ids: Vec<_> = (0..4).map(|_| runtime.spawn(async {}).id().0).collect();
        assert_eq!(ids, [many, many + 1, many + 2, many + 3]);
    }
}
