//! What workers, wakers and handles share: the machine, the slots, the live tasks, and how tasks
//! come, wake, and end. How all of it ends: [`end`].

mod end;

use crate::driver::{self, Driver};
use crate::errands::Errands;
use crate::group::{Group, Membership};
use crate::guards;
use crate::handoff::{Slot, WorkerId};
use crate::keeper::{self, Keeper};
use crate::late::Late;
use crate::limit::{self, Limit};
use crate::maker::{self, Maker, Refusal};
use crate::meter::Meters;
use crate::os;
use crate::os::biased::Marks;
use crate::paused::here;
use crate::paused::host::{Host, Look};
use crate::places::{Place, Places};
use crate::primitives::{
    Arc, AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Mutex, OnceLock, Ordering, lock,
};
use crate::quota;
use crate::rubbish::{Bin, Rubbish, discard};
use crate::runtime::Builder;
use crate::siege;
use crate::slotless::Slotless;
use crate::snapshot::Groups;
use crate::stall::{self, Stalls};
use crate::task::{Asked, Cell, Job, JoinHandle, NewCell, Todo, without_preemption};
use crate::teller::{self, Teller};
use crate::threads::Threads;
use crate::timers;
use crate::worker::batch::Batches;
use crate::worker::newcomers::Outsiders;
use crate::worker::{POLL_GRACE, Worker, ring};
use runyard_engine::attr::{Attr, LatencyNice, Nice, Policy};
use runyard_engine::config::Config;
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::event::What;
use runyard_engine::features::Feature;
use runyard_engine::limits::BadLimit;
use runyard_engine::limits::Throttling;
use runyard_engine::run_queue::Meter;
use runyard_engine::spec::GroupSpec;
use runyard_engine::task::{Change, TaskId};
use runyard_engine::time::{Nanos, Time};
use runyard_engine::topology::Topology;
use runyard_smp::machine::{Effects, Machine, TaskOf};
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::thread::{self, Thread};
use std::time::Instant;

/// How many boxes of tasks that are over each part keeps, for a burst of spawns: 720 KiB at the most, and 4 MiB with their
/// cells.
const BOXES: usize = 4_096;

/// How large a cell is at the most that is kept with the box: with its future, which is gone. A thread that spawns frees
/// what it allocates then; the allocator has that at hand.
const KEPT: usize = 1_024;

/// In how many parts the live tasks are for each CPU. All but one are for threads that are no workers: with one for each
/// such thread, that would meet all workers at its lock, as these end what it spawned.
const PARTS: usize = 4;

/// How many workers can be the favourites of a lock: 32 KiB of marks. More than that are there only where many tasks have
/// been stopped in the middle of their polls.
const MARKS: usize = 256;

/// After so many runtimes their numbers come again: fewer than 2^14, as a mutex has room for.
const RUNTIMES: u32 = 16_000;

/// How many tasks there is room for from the start.
pub(crate) const FIRST_ROOM: usize = 1_024;

/// What workers, wakers and handles share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Tells this process's runtimes apart: those of today at least.
    pub(crate) number: u16,
    pub(crate) machine: Machine<Job>,
    /// There if this runtime is in virtual time, without workers.
    pub(crate) paused: Option<Host>,
    pub(crate) slots: Box<[Slot]>,
    /// None, if each poll is decided for.
    pub(crate) batches: Box<[Batches]>,
    /// Which worker runs the task of each slot.
    pub(crate) meters: Arc<Meters>,
    pub(crate) threads: Arc<Threads>,
    /// The CPUs of this machine on which the process may run: first those behind ours, in order.
    host_cpus: Vec<usize>,
    /// All of those.
    pub(crate) everywhere: os::thread::Places,
    /// Whether each worker is bound to the CPU behind its slot.
    pins: bool,
    /// Who is to be woken by the timers of each CPU.
    pub(crate) timers: Box<[Mutex<timers::Table>]>,
    /// Serves timers when no worker does any more.
    pub(crate) late: Late,
    pub(crate) errands: Errands,
    /// Drives what tokio has, if tasks may use that.
    pub(crate) driver: Driver,
    /// What each CPU has let go of.
    pub(crate) bins: Box<[Bin]>,
    /// How many tasks are over of which the groups are in some bin, or in the hands of who empties that.
    pub(crate) nr_leaving: AtomicUsize,
    pub(crate) keeper: Keeper,
    pub(crate) maker: Maker,
    /// Which threads run on without a slot.
    pub(crate) slotless: Slotless,
    /// The threads of the keeper, the maker, the siege, and of who looks for stalls.
    servants: Mutex<Vec<thread::JoinHandle<()>>>,
    over: AtomicBool,
    pub(crate) signal: i32,
    /// The seed of the siege, if this runtime is under one.
    pub(crate) siege: Option<u64>,
    /// The lowest latency nice value that a task may ask for.
    pub(crate) lowest_latency_nice: LatencyNice,
    /// Whether a task group was ever there. Until then a task that ends leaves none.
    pub(crate) has_groups: AtomicBool,
    /// Whether foreign code is stopped.
    pub(crate) preempts: bool,
    /// Tells the observer, if there is one.
    pub(crate) teller: Option<Teller>,
    /// Looks for stalls, if somebody wants to know.
    pub(crate) stalls: Option<Stalls>,
    /// How much CPU time there is in a second.
    pub(crate) capacity: Nanos,
    max_groups: usize,
    /// The groups that there are, for who watches.
    pub(crate) groups: Groups,
    /// From when the observer's times count.
    pub(crate) started: Instant,
    pub(crate) next_task: AtomicU64,
    /// The tasks that were spawned by no poll.
    pub(crate) outsiders: Outsiders,
    /// All CPUs, a copy for each of them: it is counted who knows the set.
    all: Box<[CpuSet]>,
    /// The tasks that are not over: a part for each CPU, and then those for who is on none.
    parts: Box<[Mutex<Part>]>,
    /// How many boxes of tasks there are.
    nr_boxes: AtomicUsize,
    /// No more tasks may come.
    pub(crate) closed: AtomicBool,
    /// No more may come that serve others, of which none is left.
    serves_nobody: AtomicBool,
    /// Who waits for the last of them to end.
    closer: OnceLock<Thread>,
    /// For how many tasks there is room on every CPU.
    room: AtomicUsize,
}

/// What is asked for a task that is spawned.
#[derive(Debug)]
pub(crate) struct NewTask {
    pub(crate) attr: Attr,
    pub(crate) slack: Nanos,
    pub(crate) reset_on_fork: bool,
    pub(crate) group: Option<Group>,
    /// Whether it asks for CPUs of its own.
    pub(crate) has_affinity: bool,
    pub(crate) name: Option<String>,
    /// It is of the runtime itself, serves other tasks, and ends after them.
    pub(crate) serves: bool,
    /// It is a blocking function.
    pub(crate) blocks: bool,
}

impl NewTask {
    /// Whether the tasks that it spawns may begin with anything but the defaults, by what is asked for it now.
    fn bequeaths(&self) -> bool {
        let Attr { policy, latency_nice, slice, .. } = self.attr;
        let plain = policy == Policy::Normal(Nice::default())
            && latency_nice == LatencyNice::ZERO
            && slice.is_none()
            && self.slack == Attr::DEFAULT_SLACK
            && self.group.is_none()
            && !self.has_affinity;
        !plain && !self.serves
    }
}

/// Tasks that began on one CPU, away from its neighbours' cache lines.
#[derive(Debug)]
#[repr(align(128))]
struct Part {
    live: Places<Arc<Cell>>,
    nr_live: usize,
    /// How many of them serve the others, and end after them.
    nr_serving: usize,
    /// Boxes of tasks that are over: own code may not free them.
    boxes: Vec<TaskOf<Job>>,
}

impl Default for Part {
    fn default() -> Part {
        let boxes = Vec::with_capacity(BOXES);
        Part { live: Places::default(), nr_live: 0, nr_serving: 0, boxes }
    }
}

/// What the machine asks for: a CPU that is to switch is kicked at once.
pub(crate) struct KickNow<'a>(pub(crate) &'a Shared);

impl Effects<Job> for KickNow<'_> {
    fn kick(&mut self, cpu: CpuId) {
        ring(self.0, cpu);
    }

    fn throttling(&mut self, cpu: CpuId, throttling: Throttling) {
        self.0.tell_at_once(cpu, || throttling.into());
    }
}

/// As [`KickNow`], but the CPU of the calling worker, which is in a poll that probably ends soon,
/// is not kicked before that.
struct DeferOwnKick<'a> {
    shared: &'a Shared,
    own: CpuId,
    kicked: bool,
}

impl Effects<Job> for DeferOwnKick<'_> {
    fn kick(&mut self, cpu: CpuId) {
        if cpu == self.own {
            self.kicked = true;
        } else {
            ring(self.shared, cpu);
        }
    }

    fn throttling(&mut self, cpu: CpuId, throttling: Throttling) {
        self.shared.tell_at_once(cpu, || throttling.into());
    }
}

impl Shared {
    pub(crate) fn new(
        host_cpus: Vec<usize>,
        preempts: bool,
        mut builder: Builder,
        driver: Driver,
    ) -> Shared {
        os::thread::choose_clock();
        let cpus = builder.workers.unwrap_or(usize::MAX).clamp(1, host_cpus.len());
        let topology = Topology::flat(cpus as u32).expect("the kernel has fewer CPUs");
        // A task takes along what it has in the caches of its CPU, which is little beside the wait
        // for the end of another's poll.
        // The room of a run queue is for tasks: a ghost of each on every CPU may be too many.
        let features = builder.features.without(Feature::DelayDequeue);
        let config = Config {
            features,
            tickless: true,
            skew_tick: true,
            accounts: builder.statistics,
            migration_cost: Nanos::ZERO,
            ..builder.model.config(topology)
        };
        let (most_threads, max_groups) =
            (builder.most_threads(host_cpus.len()), builder.max_groups);
        let machine = Machine::with_room(config, &[GroupSpec::ROOT], max_groups);
        let machine = machine.expect("the defaults fit together");
        machine.reserve(FIRST_ROOM + max_groups);
        let threads = Arc::new(Threads::new(most_threads, builder.hooks));
        let meters = Arc::new(Meters::new(topology.cpus(), threads.clone()));
        let paused = builder.paused.map(|seed| Host::new(seed, builder.observer.take()));
        if paused.is_none() {
            machine.charge_by(&(meters.clone() as Arc<dyn Meter>));
        }
        let quota = if paused.is_none() { quota::of_this_process() } else { None };
        let maker = Maker::default();
        maker.reserve_lobby(&mut VecDeque::with_capacity(FIRST_ROOM));
        let (epoch, started) = (os::thread::now(), Instant::now());
        let teller = builder.observer.map(|observer| Teller::new(observer, epoch));
        // What observers and accounts tell is told of decisions, and in virtual time a batch would never end.
        let has_batches = features.has(Feature::BatchDispatch)
            && paused.is_none()
            && teller.is_none()
            && !builder.statistics;
        let batched = topology.iter().filter(|_| has_batches);
        let marks = Marks::new(if has_batches { most_threads.min(MARKS) } else { 0 });
        let cpus = topology.iter();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = 1 + NEXT.fetch_add(1, Ordering::Relaxed) % RUNTIMES;
        Shared {
            number: number as u16,
            machine,
            paused,
            meters,
            batches: batched.map(|cpu| Batches::new(cpu, &marks)).collect(),
            slots: cpus.map(|cpu| Slot::new(WorkerId(cpu.0.into()))).collect(),
            threads,
            timers: topology.iter().map(|_| Mutex::default()).collect(),
            everywhere: os::thread::Places::new(&host_cpus),
            host_cpus,
            pins: builder.pins,
            late: Late::default(),
            errands: Errands::new(topology.cpus()),
            driver,
            bins: topology.iter().map(|_| Bin::default()).collect(),
            nr_leaving: AtomicUsize::new(0),
            keeper: Keeper::new(),
            maker,
            slotless: Slotless::new(most_threads),
            servants: Mutex::default(),
            over: AtomicBool::new(false),
            signal: builder.signal,
            siege: builder.siege,
            lowest_latency_nice: builder.lowest_latency_nice,
            has_groups: AtomicBool::new(false),
            preempts,
            teller,
            stalls: builder.on_stall.map(Stalls::new),
            capacity: limit::capacity(topology.cpus(), quota),
            max_groups,
            groups: Groups::default(),
            started,
            next_task: AtomicU64::new(0),
            outsiders: Outsiders::default(),
            all: topology.iter().map(|_| topology.iter().collect()).collect(),
            parts: (0..PARTS * topology.cpus()).map(|_| Mutex::default()).collect(),
            nr_boxes: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            serves_nobody: AtomicBool::new(false),
            closer: OnceLock::new(),
            room: AtomicUsize::new(FIRST_ROOM),
        }
    }

    /// Starts the teller, the driver, the first worker of each slot, its spares, the keeper and the maker.
    ///
    /// # Errors
    /// What the system refuses; then no thread is left.
    pub(crate) fn start(self: &Arc<Shared>) -> Result<(), Refusal> {
        guards::enlist(self);
        let started = self.start_threads();
        if started.is_err() {
            self.shut_down();
        }
        started
    }

    fn start_threads(self: &Arc<Shared>) -> Result<(), Refusal> {
        if let Some(teller) = &self.teller {
            teller.has_started(self.start_servant("runyard-teller", teller::run)?);
        }
        driver::start(self)?;
        if self.stalls.is_some() {
            self.keep_servant(self.start_servant("runyard-stalls", stall::run)?);
        }
        for cpu in self.machine.config().topology.iter() {
            self.start_worker(cpu, true)?;
        }
        for cpu in self.machine.config().topology.iter() {
            for _ in 0..maker::SPARES {
                let id = self.start_worker(cpu, false)?;
                self.keep_spare(cpu, id);
            }
        }
        self.keep_servant(self.start_servant("runyard-maker", maker::run)?);
        if self.preempts {
            self.keep_servant(self.start_servant("runyard-keeper", keeper::run)?);
            if self.siege.is_some() {
                self.keep_servant(self.start_servant("runyard-siege", siege::run)?);
            }
            // A thread that starts allocates. Before the first task may be stopped both are beyond that.
            self.keeper.wait_until_both_watch();
        }
        Ok(())
    }

    pub(crate) fn start_servant(
        self: &Arc<Shared>,
        name: &str,
        body: fn(&Arc<Shared>),
    ) -> Result<thread::JoinHandle<()>, Refusal> {
        let shared = self.clone();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            os::local::be_servant();
            body(&shared);
        });
        thread.map_err(Refusal::Thread)
    }

    fn keep_servant(&self, thread: thread::JoinHandle<()>) {
        lock(&self.servants).push(thread);
    }

    /// Asks the calling thread's worker, if it is one of this runtime's. May be called in a signal
    /// handler.
    pub(crate) fn here<R>(&self, ask: impl FnOnce(&Worker) -> R) -> Option<R> {
        let ours = |worker: &Worker| std::ptr::eq(&raw const *worker.shared, self);
        os::local::worker(|worker| ours(worker).then(|| ask(worker))).flatten()
    }

    /// Takes the slot of `cpu` from a worker that blocks in foreign code, and gives it to a spare.
    /// `false` if there is none, or the worker does not block any more.
    pub(crate) fn take_slot(&self, cpu: CpuId, from: WorkerId) -> bool {
        let slot = self.slot(cpu);
        let Some(spare) = slot.take_spare() else {
            self.maker.order();
            return false;
        };
        if !slot.has_spares(maker::SPARES) {
            self.maker.order();
        }
        let taken = slot.take_from(from, spare);
        if taken {
            self.grant(spare);
        } else {
            // Not to the pool, whose lock the handler must not take. If 64 others came meanwhile, this
            // one waits until the end.
            slot.put_spare(spare);
        }
        taken
    }

    /// Grants a worker its baton. May be called in a signal handler.
    pub(crate) fn grant(&self, id: WorkerId) {
        self.worker(id).into_iter().for_each(|worker| worker.baton.grant());
    }

    pub(crate) fn slot(&self, cpu: CpuId) -> &Slot {
        &self.slots[cpu.index()]
    }

    /// As [`Threads::worker`].
    pub(crate) fn worker(&self, id: WorkerId) -> Option<Arc<Worker>> {
        self.threads.worker(id)
    }

    /// Whether each worker is bound to the CPU behind its slot.
    pub(crate) fn pins(&self) -> bool {
        self.pins
    }

    /// Binds a worker's thread to the CPU behind a slot, if workers are to be bound. A refusal costs
    /// precision, not sense.
    pub(crate) fn pin(&self, worker: &Worker, cpu: CpuId) {
        if self.pins {
            os::thread::bind(worker.tid(), [self.host_cpus[cpu.index()]]);
        }
    }

    /// Binds a worker's thread to the CPUs behind these, or to all of the process; not if it is pinned, to one
    /// of them.
    pub(crate) fn bind(&self, worker: &Worker, cpus: Option<&CpuSet>) {
        let behind = |cpu: CpuId| self.host_cpus[cpu.index()];
        match cpus {
            _ if self.pins => false,
            Some(cpus) => os::thread::bind(worker.tid(), cpus.iter().map(behind)),
            None => os::thread::bind(worker.tid(), self.host_cpus.iter().copied()),
        };
    }

    /// What each slot and each worker does, as far as that is known without locks.
    pub(crate) fn picture(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let nr_live = self.nr_live();
        let (scarce, waiting) = (self.maker.is_scarce(), self.maker.nr_in_lobby());
        write!(out, "at {}: {nr_live} live tasks, ", os::thread::now().0)?;
        writeln!(out, "{waiting} wait for threads, threads are scarce {scarce}")?;
        for cpu in self.machine.config().topology.iter() {
            let slot = self.slot(cpu);
            let (WorkerId(owner), doing) = slot.doing();
            let (asked, spare) = (slot.is_pending(), slot.has_spares(1));
            let (waits, due) = (self.is_wanted(cpu), self.machine.next_expiry(cpu));
            write!(out, "cpu {cpu}: owner {owner}, doing {doing:?}, asked to schedule {asked}, ")?;
            writeln!(out, "has a spare {spare}, somebody waits {waits}, next expiry {due:?}")?;
        }
        self.threads.workers().try_for_each(|worker| worker.picture(out))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Whether somebody waits for a CPU, as far as is known without locks.
    pub(crate) fn somebody_waits(&self) -> bool {
        self.machine.config().topology.iter().any(|cpu| self.is_wanted(cpu))
    }

    /// Parks a task that has blocked, or wakes it if it was woken meanwhile.
    pub(crate) fn park_blocked(&self, task: TaskOf<Job>) {
        if let Some((task, since)) = Cell::park(task) {
            self.wake(os::thread::now(), task, since);
        }
    }

    /// Makes a blocked task runnable, which it could have been since `since`.
    pub(crate) fn wake(&self, now: Time, task: TaskOf<Job>, since: Time) {
        self.tell_wake(&task, since);
        self.queue(now, task, false);
    }

    /// Brings a task to a run queue: to the caller's, if the caller is in a poll there and both are
    /// fair. It waits for the end of that poll then, though not for long.
    fn queue(&self, now: Time, mut task: TaskOf<Job>, is_new: bool) {
        let poll = self.here(Worker::cpu_of_poll).flatten().or_else(here::cpu_of_poll);
        if is_new && !self.batches.is_empty() {
            task = match self.welcome(now, task, poll) {
                Ok(()) => return,
                Err(task) => task,
            };
        }
        let fx = &mut KickNow(self);
        let Some(own) = poll.filter(|_| task.rt_prio().is_none()) else {
            match is_new {
                true => self.machine.spawn(now, task, poll, fx),
                false => {
                    let waker = self.here(|worker| worker.owns().then(|| worker.cpu()));
                    self.machine.wake(now, task, waker.flatten().or_else(here::cpu), fx)
                }
            };
            return;
        };
        let fx = &mut DeferOwnKick { shared: self, own, kicked: false };
        let to = match is_new {
            true => self.machine.spawn_sync(now, task, own, fx),
            false => self.machine.wake_sync(now, task, own, fx),
        };
        if let Some(host) = self.paused.as_ref().filter(|_| fx.kicked || to == own) {
            host.look(own, Look { at: now + POLL_GRACE, kicked: fx.kicked });
        } else if fx.kicked || to == own {
            let owns = self.here(|worker| {
                worker.look_soon(now, fx.kicked);
                worker.owns()
            });
            if owns != Some(true) {
                // The slot was taken meanwhile.
                ring(self, own);
            }
        }
    }

    /// Carries out a request for the task that `cell` belongs to.
    pub(crate) fn change(&self, cell: &Cell, change: Change) {
        self.assert_that_may_ask();
        self.machine.change(os::thread::now(), cell, change, &mut KickNow(self));
        self.claim(&cell.tag);
    }

    #[track_caller]
    pub(crate) fn spawn<F>(self: &Arc<Shared>, future: F, new: NewTask) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let id = TaskId(self.next_task.fetch_add(1, Ordering::Relaxed));
        self.note_place(id, Location::caller());
        let bequeaths = new.bequeaths();
        let NewTask { attr, slack, reset_on_fork, group, has_affinity, name, serves, blocks } = new;
        let asked = Asked::new(&attr, reset_on_fork);
        let light = serves || !(self.preempts || blocks);
        let new = NewCell { id, name, asked, slack, serves, bequeaths, light };
        let (cell, result) = os::future::task(self, new, future);
        let result = JoinHandle::new(result);
        if let Some(group) = group {
            without_preemption(|| *lock(&cell.rest().membership) = Membership::of(group));
        }
        if has_affinity {
            cell.note_affinity(&attr.affinity);
        }
        let Some(used) = self.enroll(&cell) else {
            refuse(&cell);
            return result;
        };
        let job = Job { cell, todo: Todo::Poll };
        let mut task = match used {
            Some(used) => used.renewed(id, attr, job),
            None => self.new_box(id, attr, job),
        };
        if self.machine.config().accounts {
            task.keep_account();
        }
        without_preemption(|| {
            let now = os::thread::now();
            task.set_cpu(self.here(Worker::cpu).unwrap_or_else(|| self.first_cpu()));
            self.tell(task.cpu(), || What::Spawn { task: id });
            self.tell_wake(&task, now);
            self.queue(now, task, true);
        });
        result
    }

    /// How many tasks are not over, in each part as it is when that is looked at.
    pub(crate) fn nr_live(&self) -> usize {
        without_preemption(|| self.parts.iter().map(|part| lock(part).nr_live).sum())
    }

    /// All CPUs of the runtime.
    pub(crate) fn all(&self) -> &CpuSet {
        &self.all[self.part() % self.all.len()]
    }

    /// Puts a new task among the live ones. The box of one that is over, if there is one; `None` if the task is refused.
    ///
    /// A runtime that ends takes no more tasks. It says so before it looks for the last time how many are live; a new task
    /// is live before this looks whether the runtime says so. So either the end waits for the task, or the task is
    /// refused.
    fn enroll(&self, cell: &Arc<Cell>) -> Option<Option<TaskOf<Job>>> {
        let used = without_preemption(|| {
            let nth = self.part();
            let mut part = lock(&self.parts[nth]);
            cell.place.store(Place::new(nth, part.live.next()).0, Ordering::Release);
            part.live.insert(cell.clone());
            part.nr_live += 1;
            part.nr_serving += usize::from(cell.serves);
            part.boxes.pop()
        });
        let ends = if cell.serves { &self.serves_nobody } else { &self.closed };
        if !ends.load(Ordering::SeqCst) {
            return Some(used);
        }
        let place = Place(cell.place.load(Ordering::Acquire));
        let used = without_preemption(|| self.withdraw(place, cell.serves, used));
        drop(used);
        None
    }

    /// A box for a task more than there ever were at a time, with room for it on every CPU.
    #[cold]
    fn new_box(&self, id: TaskId, attr: Attr, job: Job) -> TaskOf<Job> {
        let boxes = self.nr_boxes.fetch_add(1, Ordering::AcqRel) + 1;
        if boxes > self.room.load(Ordering::Acquire) {
            self.make_room(boxes);
        }
        runyard_engine::task::Task::new(id, attr, job)
    }

    /// The cell of a live task.
    pub(crate) fn cell_at(&self, place: u64) -> Option<Arc<Cell>> {
        let place = Place(place);
        lock(&self.parts[place.part()]).live.get(place.key()).cloned()
    }

    /// The place of some live task, as `drawn` has it. Allocates nothing.
    pub(crate) fn some_place(&self, drawn: u64) -> Option<u64> {
        let (part, from) = (drawn as u32 as usize % self.parts.len(), (drawn >> 32) as usize);
        let live = &lock(&self.parts[part]).live;
        // New tasks have the lowest places that are free, or nearly so.
        let bound = (2 * live.len()).max(1);
        let mut near = (0..bound).map(|more| (from + more) % bound);
        near.find(|&key| live.contains(key)).map(|key| Place::new(part, key).0)
    }

    /// The task at a place takes a mutex, or somebody gives back what it took.
    pub(crate) fn count_guard_at(&self, place: u64, more: i32) {
        let place = Place(place);
        lock(&self.parts[place.part()]).live.count_guard(place.key(), more);
    }

    /// The cells of the live tasks, in each part as it is when that is looked at.
    pub(crate) fn cells(&self) -> impl Iterator<Item = Arc<Cell>> {
        self.parts.iter().flat_map(|part| {
            let mut cells = Vec::new();
            // The allocator is not called with the lock.
            while !without_preemption(|| {
                let part = lock(part);
                let has_room = part.live.len() <= cells.capacity();
                if has_room {
                    cells.extend(part.live.iter().cloned());
                }
                has_room
            }) {
                cells.reserve((2 * cells.capacity()).max(64));
            }
            cells
        })
    }

    /// A task is over. Keeps its box and its cell for the next one, if there is room. In a worker's
    /// own code.
    pub(crate) fn ended(&self, mut task: TaskOf<Job>, cell: Arc<Cell>) {
        if self.has_groups.load(Ordering::SeqCst) {
            cell.note_ended(&task.account());
            cell.leave_groups();
        }
        cell.note_used(task.runtime());
        let (place, serves) = (Place(cell.place.load(Ordering::Acquire)), cell.serves);
        // The cell goes when the box is used again, by a spawn, which may free it.
        let is_kept = size_of_val(&*cell) <= KEPT;
        let (kept, gone) = if is_kept { (Some(cell), None) } else { (None, Some(cell)) };
        task.payload = kept.map(|cell| Job { cell, todo: Todo::Nothing });
        let left = self.withdraw(place, serves, Some(task));
        left.into_iter().for_each(|task| discard(Rubbish::Task(task)));
        gone.into_iter().for_each(|cell| discard(Rubbish::Cell(cell)));
    }

    /// A task is not live any more. Keeps its box for the next one, if there is room. In own code.
    fn withdraw(
        &self,
        place: Place,
        serves: bool,
        task: Option<TaskOf<Job>>,
    ) -> Option<TaskOf<Job>> {
        let mut part = lock(&self.parts[place.part()]);
        // The caller owns the cell as well.
        part.live.end(place.key());
        part.nr_live -= 1;
        part.nr_serving -= usize::from(serves);
        let has_room = part.boxes.len() < BOXES;
        let (kept, left) = if has_room { (task, None) } else { (None, task) };
        part.boxes.extend(kept);
        drop(part);
        if left.is_some() {
            self.nr_boxes.fetch_sub(1, Ordering::AcqRel);
        }
        self.one_less_live();
        left
    }

    /// Makes room on each CPU for so many live tasks. Memory is taken and freed outside of sections; of two
    /// who do this at once one does it in vain.
    #[cold]
    fn make_room(&self, live: usize) {
        let len = live.next_power_of_two();
        for cpu in self.machine.config().topology.iter() {
            let mut room = self.machine.room(len + self.max_groups);
            without_preemption(|| self.machine.reserve_in(cpu, &mut room));
        }
        for batches in &self.batches {
            let mut memory = VecDeque::with_capacity(len);
            without_preemption(|| batches.newcomers.reserve(&mut memory));
        }
        let mut lobby = VecDeque::with_capacity(len);
        without_preemption(|| self.maker.reserve_lobby(&mut lobby));
        self.room.fetch_max(len, Ordering::AcqRel);
    }

    /// Which part of the live tasks a new one of the caller's belongs to.
    fn part(&self) -> usize {
        let own = self.here(|worker| worker.cpu().index());
        own.unwrap_or_else(|| {
            let (cpus, nth) = (self.slots.len(), self.next_task.load(Ordering::Relaxed) as usize);
            cpus + nth % (self.parts.len() - cpus)
        })
    }

    /// What a limit comes to here.
    pub(crate) fn limit_of(&self, limit: Limit) -> Result<runyard_engine::limits::Limit, BadLimit> {
        limit.of(self.capacity, self.slots.len())
    }
}

/// A task that its runtime, which ends, does not take is cancelled, and its future dropped as that of an aborted task is.
#[cold]
fn refuse(cell: &Arc<Cell>) {
    cell.note_aborted();
    os::future::run(cell);
}
