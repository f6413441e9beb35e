//! The CPU time of the thread that runs tasks: no more is charged, as for [workers](crate::crew::meter).

use crate::crew::meter::Reading;
use crate::os;
use crate::os::sync::{AtomicI32, Ordering};
use crate::os::thread::Tid;
use runyard_engine::cpu::CpuId;
use runyard_engine::run_queue::Meter;
use runyard_engine::time::{Nanos, Time};

/// No thread runs tasks.
const NOBODY: i32 = 0;

/// The CPU time of the thread that runs tasks. The answers err on the high side, as those for workers do: the first answer
/// in a call of `block_on` includes what the thread has used since the last answer in the call before.
#[derive(Debug, Default)]
pub(super) struct OfThread {
    /// The thread. It is set by the thread itself.
    thread: AtomicI32,
    reading: Reading,
}

impl OfThread {
    /// Notes that the calling thread runs tasks from now on.
    pub(super) fn comes(&self, thread: Tid) {
        self.thread.store(thread.0, Ordering::Release);
    }

    /// Notes that no thread runs tasks from now on.
    pub(super) fn leaves(&self) {
        self.thread.store(NOBODY, Ordering::Release);
    }
}

impl Meter for OfThread {
    fn used(&self, _cpu: CpuId, now: Time) -> Nanos {
        let thread = self.thread.load(Ordering::Acquire);
        if thread == NOBODY {
            return Nanos::ZERO;
        }
        let used = os::thread::cpu_time(Tid(thread));
        let since = used.and_then(|used| self.reading.take(used, os::thread::now().since(now)));
        since.unwrap_or(Nanos::MAX)
    }
}
