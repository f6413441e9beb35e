//! The state that workers, wakers and handles share, in parts: the machine, the [`registry`] of tasks, and the [`parts`]
//! for threads, CPUs and observers. Here tasks are spawned and woken. [`end`] has the end of the runtime.

mod end;
mod parts;
pub(crate) mod registry;

use self::parts::{Crew, HostCpus, Observation};
use self::registry::Registry;
use crate::adapters::driver::{self, Driver};
use crate::crew::homes::Homes;
use crate::crew::keeper;
use crate::crew::maker::{self, Maker, Refusal};
use crate::crew::meter::Meters;
use crate::crew::threads::Threads;
use crate::deferred::errands::Errands;
use crate::deferred::rubbish::Bin;
use crate::group::limit::{self, Limit};
use crate::group::quota;
use crate::group::{Group, Membership};
use crate::mutex::guards;
use crate::observe::teller::{self, Teller};
use crate::os;
use crate::os::biased::Marks;
use crate::os::here;
use crate::os::sync::{Arc, AtomicBool, AtomicU32, AtomicUsize, Mutex, Ordering, lock};
use crate::paused::host::{Host, Look};
use crate::protocol::handoff::{Slot, WorkerId};
use crate::runtime::Builder;
use crate::snapshot::Groups;
use crate::stall::{self, Stalls};
use crate::task::{Asked, Cell, Head, Job, JoinHandle, NewCell, Todo};
use crate::time::late::Late;
use crate::time::timers;
use crate::trial::siege;
use crate::worker::batch::Batches;
use crate::worker::current::without_preemption;
use crate::worker::newcomers::Outsiders;
use crate::worker::{POLL_GRACE, Worker, ring};
use runyard_engine::attr::{Attr, Cookie, LatencyNice, Nice, Policy};
use runyard_engine::config::Config;
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::event::What;
use runyard_engine::features::Feature;
use runyard_engine::limits::BadLimit;
use runyard_engine::limits::Throttling;
use runyard_engine::run_queue::Meter;
use runyard_engine::spec::GroupSpec;
use runyard_engine::task::Change;
use runyard_engine::time::{Nanos, Time, VTime};
use runyard_engine::topology::Topology;
use runyard_smp::machine::{Effects, Machine, TaskOf};
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::thread;
use std::time::Instant;

/// Maximum number of workers that can be favourites of a lock; their marks take 32 KiB. There are more workers only if
/// many tasks have been stopped in the middle of their polls.
const MARKS: usize = 256;

/// Number of runtimes after which their numbers repeat. It is below 2^14, because a mutex has room for no more.
const RUNTIMES: u32 = 16_000;

/// Number of tasks for which there is room from the start.
pub(crate) const FIRST_ROOM: usize = 1_024;

/// The state that workers, wakers and handles share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Distinguishes this process's runtimes, at least those that exist at the same time.
    pub(crate) number: u16,
    pub(crate) machine: Machine<Job>,
    pub(crate) registry: Registry,
    pub(crate) crew: Crew,
    pub(crate) cpus: HostCpus,
    pub(crate) observation: Observation,
    /// Present if this runtime is in virtual time, without workers.
    pub(crate) paused: Option<Host>,
    pub(crate) slots: Box<[Slot]>,
    /// The batches of each CPU. Empty if each poll is a separate scheduling decision.
    pub(crate) batches: Box<[Batches]>,
    /// The worker that runs the task of each slot.
    pub(crate) meters: Arc<Meters>,
    /// The waiters for the timers of each CPU.
    pub(crate) timers: Box<[Mutex<timers::Table>]>,
    /// Serves timers when no worker does any more.
    pub(crate) late: Late,
    pub(crate) errands: Errands,
    /// tokio's driver, if tasks may use it.
    pub(crate) driver: Driver,
    /// Discarded values of each CPU, which foreign code will free.
    pub(crate) bins: Box<[Bin]>,
    /// Number of finished tasks whose groups are in a bin, or held by the thread that empties it.
    pub(crate) nr_leaving: AtomicUsize,
    pub(crate) signal: i32,
    /// The seed of the siege, if this runtime is under one.
    pub(crate) siege: Option<u64>,
    /// The lowest latency nice value that a task may ask for.
    pub(crate) lowest_latency_nice: LatencyNice,
    /// Whether a task group was ever created. Until then a task that ends leaves none.
    pub(crate) has_groups: AtomicBool,
    /// Whether foreign code is preempted.
    pub(crate) preempts: bool,
    /// CPU time available in a second.
    pub(crate) capacity: Nanos,
    max_groups: usize,
    /// The tasks that were spawned outside of every poll.
    pub(crate) outsiders: Outsiders,
    /// All CPUs. Each CPU has its own copy of the set, because the set is reference counted.
    all: Box<[CpuSet]>,
}

/// The attributes of a task that is spawned.
#[derive(Debug)]
pub(crate) struct NewTask {
    pub(crate) attr: Attr,
    pub(crate) slack: Nanos,
    pub(crate) reset_on_fork: bool,
    pub(crate) group: Option<Group>,
    /// Whether it asks for its own CPUs.
    pub(crate) has_affinity: bool,
    pub(crate) name: Option<String>,
    /// Set for a task of the runtime itself, which serves other tasks and ends after them.
    pub(crate) serves: bool,
    /// Set for a blocking function.
    pub(crate) blocks: bool,
}

impl NewTask {
    /// Returns whether tasks that it spawns may start with attributes other than the defaults, by those that are now
    /// asked for it.
    fn bequeaths(&self) -> bool {
        let Attr { policy, latency_nice, slice, cookie, .. } = self.attr;
        let plain = policy == Policy::Normal(Nice::default())
            && latency_nice == LatencyNice::ZERO
            && slice.is_none()
            && self.slack == Attr::DEFAULT_SLACK
            && self.group.is_none()
            && cookie.is_none()
            && !self.has_affinity;
        !plain && !self.serves
    }
}

/// The effects of machine calls: a CPU that must switch is kicked at once.
pub(crate) struct KickNow<'a>(pub(crate) &'a Shared);

impl Effects<Job> for KickNow<'_> {
    fn kick(&mut self, cpu: CpuId) {
        ring(self.0, cpu);
    }

    fn throttling(&mut self, cpu: CpuId, throttling: Throttling) {
        self.0.tell_at_once(cpu, || throttling.into());
    }

    fn forced_idle(&mut self, cpu: CpuId, by: Option<Cookie>) {
        self.0.tell_at_once(cpu, || What::ForcedIdle { cookie: by });
    }

    fn first_outside(&mut self, cpu: CpuId) -> Option<VTime> {
        self.0.first_newcomer(cpu)
    }
}

/// Effects as [`KickNow`], except that the CPU of the calling worker is not kicked at once, because the worker's poll
/// probably ends soon.
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

    fn first_outside(&mut self, cpu: CpuId) -> Option<VTime> {
        self.shared.first_newcomer(cpu)
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
        let threads = builder.cores.unwrap_or(1);
        let topology = Topology::new(1, (cpus / threads) as u32, threads as u32);
        let topology = topology.expect("the kernel limits the number of CPUs");
        let features = match builder.cores {
            // Members of a batch could have different cookies.
            Ok(_) => builder.features.in_runtime().without(Feature::BatchDispatch),
            Err(_) => builder.features.in_runtime(),
        };
        // A migration has no assumed cost: the cache content that a task loses is little beside the wait for the end of
        // another task's poll.
        let mut numbers = Config {
            rt_runtime: Some(Config::RT_RUNTIME),
            migration_cost: Nanos::ZERO,
            ..builder.model.config(topology)
        };
        builder.tuned.apply(&mut numbers);
        let config = Config {
            features,
            tickless: true,
            skew_tick: true,
            accounts: builder.statistics,
            cookies: builder.cores.is_ok(),
            ..numbers
        };
        let (most_threads, max_groups) =
            (builder.most_threads(host_cpus.len()), builder.max_groups);
        let machine = Machine::with_room(config, &[GroupSpec::ROOT], max_groups);
        let machine = machine.expect("the parameters of the scheduler are consistent");
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
        // Observers and accounts need scheduling decisions, which polls of a batch do not have. In virtual time a batch
        // would never end.
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
            timers: topology.iter().map(|_| Mutex::default()).collect(),
            late: Late::default(),
            errands: Errands::new(topology.cpus()),
            driver,
            bins: topology.iter().map(|_| Bin::default()).collect(),
            nr_leaving: AtomicUsize::new(0),
            signal: builder.signal,
            siege: builder.siege,
            lowest_latency_nice: builder.lowest_latency_nice,
            has_groups: AtomicBool::new(false),
            preempts,
            capacity: limit::capacity(topology.cpus(), quota),
            max_groups,
            outsiders: Outsiders::default(),
            all: topology.iter().map(|_| topology.iter().collect()).collect(),
            registry: Registry::new(topology.cpus()),
            crew: Crew::new(threads, maker, most_threads),
            cpus: HostCpus {
                everywhere: os::thread::Places::new(&host_cpus),
                homes: Homes::new(topology.cpus(), builder.siege.is_some()),
                numbers: host_cpus,
                pins: builder.pins,
                cookies: builder.cores.map(drop),
            },
            observation: Observation {
                teller,
                stalls: builder.on_stall.map(Stalls::new),
                groups: Groups::default(),
                started,
            },
        }
    }

    /// Starts the teller, the driver, the first worker of each slot, its spares, the keeper and the maker.
    ///
    /// # Errors
    /// The refusal of the system. No thread is left then.
    pub(crate) fn start(self: &Arc<Shared>) -> Result<(), Refusal> {
        guards::enlist(self);
        let started = self.start_threads();
        if started.is_err() {
            self.shut_down();
        }
        started
    }

    fn start_threads(self: &Arc<Shared>) -> Result<(), Refusal> {
        if let Some(teller) = &self.observation.teller {
            teller.has_started(self.start_servant("runyard-teller", teller::run)?);
        }
        driver::start(self)?;
        if self.observation.stalls.is_some() {
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
            // A thread that starts allocates memory. Both threads are past that before the first task may be stopped.
            self.crew.keeper.wait_until_both_watch();
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
        self.crew.keep_servant(thread);
    }

    /// Calls `ask` with the calling thread's worker, if it is one of this runtime's. May be called in a signal handler.
    #[inline]
    pub(crate) fn here<R>(&self, ask: impl FnOnce(&Worker) -> R) -> Option<R> {
        let ours = |worker: &Worker| std::ptr::eq(&raw const *worker.shared, self);
        crate::worker::current::worker(|worker| ours(worker).then(|| ask(worker))).flatten()
    }

    /// Takes the slot of `cpu` from a worker that blocks in foreign code, and gives it to a spare. Returns `false` if
    /// there is no spare, or the worker does not block any more.
    pub(crate) fn take_slot(&self, cpu: CpuId, from: WorkerId) -> bool {
        let slot = self.slot(cpu);
        let Some(spare) = slot.take_spare() else {
            self.crew.maker.order();
            return false;
        };
        if !slot.has_spares(maker::SPARES) {
            self.crew.maker.order();
        }
        let taken = slot.take_from(from, spare);
        if taken {
            self.grant(spare);
        } else {
            // The spare does not return to the pool, whose lock the handler must not take. If 64 others came meanwhile,
            // it waits until the end.
            slot.put_spare(spare);
        }
        taken
    }

    /// Grants a worker its baton. May be called in a signal handler.
    pub(crate) fn grant(&self, id: WorkerId) {
        self.worker(id).into_iter().for_each(|worker| worker.baton.grant());
    }

    #[inline]
    pub(crate) fn slot(&self, cpu: CpuId) -> &Slot {
        &self.slots[cpu.index()]
    }

    /// Returns a worker, as [`Threads::worker`].
    pub(crate) fn worker(&self, id: WorkerId) -> Option<Arc<Worker>> {
        self.crew.threads.worker(id)
    }

    /// Returns whether each worker is bound to the CPU behind its slot.
    pub(crate) fn pins(&self) -> bool {
        self.cpus.pins
    }

    /// Binds a worker's thread to the CPU behind a slot, if workers are bound. A refusal costs precision, but not
    /// correctness.
    pub(crate) fn pin(&self, worker: &Worker, cpu: CpuId) {
        if self.cpus.pins {
            os::thread::bind(worker.tid(), [self.cpus.numbers[cpu.index()]]);
        }
    }

    /// Returns the CPU on which the sleeping owner of a slot should wake: where it slept, or where no owner is. Returns
    /// `None` if there is no such CPU.
    pub(crate) fn home_of(&self, slot: CpuId, slept_on: u32) -> Option<u32> {
        let all = self.cpus.numbers.iter().map(|&cpu| cpu as u32);
        std::iter::once(slept_on).chain(all).find(|&cpu| !self.cpus.homes.has_others(slot, cpu))
    }

    /// Binds a worker's thread to the CPUs behind `cpus`, or to all of the process. A pinned thread is not changed.
    pub(crate) fn bind(&self, worker: &Worker, cpus: Option<&CpuSet>) {
        let behind = |cpu: CpuId| self.cpus.numbers[cpu.index()];
        match cpus {
            _ if self.cpus.pins => false,
            Some(cpus) => os::thread::bind(worker.tid(), cpus.iter().map(behind)),
            None => os::thread::bind(worker.tid(), self.cpus.numbers.iter().copied()),
        };
    }

    /// Writes the state of each slot and each worker, as far as that is known without locks.
    pub(crate) fn picture(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let nr_live = self.registry.nr_live();
        let (scarce, waiting) = (self.crew.maker.is_scarce(), self.crew.maker.nr_in_lobby());
        write!(out, "at {}: {nr_live} live tasks, ", os::thread::now().0)?;
        writeln!(out, "{waiting} wait for threads, threads are scarce {scarce}")?;
        for cpu in self.machine.config().topology.iter() {
            let slot = self.slot(cpu);
            let (WorkerId(owner), doing) = slot.doing();
            let (asked, spare) = (slot.is_pending(), slot.has_spares(1));
            let (waits, due) = (self.is_wanted(cpu), self.machine.next_expiry(cpu));
            write!(out, "cpu {cpu}: owner {owner}, doing {doing:?}, asked to schedule {asked}, ")?;
            writeln!(out, "has a spare {spare}, tasks wait {waits}, next expiry {due:?}")?;
        }
        self.crew.threads.workers().try_for_each(|worker| worker.picture(out))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.crew.is_over()
    }

    /// Returns whether a task waits for a CPU, as far as is known without locks.
    pub(crate) fn somebody_waits(&self) -> bool {
        self.machine.config().topology.iter().any(|cpu| self.is_wanted(cpu))
    }

    /// Parks a task that has blocked, or wakes it if it was woken meanwhile.
    pub(crate) fn park_blocked(&self, task: TaskOf<Job>) {
        if let Some((task, since)) = Cell::park(task) {
            self.wake(os::thread::now(), task, since);
        }
    }

    /// Wakes a blocked task, which is runnable since `since`.
    pub(crate) fn wake(&self, now: Time, task: TaskOf<Job>, since: Time) {
        self.tell_wake(&task, since);
        self.queue(now, task, false);
    }

    /// Enqueues a task. If the caller is in a poll, and both are fair, the task goes to the caller's run queue. It then
    /// waits for the end of that poll, though not for long.
    fn queue(&self, now: Time, mut task: TaskOf<Job>, is_new: bool) {
        let poll = self.here(Worker::cpu_of_poll).flatten().or_else(here::cpu_of_poll);
        if is_new && !self.batches.is_empty() {
            task = match self.welcome(now, task, poll) {
                Ok(()) => return,
                Err(task) => task,
            };
        }
        let fx = &mut KickNow(self);
        let Some(own) = poll.filter(|_| task.class().is_fair()) else {
            match is_new {
                true => self.machine.spawn(now, task, poll, fx),
                false => match self.here(Worker::cpu_of_driver).flatten() {
                    Some(idle) => self.machine.wake_here(now, task, idle, fx),
                    None => {
                        let waker = self.here(|worker| worker.owns().then(|| worker.cpu()));
                        self.machine.wake(now, task, waker.flatten().or_else(here::cpu), fx)
                    }
                },
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

    /// Applies a request to the task of `cell`.
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
        os::fork::refuse_in_child("a task cannot be spawned");
        let id = self.registry.next_id();
        self.note_place(id, Location::caller());
        let bequeaths = new.bequeaths();
        let NewTask { attr, slack, reset_on_fork, group, has_affinity, name, serves, blocks } = new;
        let asked = Asked::new(&attr, reset_on_fork);
        let light = serves || !(self.preempts || blocks);
        let new = NewCell { id, name, asked, slack, serves, bequeaths, light };
        let (cell, result) = os::future::task(Head::new(self.clone(), new), future);
        let result = JoinHandle::new(result);
        if let Some(group) = group {
            without_preemption(|| *lock(&cell.rest().membership) = Membership::of(group));
        }
        if attr.cookie.is_some() {
            cell.note_cookie(attr.cookie);
        }
        if has_affinity {
            cell.note_affinity(&attr.affinity);
        }
        let Some(used) = self.registry.enroll(&cell, self.part()) else {
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

    /// Returns all CPUs of the runtime.
    pub(crate) fn all(&self) -> &CpuSet {
        &self.all[self.part() % self.all.len()]
    }

    /// Returns the engine's limit for `limit` in this runtime.
    pub(crate) fn limit_of(&self, limit: Limit) -> Result<runyard_engine::limits::Limit, BadLimit> {
        limit.of(self.capacity, self.slots.len())
    }
}

/// Cancels a task that the runtime, which ends, does not accept. Its future is dropped like that of an aborted task.
#[cold]
fn refuse(cell: &Arc<Cell>) {
    cell.note_aborted();
    os::future::run(cell);
}
