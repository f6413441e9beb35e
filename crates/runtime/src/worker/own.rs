//! The runtime's own code on a thread, in which the thread is not stopped.

use crate::os::sync::{AtomicBool, AtomicU32, Ordering, compiler_fence};

/// Whether a thread is in own code. All but `is_unseen` is read and written by this thread only, in its handler too.
#[derive(Debug)]
pub(crate) struct Own {
    /// The nesting of sections in which the thread must not be stopped; 0 in foreign code.
    count: AtomicU32,
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
            serves: AtomicBool::new(false),
            is_unseen: AtomicBool::new(false),
        }
    }

    #[inline]
    pub(super) fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn set_count(&self, count: u32) {
        compiler_fence(Ordering::SeqCst);
        self.count.store(count, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    /// Returns whether the thread serves timers, and schedules next.
    #[inline]
    pub(super) fn serves(&self) -> bool {
        self.serves.load(Ordering::Relaxed)
    }

    /// Runs `work`, after which the thread schedules.
    pub(super) fn serve<R>(&self, work: impl FnOnce() -> R) -> R {
        let before = self.serves.swap(true, Ordering::Relaxed);
        let result = work();
        self.serves.store(before, Ordering::Relaxed);
        result
    }

    /// Waits by `wait` for the teller.
    pub(super) fn unseen(&self, wait: impl FnOnce()) {
        self.is_unseen.store(true, Ordering::SeqCst);
        wait();
        self.is_unseen.store(false, Ordering::SeqCst);
    }

    /// Returns whether the thread waits for the teller.
    pub(super) fn is_unseen(&self) -> bool {
        self.is_unseen.load(Ordering::SeqCst)
    }
}
