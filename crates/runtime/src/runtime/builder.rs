//! How a runtime is made: its settings, and the start of its threads.

use super::Runtime;
use super::hooks::{Hook, Hooks, Naming};
use crate::adapters::driver;
use crate::crew::maker::Refusal;
use crate::observe::Observer;
use crate::os;
use crate::os::cpu_latency;
use crate::os::here;
use crate::os::sync::Arc;
use crate::runtime::ceiling;
use crate::runtime::cookies::{self, NoCookies};
use crate::runtime::handle::Handle;
use crate::shared::Shared;
use crate::stall::{OnStall, StallReport};
use runyard_engine::attr::LatencyNice;
use runyard_engine::features::Features;
use runyard_engine::kernel::Model;
use runyard_engine::tuned::Tuned;
use std::fmt;
use std::io;
use std::mem;
use std::thread;
use std::time::Duration;

/// How many task groups there is room for, if not said: a machine of a kernel has some hundred, most of
/// which never run.
const MAX_GROUPS: usize = 256;

/// How a [`Runtime`] is made.
///
/// ```
/// use runyard::Runtime;
///
/// let runtime = Runtime::builder().workers(2).thread_name("service").stack_size(1 << 20).build();
/// assert_eq!(runtime.block_on(runtime.spawn(async { 7 })).unwrap(), 7);
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    pub(crate) workers: Option<usize>,
    pub(crate) pins: bool,
    cookies: bool,
    /// How many workers a core is said to have, whatever the kernel says.
    declared: Option<usize>,
    /// How many workers each core has, if cookies are kept.
    pub(crate) cores: Result<usize, NoCookies>,
    pub(crate) signal: i32,
    preempt: bool,
    cpu_latency: Option<Duration>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) lowest_latency_nice: LatencyNice,
    pub(crate) max_groups: usize,
    max_threads: Option<usize>,
    pub(crate) hooks: Hooks,
    pub(crate) features: Features,
    pub(crate) model: Model,
    pub(crate) tuned: Tuned,
    pub(crate) siege: Option<u64>,
    /// The seed, if the runtime is to be in virtual time.
    pub(crate) paused: Option<u64>,
    pub(crate) statistics: bool,
    pub(crate) on_stall: Option<OnStall>,
    pub(crate) driver: driver::Asked,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder {
            workers: None,
            pins: false,
            cookies: false,
            declared: None,
            cores: Err(NoCookies::NotAsked),
            signal: os::signal::USUAL,
            preempt: true,
            cpu_latency: None,
            observer: None,
            lowest_latency_nice: LatencyNice::MIN,
            max_groups: MAX_GROUPS,
            max_threads: None,
            hooks: Hooks::default(),
            features: Features::of_runtime(),
            model: Model::default(),
            tuned: Tuned::default(),
            siege: None,
            paused: None,
            statistics: false,
            on_stall: None,
            driver: driver::Asked::default(),
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
    /// the kernel chooses; only a thread that is given the place of another wakes on that one's CPU, and an idle one where
    /// it slept if the kernel would wake it beside another. Bound workers
    /// may help where the process has its CPUs for itself. Where other processes compute on the same CPUs, a bound
    /// worker waits for its CPU while others are idle.
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

    /// Core scheduling: tasks with different [cookies](crate::Cookie) never run on one core at the same time, nor does one with
    /// a cookie beside one without. Hardware threads of a core share caches and buffers, by which a program may find out
    /// what another one does. With [pinned workers](Builder::pin_workers) on CPUs that share cores, a worker has nothing to
    /// run while its core runs tasks of another cookie than those that wait for it: it is *forced idle*, and sleeps. Cookies take
    /// turns, by the shares of their tasks. Where workers share no cores, or are not pinned, cookies have no
    /// effect: [`Runtime::keeps_cookies`] says which of these it is. Not if not said.
    ///
    /// The CPUs of the runtime are numbered core by core then. The workers of all cores have to be as many: with
    /// [some CPUs only](Builder::workers), these are the first that the process may use. There is no
    /// [batch dispatch](crate::runtime::experiments).
    ///
    /// # What is not kept apart
    /// * A poll that is to make way goes on until its signal comes, some 50 us, and until a lock of the
    ///   C library is free, 10 ms of CPU time at the most; the other cookie begins at once. So two cookies overlap for as long
    ///   as that. Without [preemption](Runtime::preempts) they do until the poll ends.
    /// * What the runtime does not schedule: [`blocking`](crate::blocking); polls that wait in the kernel, or that it takes
    ///   for such on a busy machine, and run on afterwards; threads and programs that tasks start; threads of
    ///   [`Runtime::block_on`]; and other processes. Linux keeps those apart by `PR_SCHED_CORE`.
    /// * All tasks of a process have the same memory. Cookies are for data that tasks use through what keeps them from each
    ///   other, such as a sandbox.
    ///
    /// ```
    /// use runyard::{Cookie, Runtime, Task};
    ///
    /// let runtime = Runtime::builder().pin_workers(true).cookies(true).build();
    /// if let Err(why) = runtime.keeps_cookies() {
    ///     eprintln!("tenants share cores: {why}");
    /// }
    /// let alice = runtime.group("alice").cookie(Cookie::new(1)).create().unwrap();
    /// let seven = runtime.block_on(async {
    ///     Task::builder().group(&alice).spawn(async { 7 }).await.unwrap()
    /// });
    /// assert_eq!(seven, 7);
    /// ```
    #[must_use]
    pub fn cookies(mut self, keeps: bool) -> Builder {
        self.cookies = keeps;
        self
    }

    /// For tests, no part of the interface: so many workers, one after the other, count as threads of one core.
    #[doc(hidden)]
    #[must_use]
    pub fn declare_cores(mut self, threads: usize) -> Builder {
        self.declared = Some(threads);
        self
    }

    /// How many workers each core has, if cookies are to be kept and can be: `cpus`, those of the workers, are in the order of
    /// cores then.
    fn cores(&self, cpus: &mut [usize]) -> Result<usize, NoCookies> {
        match self.declared {
            _ if !self.cookies => Err(NoCookies::NotAsked),
            _ if !self.pins => Err(NoCookies::NotPinned),
            Some(1) => Err(NoCookies::NoSharedCore),
            Some(threads) if !cpus.len().is_multiple_of(threads) => Err(NoCookies::UnevenCores),
            Some(threads) => Ok(threads),
            None => cookies::by_core(cpus),
        }
    }

    /// The signal that stops a thread; SIGURG if not said. It is ignored by default, passed on by
    /// debuggers, and used by nobody else. Without effect on other systems than Linux.
    #[must_use]
    pub fn signal(mut self, signal: i32) -> Builder {
        self.signal = signal;
        self
    }

    /// Without preemption a task keeps its CPU until its next await, or until it calls [`blocking`](crate::blocking).
    /// Other systems than Linux have none ([`Runtime::preempts`]).
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
        self.hooks.stack_size = Some(bytes);
        self
    }

    /// The most threads of a runtime with so many CPUs.
    pub(crate) fn most_threads(&self, cpus: usize) -> usize {
        self.max_threads.unwrap_or_else(ceiling::of_this_process).max(3 * cpus)
    }

    /// What each thread that runs tasks is called: by the kernel, which knows the first 15 bytes, by debuggers, and in the
    /// message of a panic. `runyard-cpu0` and the like if not said. A name ends before its first zero byte.
    ///
    /// ```
    /// use runyard::Runtime;
    ///
    /// let runtime = Runtime::builder().thread_name("web").build();
    /// let name = || std::thread::current().name().map(str::to_owned);
    /// assert_eq!(runtime.block_on(runtime.spawn_blocking(name)).unwrap().as_deref(), Some("web"));
    /// ```
    #[must_use]
    pub fn thread_name(mut self, name: impl Into<String>) -> Builder {
        self.hooks.naming = Naming::Fixed(name.into());
        self
    }

    /// The same, asked for each thread that is started: by `build`, and later by a thread of the runtime. Where the
    /// function panics the thread has its default name.
    ///
    /// ```
    /// use runyard::Runtime;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// let next = AtomicUsize::new(0);
    /// let name = move || format!("web-{}", next.fetch_add(1, Ordering::Relaxed));
    /// let runtime = Runtime::builder().thread_name_fn(name).build();
    /// # drop(runtime);
    /// ```
    #[must_use]
    pub fn thread_name_fn(mut self, name: impl Fn() -> String + Send + Sync + 'static) -> Builder {
        self.hooks.naming = Naming::Asked(Arc::new(name));
        self
    }

    /// Called on each thread that runs tasks, before it runs the first. There are more of them than CPUs, and some start
    /// later: each task that is stopped in the middle of a poll keeps its thread.
    ///
    /// The function belongs to the runtime ([`Handle::current`]), but is no part of a task: nothing of the runtime
    /// is held while it runs, and only the kernel schedules it. The code that starts the thread waits until the function has
    /// returned: `build` for the first threads, one after the other, and later a thread of the runtime, which starts no
    /// other meanwhile. So it should be short, and must not wait for another thread of the runtime to start. A panic goes
    /// to the panic hook, and the thread runs tasks all the same.
    ///
    /// ```
    /// use runyard::Runtime;
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// let running = Arc::new(AtomicUsize::new(0));
    /// let (starts, stops) = (running.clone(), running.clone());
    /// let runtime = Runtime::builder()
    ///     .on_thread_start(move || _ = starts.fetch_add(1, Ordering::SeqCst))
    ///     .on_thread_stop(move || _ = stops.fetch_sub(1, Ordering::SeqCst))
    ///     .build();
    /// assert!(running.load(Ordering::SeqCst) > 0);
    /// drop(runtime);
    /// assert_eq!(running.load(Ordering::SeqCst), 0);
    /// ```
    #[must_use]
    pub fn on_thread_start(mut self, function: impl Fn() + Send + Sync + 'static) -> Builder {
        self.hooks.start = Some(Hook(Arc::new(function)));
        self
    }

    /// Called on each thread that runs tasks, after it ran the last: when the runtime ends, or when nobody needed the
    /// thread for a minute. The end of the runtime waits for it. What it spawns at that end is cancelled. For the rest
    /// as [`Builder::on_thread_start`].
    ///
    /// ```
    /// use runyard::Runtime;
    ///
    /// let runtime = Runtime::builder().on_thread_stop(|| println!("a thread stops")).build();
    /// # drop(runtime);
    /// ```
    #[must_use]
    pub fn on_thread_stop(mut self, function: impl Fn() + Send + Sync + 'static) -> Builder {
        self.hooks.stop = Some(Hook(Arc::new(function)));
        self
    }

    /// Whether it is counted how long tasks wait, how often they switch and migrate, and why they are preempted,
    /// for [`Runtime::snapshot`]; not if not said. It costs some
    /// per cent of each switch. CPU time, and who waits for how long by now, are in a snapshot in any case.
    ///
    /// ```
    /// use runyard::Runtime;
    ///
    /// let runtime = Runtime::builder().workers(1).statistics(true).build();
    /// assert!(runtime.snapshot().statistics);
    /// ```
    #[must_use]
    pub fn statistics(mut self, counts: bool) -> Builder {
        self.statistics = counts;
        self
    }

    /// Calls a function, once, for each poll that lasts longer than `after`: by a task that computes, or by one that waits in
    /// a system call or for a lock of the standard library. The [report](StallReport) says which task that is, and where it
    /// was at that moment.
    ///
    /// What counts is the time since the poll began in which it kept others from its CPU, or would have. Not counted is
    /// the time in which it was stopped and others had the CPU, nor that in [`blocking`](crate::blocking); and a
    /// function of [`spawn_blocking`](crate::spawn_blocking) is never reported. It is time on the clock: if the kernel runs
    /// other processes on the CPU meanwhile, that counts too. The shortest time is 100 us.
    ///
    /// The function is called by a thread of the runtime that does nothing else. It may take its time, wait for locks,
    /// and spawn tasks ([`Handle::current`]); meanwhile no other poll is looked at. A panic goes to the panic hook, and no
    /// further. The end of the runtime waits for it.
    ///
    /// The backtrace is taken by a signal to the thread, which may end a wait of the task in the kernel with `EINTR`, as
    /// preemption may; see [`blocking`](crate::blocking). Without [preemption](Runtime::preempts) there is a report
    /// without a backtrace. In [virtual time](mod@crate::paused::test) nothing is reported.
    ///
    /// With this each poll costs some stores more. Without it, a look whether there is such a function.
    ///
    /// ```
    /// use runyard::{Runtime, Task};
    /// use std::sync::mpsc::channel;
    /// use std::time::Duration;
    ///
    /// let (tell, told) = channel();
    /// let runtime = Runtime::builder()
    ///     .on_stall(Duration::from_millis(10), move |report| tell.send(report.to_string()).unwrap())
    ///     .build();
    /// runtime.block_on(async {
    ///     Task::builder().name("hog").spawn(async move {
    ///         // The report comes while this waits.
    ///         let report = told.recv().unwrap();
    ///         assert!(report.contains("`hog`"), "{report}");
    ///     }).await.unwrap();
    /// });
    /// ```
    #[must_use]
    pub fn on_stall(
        mut self,
        after: Duration,
        function: impl Fn(&StallReport) + Send + Sync + 'static,
    ) -> Builder {
        self.on_stall = Some(OnStall::new(after, function));
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
    /// If the operating system refuses a thread; those that were started have ended. [`Builder::try_build`] returns that
    /// as an error.
    #[must_use]
    #[track_caller]
    pub fn build(self) -> Runtime {
        self.try_build().unwrap_or_else(|error| panic!("{error}"))
    }

    /// As [`Builder::build`], for programs that can do without.
    ///
    /// # Errors
    /// What the operating system refuses; the threads that were started have ended. A [`BuildError`] becomes an
    /// [`io::Error`] by `?`.
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
        assert!(!here::is_paused(), "a live runtime does not begin in virtual time");
        let mut cpus = os::thread::allowed_cpus();
        if cpus.is_empty() {
            cpus = (0..thread::available_parallelism().map_or(1, usize::from)).collect();
        }
        let ours = self.workers.unwrap_or(usize::MAX).clamp(1, cpus.len());
        let preempts = self.preempt && os::PREEMPTS && may_preempt(self.signal, ours);
        self.pins = self.pins && may_pin(cpus[0]);
        self.cores = self.cores(&mut cpus[..ours]);
        let cpu_latency = self.cpu_latency.and_then(cpu_latency::ask);
        let driver = mem::take(&mut self.driver).open(preempts).map_err(BuildError::Driver)?;
        let shared = Arc::new(Shared::new(cpus, preempts, self, driver));
        shared.start()?;
        Ok(Runtime { handle: Handle { shared }, cpu_latency, has_ended: false })
    }
}

/// Why a runtime cannot start.
///
/// ```
/// use runyard::{BuildError, Runtime};
///
/// fn start() -> Result<Runtime, BuildError> {
///     Runtime::builder().workers(1).try_build()
/// }
/// assert!(start().is_ok());
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// The operating system starts no thread.
    Thread(io::Error),
    /// The kernel makes no timer for a thread (`RLIMIT_SIGPENDING`). A runtime without
    /// [preemption](Builder::preempt) needs none.
    Timer,
    /// The operating system makes nothing that tokio's driver needs (`Builder::enable_tokio`, with the feature `tokio`).
    Driver(io::Error),
}

impl From<Refusal> for BuildError {
    fn from(refusal: Refusal) -> BuildError {
        match refusal {
            Refusal::Thread(error) => BuildError::Thread(error),
            Refusal::Timer => BuildError::Timer,
            Refusal::Ceiling => unreachable!("the first threads are below any ceiling"),
        }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Thread(error) => {
                write!(f, "a runtime cannot start: the system starts no more threads ({error})")
            }
            BuildError::Driver(error) => {
                write!(f, "a runtime cannot start: the system makes no tokio driver ({error})")
            }
            BuildError::Timer => f.write_str(
                "a runtime cannot start: the kernel makes no more timers (RLIMIT_SIGPENDING)",
            ),
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BuildError::Thread(error) | BuildError::Driver(error) => Some(error),
            BuildError::Timer => None,
        }
    }
}

impl From<BuildError> for io::Error {
    fn from(error: BuildError) -> io::Error {
        let kind = match &error {
            BuildError::Thread(error) | BuildError::Driver(error) => error.kind(),
            BuildError::Timer => io::ErrorKind::WouldBlock,
        };
        io::Error::new(kind, error)
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
