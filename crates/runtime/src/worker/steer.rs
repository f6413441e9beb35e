//! This worker's thread as one that is [steered](crate::steering), and one that steers.

use super::Worker;
use crate::os;
use crate::primitives::Ordering;

impl Worker {
    /// Waits for its baton by `wait`, and may be steered meanwhile. May be called in a signal handler.
    pub(super) fn asleep<R>(&self, wait: impl FnOnce() -> R) -> R {
        if self.shared.pins() {
            return wait();
        }
        self.steering.sleeps(os::thread::current_cpu());
        let result = wait();
        self.steering.wakes(|| {
            os::thread::bind_to(self.tid(), &self.shared.everywhere);
        });
        result
    }

    /// This thread is about to give its slot to `other`, and to sleep then: it is to wake here. Not if it is bound for
    /// a task, or by foreign code. May be called in a signal handler.
    pub(super) fn steer(&self, other: &Worker) {
        if self.shared.pins() {
            return;
        }
        let (cpu, everywhere) = (os::thread::current_cpu(), &self.shared.everywhere);
        other.steering.steer(cpu, || {
            !other.is_bound.load(Ordering::Relaxed)
                && everywhere.has(cpu)
                && os::thread::may_run_on(other.tid(), everywhere)
                && os::thread::bind_to_one(other.tid(), cpu)
        });
    }
}
