//! Threads: their numbers, and the time. Where they run, and what CPU time they use, is not known.

use crate::os::here;
use crate::os::sync::{AtomicI32, OnceLock, Ordering};
use runyard_engine::time::{Nanos, Time};
use std::cell::Cell;
use std::time::Instant;

/// The number of a thread of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tid(pub(crate) i32);

/// The calling thread's: the next one, when the thread asks for the first time. Never 0.
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

/// No CPU is known by its number.
pub(crate) fn allowed_cpus() -> Vec<usize> {
    Vec::new()
}

/// No thread is bound to a CPU.
pub(crate) fn may_pin(_cpu: usize) -> bool {
    false
}

/// Refuses to bind a thread.
pub(crate) fn bind(_thread: Tid, _cpus: impl IntoIterator<Item = usize>) -> bool {
    false
}

/// A set of CPUs, of which none is known.
#[derive(Debug)]
pub(crate) struct Places;

impl Places {
    pub(crate) fn new(_cpus: &[usize]) -> Places {
        Places
    }

    /// No CPU is known to be in it, so that no thread is steered.
    pub(crate) fn has(&self, _cpu: u32) -> bool {
        false
    }
}

/// The CPU on which the calling thread runs is not known: all have this number.
pub(crate) fn current_cpu() -> u32 {
    0
}

/// No thread is known to be where it may be steered.
pub(crate) fn may_run_on(_thread: Tid, _places: &Places) -> bool {
    false
}

/// Refuses as [`bind`] does.
pub(crate) fn bind_to(_thread: Tid, _places: &Places) -> bool {
    false
}

/// No thread is bound.
pub(crate) fn runs_on_one(_thread: Tid, _cpu: u32) -> bool {
    false
}

/// Refuses as [`bind`] does.
pub(crate) fn bind_to_one(_thread: Tid, _cpu: u32) -> bool {
    false
}

/// Waits, by `wait`, as exactly as any wait.
pub(crate) fn exactly(wait: impl FnOnce()) {
    wait();
}

/// Waits are as exact as they are.
pub(crate) fn be_exact() {}

/// Nothing is reserved for a thread.
///
/// # Errors
/// Always.
pub fn set_deadline(_runtime: Nanos, _deadline: Nanos, _period: Nanos) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// No thread has a slice of its own.
pub(crate) const SHORTEST_SLICE: Nanos = Nanos::ZERO;

/// No thread has a slice of its own.
pub fn set_slice(_slice: Option<Nanos>) -> bool {
    false
}

/// Whether it is known what CPU time a thread has used.
pub(crate) const KNOWS_CPU_TIME: bool = false;

/// CPU time is not known. The time on the clock is taken for it: a task is charged for all the time that it has a
/// slot, also if the system runs another process meanwhile.
pub(crate) fn cpu_time(_thread: Tid) -> Option<Nanos> {
    Some(own_cpu_time())
}

/// The same for the calling thread.
pub(crate) fn own_cpu_time() -> Nanos {
    Nanos(now().0)
}

/// Nobody counts waits.
pub(crate) fn nr_own_waits() -> u64 {
    0
}

/// Nobody is known to block.
pub(crate) fn is_blocked(_thread: Tid) -> Option<bool> {
    None
}

/// No limit is known.
pub(crate) fn most_of_user() -> Option<usize> {
    None
}

/// The monotonic clock; in a paused runtime the virtual one.
pub(crate) fn now() -> Time {
    here::now().unwrap_or_else(monotonic)
}

/// There is nothing to choose: the standard library has one clock.
pub(crate) fn choose_clock() {}

/// The monotonic clock of the standard library. It began one second before somebody looked at it first: an instant of
/// zero means that there is none.
pub(crate) fn monotonic() -> Time {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    let since = BEGAN.get_or_init(Instant::now).elapsed();
    Time(1_000_000_000 + since.as_nanos() as u64)
}
