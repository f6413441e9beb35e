//! The keeper: sees who blocks in the kernel, and makes spares ahead.
//!
//! A thread that blocks in a system call or on a lock that the runtime cannot see keeps its slot,
//! and only the kernel knows. The keeper looks at the CPU time of the owners of slots: one that had
//! none between two looks, and is asleep by the kernel's account, blocks. No CPU time alone is not
//! enough: another process may have the CPU. What then happens depends on what it does:
//!
//! - A task's code: it loses its slot to a spare, if somebody waits for a CPU, any CPU (H22), or a
//!   timer of its own is due. That may be the holder of the very lock (H4), or wake it.
//! - The runtime's own code, which called foreign code: a waker, an observer, the allocator. It waits for a
//!   lock, whose holder may be stopped: those who are get rounds ([`crate::rescue`]). So they do if the
//!   maker waits, who makes threads (H4).
//!
//! The keeper itself takes no such lock: it allocates nothing, and whom it wakes it wakes quietly: the observer
//! hears of it when that task is next. Threads are made by another thread, the maker, which may have to wait.

use crate::handoff::Doing;
use crate::os;
use crate::os::thread::Tid;
use crate::primitives::{Arc, AtomicI32, AtomicU32, Ordering};
use crate::rescue::Rescue;
use crate::shared::{MAX_WORKERS, Shared};
use runyard_engine::cpu::CpuId;
use runyard_engine::time::Nanos;

/// Between two looks of the keeper while a task runs.
const BUSY_INTERVAL: Nanos = Nanos::from_millis(1);
/// Between two looks while none does.
const IDLE_INTERVAL: Nanos = Nanos::from_millis(100);

/// Where the keeper and the maker wait.
#[derive(Debug)]
pub(crate) struct Keeper {
    calls: AtomicU32,
    orders: AtomicU32,
    /// The maker's thread, while it makes something; 0 while it waits for orders.
    maker: AtomicI32,
    /// How many of the two are there.
    nr_ready: AtomicU32,
    /// How many threads want a slot and cannot ask for it.
    nr_wanting: AtomicU32,
}

impl Keeper {
    pub(crate) fn new() -> Keeper {
        Keeper {
            calls: AtomicU32::new(0),
            orders: AtomicU32::new(0),
            maker: AtomicI32::new(0),
            nr_ready: AtomicU32::new(0),
            nr_wanting: AtomicU32::new(0),
        }
    }

    /// Asks the keeper to look soon. May be called in a signal handler.
    pub(crate) fn look(&self) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        os::futex::wake(&self.calls);
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

    fn is_there(&self) {
        self.nr_ready.fetch_add(1, Ordering::SeqCst);
        os::futex::wake(&self.nr_ready);
    }

    /// Asks the maker for spares where there are none. May be called in a signal handler.
    pub(crate) fn order(&self) {
        self.orders.fetch_add(1, Ordering::SeqCst);
        os::futex::wake(&self.orders);
    }
}

/// What the keeper saw of a slot last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    owner: u32,
    doing: Doing,
    used: Nanos,
}

/// One that is looked at again and again.
#[derive(Clone, Debug, Default)]
struct Watched {
    seen: Option<Seen>,
    /// How many looks in a row it stood still.
    looks: u32,
}

impl Watched {
    /// Whether it stands still, blocked in the kernel, since the last look.
    fn waits(&mut self, tid: Tid, (owner, doing): (u32, Doing)) -> bool {
        let now = os::thread::cpu_time(tid).map(|used| Seen { owner, doing, used });
        let stands = now.is_some() && self.seen == now;
        self.seen = now;
        let waits = stands && os::thread::is_blocked(tid);
        self.looks = if waits { self.looks + 1 } else { 0 };
        waits
    }
}

/// The thread that makes spares.
pub(crate) fn make(shared: &Arc<Shared>) {
    os::signal::listen_only_to(shared.signal);
    let mut warned = false;
    let keeper = &shared.keeper;
    keeper.is_there();
    while !shared.is_over() {
        let orders = keeper.orders.load(Ordering::SeqCst);
        keeper.maker.store(os::thread::current().0, Ordering::SeqCst);
        for cpu in shared.machine.config().topology.iter() {
            if !shared.slot(cpu).has_spare() {
                shared.add_spare(cpu);
            }
        }
        if !warned && !os::signal::is_ours(shared.signal) {
            warned = true;
            eprintln!(
                "runyard: other code took signal {}: long polls are not preempted any more",
                shared.signal
            );
        }
        keeper.maker.store(0, Ordering::SeqCst);
        let until = os::thread::now() + IDLE_INTERVAL;
        os::futex::wait(&keeper.orders, orders, Some(until));
    }
}

/// The keeper's thread.
pub(crate) fn run(shared: &Arc<Shared>) {
    os::signal::listen_only_to(shared.signal);
    let cpus: Vec<_> = shared.machine.config().topology.iter().collect();
    let mut owners = vec![Watched::default(); cpus.len()];
    let (mut maker, mut rescue) = (Watched::default(), Rescue::new(MAX_WORKERS));
    shared.keeper.is_there();
    while !shared.is_over() {
        let calls = shared.keeper.calls.load(Ordering::SeqCst);
        let mut busy = false;
        for (cpu, owner) in cpus.iter().zip(&mut owners) {
            busy |= watch(shared, *cpu, owner, &mut rescue);
        }
        if shared.keeper.nr_wanting.load(Ordering::SeqCst) > 0 {
            busy = true;
            shared.workers().for_each(|worker| worker.ask_if_it_wants());
        }
        let tid = shared.keeper.maker.load(Ordering::SeqCst);
        if tid > 0 && maker.waits(Tid(tid), (0, Doing::Own)) {
            busy = true;
            rescue.at_look(shared, maker.looks);
        }
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
    let Some(tid) = shared.worker(owner).map(|worker| worker.tid()) else { return false };
    if !watched.waits(tid, (owner.0, doing)) {
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
/// hears no signals.
fn has_due_timer(shared: &Shared, cpu: CpuId) -> bool {
    let now = os::thread::now();
    shared.machine.next_expiry(cpu).is_some_and(|at| at <= now)
}
