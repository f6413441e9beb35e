//! The settings of a runtime.

use crate::crew::hooks::{Hook, Naming};
use crate::driver;
use crate::observe::Observer;
use crate::os::sync::Arc;
use crate::shared::cookies::{self, NoCookies};
use crate::shared::settings::Settings;
use crate::stall::{OnStall, StallReport};
use runyard_engine::attr::LatencyNice;
use std::time::Duration;

/// Settings from which a [`Runtime`](crate::Runtime) is built.
///
/// ```
/// use runyard::Runtime;
///
/// let runtime = Runtime::builder().workers(2).thread_name("service").stack_size(1 << 20).build();
/// assert_eq!(runtime.block_on(runtime.spawn(async { 7 })).unwrap(), 7);
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    pub(crate) settings: Settings,
    cookies: bool,
    /// Number of workers that a core counts as having, regardless of the kernel's report. For tests.
    declared: Option<usize>,
    pub(super) preempt: bool,
    pub(super) cpu_latency: Option<Duration>,
    pub(super) driver: driver::Asked,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder {
            settings: Settings::default(),
            cookies: false,
            declared: None,
            preempt: true,
            cpu_latency: None,
            driver: driver::Asked::default(),
        }
    }
}

impl Builder {
    /// Returns a builder of a runtime whose tasks run on the thread that calls
    /// [`block_on`](crate::Runtime::block_on), and only inside of that call.
    ///
    /// The runtime starts no thread before a blocking function needs one, or an [observer](Builder::observer) or a tokio
    /// driver. Its one CPU is the calling thread. Between two polls the next task is chosen as on any CPU: by policy, nice
    /// value, latency nice and the limits of groups. The future of `block_on` takes turns with the tasks as a task with the
    /// default attributes ([`Task::current`](crate::Task::current) is that task). No poll is
    /// [preempted](crate::Runtime::preempts): a limit holds a group back from its next poll on. Tasks that were spawned and
    /// are not over wait for the next call, and so do timers.
    ///
    /// * [`spawn_local`](crate::spawn_local) works in the future of `block_on`. Such a task need not be `Send`. It shares
    ///   the attributes of that future, and is cancelled when the call ends. A [`LocalSet`](crate::LocalSet) lives longer.
    /// * [`spawn_blocking`](crate::spawn_blocking) calls its function on a helper thread, up to
    ///   [`max_threads`](Builder::max_threads) at a time. [`blocking`](crate::blocking) keeps the thread, and all tasks
    ///   wait.
    /// * While one thread is in `block_on`, another thread's call polls its own future only. It runs the tasks from when
    ///   the first call ends.
    /// * The end of the runtime drops the futures of its tasks on the thread that ends it.
    /// * The settings of workers ([`workers`](Builder::workers), [`pin_workers`](Builder::pin_workers),
    ///   [`cookies`](Builder::cookies), [`preempt`](Builder::preempt)) have no effect.
    ///
    /// ```
    /// use runyard::{Builder, spawn, spawn_local};
    /// use std::rc::Rc;
    ///
    /// let runtime = Builder::new_current_thread().build();
    /// let here = std::thread::current().id();
    /// let seven = runtime.block_on(async move {
    ///     assert_eq!(spawn(async { std::thread::current().id() }).await.unwrap(), here);
    ///     let own = Rc::new(7);
    ///     spawn_local(async move { *own }).await.unwrap()
    /// });
    /// assert_eq!(seven, 7);
    /// ```
    #[must_use]
    pub fn new_current_thread() -> Builder {
        let mut builder = Builder::default();
        builder.settings.single = true;
        builder
    }

    /// Sets how many of the CPUs that the process may use the runtime uses. By default these are all of them, but no more
    /// than the whole CPUs in the limit of its control groups, and at least one: in a container with `cpu.max` of one and a
    /// half CPUs it is one. More workers than that use the limit up early in each period, and then the kernel stops all of
    /// them until the next.
    ///
    /// The CPUs of the process and its limit are read each second. Without a number from here, workers that the limit
    /// has no whole CPU for sleep, and their tasks move to the others. Workers without a CPU of the process always do so.
    /// They come back when there is more again, up to the number at the start.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Builder {
        self.settings.workers = Some(workers);
        self
    }

    /// Binds each worker to the CPU of its slot. By default workers are not bound.
    ///
    /// If the process loses the CPU of a worker, by `taskset` or a cpuset, another CPU of the process takes its place. If
    /// there is none, the worker sleeps. With [cookies](Builder::cookies) it always sleeps.
    ///
    /// An unbound worker may run on any CPU of the process, and the kernel chooses. There are two exceptions. A thread
    /// that takes over the place of another thread wakes on that thread's CPU. An idle worker wakes on the CPU where it
    /// slept, if the kernel would otherwise place it beside another worker.
    ///
    /// Bound workers may help if the process has its CPUs for itself. If other processes compute on the same CPUs, a
    /// bound worker waits for its CPU while other CPUs are idle.
    ///
    /// Threads and programs that a task starts inherit its one CPU. This includes the threads of a thread pool that a
    /// library starts in the task, for as long as they live. In such a task, `std::thread::available_parallelism`
    /// returns 1.
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
        self.settings.pins = pins;
        self
    }

    /// Switches core scheduling on: tasks with different [cookies](crate::Cookie) never run on one core at the same
    /// time, nor does a task with a cookie beside one without. Off by default.
    ///
    /// Hardware threads of a core share caches and buffers, through which one program may observe another. Core
    /// scheduling needs [pinned workers](Builder::pin_workers) on CPUs that share cores. A worker runs no task while
    /// its core runs tasks of another cookie than the tasks that wait for the worker. It is then *forced idle*, and
    /// sleeps. Cookies take turns by the shares of their tasks. If workers share no cores or are not pinned, cookies
    /// have no effect. [`Runtime::keeps_cookies`](crate::Runtime::keeps_cookies) returns the reason.
    ///
    /// With core scheduling, the CPUs of the runtime are numbered core by core. Each core must have the same number of
    /// workers. [Fewer workers than CPUs](Builder::workers) use the first CPUs that the process may use. There is no
    /// [batch dispatch](crate::runtime::experiments).
    ///
    /// # Limits of the separation
    /// * A poll that must make way runs until its signal arrives, about 50 us later. It also runs until it has released
    ///   a lock of the C library, for at most 10 ms of CPU time. The other cookie starts at once, so the two overlap
    ///   for that long. Without [preemption](crate::Runtime::preempts) they overlap until the poll ends.
    /// * Code that the runtime does not schedule: [`blocking`](crate::blocking); polls that wait in the kernel, or that
    ///   the runtime takes for waiting on a busy machine, and that run on afterwards; threads and programs that tasks
    ///   start; threads of [`Runtime::block_on`](crate::Runtime::block_on); and other processes. Linux keeps those
    ///   apart with `PR_SCHED_CORE`.
    /// * Memory: all tasks of a process share it. Cookies are for data that another mechanism, such as a sandbox,
    ///   already hides from the other tasks.
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

    /// Declares that each run of `threads` consecutive workers is one core. For tests; not part of the interface.
    #[doc(hidden)]
    #[must_use]
    pub fn declare_cores(mut self, threads: usize) -> Builder {
        self.declared = Some(threads);
        self
    }

    /// Returns the number of workers of each core, if cookies are wanted and can be kept. Sorts `cpus`, the CPUs of the
    /// workers, core by core.
    pub(super) fn cores(&self, cpus: &mut [usize]) -> Result<usize, NoCookies> {
        match self.declared {
            _ if !self.cookies => Err(NoCookies::NotAsked),
            _ if !self.settings.pins => Err(NoCookies::NotPinned),
            Some(1) => Err(NoCookies::NoSharedCore),
            Some(threads) if !cpus.len().is_multiple_of(threads) => Err(NoCookies::UnevenCores),
            Some(threads) => Ok(threads),
            None => cookies::by_core(cpus),
        }
    }

    /// Sets the signal that stops a thread. The default is SIGURG: it is ignored by default, debuggers pass it on, and
    /// few programs use it. Has no effect on systems other than Linux.
    #[must_use]
    pub fn signal(mut self, signal: i32) -> Builder {
        self.settings.signal = signal;
        self
    }

    /// Switches preemption on or off. On by default.
    ///
    /// Without preemption a task keeps its CPU until its next await, or until it calls [`blocking`](crate::blocking).
    /// Only Linux has preemption ([`Runtime::preempts`](crate::Runtime::preempts)).
    #[must_use]
    pub fn preempt(mut self, preempt: bool) -> Builder {
        self.preempt = preempt;
        self
    }

    /// Limits the time that an idle CPU may take to wake up. By default the machine decides. Zero keeps CPUs out of
    /// every idle state, so a wake-up on an idle CPU is as fast as on a busy one.
    ///
    /// This is the kernel's CPU latency QoS, which `cyclictest` sets to zero. The request holds for the whole machine,
    /// including the CPUs of other processes, until the last task of the runtime has ended. It costs energy, and it
    /// takes the capacity that an idle CPU leaves to its siblings or its host. It needs permission to write
    /// `/dev/cpu_dma_latency`, which usually only root has. The kernel counts whole microseconds; a shorter time counts
    /// as zero.
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

    /// Sets the observer, which receives every scheduling event. There is none by default.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Builder {
        self.settings.observer = Some(observer);
        self
    }

    /// Sets the lowest latency nice value that tasks may ask for. The default is -20. A program that shares its runtime
    /// with foreign code limits here how far that code can put itself before other tasks.
    ///
    /// # Panics
    /// If the value is not in -20..=0. A task that asks for nothing has 0.
    #[must_use]
    #[track_caller]
    pub fn min_latency_nice(mut self, lowest: i8) -> Builder {
        let allowed = LatencyNice::new(lowest.into()).filter(|&lowest| lowest <= LatencyNice::ZERO);
        self.settings.lowest_latency_nice =
            allowed.expect("the lowest latency nice value must be in -20..=0");
        self
    }

    /// Sets how many task groups can exist at a time, up to 65,536. The default is 256. Room for one more group costs about
    /// 400 bytes, and about 200 more on each CPU. A higher number is a [`BuildError::Groups`](crate::BuildError::Groups).
    #[must_use]
    pub fn max_groups(mut self, groups: usize) -> Builder {
        self.settings.max_groups = groups;
        self
    }

    /// Sets the maximum number of kernel threads that run tasks. The default is nine tenths of the number that the
    /// system allows the process. Each task that is stopped in the middle of a poll keeps one thread, and so does each
    /// task that blocks in the kernel. At least three threads for each CPU are always allowed, and at most the 4,194,304 that
    /// Linux can have.
    ///
    /// At the ceiling, and wherever the system refuses a thread, the runtime falls back. Tasks whose last poll ended
    /// without blocking go on. Tasks that have never run wait. No task is stopped until there are threads again. The
    /// runtime reports this once on standard error. A thread that has been unused for some seconds ends.
    ///
    /// ```
    /// use runyard::{Runtime, spawn};
    ///
    /// let runtime = Runtime::builder().workers(1).max_threads(64).stack_size(256 << 10).build();
    /// assert_eq!(runtime.block_on(async { spawn(async { 7 }).await.unwrap() }), 7);
    /// ```
    #[must_use]
    pub fn max_threads(mut self, threads: usize) -> Builder {
        self.settings.max_threads = Some(threads);
        self
    }

    /// Sets the stack size, in bytes, of each thread that runs tasks. The default is that of the standard library, 2
    /// MiB. The kernel provides memory only for the part that is used.
    #[must_use]
    pub fn stack_size(mut self, bytes: usize) -> Builder {
        self.settings.hooks.stack_size = Some(bytes);
        self
    }

    /// Sets the name of every thread that runs tasks. The kernel keeps its first 15 bytes; debuggers and panic messages
    /// show it too. The default is `runyard-cpu0` and the like. A name ends before its first zero byte.
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
        self.settings.hooks.naming = Naming::Fixed(name.into());
        self
    }

    /// Sets a function that names the threads that run tasks. It is called for each thread that starts: first by
    /// `build`, later by a thread of the runtime. If the function panics, the thread has its default name.
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
        self.settings.hooks.naming = Naming::Asked(Arc::new(name));
        self
    }

    /// Sets a function that each thread that runs tasks calls before its first task. There are more such threads than
    /// CPUs, and some start later: each task that is stopped in the middle of a poll keeps its thread.
    ///
    /// The function belongs to the runtime ([`Handle::current`](crate::Handle::current)), but is not part of a task.
    /// It holds nothing of the runtime, and only the kernel schedules it. The code that starts the thread waits until
    /// the function has returned. For the first threads that is `build`, which starts one after the other. Later it
    /// is a thread of the runtime, which starts no other thread meanwhile. So the function should be short, and must
    /// not wait for another thread of the runtime to start. A panic goes to the panic hook, and the thread runs tasks
    /// nevertheless.
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
        self.settings.hooks.start = Some(Hook(Arc::new(function)));
        self
    }

    /// Sets a function that each thread that runs tasks calls after its last task. That is when the runtime ends, or
    /// when the thread has been unused for some seconds. The end of the runtime waits for the function. Tasks that it
    /// spawns at that end are cancelled. Otherwise it behaves as [`Builder::on_thread_start`].
    ///
    /// ```
    /// use runyard::Runtime;
    ///
    /// let runtime = Runtime::builder().on_thread_stop(|| println!("a thread stops")).build();
    /// # drop(runtime);
    /// ```
    #[must_use]
    pub fn on_thread_stop(mut self, function: impl Fn() + Send + Sync + 'static) -> Builder {
        self.settings.hooks.stop = Some(Hook(Arc::new(function)));
        self
    }

    /// Names the runtime ([`Handle::name`](crate::Handle::name)), for the program's own messages.
    ///
    /// ```
    /// use runyard::Runtime;
    ///
    /// let runtime = Runtime::builder().workers(1).name("background").build();
    /// assert_eq!(runtime.handle().name(), Some("background"));
    /// ```
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.settings.name = Some(name.into());
        self
    }

    /// Switches statistics for [`Runtime::snapshot`](crate::Runtime::snapshot) on or off: how long tasks wait, how
    /// often they switch and migrate, and why they are preempted. Off by default. Statistics cost a few per cent of
    /// each switch. CPU time, and how long each waiting task has waited so far, are in a snapshot in any case.
    ///
    /// ```
    /// use runyard::Runtime;
    ///
    /// let runtime = Runtime::builder().workers(1).statistics(true).build();
    /// assert!(runtime.snapshot().statistics);
    /// ```
    #[must_use]
    pub fn statistics(mut self, counts: bool) -> Builder {
        self.settings.statistics = counts;
        self
    }

    /// Calls `function` once for each poll that lasts longer than `after`. Such a poll computes, or waits in a system
    /// call or for a lock of the standard library. The [report](StallReport) names the task, and where it was at that
    /// moment.
    ///
    /// The time counts from the start of the poll, as far as the poll kept its CPU from other tasks, or would have.
    /// Time in which the poll was stopped and other tasks had the CPU does not count, nor does time in
    /// [`blocking`](crate::blocking). A function of [`spawn_blocking`](crate::spawn_blocking) is never reported. The
    /// time is wall-clock time: it includes the time in which the kernel runs other processes on the CPU. The shortest
    /// `after` is 100 us.
    ///
    /// A thread of the runtime with no other work calls the function. It may take its time, wait for locks, and spawn
    /// tasks ([`Handle::current`](crate::Handle::current)); meanwhile no other poll is examined. A panic goes to the
    /// panic hook, and no further. The end of the runtime waits for the function.
    ///
    /// A signal to the thread takes the backtrace. Like preemption, it may end a wait of the task in the kernel with
    /// `EINTR`; see [`blocking`](crate::blocking). Without [preemption](crate::Runtime::preempts) a report has no
    /// backtrace. In [virtual time](mod@crate::paused::test) there are no reports. A runtime
    /// [on the calling thread](Builder::new_current_thread) calls the function itself, when the poll is over.
    ///
    /// With this function each poll costs a few more stores. Without it, a poll costs one check for the function.
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
        self.settings.on_stall = Some(OnStall::new(after, function));
        self
    }

    /// Switches a test mode on; not part of the interface. Tasks are stopped at random instants, every 20 to 200 us on
    /// each CPU, and have other attributes and CPUs for short times. The seed fixes the random choices. A task with
    /// CPUs of its own may lose them.
    #[doc(hidden)]
    #[must_use]
    pub fn siege(mut self, seed: u64) -> Builder {
        self.settings.siege = Some(seed);
        self
    }
}
