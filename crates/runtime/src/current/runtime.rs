//! The runtime to which the code on a thread belongs.
//!
//! Each thread has a list of the runtimes that were entered on it and not left yet. The newest of them is the current
//! one. A worker enters its runtime when its thread starts. `block_on` enters one while it runs, and
//! [`crate::Handle::enter`] until its guard is dropped.
//!
//! Guards may be dropped in any order. Each removes its own entry, wherever that is in the list, and the newest
//! remaining entry is the current one. Rejected: to panic, as tokio does. Guards of two futures that one thread polls
//! in turn end in any order, and a panic in a destructor may end the process.
//!
//! Invariants: the list is never borrowed while foreign code runs; it is never read in a signal handler.

use super::worker::worker;
use crate::os::sync::{Arc, MutexGuard};
use crate::shared::Shared;
use crate::worker::Worker;
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;

/// The runtimes that were entered on a thread.
#[derive(Debug)]
struct Stack {
    /// The number and the runtime of each entry. The newest is the last.
    entries: Vec<(u64, Arc<Shared>)>,
    /// Number of entries ever made.
    nr_entered: u64,
}

thread_local! {
    static CONTEXT: RefCell<Stack> =
        const { RefCell::new(Stack { entries: Vec::new(), nr_entered: 0 }) };
}

/// A guard: the calling thread belongs to a runtime until it is dropped. It stays on its thread, but other threads may
/// have a reference to it.
#[derive(Debug)]
pub(crate) struct Entered {
    number: u64,
    stays: PhantomData<MutexGuard<'static, ()>>,
}

impl Entered {
    pub(crate) fn enter(shared: &Arc<Shared>) -> Entered {
        let number = CONTEXT.with_borrow_mut(|stack| {
            stack.nr_entered += 1;
            stack.entries.push((stack.nr_entered, shared.clone()));
            stack.nr_entered
        });
        Entered { number, stays: PhantomData }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let leave = |context: &RefCell<Stack>| {
            let entries = &mut context.borrow_mut().entries;
            let at = entries.iter().rposition(|&(number, _)| number == self.number)?;
            Some(entries.remove(at))
        };
        // A thread that ends may have dropped its list already. The runtime is dropped after the borrow.
        drop(CONTEXT.try_with(leave));
    }
}

/// The reason why there is no current runtime.
///
/// ```
/// use runyard::Handle;
///
/// assert!(Handle::try_current().is_err_and(|error| error.is_missing_context()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TryCurrentError {
    is_thread_ending: bool,
}

impl TryCurrentError {
    /// Returns whether the calling code belongs to no runtime.
    #[must_use]
    pub fn is_missing_context(&self) -> bool {
        !self.is_thread_ending
    }

    /// Returns whether the calling thread is ending, and has already dropped its list of runtimes. Destructors of
    /// thread locals can see this.
    #[must_use]
    pub fn is_thread_local_destroyed(&self) -> bool {
        self.is_thread_ending
    }
}

impl fmt::Display for TryCurrentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.is_thread_ending {
            true => "the thread is ending, and no longer belongs to a runtime",
            false => {
                "the calling code belongs to no runtime: it is not in a task, not within block_on, and \
                 not behind Handle::enter"
            }
        })
    }
}

impl std::error::Error for TryCurrentError {}

/// Returns the runtime that the calling code belongs to.
///
/// # Panics
/// If it belongs to none.
#[track_caller]
pub(crate) fn current() -> Arc<Shared> {
    match try_current() {
        Ok(runtime) => runtime,
        Err(error) => panic!("{error}"),
    }
}

/// Calls `body` with the runtime that the calling code belongs to, if it runs on a worker of that runtime. This counts no
/// reference, for which all CPUs would contend.
#[inline]
pub(crate) fn on_worker<R>(body: impl FnOnce(&Arc<Shared>) -> Option<R>) -> Option<R> {
    let is_ours = |worker: &Worker| is_current(worker.shared.number);
    worker(|worker| is_ours(worker).then(|| body(&worker.shared)).flatten()).flatten()
}

/// Returns the runtime that the calling code belongs to, or the reason why there is none.
pub(crate) fn try_current() -> Result<Arc<Shared>, TryCurrentError> {
    let last = |context: &RefCell<Stack>| {
        context.borrow().entries.last().map(|(_, shared)| shared.clone())
    };
    match CONTEXT.try_with(last) {
        Ok(Some(shared)) => Ok(shared),
        Ok(None) => Err(TryCurrentError { is_thread_ending: false }),
        Err(_) => Err(TryCurrentError { is_thread_ending: true }),
    }
}

/// Returns whether the calling code belongs to the runtime of this number.
pub(crate) fn is_current(runtime: u16) -> bool {
    let is_last = |context: &RefCell<Stack>| {
        context.borrow().entries.last().is_some_and(|(_, last)| last.number == runtime)
    };
    CONTEXT.try_with(is_last).unwrap_or(false)
}

/// Returns the runtime that the calling code belongs to, if any.
pub(crate) fn current_if_any() -> Option<Arc<Shared>> {
    try_current().ok()
}
