//! The thread of a worker: it starts, becomes ready or is refused, and ends.

use crate::os;
use crate::os::sync::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use crate::os::thread::Tid;

mod ready {
    pub(super) const NOT_YET: u32 = 0;
    pub(super) const YES: u32 = 1;
    /// The kernel makes no timer for it.
    pub(super) const REFUSED: u32 = 2;
}

/// The thread of a worker, for all threads.
#[derive(Debug)]
pub(crate) struct Life {
    tid: AtomicI32,
    /// Whether it has started and is not about to end: the kernel may give its number to another thread after that.
    has_thread: AtomicBool,
    /// Whether it can run tasks: one of [`ready`].
    ready: AtomicU32,
    /// Whether it is not needed any more and has to end. Set only while it waits as a spare.
    retires: AtomicBool,
}

impl Life {
    pub(super) fn new() -> Life {
        Life {
            tid: AtomicI32::new(0),
            has_thread: AtomicBool::new(false),
            ready: AtomicU32::new(ready::NOT_YET),
            retires: AtomicBool::new(false),
        }
    }

    /// Prepares for a new thread.
    pub(super) fn begin_anew(&self) {
        self.retires.store(false, Ordering::SeqCst);
        self.ready.store(ready::NOT_YET, Ordering::SeqCst);
    }

    #[inline]
    pub(super) fn tid(&self) -> Tid {
        Tid(self.tid.load(Ordering::Acquire))
    }

    /// Notes the calling thread as the worker's.
    pub(super) fn begins_here(&self) -> Tid {
        let tid = os::thread::current();
        self.tid.store(tid.0, Ordering::Release);
        self.has_thread.store(true, Ordering::Release);
        tid
    }

    /// Notes that the thread, which calls this, is about to end.
    pub(super) fn ends(&self) {
        self.has_thread.store(false, Ordering::Release);
    }

    pub(super) fn has_thread(&self) -> bool {
        self.has_thread.load(Ordering::Acquire)
    }

    /// Notes whether the thread can run tasks.
    pub(super) fn is_ready(&self, granted: bool) {
        self.ready.store(if granted { ready::YES } else { ready::REFUSED }, Ordering::SeqCst);
        os::futex::wake(&self.ready);
    }

    /// Waits until the thread has started: before that its state cannot be read. Returns `false` if the kernel refuses a
    /// resource that it needs; then the thread ends.
    pub(super) fn wait_until_ready(&self) -> bool {
        loop {
            match self.ready.load(Ordering::SeqCst) {
                ready::NOT_YET => os::futex::wait(&self.ready, ready::NOT_YET, None),
                ready => return ready == ready::YES,
            }
        }
    }

    pub(super) fn retire(&self) {
        self.retires.store(true, Ordering::SeqCst);
    }

    pub(super) fn retires(&self) -> bool {
        self.retires.load(Ordering::SeqCst)
    }
}
