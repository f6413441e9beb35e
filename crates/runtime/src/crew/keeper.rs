//! The keeper: sees which owners of slots block in the kernel.
//!
//! A thread that blocks in a system call or on a lock that the runtime cannot see keeps its slot,
//! and only the kernel knows. The keeper looks at the CPU time of the owners of slots: one that had
//! hardly any between two looks, and is asleep by the kernel's account, blocks. No CPU time alone is not
//! enough: another process may have the CPU. None at all is too much: each tick interrupts a system call.
//! The consequence depends on the code that it runs:
//!
//! - A task's code: it loses its slot to a spare, if somebody waits for a CPU, any CPU (H22), or a
//!   timer of its own is due. That may be the holder of the very lock (H4), or wake it.
//! - The runtime's own code, which called foreign code: the allocator. It waits for a
//!   lock, whose holder may be stopped: those who are get rounds ([`crate::crew::rescue`]). So they do if the
//!   maker waits ([`crate::crew::maker`], H4), and if a thread does that is no worker ([`crate::crew::foreign`]). A
//!   worker that waits for the teller ([`crate::observe::teller`]) is no reason.
//!
//! The keeper itself takes no such lock: it allocates nothing, and never waits for the teller.

use crate::adapters::driver::Own;
use crate::crew::foreign::Foreigners;
use crate::crew::rescue::Rescue;
use crate::crew::slotless;
use crate::crew::standing::Standing;
use crate::os;
use crate::os::sync::{Arc, AtomicBool, AtomicI32, AtomicU32, Ordering};
use crate::os::thread::{SHORTEST_SLICE, Tid};
use crate::protocol::handoff::{Doing, WorkerId};
use crate::shared::Shared;
use runyard_engine::cpu::CpuId;
use runyard_engine::time::{Nanos, Time};

/// Between two looks of the keeper while a task runs.
const BUSY_INTERVAL: Nanos = Nanos::from_millis(1);
/// Between two looks while none does. The first tick of a task ends it.
const IDLE_INTERVAL: Nanos = Nanos::from_millis(100);

/// Between two looks at the least, whatever is late.
const LEAST_INTERVAL: Nanos = Nanos::from_micros(50);

/// The CPU time that a thread that blocks may use between two looks, for signals that interrupt it.
const HARDLY_ANY: Nanos = Nanos::from_micros(100);

/// After so many looks at a thread that used no CPU time it counts as blocked, where `/proc` says nothing.
const LOOKS_WITHOUT_PROC: u32 = 20;

/// Where the keeper waits, and what it knows of threads that cannot be seen otherwise.
#[derive(Debug)]
pub(crate) struct Keeper {
    calls: AtomicU32,
    /// It saw nobody run, and looks again after a long time.
    rests: AtomicBool,
    /// The maker's thread, while it makes something; 0 while it waits for orders.
    maker: AtomicI32,
    /// How many of the two are there.
    nr_ready: AtomicU32,
    /// How many threads want a slot and cannot ask for it.
    nr_wanting: AtomicU32,
    /// How many threads are stopped in the middle of foreign code.
    nr_stopped: AtomicU32,
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
        }
    }

    /// Asks the keeper to look soon. May be called in a signal handler.
    pub(crate) fn look(&self) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        os::futex::wake(&self.calls);
    }

    /// A task runs: the keeper looks soon, and goes on looking. Called in the signal handler.
    pub(crate) fn somebody_runs(&self) {
        if self.rests.load(Ordering::Relaxed) && self.rests.swap(false, Ordering::Relaxed) {
            self.look();
        }
    }

    /// Whether it saw no task run, as it looked last.
    pub(crate) fn rests(&self) -> bool {
        self.rests.load(Ordering::Relaxed)
    }

    /// Waits until the keeper and the maker are there.
    pub(crate) fn wait_until_both_watch(&self) {
        loop {
            match self.nr_ready.load(Ordering::SeqCst) {
                2 => return,
                fewer => os::futex::wait(&self.nr_ready, fewer, None),
            }
        }
    }

    /// One thread more wants a slot, or less. May be called in a signal handler.
    pub(crate) fn count_wanting(&self, wants: bool) {
        if wants {
            self.nr_wanting.fetch_add(1, Ordering::SeqCst);
            self.look();
        } else {
            self.nr_wanting.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// One thread more is stopped in the middle of foreign code, or less. May be called in a signal handler.
    pub(crate) fn count_stopped(&self, is_stopped: bool) {
        if is_stopped {
            self.nr_stopped.fetch_add(1, Ordering::SeqCst);
        } else {
            self.nr_stopped.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// How many threads are stopped in the middle of foreign code.
    pub(crate) fn nr_stopped(&self) -> usize {
        self.nr_stopped.load(Ordering::SeqCst) as usize
    }

    /// The keeper or the maker is there.
    pub(crate) fn is_there(&self) {
        self.nr_ready.fetch_add(1, Ordering::SeqCst);
        os::futex::wake(&self.nr_ready);
    }

    /// The maker, which calls this, makes something from now on, and may have to wait for a lock; or no more.
    pub(crate) fn maker_works(&self, works: bool) {
        let tid = if works { os::thread::current().0 } else { 0 };
        self.maker.store(tid, Ordering::SeqCst);
    }

    /// The maker waits for a thread, which may wait for a CPU: that is no lock. If the thread waits for a
    /// lock, it is seen itself ([`crate::crew::foreign`]).
    pub(crate) fn unseen<R>(&self, wait: impl FnOnce() -> R) -> R {
        let maker = self.maker.swap(0, Ordering::SeqCst);
        let result = wait();
        self.maker.store(maker, Ordering::SeqCst);
        result
    }
}

/// What the keeper saw of a slot last.
#[derive(Clone, Copy, Debug)]
struct Seen {
    owner: u32,
    doing: Doing,
    used: Nanos,
}

impl Seen {
    fn stands_since(self, before: Seen) -> bool {
        let same = self.owner == before.owner && self.doing == before.doing;
        // A worker's new thread has used less than the one before it.
        let ran = self.used.0.checked_sub(before.used.0);
        same && ran.is_some_and(|ran| ran <= HARDLY_ANY.0)
    }
}

/// One that is looked at again and again.
#[derive(Clone, Debug, Default)]
struct Watched {
    seen: Option<Seen>,
    /// What it used between the last two looks, if it was the same thread.
    ran: Nanos,
    /// How many looks in a row it used no CPU time.
    still: u32,
    /// How many looks in a row it was blocked.
    looks: u32,
    /// In which turn at the wheel of tokio's driver it was called.
    called_in: Option<u64>,
}

impl Watched {
    /// Whether it stands still, blocked in the kernel, since the last look.
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

    /// Whether this worker, if it is `called` in tokio's driver, was so at the last look, and has not left it since: a
    /// foreign waker computes there, or waits for a lock.
    fn stays_in_driver(&mut self, shared: &Shared, called: bool) -> bool {
        let turn = shared.driver.for_workers().map(Own::turn_at_wheel).filter(|_| called);
        let stays = turn.is_some() && self.called_in == turn;
        self.called_in = turn;
        stays
    }

    /// Whether it used no CPU time for so long that it counts as blocked. If the machine was merely busy, it
    /// loses its slot for nothing, and asks for another.
    fn is_still_for_long(&self) -> bool {
        self.still >= LOOKS_WITHOUT_PROC
    }
}

/// The keeper's thread.
pub(crate) fn run(shared: &Arc<Shared>) {
    // It starts nothing that could inherit these.
    os::signal::listen_to_nothing();
    os::thread::be_exact();
    os::thread::set_slice(Some(SHORTEST_SLICE));
    let mut looks = Looks::new(shared);
    if os::thread::is_blocked(os::thread::current()).is_none() {
        eprintln!("runyard: /proc says nothing of threads: one that blocks is seen after 20 ms");
    }
    shared.crew.keeper.is_there();
    while !shared.is_over() {
        let calls = shared.crew.keeper.calls.load(Ordering::SeqCst);
        let after = looks.look(shared);
        os::futex::wait(&shared.crew.keeper.calls, calls, Some(os::thread::now() + after));
    }
}

/// What the keeper looks at, and remembers of that.
#[derive(Debug)]
struct Looks {
    owners: Vec<(CpuId, Watched)>,
    standing: Standing,
    maker: Watched,
    rescue: Rescue,
    foreigners: Foreigners,
    slotless: slotless::Looks,
    /// When it looked at the owners of slots, and whether it found somebody busy.
    looked: Time,
    busy: bool,
}

impl Looks {
    fn new(shared: &Shared) -> Looks {
        let cpus = shared.machine.config().topology.iter();
        let most = shared.crew.threads.most();
        Looks {
            owners: cpus.map(|cpu| (cpu, Watched::default())).collect(),
            standing: Standing::new(shared.slots.len()),
            maker: Watched::default(),
            rescue: Rescue::new(most),
            foreigners: Foreigners::new(most),
            slotless: slotless::Looks::default(),
            looked: Time::ZERO,
            busy: false,
        }
    }

    /// Looks at what it is time for. After how long the next look is due.
    fn look(&mut self, shared: &Shared) -> Nanos {
        let now = os::thread::now();
        self.slotless.look(shared, now);
        let wanting = shared.crew.keeper.nr_wanting.load(Ordering::SeqCst) > 0;
        if wanting {
            shared.crew.threads.workers().for_each(|worker| worker.ask_if_it_wants());
        }
        // A call may come at any time. One that stands still has done so for an interval.
        if now.since(self.looked) >= BUSY_INTERVAL {
            self.looked = now;
            self.busy = self.look_at_owners(shared);
            shared.crew.keeper.rests.store(!self.busy && !wanting, Ordering::Relaxed);
        }
        // Whoever began to run since the last look at all has called, and does not call again.
        let is_busy = self.busy || wanting || !shared.crew.keeper.rests();
        let next = self.looked + if is_busy { BUSY_INTERVAL } else { IDLE_INTERVAL };
        let next = next.since(now).max(LEAST_INTERVAL);
        let runs_rt = || self.owners.iter().any(|&(cpu, _)| shared.machine.runs_rt(cpu));
        if is_busy { next.min(shared.crew.slotless.next_look(now, runs_rt)) } else { next }
    }

    /// Looks at whoever may block others. Whether somebody is busy.
    fn look_at_owners(&mut self, shared: &Shared) -> bool {
        let mut busy = false;
        for (cpu, owner) in &mut self.owners {
            busy |= match shared.slot(*cpu).doing() {
                (_, Doing::Asleep) => {
                    *owner = Watched::default();
                    self.standing.sleeps(shared, *cpu)
                }
                (driver, Doing::Drives) => {
                    let called = self.standing.sleeps(shared, *cpu);
                    let stays = owner.stays_in_driver(shared, called);
                    *owner = Watched { called_in: owner.called_in, ..Watched::default() };
                    if stays {
                        shared.take_slot(*cpu, driver);
                    }
                    called
                }
                awake => {
                    watch(shared, *cpu, awake, owner, &mut self.rescue);
                    let stands = owner.still > 0 && owner.looks == 0;
                    self.standing.is_awake(*cpu, stands && shared.is_wanted(*cpu));
                    true
                }
            };
        }
        self.standing.relieve(shared);
        see_to_driver(shared);
        let maker = shared.crew.keeper.maker.load(Ordering::SeqCst);
        if maker > 0 && self.maker.waits(Tid(maker), (0, Doing::Own)) {
            busy = true;
            self.rescue.at_look(shared, self.maker.looks);
        }
        self.foreigners.look(shared, &mut self.rescue);
        busy
    }
}

/// Acts on an owner that is awake, if it blocks since the last look.
fn watch(
    shared: &Shared,
    cpu: CpuId,
    (owner, doing): (WorkerId, Doing),
    watched: &mut Watched,
    rescue: &mut Rescue,
) {
    let Some(worker) = shared.worker(owner) else { return };
    let called = doing == Doing::Foreign && worker.drives() && shared.slot(cpu).is_pending();
    if watched.stays_in_driver(shared, called) && shared.take_slot(cpu, owner) {
        *watched = Watched::default();
        return;
    }
    if doing == Doing::Own && worker.is_unseen() {
        *watched = Watched::default();
        return;
    }
    if !watched.waits(worker.tid(), (owner.0, doing)) {
        return worker.look_at_owner(watched.ran);
    }
    if doing == Doing::Own {
        rescue.at_look(shared, watched.looks);
    } else if (shared.somebody_waits() || has_due_timer(shared, cpu))
        && shared.take_slot(cpu, owner)
    {
        *watched = Watched::default();
    }
}

/// Sees to it that somebody drives, if nobody has for long. A busy worker sees that sooner, if its signal comes.
fn see_to_driver(shared: &Shared) {
    let since = shared.driver.for_workers().and_then(Own::free_since);
    if since.is_some_and(|since| os::thread::now() >= since + BUSY_INTERVAL) {
        shared.see_to_driver();
    }
}

/// Whether a timer should have been served on `cpu`. Who blocks with its slot in a section for that
/// is sent no signals.
fn has_due_timer(shared: &Shared, cpu: CpuId) -> bool {
    let now = os::thread::now();
    shared.machine.next_expiry(cpu).is_some_and(|at| at <= now)
}
