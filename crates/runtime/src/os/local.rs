//! The calling thread's worker, the task that it polls, and whether it is in the signal handler.
//!
//! The words are initialised at compile time and have no destructor. So to read one is one load relative to the thread
//! pointer, in a signal handler too, and never registers anything (H2).

use crate::os::sync::Arc;
use crate::task;
use crate::worker::Worker;
use std::cell::Cell;
use std::ptr;
use std::thread::LocalKey;

thread_local! {
    static WORKER: Cell<*const Worker> = const { Cell::new(std::ptr::null()) };
    static TASK: Cell<*const Arc<task::Cell>> = const { Cell::new(std::ptr::null()) };
    /// Whether this is a thread of a runtime that serves its workers.
    static SERVANT: Cell<bool> = const { Cell::new(false) };
    /// Whether the thread is in the signal handler.
    static HANDLING: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether the calling thread serves a runtime's workers: a keeper, a maker or a teller.
pub(crate) fn is_servant() -> bool {
    SERVANT.get()
}

/// Marks the calling thread as one that serves workers.
pub(crate) fn be_servant() {
    SERVANT.set(true);
}

/// Returns whether the calling thread is in the signal handler, where much is forbidden (H1).
pub(crate) fn is_handling() -> bool {
    HANDLING.get()
}

/// Marks the calling thread as being in the signal handler while `body` runs.
pub(crate) fn handling(body: impl FnOnce()) {
    HANDLING.set(true);
    body();
    HANDLING.set(false);
}

/// Makes the calling thread `worker` while `body` runs.
pub(crate) fn with_worker(worker: &Arc<Worker>, body: impl FnOnce()) {
    pointing(&WORKER, &**worker, body);
}

/// Calls `body` with the calling thread's worker, if it is one. May be called in a signal handler.
pub(crate) fn worker<R>(body: impl FnOnce(&Worker) -> R) -> Option<R> {
    with(|worker| worker.map(body))
}

/// Calls `section`, through the calling thread's worker if it is one.
pub(crate) fn section<R, F: FnOnce() -> R>(section: F, on_worker: fn(&Worker, F) -> R) -> R {
    with(|worker| match worker {
        Some(worker) => on_worker(worker, section),
        None => section(),
    })
}

fn with<R>(body: impl FnOnce(Option<&Worker>) -> R) -> R {
    let worker = WORKER.get();
    // SAFETY: the pointer is set only while `with_worker` borrows the worker on this thread, and is reset if that
    // panics. It is read only on this thread, so its target lives as long as `body` runs.
    body(unsafe { worker.as_ref() })
}

/// Marks the calling thread as polling `task` while `body` runs.
pub(crate) fn with_task<R>(task: &Arc<task::Cell>, body: impl FnOnce() -> R) -> R {
    pointing(&TASK, task, body)
}

/// Makes a word of the calling thread point to `what` while `body` runs, and resets it if `body` panics.
fn pointing<T, R>(
    word: &'static LocalKey<Cell<*const T>>,
    what: &T,
    body: impl FnOnce() -> R,
) -> R {
    struct End<T: 'static>(&'static LocalKey<Cell<*const T>>);
    impl<T> Drop for End<T> {
        fn drop(&mut self) {
            self.0.set(ptr::null());
        }
    }
    word.set(what);
    let _end = End(word);
    body()
}

/// Calls `body` with the task that the calling thread polls.
pub(crate) fn task<R>(body: impl FnOnce(Option<&Arc<task::Cell>>) -> R) -> R {
    let task = TASK.get();
    // SAFETY: the pointer is set only while `with_task` borrows the `Arc` on this thread, and is reset if that panics.
    // It is read only on this thread, so its target lives as long as `body` runs.
    body(unsafe { task.as_ref() })
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        static WORD: Cell<*const u32> = const { Cell::new(ptr::null()) };
    }

    #[test]
    fn a_word_points_nowhere_after_a_panic() {
        let panics = || pointing(&WORD, &7, || assert!(WORD.get().is_null(), "it is set"));
        assert!(std::panic::catch_unwind(panics).is_err());
        assert!(WORD.get().is_null());
    }
}
