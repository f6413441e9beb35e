//! The part of a scheduler that only a paused runtime has: requests that tasks and wakers leave for the clockwork.
//!
//! The rest of the scheduler is used as it is. A thread of a paused runtime is not a worker, so each query for the calling
//! worker returns none. The few queries that matter ask [`here`] as well.

use crate::observe::Observer;
use crate::os::harmless::harmless;
use crate::os::here::{self, BEGIN};
use crate::os::sync::{Arc, AtomicBool, Mutex, Ordering, lock};
use crate::task::Cell;
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, What};
use runyard_engine::task::TaskId;
use runyard_engine::time::Time;
use std::collections::BTreeMap;
use std::mem;
use std::panic::Location;
use std::thread;

/// The part of a paused runtime that its tasks and wakers reach.
#[derive(Debug)]
pub(crate) struct Host {
    requests: Mutex<Requests>,
    draws: Mutex<Draws>,
    /// The place in the source where each live task was spawned.
    places: Mutex<BTreeMap<TaskId, &'static Location<'static>>>,
    /// Set when the test is over. Computing tasks then unwind.
    over: AtomicBool,
    observer: Option<Arc<dyn Observer>>,
    /// Events not yet delivered to the observer. It is foreign code, and the caller that reports an event may hold a
    /// lock of the runtime.
    events: Mutex<Vec<Event>>,
}

/// Requests to the clockwork.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// CPUs that are to schedule.
    pub(crate) kicks: Vec<CpuId>,
    /// CPUs on which a task waits for the end of a poll.
    pub(crate) looks: Vec<(CpuId, Look)>,
    /// Wake-ups from outside of virtual time.
    pub(crate) refused: Vec<Refused>,
}

/// A request to check a task that waits on a CPU for the end of a poll, at `at` if it still waits then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) at: Time,
    /// Whether that task should preempt.
    pub(crate) kicked: bool,
}

/// A wake-up from a thread that is not of the paused runtime.
#[derive(Debug)]
pub(crate) struct Refused {
    /// The task that was woken.
    pub(crate) woken: String,
    /// The name of the thread.
    pub(crate) thread: String,
    /// The place of the task, which ends like all others.
    pub(crate) task: Option<u64>,
}

/// A random number generator with 64 bits of state (splitmix64). The random choices of a test depend on its seed alone.
#[derive(Debug)]
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ word >> 31
    }
}

impl Host {
    pub(crate) fn new(seed: u64, observer: Option<Arc<dyn Observer>>) -> Host {
        Host {
            requests: Mutex::default(),
            draws: Mutex::new(Draws(seed)),
            places: Mutex::default(),
            over: AtomicBool::new(false),
            observer,
            events: Mutex::default(),
        }
    }

    /// Records an event for the observer. Times that it receives count from [`BEGIN`].
    pub(crate) fn note(&self, cpu: CpuId, what: impl FnOnce() -> What) {
        if self.observer.is_some()
            && let Some(now) = here::now()
        {
            let at = Time(now.since(BEGIN).0);
            lock(&self.events).push(Event { at, cpu, what: what() });
        }
    }

    /// Delivers the recorded events to the observer.
    pub(crate) fn tell_observer(&self) {
        if let Some(observer) = &self.observer {
            let events = mem::take(&mut *lock(&self.events));
            events.iter().for_each(|event| harmless(|| observer.event(event)));
        }
    }

    /// Returns a random number below `of`.
    pub(crate) fn draw(&self, of: usize) -> usize {
        (lock(&self.draws).next() % of.max(1) as u64) as usize
    }

    pub(crate) fn kick(&self, cpu: CpuId) {
        lock(&self.requests).kicks.push(cpu);
    }

    pub(crate) fn look(&self, cpu: CpuId, look: Look) {
        lock(&self.requests).looks.push((cpu, look));
    }

    pub(crate) fn refuse(&self, woken: String, task: Option<u64>) {
        let thread = thread::current();
        let thread = thread.name().map_or_else(|| format!("{:?}", thread.id()), str::to_owned);
        lock(&self.requests).refused.push(Refused { woken, thread, task });
    }

    pub(crate) fn take_requests(&self) -> Requests {
        mem::take(&mut lock(&self.requests))
    }

    pub(crate) fn forget_place(&self, task: TaskId) {
        lock(&self.places).remove(&task);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// Describes a task for people: its name or number, and the place where it was spawned.
    pub(crate) fn describe(&self, cell: &Cell) -> String {
        let name = cell.name().map(|name| format!(" `{name}`")).unwrap_or_default();
        let place = lock(&self.places).get(&cell.id).map(|place| format!(", spawned at {place}"));
        format!("task {}{name}{}", cell.id.0, place.unwrap_or_default())
    }

    /// Returns whether a task may be woken. A wake-up from outside of virtual time is recorded and refused, and the
    /// test fails.
    pub(crate) fn admits(&self, cell: &Cell) -> bool {
        let is_inside = here::is_paused();
        if !is_inside {
            self.refuse(self.describe(cell), Some(cell.place.load(Ordering::Relaxed)));
        }
        is_inside
    }

    /// Records the place where a task is spawned. Only the runtime's own threads may spawn. When the test is over, and
    /// the runtime `is_closed`, any thread may, because the task is refused.
    pub(super) fn note_place(
        &self,
        task: TaskId,
        place: &'static Location<'static>,
        is_closed: bool,
    ) {
        let ours = here::is_paused() || is_closed;
        assert!(ours, "a thread outside of virtual time cannot spawn tasks");
        lock(&self.places).insert(task, place);
    }
}
