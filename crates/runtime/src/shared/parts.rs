//! The parts of [`Shared`](super::Shared) besides the machine and the [registry](super::registry): the threads, the
//! machine's real CPUs, and the view from outside.

use super::cookies::NoCookies;
use crate::crew::homes::Homes;
use crate::crew::keeper::Keeper;
use crate::crew::maker::Maker;
use crate::crew::slotless::Slotless;
use crate::crew::threads::Threads;
use crate::observe::teller::Teller;
use crate::os::sync::{Arc, AtomicBool, Mutex, Ordering, lock};
use crate::os::thread::Places;
use crate::snapshot::Groups;
use crate::stall::Stalls;
use std::thread::JoinHandle;
use std::time::Instant;

/// The threads of a runtime.
#[derive(Debug)]
pub(crate) struct Crew {
    /// The workers.
    pub(crate) threads: Arc<Threads>,
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
    pub(super) fn new(threads: Arc<Threads>, maker: Maker, most_threads: usize) -> Crew {
        Crew {
            threads,
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
    /// All of them, as a set for binding.
    pub(crate) everywhere: Places,
    pub(crate) homes: Homes,
    /// Whether each worker is bound to the CPU of its slot.
    pub(super) pins: bool,
    /// The reason why tasks with different cookies share cores, if they do.
    pub(crate) cookies: Result<(), NoCookies>,
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
