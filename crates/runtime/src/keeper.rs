//! The keeper: sees who blocks in the kernel, and makes spares ahead.
//!
//! A thread that blocks in a system call or on a lock that the runtime cannot see keeps its slot,
//! and only the kernel knows. The keeper looks at the CPU time of the owners of slots: one that had
//! none between two looks, and is asleep by the kernel's account, blocks. No CPU time alone is not
//! enough: another process may have the CPU. What then happens depends on what it does:
//!
//! - A task's code: it loses its slot to a spare, if somebody waits for a CPU, any CPU (H22), or a
//!   timer of its own is due. That may be the holder of the very lock (H4), or wake it.
//! - The runtime's own code: it waits for a lock of the process, the allocator's, whose holder was
//!   stopped at an unsafe point. Those who were are let go on without a slot, for a moment (H4).
//!
//! The keeper itself takes no such lock: it allocates nothing, unless an observer does whom it
//! tells of a wake-up. Threads are made by another thread, which may have to wait.

use crate::handoff::Doing;
use crate::os;
use crate::primitives::{Arc, AtomicU32, Ordering};
use crate::shared::Shared;
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
}

impl Keeper {
    pub(crate) fn new() -> Keeper {
        Keeper { calls: AtomicU32::new(0), orders: AtomicU32::new(0) }
    }

    /// Asks the keeper to look soon. May be called in a signal handler.
    pub(crate) fn look(&self) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        os::futex::wake(&self.calls);
    }

    /// Asks for spares where there are none. May be called in a signal handler.
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

/// The thread that makes spares.
pub(crate) fn make(shared: &Arc<Shared>) {
    os::signal::listen_only_to(shared.signal);
    let mut warned = false;
    while !shared.is_over() {
        let orders = shared.keeper.orders.load(Ordering::SeqCst);
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
        let until = os::thread::now() + IDLE_INTERVAL;
        os::futex::wait(&shared.keeper.orders, orders, Some(until));
    }
}

/// The keeper's thread.
pub(crate) fn run(shared: &Arc<Shared>) {
    os::signal::listen_only_to(shared.signal);
    let cpus: Vec<_> = shared.machine.config().topology.iter().collect();
    let mut seen = vec![None; cpus.len()];
    while !shared.is_over() {
        let calls = shared.keeper.calls.load(Ordering::SeqCst);
        let mut busy = false;
        for (cpu, seen) in cpus.iter().zip(&mut seen) {
            busy |= watch(shared, *cpu, seen);
        }
        for worker in shared.workers() {
            busy |= worker.ask_if_it_wants();
        }
        let until = os::thread::now() + if busy { BUSY_INTERVAL } else { IDLE_INTERVAL };
        os::futex::wait(&shared.keeper.calls, calls, Some(until));
    }
}

/// Acts on an owner that blocks since the last look. Says whether somebody runs there.
fn watch(shared: &Shared, cpu: CpuId, seen: &mut Option<Seen>) -> bool {
    let (owner, doing) = shared.slot(cpu).doing();
    if doing == Doing::Asleep {
        *seen = None;
        return false;
    }
    let Some(tid) = shared.worker(owner).map(|worker| worker.tid()) else { return false };
    let now = os::thread::cpu_time(tid).map(|used| Seen { owner: owner.0, doing, used });
    let stands = now.is_some() && *seen == now;
    *seen = now;
    if !stands || !os::thread::is_blocked(tid) {
        return true;
    }
    if doing == Doing::Own {
        shared.workers().for_each(|worker| worker.let_go());
    } else if (shared.somebody_waits() || has_due_timer(shared, cpu))
        && shared.take_slot(cpu, owner)
    {
        *seen = None;
    }
    true
}

/// Whether a timer should have been served on `cpu`. Who blocks with its slot in a section for that
/// hears no signals.
fn has_due_timer(shared: &Shared, cpu: CpuId) -> bool {
    let now = os::thread::now();
    shared.machine.next_expiry(cpu).is_some_and(|at| at <= now)
}
