//! What a thread knows of the paused runtime in whose name it runs: the virtual time, and the simulated CPU.
//!
//! A thread gets this together with the baton, and only who has the baton runs. So nothing here is shared. The words
//! have no destructor and are there from the start of the thread, so a signal handler may read them as well.

use runyard_engine::attr::Attr;
use runyard_engine::cpu::CpuId;
use runyard_engine::time::{Nanos, Time};
use std::cell::Cell;

/// Where in virtual time a thread is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Here {
    /// The clock of the paused runtime; none for a thread that is in no paused runtime.
    pub(crate) now: Option<Time>,
    /// The simulated CPU. The main future has none.
    pub(crate) cpu: Option<CpuId>,
    /// Whether the thread is in the poll of a task on that CPU.
    pub(crate) polls: bool,
}

impl Here {
    const NOWHERE: Here = Here { now: None, cpu: None, polls: false };

    /// On no CPU, or outside of polls on this one.
    pub(crate) fn at(now: Time, cpu: Option<CpuId>) -> Here {
        Here { now: Some(now), cpu, polls: false }
    }
}

thread_local! {
    static HERE: Cell<Here> = const { Cell::new(Here::NOWHERE) };
    /// In how many sections without preemption the thread is.
    static SECTIONS: Cell<u32> = const { Cell::new(0) };
}

/// Where the calling thread is from now on, and where it was.
pub(crate) fn be(here: Here) -> Here {
    HERE.replace(here)
}

/// The virtual time of the calling thread, if it is in a paused runtime. May be called in a signal handler.
pub(crate) fn now() -> Option<Time> {
    HERE.get().now
}

/// Whether the calling thread is in a paused runtime.
pub(crate) fn is_paused() -> bool {
    now().is_some()
}

/// The simulated CPU on which the calling code runs.
pub(crate) fn cpu() -> Option<CpuId> {
    HERE.get().cpu
}

/// The same, if the calling code is in a poll there.
pub(crate) fn cpu_of_poll() -> Option<CpuId> {
    let here = HERE.get();
    here.cpu.filter(|_| here.polls)
}

/// Runs `wakes` as from outside of a poll: who is woken does not wait for the end of that.
pub(crate) fn outside_of_poll<R>(wakes: impl FnOnce() -> R) -> R {
    let before = be(Here { polls: false, ..HERE.get() });
    let result = wakes();
    be(Here { polls: before.polls, ..HERE.get() });
    result
}

/// Runs a section: a task that computes in it is not preempted.
pub(crate) fn without_preemption<R>(section: impl FnOnce() -> R) -> R {
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            SECTIONS.set(SECTIONS.get() - 1);
        }
    }
    SECTIONS.set(SECTIONS.get() + 1);
    let _end = End;
    section()
}

/// Whether the calling code is in such a section.
pub(crate) fn may_be_preempted() -> bool {
    SECTIONS.get() == 0
}

/// How much later than asked timers may be if nobody said it. Virtual timers are exact then: a test that says
/// one second means it.
pub(crate) fn default_slack() -> Nanos {
    if is_paused() { Nanos::ZERO } else { Attr::DEFAULT_SLACK }
}
