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
//!   lock, whose holder may be stopped: those who are get rounds ([`crate::rescue`]). So they do if the
//!   maker waits ([`crate::maker`], H4), and if a thread does that is no worker ([`crate::foreign`]). A
//!   worker that waits for the teller ([`crate::teller`]) is no reason.
//!
//! The keeper itself takes no such lock: it allocates nothing, and never waits for the teller.

use crate::foreign::Foreigners;
use crate::handoff::Doing;
use crate::os;
use crate::os::thread::Tid;
use crate::primitives::{Arc, AtomicBool, AtomicI32, AtomicU32, Ordering};
use crate::rescue::Rescue;
use crate::shared::Shared;
use runyard_engine::cpu::CpuId;
use runyard_engine::time::Nanos;

/// Between two looks of the keeper while a task runs.
const BUSY_INTERVAL: Nanos = Nanos::from_millis(1);
/// Between two looks while none does. The first tick of a task ends it.
const IDLE_INTERVAL: Nanos = Nanos::from_millis(100);

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
    /// lock, it is seen itself ([`crate::foreign`]).
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
    /// How many looks in a row it used no CPU time.
    still: u32,
    /// How many looks in a row it was blocked.
    looks: u32,
}

impl Watched {
    /// Whether it stands still, blocked in the kernel, since the last look.
    fn waits(&mut self, tid: Tid, (owner, doing): (u32, Doing)) -> bool {
        let now = os::thread::cpu_time(tid).map(|used| Seen { owner, doing, used });
        let stands = now.zip(self.seen).is_some_and(|(now, before)| now.stands_since(before));
        self.seen = now;
        self.still = if stands { self.still + 1 } else { 0 };
        let waits =
            stands && os::thread::is_blocked(tid).unwrap_or_else(|| self.is_still_for_long());
        self.looks = if waits { self.looks + 1 } else { 0 };
        waits
    }

    /// Whether it used no CPU time for so long that it counts as blocked. If the machine was merely busy, it
    /// loses its slot for nothing, and asks for another.
    fn is_still_for_long(&self) -> bool {
        self.still >= LOOKS_WITHOUT_PROC
    }
}

/// The keeper's thread.
pub(crate) fn run(shared: &Arc<Shared>) {
    // It starts nothing that could inherit this.
    os::signal::listen_to_nothing();
    let cpus: Vec<_> = shared.machine.config().topology.iter().collect();
    let mut owners = vec![Watched::default(); cpus.len()];
    let most = shared.threads.most();
    let (mut maker, mut rescue) = (Watched::default(), Rescue::new(most));
    let mut foreigners = Foreigners::new(most);
    if os::thread::is_blocked(os::thread::current()).is_none() {
        eprintln!("runyard: /proc says nothing of threads: one that blocks is seen after 20 ms");
    }
    shared.keeper.is_there();
    while !shared.is_over() {
        let calls = shared.keeper.calls.load(Ordering::SeqCst);
        let mut busy = false;
        for (cpu, owner) in cpus.iter().zip(&mut owners) {
            busy |= watch(shared, *cpu, owner, &mut rescue);
        }
        if shared.keeper.nr_wanting.load(Ordering::SeqCst) > 0 {
            busy = true;
            shared.threads.workers().for_each(|worker| worker.ask_if_it_wants());
        }
        let tid = shared.keeper.maker.load(Ordering::SeqCst);
        if tid > 0 && maker.waits(Tid(tid), (0, Doing::Own)) {
            busy = true;
            rescue.at_look(shared, maker.looks);
        }
        foreigners.look(shared, &mut rescue);
        shared.keeper.rests.store(!busy, Ordering::Relaxed);
        let until = os::thread::now() + if busy { BUSY_INTERVAL } else { IDLE_INTERVAL };
        os::futex::wait(&shared.keeper.calls, calls, Some(until));
    }
}

/// Acts on an owner that blocks since the last look. Says whether somebody runs there.
fn watch(shared: &Shared, cpu: CpuId, watched: &mut Watched, rescue: &mut Rescue) -> bool {
    let (owner, doing) = shared.slot(cpu).doing();
    if doing == Doing::Asleep {
        *watched = Watched::default();
        return false;
    }
    let Some(worker) = shared.worker(owner) else { return false };
    if doing == Doing::Own && worker.is_unseen() {
        *watched = Watched::default();
        return true;
    }
    if !watched.waits(worker.tid(), (owner.0, doing)) {
        return true;
    }
    if doing == Doing::Own {
        rescue.at_look(shared, watched.looks);
    } else if (shared.somebody_waits() || has_due_timer(shared, cpu))
        && shared.take_slot(cpu, owner)
    {
        *watched = Watched::default();
    }
    true
}

/// Whether a timer should have been served on `cpu`. Who blocks with its slot in a section for that
/// is sent no signals.
fn has_due_timer(shared: &Shared, cpu: CpuId) -> bool {
    let now = os::thread::now();
    shared.machine.next_expiry(cpu).is_some_and(|at| at <= now)
}
