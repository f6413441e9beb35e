//! The runtime as a whole: its slots, its workers, and how tasks come into it.

use crate::handoff::{Slot, WorkerId};
use crate::keeper::Keeper;
use crate::os;
use crate::sync::{Arc, AtomicBool, AtomicU32, AtomicUsize, Mutex, OnceLock, Ordering, lock};
use crate::task::{Cell, Guarded, Job, JoinHandle, Todo, without_preemption};
use crate::worker::{Worker, ring};
use runyard_engine::attr::Attr;
use runyard_engine::config::Config;
use runyard_engine::cpu::CpuId;
use runyard_engine::run_queue::{Prev, Switch};
use runyard_engine::task::{Task, TaskId};
use runyard_engine::time::Nanos;
use runyard_engine::timer::Token;
use runyard_engine::topology::Topology;
use runyard_smp::control::Control;
use runyard_smp::groups::GroupSpec;
use runyard_smp::machine::{Effects, Machine, TaskOf, Work};
use slab::Slab;
use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// The most kernel threads that a runtime makes: its workers, and one for each task that was
/// stopped in the middle of a poll.
const MAX_WORKERS: usize = 4_096;

/// How many tasks there is room for from the start.
const FIRST_ROOM: usize = 1_024;

/// What workers, wakers and handles share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) machine: Machine<Job>,
    slots: Box<[Slot]>,
    workers: Box<[OnceLock<Arc<Worker>>]>,
    nr_workers: AtomicUsize,
    /// The CPUs of this machine behind those of ours.
    host_cpus: Vec<usize>,
    /// Who is to be woken by the timers of each CPU.
    timers: Box<[Mutex<Slab<Waker>>]>,
    pub(crate) keeper: Keeper,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
    over: AtomicBool,
    pub(crate) signal: i32,
    /// Whether foreign code is stopped.
    pub(crate) preempts: bool,
    next_task: AtomicU32,
    /// The tasks that are not over, and whether more may come.
    live: Mutex<Live>,
    /// Who waits for the last of them to end.
    closer: OnceLock<Thread>,
    room: Mutex<usize>,
}

#[derive(Debug, Default)]
struct Live {
    cells: Slab<Arc<Cell>>,
    closed: bool,
}

/// A preemptive runtime. Dropping it ends every task at its next await, and waits for that and for
/// the threads; a poll that never ends is waited for for ever.
#[derive(Debug)]
pub struct Runtime {
    shared: Arc<Shared>,
}

/// How a [`Runtime`] is made.
#[derive(Clone, Debug)]
pub struct Builder {
    workers: Option<usize>,
    signal: i32,
    preempt: bool,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder { workers: None, signal: libc::SIGURG, preempt: true }
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

    /// Starts the threads.
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
        let preempts = self.preempt && os::signal::install(self.signal);
        if self.preempt && !preempts {
            eprintln!(
                "runyard: signal {} is somebody else's: long polls are not preempted",
                self.signal
            );
        }
        let shared = Arc::new(Shared::new(cpus, self.signal, preempts));
        shared.start();
        Runtime { shared }
    }
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
        self.shared.spawn(future, None)
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
        self.shared.shut_down();
    }
}

struct Unpark(Thread);

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
    let shared = CONTEXT.with_borrow(|stack| stack.last().cloned());
    shared.expect("this is called in a task, or within Runtime::block_on")
}

/// What the machine asks for, done at once.
pub(crate) struct Doorbells<'a>(pub(crate) &'a Shared);

impl Effects<Job> for Doorbells<'_> {
    fn kick(&mut self, cpu: CpuId) {
        ring(self.0, cpu);
    }
}

impl Shared {
    fn new(host_cpus: Vec<usize>, signal: i32, preempts: bool) -> Shared {
        let topology = Topology::flat(host_cpus.len() as u32).expect("the kernel has fewer CPUs");
        let config = Config::new(topology);
        let machine = Machine::new(config, &[GroupSpec::ROOT]).expect("the defaults fit together");
        machine.reserve(FIRST_ROOM);
        let cpus = topology.iter();
        Shared {
            machine,
            slots: cpus.map(|cpu| Slot::new(WorkerId(cpu.0.into()))).collect(),
            workers: (0..MAX_WORKERS).map(|_| OnceLock::new()).collect(),
            nr_workers: AtomicUsize::new(0),
            timers: topology.iter().map(|_| Mutex::new(Slab::new())).collect(),
            host_cpus,
            keeper: Keeper::new(),
            threads: Mutex::new(Vec::new()),
            over: AtomicBool::new(false),
            signal,
            preempts,
            next_task: AtomicU32::new(0),
            live: Mutex::new(Live::default()),
            closer: OnceLock::new(),
            room: Mutex::new(FIRST_ROOM),
        }
    }

    /// Starts the first worker of each slot, a spare for each, and the keeper.
    fn start(self: &Arc<Shared>) {
        for cpu in self.machine.config().topology.iter() {
            self.add_worker(cpu, true);
        }
        if self.preempts {
            for cpu in self.machine.config().topology.iter() {
                self.add_spare(cpu);
            }
            let shared = self.clone();
            let keeper = thread::Builder::new().name("runyard-keeper".to_owned());
            let keeper = keeper.spawn(move || crate::keeper::run(&shared));
            lock(&self.threads).push(keeper.expect("a thread can be made"));
        }
    }

    /// A worker that waits at a slot until somebody there is preempted. `false` at the limit.
    pub(crate) fn add_spare(self: &Arc<Shared>, cpu: CpuId) -> bool {
        let added = self.add_worker(cpu, false);
        added.is_some_and(|id| self.slot(cpu).put_spare(id))
    }

    fn add_worker(self: &Arc<Shared>, cpu: CpuId, owns: bool) -> Option<WorkerId> {
        let nth = self.nr_workers.load(Ordering::Acquire);
        let place = self.workers.get(nth)?;
        let id = WorkerId(nth as u32);
        let worker = Worker::new(self, id, cpu);
        let thread = thread::Builder::new().name(format!("runyard-{cpu}"));
        assert!(place.set(worker.clone()).is_ok(), "a place is used once");
        self.nr_workers.store(nth + 1, Ordering::Release);
        let shared = self.clone();
        let spawned = thread.spawn(move || {
            let _context = Entered::enter(&shared);
            worker.live(owns);
        });
        lock(&self.threads).push(spawned.expect("a thread can be made"));
        Some(id)
    }

    pub(crate) fn slot(&self, cpu: CpuId) -> &Slot {
        &self.slots[cpu.index()]
    }

    pub(crate) fn worker_ref(&self, id: WorkerId) -> &Worker {
        self.workers[id.0 as usize].get().expect("an id names a worker")
    }

    pub(crate) fn worker(&self, id: WorkerId) -> Arc<Worker> {
        self.workers[id.0 as usize].get().expect("an id names a worker").clone()
    }

    pub(crate) fn workers(&self) -> impl Iterator<Item = &Arc<Worker>> {
        self.workers.iter().map_while(OnceLock::get)
    }

    /// Binds a worker's thread to the CPU behind a slot. A refusal costs precision, not sense.
    pub(crate) fn pin(&self, worker: &Worker, cpu: CpuId) {
        os::thread::pin(worker.tid(), self.host_cpus[cpu.index()]);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    pub(crate) fn schedule(&self, cpu: CpuId, prev: Prev<Work<Job>>) -> Switch<Work<Job>> {
        self.machine.schedule(os::thread::now(), cpu, prev, &mut Doorbells(self))
    }

    /// A task left its CPU for good or for now.
    pub(crate) fn settle(&self, task: TaskOf<Job>, exited: bool) {
        if exited {
            return;
        }
        let cell = &task.payload.as_ref().expect("a blocked task has its payload").work.cell;
        let cell = cell.clone();
        if let Some(task) = cell.park(task) {
            self.wake(task);
        }
    }

    pub(crate) fn wake(&self, task: TaskOf<Job>) {
        self.machine.wake(os::thread::now(), task, &mut Doorbells(self));
    }

    pub(crate) fn spawn<F>(
        self: &Arc<Shared>,
        future: F,
        attr: Option<Attr>,
    ) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (cell, key) = self.enroll();
        let attr = attr.unwrap_or_else(|| Attr::normal(self.machine.all().clone()));
        let guarded = Guarded::new(future, cell.clone(), (self.clone(), key));
        let (shared, woken) = (self.clone(), cell.clone());
        let wake = move |runnable| {
            without_preemption(|| {
                if let Some(task) = woken.wake(runnable) {
                    shared.wake(task);
                }
            });
        };
        let (runnable, task) = async_task::spawn(guarded, wake);
        let handle = JoinHandle::<F::Output>::new(task, cell.clone());
        let id = TaskId(self.next_task.fetch_add(1, Ordering::Relaxed));
        let job = Job { cell, todo: Todo::Poll(runnable) };
        let mut task =
            Task::new(id, attr, Work { control: Arc::new(Control::default()), work: job });
        without_preemption(|| {
            task.set_cpu(os::local::worker(Worker::cpu).unwrap_or_default());
            self.machine.spawn(os::thread::now(), task, &mut Doorbells(self));
        });
        handle
    }

    /// A new task's cell, and its place among the live ones. Makes room for it on every CPU.
    fn enroll(&self) -> (Arc<Cell>, usize) {
        let cell = Arc::new(Cell::default());
        without_preemption(|| {
            let mut live = lock(&self.live);
            let key = live.cells.insert(cell.clone());
            let mut room = lock(&self.room);
            if live.cells.len() > *room {
                *room = live.cells.len().next_power_of_two();
                self.machine.reserve(*room);
            }
            if live.closed {
                cell.abort();
            }
            (cell, key)
        })
    }

    /// A future is gone.
    pub(crate) fn ended(&self, key: usize) {
        let (cell, last) = without_preemption(|| {
            let mut live = lock(&self.live);
            (live.cells.remove(key), live.closed && live.cells.is_empty())
        });
        drop(cell);
        if last && let Some(closer) = self.closer.get() {
            closer.unpark();
        }
    }

    /// Ends every task at its next await, and waits until all have ended.
    fn end_tasks(&self) {
        let _ = self.closer.set(thread::current());
        let cells: Vec<_> = {
            let mut live = lock(&self.live);
            live.closed = true;
            live.cells.iter().map(|(_, cell)| cell.clone()).collect()
        };
        cells.iter().for_each(|cell| cell.abort());
        while !lock(&self.live).cells.is_empty() {
            thread::park();
        }
    }

    /// Arms a timer on the CPU of the calling worker, or on the first.
    pub(crate) fn arm(
        &self,
        window: runyard_engine::timer::Window,
        waker: &Waker,
    ) -> (CpuId, runyard_engine::timer::TimerId) {
        let waker = waker.clone();
        without_preemption(|| {
            let own = os::local::worker(Worker::cpu);
            let cpu = own.unwrap_or_default();
            let key = lock(&self.timers[cpu.index()]).insert(waker);
            let timer = self.machine.arm(cpu, window, Token(key as u64));
            match own {
                Some(_) => os::local::worker(Worker::arm),
                // It may sleep for longer than that, or its timer be set to later.
                None => {
                    ring(self, cpu);
                    None
                }
            };
            (cpu, timer)
        })
    }

    pub(crate) fn cancel(&self, cpu: CpuId, timer: runyard_engine::timer::TimerId) {
        without_preemption(|| self.machine.cancel(cpu, timer));
    }

    /// A timer of `cpu` expired.
    pub(crate) fn fire(&self, cpu: CpuId, token: Token) {
        let waker = lock(&self.timers[cpu.index()]).try_remove(token.0 as usize);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn shut_down(&self) {
        self.end_tasks();
        self.over.store(true, Ordering::Release);
        self.keeper.look();
        for cpu in self.machine.config().topology.iter() {
            ring(self, cpu);
        }
        for worker in self.workers() {
            worker.baton.free();
        }
        let own = thread::current().id();
        for thread in std::mem::take(&mut *lock(&self.threads)) {
            if thread.thread().id() != own {
                let _ = thread.join();
            }
        }
    }
}

/// How the window of a timer follows from what is asked.
pub(crate) fn window(
    soft: runyard_engine::time::Time,
    slack: Nanos,
) -> runyard_engine::timer::Window {
    runyard_engine::timer::Window { soft, hard: soft + slack }
}
