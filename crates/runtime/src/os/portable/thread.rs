//! Threads' numbers, and the time. The CPU of a thread and its CPU time are not known.

use crate::os::here;
use crate::os::sync::{AtomicI32, OnceLock, Ordering};
use crate::os::threads::ChildUsage;
use runyard_engine::time::{Nanos, Time};
use std::cell::Cell;
use std::time::Instant;

/// The number of a thread of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tid(pub(crate) i32);

/// Returns the calling thread's number: the next free one when the thread asks for the first time. It is never 0.
pub(crate) fn current() -> Tid {
    thread_local! {
        static NUMBER: Cell<i32> = const { Cell::new(0) };
    }
    static LAST: AtomicI32 = AtomicI32::new(0);
    if NUMBER.get() == 0 {
        NUMBER.set(1 + LAST.fetch_add(1, Ordering::Relaxed));
    }
    Tid(NUMBER.get())
}

/// Returns no CPU: none is known by a number.
pub(crate) fn allowed_cpus() -> Vec<usize> {
    Vec::new()
}

/// Returns that no thread can be bound to a CPU.
pub(crate) fn may_pin(_cpu: usize) -> bool {
    false
}

/// A set of CPUs, of which none is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mask;

impl Mask {
    pub(crate) fn of(_cpus: impl IntoIterator<Item = usize>) -> Mask {
        Mask
    }

    /// Returns `None`: the CPUs of a thread are not known.
    pub(crate) fn of_thread(_thread: Tid) -> Option<Mask> {
        None
    }

    pub(crate) fn intersection(&self, _other: &Mask) -> Mask {
        Mask
    }

    pub(crate) fn is_empty(&self) -> bool {
        true
    }

    /// Refuses to bind a thread.
    pub(crate) fn bind(&self, _thread: Tid) -> bool {
        false
    }
}

/// A set of CPUs, in which no CPU is known to be.
#[derive(Debug)]
pub(crate) struct Places;

impl Places {
    pub(crate) fn new(_cpus: &[usize]) -> Places {
        Places
    }

    pub(crate) fn set(&self, _mask: &Mask) {}

    pub(crate) fn mask(&self) -> Mask {
        Mask
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        std::iter::empty()
    }

    /// Returns that the CPU is not in the set, so that no thread is steered.
    pub(crate) fn has(&self, _cpu: u32) -> bool {
        false
    }
}

/// Returns the same number for every CPU: the CPU of the calling thread is not known.
pub(crate) fn current_cpu() -> u32 {
    0
}

/// Returns that the thread is not known to be bound to these CPUs.
pub(crate) fn may_run_on(_thread: Tid, _places: &Places) -> bool {
    false
}

/// Refuses as [`bind`] does.
pub(crate) fn bind_to(_thread: Tid, _places: &Places) -> bool {
    false
}

/// Returns that the thread is not bound to this CPU.
pub(crate) fn runs_on_one(_thread: Tid, _cpu: u32) -> bool {
    false
}

/// Refuses as [`bind`] does.
pub(crate) fn bind_to_one(_thread: Tid, _cpu: u32) -> bool {
    false
}

/// Waits, by `wait`, with the exactness of any wait.
pub(crate) fn exactly(wait: impl FnOnce()) {
    wait();
}

/// Does nothing: waits keep their exactness.
pub(crate) fn be_exact() {}

/// Returns `None`: the nice value of a thread is not known.
pub(crate) fn nice(_thread: Tid) -> Option<i32> {
    None
}

/// Refuses to change the nice value of a thread.
pub(crate) fn renice(_thread: Tid, _to: i32) -> Option<i32> {
    None
}

/// Returns that no thread can have its nice value back.
pub(crate) fn may_renice() -> bool {
    false
}

/// Returns that child processes used nothing: their use is not known.
pub fn children() -> ChildUsage {
    ChildUsage::default()
}

/// Refuses to reserve CPU time for a thread.
///
/// # Errors
/// Always.
pub fn set_deadline(_runtime: Nanos, _deadline: Nanos, _period: Nanos) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Runs `does`, since no thread can be put ahead of others.
pub fn ahead_of_fair<T>(does: impl FnOnce() -> T) -> T {
    does()
}

/// The shortest slice of a thread: no thread has a slice of its own.
pub(crate) const SHORTEST_SLICE: Nanos = Nanos::ZERO;

/// Refuses: no thread has a slice of its own.
pub fn set_slice(_slice: Option<Nanos>) -> bool {
    false
}

/// Whether the CPU time of a thread is known.
pub(crate) const KNOWS_CPU_TIME: bool = false;

/// Returns the time on the clock, since CPU time is not known. So a task is charged for all the time that it has a
/// slot, even while the system runs another process.
pub(crate) fn cpu_time(_thread: Tid) -> Option<Nanos> {
    Some(own_cpu_time())
}

/// Returns the time on the clock, for the calling thread.
pub(crate) fn own_cpu_time() -> Nanos {
    Nanos(now().0)
}

/// Returns the same number always: the system does not count waits.
pub(crate) fn nr_own_waits() -> u64 {
    0
}

/// Returns `None`: it is not known whether a thread blocks.
pub(crate) fn is_blocked(_thread: Tid) -> Option<bool> {
    None
}

/// Returns `None`: there is no signal.
pub(crate) fn blocks_signal(_thread: Tid, _signal: i32) -> Option<bool> {
    None
}

/// Returns `None`: no limit is known.
pub(crate) fn most_of_user() -> Option<usize> {
    None
}

/// Returns the time on the monotonic clock; in a paused runtime, on the virtual clock.
pub(crate) fn now() -> Time {
    here::now().unwrap_or_else(monotonic)
}

/// Does nothing: the standard library has only one clock.
pub(crate) fn choose_clock() {}

/// Returns the time on the standard library's monotonic clock. Its zero is one second before the first reading, since
/// an instant of zero means "none".
pub(crate) fn monotonic() -> Time {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    let since = BEGAN.get_or_init(Instant::now).elapsed();
    Time(1_000_000_000 + since.as_nanos() as u64)
}
