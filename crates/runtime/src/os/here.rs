//! The calling thread's place in a paused runtime: the virtual time and the simulated CPU.
//!
//! A thread receives its place together with the baton, and only the holder of the baton runs. So nothing here is
//! shared. The words have no destructor and exist from the start of the thread, so a signal handler may read them as
//! well.

use crate::os::local::counted;
use runyard_engine::cpu::CpuId;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::DEFAULT_SLACK;
use std::cell::Cell;

/// Start of virtual time, except for a part of a tick. It is late enough that no earlier time is asked for.
pub(crate) const BEGIN: Time = Time(1_000_000_000);

/// A thread's place in virtual time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Here {
    /// The time on the paused runtime's clock; `None` for a thread of no paused runtime.
    pub(crate) now: Option<Time>,
    /// The simulated CPU; `None` for the main future.
    pub(crate) cpu: Option<CpuId>,
    /// Whether the thread is polling a task on that CPU.
    pub(crate) polls: bool,
}

impl Here {
    const NOWHERE: Here = Here { now: None, cpu: None, polls: false };

    /// Returns the place on no CPU, or on this CPU outside a poll.
    pub(crate) fn at(now: Time, cpu: Option<CpuId>) -> Here {
        Here { now: Some(now), cpu, polls: false }
    }
}

thread_local! {
    static HERE: Cell<Here> = const { Cell::new(Here::NOWHERE) };
    /// The number of nested sections without preemption that the thread is in.
    static SECTIONS: Cell<u32> = const { Cell::new(0) };
}

/// Sets the calling thread's place, and returns the place before.
pub(crate) fn be(here: Here) -> Here {
    HERE.replace(here)
}

/// Returns the calling thread's virtual time, if it is in a paused runtime. May be called in a signal handler.
#[inline]
pub(crate) fn now() -> Option<Time> {
    HERE.get().now
}

/// Returns whether the calling thread is in a paused runtime.
#[inline]
pub(crate) fn is_paused() -> bool {
    now().is_some()
}

/// Returns the simulated CPU on which the calling code runs.
pub(crate) fn cpu() -> Option<CpuId> {
    HERE.get().cpu
}

/// Returns the simulated CPU on which the calling code runs, if it is in a poll.
pub(crate) fn cpu_of_poll() -> Option<CpuId> {
    let here = HERE.get();
    here.cpu.filter(|_| here.polls)
}

/// Runs `wakes` as if outside a poll: a task that it wakes does not wait for the end of the poll.
pub(crate) fn outside_of_poll<R>(wakes: impl FnOnce() -> R) -> R {
    let before = be(Here { polls: false, ..HERE.get() });
    let result = wakes();
    be(Here { polls: before.polls, ..HERE.get() });
    result
}

/// Runs a section in which the calling task is not preempted.
#[inline]
pub(crate) fn without_preemption<R>(section: impl FnOnce() -> R) -> R {
    counted(&SECTIONS, section)
}

/// Returns whether the calling code is outside all such sections.
pub(crate) fn may_be_preempted() -> bool {
    SECTIONS.get() == 0
}

/// Returns the timer slack of timers without one of their own. It is zero with virtual time: a test that asks for one
/// second means exactly one second.
pub(crate) fn default_slack() -> Nanos {
    if is_paused() { Nanos::ZERO } else { DEFAULT_SLACK }
}
