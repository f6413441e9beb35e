//! The keeper: makes spares ahead, and sees who blocks in the kernel.
//!
//! A thread that blocks in a system call or on a lock that the runtime cannot see keeps its slot,
//! and only the kernel knows. The keeper looks at the CPU time of threads that run foreign code:
//! one that had none between two looks, and is asleep by the kernel's account, loses the slot to a
//! spare if somebody waits for a CPU, any CPU (H22): it may be the holder of the very lock, parked
//! (H4). No CPU time alone is not enough: another process may have the CPU.

use crate::os;
use crate::runtime::Shared;
use crate::sync::{Arc, AtomicU32, Ordering};
use runyard_engine::cpu::CpuId;
use runyard_engine::time::Nanos;

/// Between two looks while foreign code runs.
const LOOK: Nanos = Nanos::from_millis(1);
/// And while none does.
const REST: Nanos = Nanos::from_millis(100);

/// Where the keeper waits.
#[derive(Debug)]
pub(crate) struct Keeper {
    calls: AtomicU32,
}

impl Keeper {
    pub(crate) fn new() -> Keeper {
        Keeper { calls: AtomicU32::new(0) }
    }

    /// Asks the keeper to look soon. May be called in a signal handler.
    pub(crate) fn look(&self) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        os::futex::wake(&self.calls);
    }
}

/// What the keeper saw of a slot last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    owner: u32,
    used: Nanos,
}

/// The keeper's thread.
pub(crate) fn run(shared: &Arc<Shared>) {
    os::signal::listen_only_to(shared.signal);
    let cpus: Vec<_> = shared.machine.config().topology.iter().collect();
    let mut seen = vec![None; cpus.len()];
    let mut warned = false;
    while !shared.is_over() {
        let calls = shared.keeper.calls.load(Ordering::SeqCst);
        let mut busy = false;
        if !warned && !os::signal::is_ours(shared.signal) {
            warned = true;
            eprintln!(
                "runyard: other code took signal {}: long polls are not preempted any more",
                shared.signal
            );
        }
        for (cpu, seen) in cpus.iter().zip(&mut seen) {
            if !shared.slot(*cpu).has_spare() {
                shared.add_spare(*cpu);
            }
            busy |= watch(shared, *cpu, seen);
        }
        for worker in shared.workers() {
            if worker.wants_slot.swap(false, Ordering::SeqCst) && !worker.ask_for_slot() {
                worker.wants_slot.store(true, Ordering::SeqCst);
                busy = true;
            }
        }
        let until = os::thread::now() + if busy { LOOK } else { REST };
        os::futex::wait(&shared.keeper.calls, calls, Some(until));
    }
}

/// Takes the slot from an owner that blocks since the last look, if somebody could use it. Says whether foreign
/// code runs there.
fn watch(shared: &Shared, cpu: CpuId, seen: &mut Option<Seen>) -> bool {
    let slot = shared.slot(cpu);
    if !slot.is_running() {
        *seen = None;
        return false;
    }
    let owner = slot.owner();
    let worker = shared.worker_ref(owner);
    let now = os::thread::cpu_time(worker.tid()).map(|used| Seen { owner: owner.0, used });
    let stands = now.is_some() && *seen == now;
    *seen = now;
    if stands
        && shared.somebody_waits()
        && os::thread::is_blocked(worker.tid())
        && shared.take_slot(cpu, owner)
    {
        *seen = None;
    }
    true
}
