//! The parts of [`Shared`](super::Shared) besides the machine and the [registry](super::registry): the threads, the
//! machine's real CPUs, and the view from outside.

use super::cookies::NoCookies;
use crate::crew::homes::Homes;
use crate::crew::keeper::Keeper;
use crate::crew::maker::Maker;
use crate::crew::meter::Meters;
use crate::crew::slotless::Slotless;
use crate::crew::threads::Threads;
use crate::deferred::errands::Errands;
use crate::deferred::rubbish::Bin;
use crate::observe::teller::Teller;
use crate::os::sync::{Arc, AtomicBool, AtomicUsize, Mutex, Ordering, lock};
use crate::os::thread::Places;
use crate::snapshot::Groups;
use crate::stall::Stalls;
use crate::time::late::Late;
use crate::time::timers::Table;
use crate::worker::batch::Batches;
use crate::worker::newcomers::Outsiders;
use runyard_engine::attr::LatencyNice;
use runyard_engine::cpu::CpuSet;
use runyard_engine::time::Nanos;
use std::thread::JoinHandle;
use std::time::Instant;

/// The threads of a runtime.
#[derive(Debug)]
pub(crate) struct Crew {
    /// The workers.
    pub(crate) threads: Arc<Threads>,
    /// The worker that runs the task of each slot.
    pub(crate) meters: Arc<Meters>,
    pub(crate) keeper: Keeper,
    pub(crate) maker: Maker,
    /// The threads that run without a slot.
    pub(crate) slotless: Slotless,
    /// The threads of the keeper, the maker, the siege and the search for stalls.
    servants: Mutex<Vec<JoinHandle<()>>>,
    over: AtomicBool,
}

impl Crew {
    /// A crew without a running thread. `most_threads` is the largest number of workers.
    pub(super) fn new(
        threads: Arc<Threads>,
        meters: Arc<Meters>,
        maker: Maker,
        most_threads: usize,
    ) -> Crew {
        Crew {
            threads,
            meters,
            keeper: Keeper::new(),
            maker,
            slotless: Slotless::new(most_threads),
            servants: Mutex::default(),
            over: AtomicBool::new(false),
        }
    }

    /// Keeps the handle of a servant's thread until the end.
    pub(super) fn keep_servant(&self, thread: JoinHandle<()>) {
        lock(&self.servants).push(thread);
    }

    /// Takes the handles of the servants' threads.
    pub(super) fn take_servants(&self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut *lock(&self.servants))
    }

    /// Asks all threads to end.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// Whether all threads were asked to end.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

/// The CPUs of the machine that the process may use.
#[derive(Debug)]
pub(crate) struct HostCpus {
    /// Their numbers: first those of the slots, in order.
    pub(super) numbers: Vec<usize>,
    /// The CPUs of the runtime. Each CPU has its own copy of the set, because the set is reference counted.
    pub(super) all: Box<[CpuSet]>,
    /// All of them, as a set for binding.
    pub(crate) everywhere: Places,
    pub(crate) homes: Homes,
    /// Whether each worker is bound to the CPU of its slot.
    pub(super) pins: bool,
    /// The reason why tasks with different cookies share cores, if they do.
    pub(crate) cookies: Result<(), NoCookies>,
}

/// The tasks that are polled in batches, and those that come to them.
#[derive(Debug)]
pub(crate) struct Dispatch {
    /// The batches of each CPU. Empty if each poll is a separate scheduling decision.
    pub(crate) batches: Box<[Batches]>,
    /// The tasks that were spawned outside of every poll.
    pub(crate) outsiders: Outsiders,
}

/// The timers of tasks.
#[derive(Debug)]
pub(crate) struct Timers {
    /// The waiters for the timers of each CPU.
    pub(crate) tables: Box<[Mutex<Table>]>,
    /// Serves timers when no worker does any more.
    pub(crate) late: Late,
}

/// The work that the runtime's own code leaves to foreign code.
#[derive(Debug)]
pub(crate) struct Deferred {
    pub(crate) errands: Errands,
    /// Discarded values of each CPU, which foreign code will free.
    pub(crate) bins: Box<[Bin]>,
}

/// The means to stop a task in the middle of its poll.
#[derive(Debug)]
pub(crate) struct Preemption {
    /// Whether foreign code is preempted.
    pub(crate) is_on: bool,
    pub(crate) signal: i32,
    /// The seed of the siege, if this runtime is under one.
    pub(crate) siege: Option<u64>,
}

/// The bounds of the values that tasks and groups may ask for.
#[derive(Debug)]
pub(crate) struct Bounds {
    pub(crate) lowest_latency_nice: LatencyNice,
    /// CPU time available in a second.
    pub(crate) capacity: Nanos,
    pub(crate) max_groups: usize,
}

/// The groups that tasks leave when they are over.
#[derive(Debug, Default)]
pub(crate) struct Leavers {
    /// Whether a task group was ever created. Until then a task that ends leaves none.
    pub(crate) are_any: AtomicBool,
    /// Number of groups that finished tasks have left and that are in a bin, or held by the thread that empties it.
    pub(crate) nr: AtomicUsize,
}

/// The parts that watch a runtime.
#[derive(Debug)]
pub(crate) struct Observation {
    /// Tells the observer of events, if there is an observer.
    pub(crate) teller: Option<Teller>,
    /// Looks for stalls, if a callback asks for them.
    pub(crate) stalls: Option<Stalls>,
    /// The living task groups, for snapshots.
    pub(crate) groups: Groups,
    /// The beginning of the observer's time.
    pub(crate) started: Instant,
}
