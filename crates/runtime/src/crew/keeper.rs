//! The keeper: the thread that detects slots' owners that block in the kernel.
//!
//! A thread that blocks in a system call, or on a lock that the runtime cannot see, keeps its slot, and only the kernel
//! knows it. So the keeper checks the CPU time of the owners of slots. An owner blocks if it used hardly any CPU time
//! between two checks and is asleep by the kernel's account. To use no CPU time is not a sufficient sign: another
//! process may have the CPU. It is not a necessary sign either: each tick interrupts a system call. The consequence
//! depends on the code that the owner runs:
//!
//! - A task's code: the owner loses its slot to a spare, if any task waits for any CPU (H22) or one of its own timers
//!   is due. The waiting task, or the timer's, may hold the very lock (H4) or wake the owner. If there is no spare,
//!   stopped threads get rounds ([`crate::crew::rescue`]).
//! - The runtime's own code, which called foreign code, the allocator: the owner waits for a lock whose holder may be
//!   stopped. So stopped threads get rounds. They also get rounds if the maker waits
//!   ([`crate::crew::maker`], H4), and if a thread waits that is not a worker ([`crate::crew::foreign`]). A worker that
//!   waits for the teller ([`crate::observe::teller`]) gets none.
//!
//! The keeper itself takes no such lock: it allocates nothing, and never waits for the teller.

use crate::crew::foreign::Foreigners;
use crate::crew::rescue::Rescue;
use crate::crew::slotless;
use crate::crew::standing::Standing;
use crate::driver::Own;
use crate::os;
use crate::os::sync::{Arc, AtomicBool, AtomicI32, AtomicU32, Mutex, Ordering, lock};
use crate::os::thread::{SHORTEST_SLICE, Tid};
use crate::protocol::handoff::{Doing, WorkerId};
use crate::shared::Scheduler;
use crate::task::Cell;
use crate::worker::Worker;
use runyard_engine::cpu::CpuId;
use runyard_engine::time::{Nanos, Time};

/// The time between two checks of the owners while a task runs.
pub(crate) const BUSY_INTERVAL: Nanos = Nanos::from_millis(1);
/// The time between two checks while no task runs. The first tick of a task ends it.
const IDLE_INTERVAL: Nanos = Nanos::from_millis(100);

/// The shortest time between two checks, whatever is late.
const LEAST_INTERVAL: Nanos = Nanos::from_micros(50);

/// The CPU time that a blocked thread may use between two checks, for signals that interrupt it.
const HARDLY_ANY: Nanos = Nanos::from_micros(100);

/// The number of checks without CPU time after which a thread counts as blocked, where `/proc` does not show its state.
const LOOKS_WITHOUT_PROC: u32 = 20;

/// The word on which the keeper waits, and its data about threads that are not visible otherwise.
#[derive(Debug)]
pub(crate) struct Keeper {
    calls: AtomicU32,
    /// Whether the keeper saw no task run at its last check, so that its next one comes after a long time.
    rests: AtomicBool,
    /// The maker's thread while it works; 0 while it waits for orders.
    maker: AtomicI32,
    /// The number of these two threads that have started.
    nr_ready: AtomicU32,
    /// The number of threads that want a slot and cannot ask for it.
    nr_wanting: AtomicU32,
    /// The number of threads that are stopped in the middle of foreign code.
    nr_stopped: AtomicU32,
    /// The number of threads that do not answer ([`crate::worker`]).
    nr_deaf: AtomicU32,
    /// The first of them with the task that it polls, until the maker has told of it.
    first_deaf: Mutex<Option<(Tid, Arc<Cell>)>>,
    has_been_deaf: AtomicBool,
    /// Whether the kernel gives a thread its nice value back, by a try on another thread.
    may_renice: AtomicBool,
}

impl Keeper {
    pub(crate) fn new() -> Keeper {
        Keeper {
            calls: AtomicU32::new(0),
            rests: AtomicBool::new(false),
            maker: AtomicI32::new(0),
            nr_ready: AtomicU32::new(0),
            nr_wanting: AtomicU32::new(0),
            nr_stopped: AtomicU32::new(0),
            nr_deaf: AtomicU32::new(0),
            first_deaf: Mutex::new(None),
            has_been_deaf: AtomicBool::new(false),
            may_renice: AtomicBool::new(false),
        }
    }

    /// Asks the keeper for a check soon. May be called in a signal handler.
    pub(crate) fn look(&self) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        os::futex::wake(&self.calls);
    }

    /// Notes that a task runs: the keeper checks soon, and goes on checking. Called in the signal handler.
    pub(crate) fn somebody_runs(&self) {
        if self.rests.load(Ordering::Relaxed) && self.rests.swap(false, Ordering::Relaxed) {
            self.look();
        }
    }

    /// Returns whether the keeper saw no task run at its last check.
    pub(crate) fn rests(&self) -> bool {
        self.rests.load(Ordering::Relaxed)
    }

    /// Waits until the keeper and the maker have started.
    pub(crate) fn wait_until_both_watch(&self) {
        loop {
            match self.nr_ready.load(Ordering::SeqCst) {
                2 => return,
                fewer => os::futex::wait(&self.nr_ready, fewer, None),
            }
        }
    }

    /// Counts one more thread that wants a slot, or one less. May be called in a signal handler.
    pub(crate) fn count_wanting(&self, wants: bool) {
        if wants {
            self.nr_wanting.fetch_add(1, Ordering::SeqCst);
            self.look();
        } else {
            self.nr_wanting.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Counts one more thread that is stopped in the middle of foreign code, or one less. May be called in a signal
    /// handler.
    pub(crate) fn count_stopped(&self, is_stopped: bool) {
        if is_stopped {
            self.nr_stopped.fetch_add(1, Ordering::SeqCst);
        } else {
            self.nr_stopped.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Returns how many threads are stopped in the middle of foreign code.
    pub(crate) fn nr_stopped(&self) -> usize {
        self.nr_stopped.load(Ordering::SeqCst) as usize
    }

    /// Counts one more thread that does not answer, or one less. May be called in a signal handler.
    pub(crate) fn count_deaf(&self, is_deaf: bool) {
        if is_deaf {
            self.nr_deaf.fetch_add(1, Ordering::SeqCst);
        } else {
            self.nr_deaf.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Returns how many threads do not answer.
    pub(crate) fn nr_deaf(&self) -> u32 {
        self.nr_deaf.load(Ordering::SeqCst)
    }

    /// Notes the first thread that does not answer, and its task.
    pub(crate) fn note_first_deaf(&self, deaf: impl FnOnce() -> Option<(Tid, Arc<Cell>)>) {
        if !self.has_been_deaf.swap(true, Ordering::SeqCst) {
            *lock(&self.first_deaf) = deaf();
        }
    }

    /// Takes the first thread that did not answer, and its task.
    pub(crate) fn take_first_deaf(&self) -> Option<(Tid, Arc<Cell>)> {
        lock(&self.first_deaf).take()
    }

    /// Returns whether a thread whose nice value is raised can have its old one back.
    pub(crate) fn may_renice(&self) -> bool {
        self.may_renice.load(Ordering::Relaxed)
    }

    /// Notes that the keeper or the maker has started.
    pub(crate) fn is_there(&self) {
        self.nr_ready.fetch_add(1, Ordering::SeqCst);
        os::futex::wake(&self.nr_ready);
    }

    /// Notes that the maker, which calls this, works from now on and may wait for a lock; or that it stops working.
    pub(crate) fn maker_works(&self, works: bool) {
        let tid = if works { os::thread::current().0 } else { 0 };
        self.maker.store(tid, Ordering::SeqCst);
    }

    /// Runs `wait`, in which the maker waits for a thread that may wait for a CPU: this is no lock. If that thread
    /// waits for a lock, it is detected itself ([`crate::crew::foreign`]).
    pub(crate) fn unseen<R>(&self, wait: impl FnOnce() -> R) -> R {
        let maker = self.maker.swap(0, Ordering::SeqCst);
        let result = wait();
        self.maker.store(maker, Ordering::SeqCst);
        result
    }
}

/// The keeper's last observation of a slot.
#[derive(Clone, Copy, Debug)]
struct Seen {
    owner: u32,
    doing: Doing,
    used: Nanos,
}

impl Seen {
    fn stands_since(self, before: Seen) -> bool {
        let same = self.owner == before.owner && self.doing == before.doing;
        // A worker's new thread has used less CPU time than the thread before it.
        let ran = self.used.0.checked_sub(before.used.0);
        same && ran.is_some_and(|ran| ran <= HARDLY_ANY.0)
    }
}

/// A thread that is checked again and again.
#[derive(Clone, Debug, Default)]
struct Watched {
    seen: Option<Seen>,
    /// The CPU time that it used between the last two checks, if it was the same thread.
    ran: Nanos,
    /// The number of checks in a row that found no CPU time used.
    still: u32,
    /// The number of checks in a row that found it blocked.
    looks: u32,
    /// Its turn at the wheel of tokio's driver in which it was called.
    called_in: Option<u64>,
}

impl Watched {
    /// Returns whether the thread has been blocked in the kernel since the last check.
    fn waits(&mut self, tid: Tid, (owner, doing): (u32, Doing)) -> bool {
        let now = os::thread::cpu_time(tid).map(|used| Seen { owner, doing, used });
        let stands = now.zip(self.seen).is_some_and(|(now, before)| now.stands_since(before));
        let same = now.zip(self.seen).filter(|(now, before)| now.owner == before.owner);
        self.ran = same.map_or(Nanos::ZERO, |(now, before)| now.used.saturating_sub(before.used));
        self.seen = now;
        self.still = if stands { self.still + 1 } else { 0 };
        let waits =
            stands && os::thread::is_blocked(tid).unwrap_or_else(|| self.is_still_for_long());
        self.looks = if waits { self.looks + 1 } else { 0 };
        waits
    }

    /// Returns whether this worker, if it is `called` in tokio's driver, was called at the last check too and has not
    /// left the driver since: a foreign waker computes there, or waits for a lock.
    fn stays_in_driver(&mut self, scheduler: &Scheduler, called: bool) -> bool {
        let turn = scheduler.driver().for_workers().map(Own::turn_at_wheel).filter(|_| called);
        let stays = turn.is_some() && self.called_in == turn;
        self.called_in = turn;
        stays
    }

    /// Returns whether the thread used no CPU time for so long that it counts as blocked. If the machine was only busy,
    /// it loses its slot without need, and asks for another.
    fn is_still_for_long(&self) -> bool {
        self.still >= LOOKS_WITHOUT_PROC
    }
}

/// Runs the keeper's thread.
pub(crate) fn run(scheduler: &Scheduler) {
    // It starts no thread or program that could inherit these settings.
    os::signal::listen_to_nothing();
    os::thread::be_exact();
    os::thread::set_slice(Some(SHORTEST_SLICE));
    scheduler.crew().keeper.may_renice.store(os::thread::may_renice(), Ordering::Relaxed);
    let mut looks = Looks::new(scheduler);
    if os::thread::is_blocked(os::thread::current()).is_none() {
        eprintln!(
            "runyard: /proc does not show the states of threads: a blocked one is found after 20 ms"
        );
    }
    scheduler.crew().keeper.is_there();
    while !scheduler.crew().is_over() {
        let calls = scheduler.crew().keeper.calls.load(Ordering::SeqCst);
        let after = looks.look(scheduler);
        os::futex::wait(&scheduler.crew().keeper.calls, calls, Some(os::thread::now() + after));
    }
}

/// The observations of the keeper.
#[derive(Debug)]
struct Looks {
    owners: Vec<(CpuId, Watched)>,
    standing: Standing,
    maker: Watched,
    rescue: Rescue,
    foreigners: Foreigners,
    slotless: slotless::Looks,
    /// The time of the last check of the slots' owners, and whether it found a busy thread.
    looked: Time,
    busy: bool,
}

impl Looks {
    fn new(scheduler: &Scheduler) -> Looks {
        let cpus = scheduler.machine().config().topology.iter();
        let most = scheduler.crew().threads.most();
        Looks {
            owners: cpus.map(|cpu| (cpu, Watched::default())).collect(),
            standing: Standing::new(scheduler.crew().slots.len()),
            maker: Watched::default(),
            rescue: Rescue::new(most),
            foreigners: Foreigners::new(most),
            slotless: slotless::Looks::default(),
            looked: Time::ZERO,
            busy: false,
        }
    }

    /// Makes the checks that are due. Returns the time until the next check.
    fn look(&mut self, scheduler: &Scheduler) -> Nanos {
        let now = os::thread::now();
        self.slotless.look(scheduler, now);
        let wanting = scheduler.crew().keeper.nr_wanting.load(Ordering::SeqCst) > 0;
        if wanting {
            scheduler
                .crew()
                .threads
                .workers()
                .for_each(|worker| worker.part.ask_if_it_wants(scheduler));
        }
        // A call may come at any time. A thread counts as standing still only after a whole interval.
        if now.since(self.looked) >= BUSY_INTERVAL {
            self.looked = now;
            self.busy = self.look_at_owners(scheduler);
            scheduler.crew().keeper.rests.store(!self.busy && !wanting, Ordering::Relaxed);
        }
        // `rests` is read again: a task that began to run since the last check has called the keeper, and does not call
        // again.
        let is_busy = self.busy || wanting || !scheduler.crew().keeper.rests();
        let next = self.looked + if is_busy { BUSY_INTERVAL } else { IDLE_INTERVAL };
        let next = next.since(now).max(LEAST_INTERVAL);
        let runs_rt =
            || self.owners.iter().any(|&(cpu, _)| scheduler.machine().sight().runs_rt(cpu));
        if is_busy { next.min(scheduler.crew().slotless.next_look(now, runs_rt)) } else { next }
    }

    /// Checks the threads that may block others. Returns whether any thread is busy.
    fn look_at_owners(&mut self, scheduler: &Scheduler) -> bool {
        let mut busy = false;
        for (cpu, owner) in &mut self.owners {
            busy |= match scheduler.crew().slot(*cpu).doing() {
                (_, Doing::Asleep) => {
                    *owner = Watched::default();
                    self.standing.sleeps(scheduler, *cpu)
                }
                (driver, Doing::Drives) => {
                    let called = self.standing.sleeps(scheduler, *cpu);
                    let stays = owner.stays_in_driver(scheduler, called);
                    *owner = Watched { called_in: owner.called_in, ..Watched::default() };
                    if stays {
                        scheduler.crew().take_slot(*cpu, driver);
                    }
                    called
                }
                awake => {
                    watch(scheduler, *cpu, awake, owner, &mut self.rescue);
                    let stands = owner.still > 0 && owner.looks == 0;
                    self.standing.is_awake(*cpu, stands && scheduler.is_wanted(*cpu));
                    true
                }
            };
        }
        self.standing.relieve(scheduler);
        see_to_driver(scheduler);
        let maker = scheduler.crew().keeper.maker.load(Ordering::SeqCst);
        if maker > 0 && self.maker.waits(Tid(maker), (0, Doing::Own)) {
            busy = true;
            self.rescue.at_look(scheduler, self.maker.looks);
        }
        self.foreigners.look(scheduler, &mut self.rescue);
        busy
    }
}

/// Acts on an owner that is awake, if it has blocked since the last check.
fn watch(
    scheduler: &Scheduler,
    cpu: CpuId,
    (owner, doing): (WorkerId, Doing),
    watched: &mut Watched,
    rescue: &mut Rescue,
) {
    let Some(worker) = scheduler.crew().threads.worker(owner) else { return };
    let called =
        doing == Doing::Foreign && worker.own.drives() && scheduler.crew().slot(cpu).is_pending();
    if watched.stays_in_driver(scheduler, called) && scheduler.crew().take_slot(cpu, owner) {
        *watched = Watched::default();
        return;
    }
    if doing == Doing::Own && worker.own.is_unseen() {
        *watched = Watched::default();
        return;
    }
    if !watched.waits(worker.thread.tid(), (owner.0, doing)) {
        if doing == Doing::Foreign
            && let Some(seen) = watched.seen
        {
            let is_rung = scheduler.crew().slot(cpu).is_rung(owner);
            let Worker { thread, poll, hearing, shared, .. } = &*worker;
            hearing.listen_for((thread, poll), &shared.registry, is_rung, seen.used);
        }
        return worker.section.look_at_owner(&worker.thread, watched.ran);
    }
    if doing == Doing::Own {
        rescue.at_look(scheduler, watched.looks);
    } else if somebody_waits(scheduler) || has_due_timer(scheduler, cpu) {
        if scheduler.crew().take_slot(cpu, owner) {
            *watched = Watched::default();
        } else if !scheduler.crew().slot(cpu).has_spares(1) {
            rescue.at_idle_slot(scheduler, watched.looks);
        }
    }
}

/// Makes a thread drive, if none has driven for long. A busy worker does this sooner, if its signal comes.
fn see_to_driver(scheduler: &Scheduler) {
    let since = scheduler.driver().for_workers().and_then(Own::free_since);
    if since.is_some_and(|since| os::thread::now() >= since + BUSY_INTERVAL) {
        scheduler.see_to_driver();
    }
}

/// Returns whether a timer of `cpu` is overdue. A worker that blocks with its slot in a section gets no signals for its
/// timers.
fn has_due_timer(scheduler: &Scheduler, cpu: CpuId) -> bool {
    let now = os::thread::now();
    scheduler.machine().sight().next_expiry(cpu).is_some_and(|at| at <= now)
}

/// Returns whether a task waits for a CPU, as far as is known without locks.
fn somebody_waits(scheduler: &Scheduler) -> bool {
    scheduler.machine().config().topology.iter().any(|cpu| scheduler.is_wanted(cpu))
}
