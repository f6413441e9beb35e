//! The runtime's own code on a thread, in which the thread is not stopped.

use crate::os::sync::{AtomicBool, AtomicU32, Ordering, compiler_fence};

/// Whether a thread is in own code. All but `drives` and `is_unseen` is read and written by this thread only, in its handler too.
#[derive(Debug)]
pub(crate) struct Own {
    /// The nesting of sections in which the thread must not be stopped; 0 in foreign code.
    count: AtomicU32,
    /// Whether it is in tokio's driver. The driver's code is not the runtime's own. Read by the keeper.
    drives: AtomicBool,
    /// Whether it serves timers, and schedules next.
    serves: AtomicBool,
    /// Whether it waits for the teller, which is no lock. Read by the keeper.
    is_unseen: AtomicBool,
}

impl Own {
    /// The state of a thread that begins, in own code.
    pub(super) fn new() -> Own {
        Own {
            count: AtomicU32::new(1),
            drives: AtomicBool::new(false),
            serves: AtomicBool::new(false),
            is_unseen: AtomicBool::new(false),
        }
    }

    #[inline]
    pub(crate) fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn set_count(&self, count: u32) {
        compiler_fence(Ordering::SeqCst);
        self.count.store(count, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    /// Returns whether the thread is in the runtime's own code. Called by the thread.
    pub(crate) fn is_here(&self) -> bool {
        self.count() > u32::from(self.drives())
    }

    /// Visits tokio's driver by `visit`.
    pub(super) fn drive<R>(&self, visit: impl FnOnce() -> R) -> R {
        self.drives.store(true, Ordering::Relaxed);
        let result = visit();
        self.drives.store(false, Ordering::Relaxed);
        result
    }

    /// Returns whether the thread is in tokio's driver.
    #[inline]
    pub(crate) fn drives(&self) -> bool {
        self.drives.load(Ordering::Relaxed)
    }

    /// Returns whether the thread serves timers, and schedules next.
    #[inline]
    pub(crate) fn serves(&self) -> bool {
        self.serves.load(Ordering::Relaxed)
    }

    /// Runs `work`, after which the thread schedules.
    pub(super) fn serve<R>(&self, work: impl FnOnce() -> R) -> R {
        let before = self.serves.swap(true, Ordering::Relaxed);
        let result = work();
        self.serves.store(before, Ordering::Relaxed);
        result
    }

    /// Waits by `wait` for the teller. If the teller waits for a lock, that is detected itself
    /// ([`crate::crew::foreign`]).
    pub(crate) fn unseen(&self, wait: impl FnOnce()) {
        self.is_unseen.store(true, Ordering::SeqCst);
        wait();
        self.is_unseen.store(false, Ordering::SeqCst);
    }

    /// Returns whether the thread waits for the teller.
    pub(crate) fn is_unseen(&self) -> bool {
        self.is_unseen.load(Ordering::SeqCst)
    }
}
