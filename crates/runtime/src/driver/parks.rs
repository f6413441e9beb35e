//! The begin and the end of the waits in tokio's driver, by tokio's hooks.

use crate::os::harmless::harmless;
use crate::os::sync::{AtomicBool, Mutex, Ordering, lock};
use std::task::{Context, Waker};
use tokio::runtime::Handle;

/// State for the hooks that tokio calls when the driving thread begins and ends a wait.
#[derive(Debug, Default)]
pub(super) struct Parks {
    /// Set when escaped tasks were found in the driver's tokio runtime.
    escape: AtomicBool,
    said: AtomicBool,
    /// The waker of the future of `block_on`, woken at the end of the wait.
    root: Mutex<Option<Waker>>,
}

impl Parks {
    pub(super) fn begin(&self) {
        _ = Handle::try_current().is_ok_and(|here| self.tasks_escape(&here));
    }

    pub(super) fn end(&self) {
        self.begin();
        let root = lock(&self.root).take();
        root.into_iter().for_each(Waker::wake);
    }

    /// Registers the future of `block_on`, which is in a poll, to be polled again after the next wait.
    pub(super) fn wake_after(&self, cx: &Context<'_>) {
        *lock(&self.root) = Some(cx.waker().clone());
    }

    /// Drops the waker, because it holds a reference to this.
    pub(super) fn forget(&self) {
        lock(&self.root).take();
    }

    /// Returns whether escaped tasks exist now.
    pub(super) fn tasks_escape(&self, tokio: &Handle) -> bool {
        let are_there = tokio.metrics().num_alive_tasks() > 0;
        if are_there && !self.escape.load(Ordering::Relaxed) {
            self.escape.store(true, Ordering::Relaxed);
        }
        are_there
    }

    /// Reports once that there were escaped tasks.
    pub(super) fn say(&self) {
        if self.escape.load(Ordering::Relaxed) && !self.said.swap(true, Ordering::Relaxed) {
            harmless(|| {
                eprintln!(
                    "runyard: the program, perhaps a library, called tokio::spawn: such tasks run on the thread of the \
                     tokio driver, without policies, groups, limits and preemption"
                );
            });
        }
    }
}
