//! What workers, wakers and handles share: the machine, the slots, the live tasks, and how tasks
//! come, wake, and end.

use crate::builder::Task;
use crate::group::{Group, Membership};
use crate::guards::{self, Live};
use crate::handoff::{Slot, WorkerId};
use crate::harmless::harmless;
use crate::keeper::{self, Keeper};
use crate::limit::{self, Limit};
use crate::observe::Observer;
use crate::os;
use crate::primitives::{
    Arc, AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Mutex, OnceLock, Ordering, Weak, lock,
};
use crate::quota;
use crate::runtime::{Builder, Entered};
use crate::task::{Asked, Cell, Guarded, Job, JoinHandle, NewCell, Todo, without_preemption};
use crate::timers;
use crate::worker::{Worker, ring};
use runyard_engine::attr::{Attr, LatencyNice};
use runyard_engine::config::Config;
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::event::{Event, What};
use runyard_engine::limits::BadLimit;
use runyard_engine::limits::Throttling;
use runyard_engine::spec::GroupSpec;
use runyard_engine::task::{Change, TaskId};
use runyard_engine::time::{Nanos, Time};
use runyard_engine::topology::Topology;
use runyard_smp::control::Control;
use runyard_smp::machine::{Effects, Machine, TaskOf};
use slab::Slab;
use std::future::Future;
use std::thread::{self, Thread};

/// The most kernel threads that a runtime makes: its workers, and one for each task that was
/// stopped in the middle of a poll.
pub(crate) const MAX_WORKERS: usize = 4_096;

/// How many boxes of tasks that are over each CPU keeps: as many as it may have used since a burst
/// of spawns began.
const BOXES: usize = 1_024;

/// After so many runtimes their numbers come again: fewer than 2^14, as a mutex has room for.
const RUNTIMES: u32 = 16_000;

/// How many tasks there is room for from the start.
const FIRST_ROOM: usize = 1_024;

/// What workers, wakers and handles share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Tells this process's runtimes apart: those of today at least.
    pub(crate) number: u16,
    pub(crate) machine: Machine<Job>,
    slots: Box<[Slot]>,
    /// Alive as long as their threads, which is until the end.
    workers: Box<[OnceLock<Weak<Worker>>]>,
    nr_workers: AtomicUsize,
    /// The CPUs of this machine behind those of ours.
    host_cpus: Vec<usize>,
    /// Who is to be woken by the timers of each CPU.
    pub(crate) timers: Box<[Mutex<timers::Table>]>,
    pub(crate) keeper: Keeper,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
    maker: Mutex<Option<thread::JoinHandle<()>>>,
    over: AtomicBool,
    pub(crate) signal: i32,
    /// The lowest latency nice value that a task may ask for.
    pub(crate) lowest_latency_nice: LatencyNice,
    /// Whether any task was ever asked for a latency nice, a slice or a timer slack, or a task group was
    /// there. Until then a spawn need not look for what the new task inherits.
    pub(crate) has_heirs: AtomicBool,
    /// Whether foreign code is stopped.
    pub(crate) preempts: bool,
    observer: Option<Arc<dyn Observer>>,
    /// For each CPU, what is throttled there or not any more and the observer does not know yet: at most
    /// one entry for each task group, and one for the real-time tasks.
    throttlings: Box<[Mutex<Vec<Throttling>>]>,
    /// How much CPU time there is in a second.
    pub(crate) capacity: Nanos,
    max_groups: usize,
    /// From when the observer's times count.
    epoch: Time,
    /// Workers that were spares of some slot and are needed at none.
    pool: Mutex<Vec<WorkerId>>,
    pub(crate) next_task: AtomicU64,
    /// All CPUs, a copy for each of them: it is counted who knows the set.
    all: Box<[CpuSet]>,
    /// The tasks that are not over, in as many parts as there are CPUs; and how many.
    parts: Box<[Mutex<Part>]>,
    nr_live: AtomicUsize,
    /// No more tasks may come.
    closed: AtomicBool,
    /// Who waits for the last of them to end.
    closer: OnceLock<Thread>,
    /// For how many tasks there is room on every CPU; grown by one at a time.
    room: AtomicUsize,
    growing: Mutex<()>,
}

/// What is asked for a task that is spawned.
#[derive(Debug)]
pub(crate) struct NewTask {
    pub(crate) attr: Attr,
    pub(crate) slack: Nanos,
    pub(crate) reset_on_fork: bool,
    pub(crate) group: Option<Group>,
    pub(crate) name: Option<String>,
}

/// Tasks that began on one CPU.
#[derive(Debug, Default)]
struct Part {
    live: Slab<Live>,
    /// Boxes of tasks that are over, with their cells: allocating them anew is what threads that
    /// spawn and run would meet at the allocator for.
    boxes: Vec<TaskOf<Job>>,
}

/// The place of a task among the live ones: in which part, and where there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place(u64);

impl Place {
    fn new(part: usize, key: usize) -> Place {
        Place((part as u64) << 32 | key as u64)
    }

    fn part(self) -> usize {
        (self.0 >> 32) as usize
    }

    fn key(self) -> usize {
        self.0 as u32 as usize
    }
}

/// Ends the process if the runtime's own code panics: its tasks would wait for ever for a worker
/// that is gone. Panics of tasks are caught before.
struct Fatal;

impl Drop for Fatal {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}

/// What the machine asks for: a CPU that is to switch is kicked at once.
pub(crate) struct KickNow<'a>(pub(crate) &'a Shared);

impl Effects<Job> for KickNow<'_> {
    fn kick(&mut self, cpu: CpuId) {
        ring(self.0, cpu);
    }

    fn throttling(&mut self, cpu: CpuId, throttling: Throttling) {
        self.0.note_throttling(cpu, throttling);
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
        self.shared.note_throttling(cpu, throttling);
    }
}

impl Shared {
    pub(crate) fn new(host_cpus: Vec<usize>, preempts: bool, builder: Builder) -> Shared {
        let topology = Topology::flat(host_cpus.len() as u32).expect("the kernel has fewer CPUs");
        // A task takes along what it has in the caches of its CPU, which is little beside the wait
        // for the end of another's poll.
        let features = builder.features;
        let config = Config {
            features,
            tickless: true,
            migration_cost: Nanos::ZERO,
            ..Config::new(topology)
        };
        let max_groups = builder.max_groups;
        let machine = Machine::with_room(config, &[GroupSpec::ROOT], max_groups);
        let machine = machine.expect("the defaults fit together");
        machine.reserve(FIRST_ROOM + max_groups);
        let most = if builder.observer.is_some() { max_groups + 1 } else { 0 };
        let noted = || Vec::with_capacity(most);
        let throttlings = topology.iter().map(|_| Mutex::new(noted())).collect();
        let cpus = topology.iter();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = 1 + NEXT.fetch_add(1, Ordering::Relaxed) % RUNTIMES;
        Shared {
            number: number as u16,
            machine,
            slots: cpus.map(|cpu| Slot::new(WorkerId(cpu.0.into()))).collect(),
            workers: (0..MAX_WORKERS).map(|_| OnceLock::new()).collect(),
            nr_workers: AtomicUsize::new(0),
            timers: topology.iter().map(|_| Mutex::default()).collect(),
            host_cpus,
            keeper: Keeper::new(),
            threads: Mutex::new(Vec::new()),
            maker: Mutex::new(None),
            over: AtomicBool::new(false),
            signal: builder.signal,
            lowest_latency_nice: builder.lowest_latency_nice,
            has_heirs: AtomicBool::new(false),
            preempts,
            observer: builder.observer,
            throttlings,
            capacity: limit::capacity(topology.cpus(), quota::of_this_process()),
            max_groups,
            epoch: os::thread::now(),
            pool: Mutex::new(Vec::new()),
            next_task: AtomicU64::new(0),
            all: topology.iter().map(|_| topology.iter().collect()).collect(),
            parts: topology.iter().map(|_| Mutex::default()).collect(),
            nr_live: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            closer: OnceLock::new(),
            room: AtomicUsize::new(FIRST_ROOM),
            growing: Mutex::new(()),
        }
    }

    /// Starts the first worker of each slot, a spare for each, and the keeper.
    pub(crate) fn start(self: &Arc<Shared>) {
        guards::enlist(self);
        for cpu in self.machine.config().topology.iter() {
            self.add_worker(cpu, true);
        }
        if self.preempts {
            for cpu in self.machine.config().topology.iter() {
                self.add_spare(cpu);
            }
            let serve = |name: &str, body: fn(&Arc<Shared>)| {
                let shared = self.clone();
                let thread = thread::Builder::new().name(name.to_owned());
                thread.spawn(move || body(&shared)).expect("a thread can be made")
            };
            lock(&self.threads).push(serve("runyard-keeper", keeper::run));
            *lock(&self.maker) = Some(serve("runyard-maker", keeper::make));
            // A thread that starts allocates. Before the first task may be stopped both are beyond that.
            self.keeper.wait_until_both_watch();
        }
    }

    /// A worker that waits at a slot until somebody there is preempted. `false` at the limit.
    pub(crate) fn add_spare(self: &Arc<Shared>, cpu: CpuId) -> bool {
        let pooled = lock(&self.pool).pop();
        if let Some(id) = pooled {
            self.worker(id).into_iter().for_each(|worker| worker.move_to(cpu));
        }
        let spare = pooled.or_else(|| self.add_worker(cpu, false));
        spare.is_some_and(|id| self.keep_spare(cpu, id))
    }

    /// Leaves a worker that has nothing to do among the spares of a slot, or in the pool.
    pub(crate) fn keep_spare(&self, cpu: CpuId, id: WorkerId) -> bool {
        let kept = self.slot(cpu).put_spare(id);
        if !kept {
            lock(&self.pool).push(id);
        }
        kept
    }

    fn add_worker(self: &Arc<Shared>, cpu: CpuId, owns: bool) -> Option<WorkerId> {
        let nth = self.nr_workers.load(Ordering::Acquire);
        let place = self.workers.get(nth)?;
        let id = WorkerId(nth as u32);
        let worker = Worker::new(self, id, cpu);
        let thread = thread::Builder::new().name(format!("runyard-{cpu}"));
        assert!(place.set(Arc::downgrade(&worker)).is_ok(), "a place is used once");
        self.nr_workers.store(nth + 1, Ordering::Release);
        let (shared, lives) = (self.clone(), worker.clone());
        let spawned = thread.spawn(move || {
            let _fatal = Fatal;
            let _context = Entered::enter(&shared);
            lives.live(owns);
        });
        // Of a worker that owns nothing one can do without.
        let thread = match owns {
            true => spawned.expect("a thread can be made"),
            false => spawned.ok()?,
        };
        lock(&self.threads).push(thread);
        worker.wait_until_ready();
        Some(id)
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
            self.keeper.order();
            return false;
        };
        if !slot.has_spare() {
            self.keeper.order();
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

    /// A worker whose thread lives, which it does until the runtime ends. May be called in a signal
    /// handler: that thread keeps it, so nothing is freed here.
    pub(crate) fn worker(&self, id: WorkerId) -> Option<Arc<Worker>> {
        self.workers[id.0 as usize].get().expect("an id names a worker").upgrade()
    }

    pub(crate) fn workers(&self) -> impl Iterator<Item = Arc<Worker>> {
        self.workers.iter().map_while(OnceLock::get).filter_map(Weak::upgrade)
    }

    /// Binds a worker's thread to the CPU behind a slot. A refusal costs precision, not sense.
    pub(crate) fn pin(&self, worker: &Worker, cpu: CpuId) {
        os::thread::pin(worker.tid(), self.host_cpus[cpu.index()]);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Whether somebody waits for a CPU, as far as is known without locks.
    pub(crate) fn somebody_waits(&self) -> bool {
        self.machine.config().topology.iter().any(|cpu| self.machine.is_wanted(cpu))
    }

    /// Parks a task that has blocked, or wakes it if it was woken meanwhile.
    pub(crate) fn park_blocked(&self, task: TaskOf<Job>) {
        let cell = &task.payload.as_ref().expect("a blocked task has its payload").cell;
        let cell = cell.clone();
        if let Some((task, since)) = cell.park(task) {
            self.wake(os::thread::now(), task, since);
        }
    }

    /// Makes a blocked task runnable, which it could have been since `since`.
    pub(crate) fn wake(&self, now: Time, task: TaskOf<Job>, since: Time) {
        self.tell_wake(&task, since);
        self.queue(now, task, false);
    }

    /// As [`Shared::wake`], without a word to the observer, who may have to wait for a lock: it hears of it
    /// when the task is next.
    pub(crate) fn wake_quietly(&self, now: Time, task: TaskOf<Job>) {
        if self.observer.is_some() {
            task.payload
                .iter()
                .for_each(|job| job.cell.woken_quietly.store(now.0, Ordering::Relaxed));
        }
        self.queue(now, task, false);
    }

    /// Tells of a wake-up of `cell` that nobody told of.
    pub(crate) fn tell_of_quiet_wake(&self, cpu: CpuId, cell: &Cell) {
        if self.observer.is_some() {
            let since = cell.woken_quietly.swap(0, Ordering::Relaxed);
            if since > 0 {
                let since = self.told(Time(since));
                self.tell(cpu, || What::Wake { task: cell.id, since, by: None });
            }
        }
    }

    /// Brings a task to a run queue: to the caller's, if the caller is in a poll there and both are
    /// fair. It waits for the end of that poll then, though not for long.
    fn queue(&self, now: Time, task: TaskOf<Job>, is_new: bool) {
        let poll = self.here(Worker::cpu_of_poll).flatten();
        let fx = &mut KickNow(self);
        let Some(own) = poll.filter(|_| task.rt_prio().is_none()) else {
            match is_new {
                true => self.machine.spawn(now, task, poll, fx),
                false => {
                    let waker = self.here(|worker| worker.owns().then(|| worker.cpu()));
                    self.machine.wake(now, task, waker.flatten(), fx)
                }
            };
            return;
        };
        let fx = &mut DeferOwnKick { shared: self, own, kicked: false };
        let to = match is_new {
            true => self.machine.spawn_sync(now, task, own, fx),
            false => self.machine.wake_sync(now, task, own, fx),
        };
        if fx.kicked || to == own {
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

    fn tell_wake(&self, task: &TaskOf<Job>, since: Time) {
        self.tell(task.cpu(), || {
            let by = self.here(Worker::waking).flatten();
            What::Wake { task: task.id, since: self.told(since), by }
        });
    }

    /// The time, if somebody will ask.
    fn now_if_observed(&self) -> Time {
        self.observer.as_ref().map_or(self.epoch, |_| os::thread::now())
    }

    /// An instant as observers count.
    fn told(&self, at: Time) -> Time {
        Time(at.since(self.epoch).0)
    }

    /// Carries out a request for the task that `control` belongs to.
    pub(crate) fn change(&self, control: &Control, change: Change) {
        self.machine.change(os::thread::now(), control, change, &mut KickNow(self));
    }

    /// Those of `cpus` that this runtime has.
    ///
    /// # Panics
    /// If it has none of them.
    pub(crate) fn cpus_among(&self, cpus: impl IntoIterator<Item = usize>) -> CpuSet {
        let all = self.machine.all();
        let wanted: Vec<_> = cpus.into_iter().collect();
        let has = |&&cpu: &&usize| cpu < self.slots.len();
        let here: CpuSet = wanted.iter().filter(has).map(|&cpu| CpuId::at(cpu)).collect();
        assert!(!here.is_empty(), "the runtime has CPUs {all}, and none of {wanted:?}");
        here
    }

    pub(crate) fn spawn<F>(self: &Arc<Shared>, future: F, new: NewTask) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let id = TaskId(self.next_task.fetch_add(1, Ordering::Relaxed));
        let NewTask { attr, slack, reset_on_fork, group, name } = new;
        let asked = Asked::new(&attr, reset_on_fork);
        let (used, cell) = self.enroll(NewCell { id, name, asked, slack });
        if let Some(group) = group {
            without_preemption(|| *lock(&cell.membership) = Membership::of(group));
        }
        let guarded = Guarded::new(future, cell.clone());
        let woken = cell.clone();
        let wake = move |runnable| {
            without_preemption(|| {
                let since = os::local::worker(Worker::waking_since).flatten();
                // Only observers ask when somebody was woken who runs.
                let noted = since.unwrap_or_else(|| woken.shared.now_if_observed());
                if let Some(task) = woken.wake(runnable, noted) {
                    let now = os::thread::now();
                    woken.shared.wake(now, task, since.unwrap_or(now));
                }
            });
        };
        let (runnable, result) = async_task::spawn(guarded, wake);
        cell.set_waker(runnable.waker());
        let handle = Task { cell: cell.clone() };
        let job = Job { cell, todo: Todo::Poll(runnable) };
        let mut task = match used {
            Some(used) => used.renewed(id, attr, job),
            None => runyard_engine::task::Task::new(id, attr, job),
        };
        without_preemption(|| {
            let now = os::thread::now();
            task.set_cpu(self.here(Worker::cpu).unwrap_or_default());
            self.tell(task.cpu(), || What::Spawn { task: id });
            self.tell_wake(&task, now);
            self.queue(now, task, true);
        });
        JoinHandle::new(result, handle)
    }

    /// All CPUs of the runtime.
    pub(crate) fn all(&self) -> &CpuSet {
        &self.all[self.part()]
    }

    /// Puts a new task among the live ones, where there is room for it on every CPU: its cell, and
    /// the box of one that is over, if there is one.
    fn enroll(self: &Arc<Shared>, new: NewCell) -> (Option<TaskOf<Job>>, Arc<Cell>) {
        without_preemption(|| {
            let live = self.nr_live.fetch_add(1, Ordering::SeqCst) + 1;
            if live > self.room.load(Ordering::Acquire) {
                self.make_room(live);
            }
            // The allocator is not called with the lock, but for a part that grows.
            let nth = self.part();
            let mut used = lock(&self.parts[nth]).boxes.pop();
            let old = used.as_mut().and_then(|used| used.payload.take()).map(|job| job.cell);
            let cell = Cell::renewed(old, self, new);
            let live = lock(&self.parts[nth]).live.insert(Live::Task(cell.clone()));
            let place = Place::new(nth, live);
            cell.place.store(place.0, Ordering::Release);
            if self.closed.load(Ordering::SeqCst) {
                cell.abort();
            }
            (used, cell)
        })
    }

    /// The cell of a live task.
    pub(crate) fn cell_at(&self, place: u64) -> Option<Arc<Cell>> {
        let place = Place(place);
        lock(&self.parts[place.part()]).live.get(place.key()).and_then(Live::cell).cloned()
    }

    /// The task at a place takes a mutex, or somebody gives back what it took.
    pub(crate) fn count_guard_at(&self, place: u64, more: i32) {
        let place = Place(place);
        let live = &mut lock(&self.parts[place.part()]).live;
        if live.get_mut(place.key()).is_some_and(|live| live.count_guard(more)) {
            live.remove(place.key());
        }
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
                    cells.extend(part.live.iter().filter_map(|(_, live)| live.cell()).cloned());
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
        if self.has_heirs.load(Ordering::SeqCst) {
            cell.leave_groups();
        }
        let place = Place(cell.place.load(Ordering::Acquire));
        task.payload = Some(Job { cell, todo: Todo::Nothing });
        let mut part = lock(&self.parts[place.part()]);
        // The cell's other owner is the box.
        let is_free = part.live.get_mut(place.key()).is_some_and(Live::end);
        if is_free {
            part.live.remove(place.key());
        }
        if part.boxes.len() < BOXES {
            part.boxes.push(task);
        }
        // Before anything is freed.
        drop(part);
        let live = self.nr_live.fetch_sub(1, Ordering::SeqCst) - 1;
        if live == 0
            && self.closed.load(Ordering::SeqCst)
            && let Some(closer) = self.closer.get()
        {
            closer.unpark();
        }
    }

    fn make_room(&self, live: usize) {
        let _one = lock(&self.growing);
        if live > self.room.load(Ordering::Acquire) {
            let room = live.next_power_of_two();
            self.machine.reserve(room + self.max_groups);
            self.room.store(room, Ordering::Release);
        }
    }

    /// The caller's CPU as an index; for who has none, one after the other.
    fn part(&self) -> usize {
        let own = self.here(|worker| worker.cpu().index());
        own.unwrap_or_else(|| self.next_task.load(Ordering::Relaxed) as usize % self.slots.len())
    }

    /// Ends every task at its next await, and waits until all have ended.
    fn end_tasks(&self) {
        let _ = self.closer.set(thread::current());
        self.closed.store(true, Ordering::SeqCst);
        // Who waits for budget is to end too.
        without_preemption(|| {
            self.machine.lift_limits(os::thread::now(), &mut KickNow(self));
        });
        self.cells().for_each(|cell| cell.abort());
        while self.nr_live.load(Ordering::SeqCst) > 0 {
            thread::park();
        }
    }

    /// Tells the observer, if there is one, what happens on `cpu` at this moment.
    pub(crate) fn tell(&self, cpu: CpuId, what: impl FnOnce() -> What) {
        if let Some(observer) = &self.observer {
            let at = self.told(os::thread::now());
            let event = Event { at, cpu, what: what() };
            harmless(|| observer.event(&event));
        }
    }

    /// Tells the observer, if there is one, what is throttled on `cpu` and was not before, and the
    /// reverse. For the owner of the slot.
    pub(crate) fn tell_throttling(&self, cpu: CpuId) {
        if self.observer.is_none() {
            return;
        }
        let first = || {
            let mut noted = lock(&self.throttlings[cpu.index()]);
            (!noted.is_empty()).then(|| noted.remove(0))
        };
        while let Some(throttling) = first() {
            self.tell(cpu, || throttling.into());
        }
    }

    /// Something is throttled on `cpu`, or is not any more. The lock of the run queue is held: the owner
    /// of the slot tells of it later, if it is still so.
    fn note_throttling(&self, cpu: CpuId, throttling: Throttling) {
        if self.observer.is_none() {
            return;
        }
        let mut noted = lock(&self.throttlings[cpu.index()]);
        match noted.iter().position(|before| before.what == throttling.what) {
            Some(at) => drop(noted.remove(at)),
            None => noted.push(throttling),
        }
    }

    /// What a limit comes to here.
    pub(crate) fn limit_of(&self, limit: Limit) -> Result<runyard_engine::limits::Limit, BadLimit> {
        limit.of(self.capacity, self.slots.len())
    }

    pub(crate) fn shut_down(&self) {
        guards::delist(self);
        self.end_tasks();
        self.over.store(true, Ordering::Release);
        self.keeper.look();
        self.keeper.order();
        // First, as it makes workers.
        lock(&self.maker).take().into_iter().for_each(join);
        for cpu in self.machine.config().topology.iter() {
            ring(self, cpu);
        }
        for worker in self.workers() {
            worker.baton.free();
        }
        let threads = std::mem::take(&mut *lock(&self.threads));
        threads.into_iter().for_each(join);
        // They know the runtime.
        for part in &self.parts {
            drop(std::mem::take(&mut lock(part).boxes));
        }
    }
}

/// Waits for a thread, unless it is this one: an observer may have the last handle of the runtime.
fn join(thread: thread::JoinHandle<()>) {
    if thread.thread().id() != thread::current().id() {
        let _ = thread.join();
    }
}
