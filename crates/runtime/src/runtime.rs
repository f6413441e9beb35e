//! A runtime, how it is made, and which one the calling code belongs to.

use crate::builder::Task;
use crate::cpu_latency;
use crate::group::GroupBuilder;
use crate::observe::Observer;
use crate::os;
use crate::primitives::Arc;
use crate::shared::Shared;
use crate::task::JoinHandle;
use runyard_engine::attr::LatencyNice;
use runyard_engine::features::Features;
use std::cell::RefCell;
use std::fs::File;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

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
    workers: Option<usize>,
    pub(crate) signal: i32,
    preempt: bool,
    cpu_latency: Option<Duration>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) lowest_latency_nice: LatencyNice,
    pub(crate) max_groups: usize,
    pub(crate) features: Features,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder {
            workers: None,
            signal: libc::SIGURG,
            preempt: true,
            cpu_latency: None,
            observer: None,
            lowest_latency_nice: LatencyNice::MIN,
            max_groups: MAX_GROUPS,
            features: Features::default(),
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

    /// How many task groups there may be at a time; 256 if not said. Room for one more costs some 200
    /// bytes, and as much on each CPU.
    #[must_use]
    pub fn max_groups(mut self, groups: usize) -> Builder {
        self.max_groups = groups;
        self
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

    /// Starts the threads. Where the operating system refuses what preemption needs, it says so on
    /// standard error, once, and tasks keep their CPU until their next await. So it does where a [CPU
    /// latency](Builder::cpu_latency) is refused, and CPUs idle as they would.
    ///
    /// # Panics
    /// If the operating system makes no threads.
    #[must_use]
    pub fn build(self) -> Runtime {
        let mut cpus = os::thread::allowed_cpus();
        if cpus.is_empty() {
            cpus = (0..thread::available_parallelism().map_or(1, usize::from)).collect();
        }
        cpus.truncate(self.workers.unwrap_or(usize::MAX).max(1));
        let preempts = self.preempt && may_preempt(self.signal, cpus[0]);
        let cpu_latency = self.cpu_latency.and_then(cpu_latency::ask);
        let shared = Arc::new(Shared::new(cpus, preempts, self));
        shared.start();
        Runtime { shared, cpu_latency }
    }
}

/// Whether the operating system lets us stop threads. Says what it refuses.
fn may_preempt(signal: i32, cpu: usize) -> bool {
    let refused = if !os::signal::install(signal) {
        "the signal is somebody else's"
    } else if !os::timer::Timer::are_possible(signal) {
        "the kernel makes no timers"
    } else if !os::thread::may_pin(cpu) {
        "the kernel does not bind threads to CPUs"
    } else {
        return true;
    };
    eprintln!("runyard: {refused}: long polls are not preempted (signal {signal})");
    false
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

    /// How much CPU time the runtime may use in a second: a second for each of its CPUs, or what the
    /// control groups of the process leave it, if that is less. Those were looked at once, when the
    /// runtime was made. What is said as a [part of the
    /// machine](crate::Limit::percent_of_machine) is a part of this.
    #[must_use]
    pub fn capacity(&self) -> Duration {
        Duration::from_nanos(self.shared.capacity.0)
    }

    /// Runs a future on the calling thread until it is ready. Tasks are spawned from within it.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let _context = Entered::enter(&self.shared);
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut cx = Context::from_waker(&waker);
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
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
pub(crate) struct Unpark(pub(crate) Thread);

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

    #[test]
    fn a_number_of_a_task_never_comes_again() {
        let runtime = Runtime::builder().workers(1).build();
        let many = u64::from(u32::MAX) - 1;
        runtime.shared.next_task.store(many, Ordering::Relaxed);
        let ids: Vec<_> = (0..4).map(|_| runtime.spawn(async {}).id().0).collect();
        assert_eq!(ids, [many, many + 1, many + 2, many + 3]);
    }
}
