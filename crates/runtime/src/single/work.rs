//! The wait of the thread that runs tasks, and the sign that it has work.

use crate::os;
use crate::os::sync::{AtomicBool, Ordering};
use crate::protocol::parker::Parker;
use runyard_engine::time::Time;

/// Whether the thread that runs tasks has work.
#[derive(Debug)]
pub(super) struct Work {
    /// The word on which it waits for work of other threads.
    called: Parker,
    /// Whether it has made work for itself since it last asked for a task. It alone uses the word.
    is_there: AtomicBool,
}

impl Work {
    pub(super) fn new() -> Work {
        Work { called: Parker::new(), is_there: AtomicBool::new(false) }
    }

    /// Notes that there is work, on the thread that runs tasks or on another one.
    pub(super) fn ring(&self, is_here: bool) {
        match is_here {
            true => self.is_there.store(true, Ordering::Relaxed),
            false => self.called.unpark(),
        }
    }

    /// Notes that the thread is about to ask for a task.
    pub(super) fn asks(&self) {
        self.is_there.store(false, Ordering::Relaxed);
    }

    /// Returns whether the thread has made work for itself since it asked.
    pub(super) fn is_there(&self) -> bool {
        self.is_there.load(Ordering::Relaxed)
    }

    /// Waits until another thread has made work, and until `deadline` at the latest.
    pub(super) fn wait(&self, deadline: Option<Time>) {
        match deadline {
            Some(_) => os::thread::exactly(|| self.called.park_until(deadline)),
            None => self.called.park(),
        }
    }
}
