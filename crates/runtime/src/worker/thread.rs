//! What the kernel knows of a worker's thread: the same as of any other thread of the process, since whatever
//! a task starts inherits it.
//!
//! Nothing is blocked in a section that blocks: a program that is started there inherits that too. Instead
//! nobody rings, and the timers are stopped.

use super::{UNSET, Worker};
use crate::os;
use crate::primitives::{Ordering, lock};
use crate::task::Cell;

impl Worker {
    /// Binds this thread to the CPUs of the task that it is about to poll or to go on with, if those are not all.
    pub(super) fn bind_for(&self, cell: &Cell) {
        if cell.has_affinity() || self.is_bound.load(Ordering::Relaxed) {
            self.rebind(Some(cell));
        }
    }

    /// Lets this thread run where the process may, after a poll.
    pub(super) fn unbind(&self) {
        if self.is_bound.load(Ordering::Relaxed) {
            self.rebind(None);
        }
    }

    /// Binds this thread to the CPUs that a task has asked for now, if it is in its poll.
    pub(crate) fn follow_affinity_of(&self, cell: &Cell) {
        let place = cell.place.load(Ordering::Relaxed);
        if self.polling.load(Ordering::Relaxed) == place {
            self.rebind(Some(cell));
        }
    }

    fn rebind(&self, cell: Option<&Cell>) {
        // The task is asked under the lock: of two who do this at a time, the second knows the last answer.
        let mut bound = lock(&self.bound);
        let cpus = cell.and_then(Cell::affinity);
        if *bound != cpus {
            self.shared.bind(self, cpus.as_ref());
            self.is_bound.store(cpus.is_some(), Ordering::Relaxed);
            *bound = cpus;
        }
    }

    /// Runs `section`, which is going to block in the kernel, without the slot, and queues for one
    /// after it. With the slot, if it cannot be given away.
    pub(crate) fn blocking<R>(&self, section: impl FnOnce() -> R) -> R {
        self.set_preempt_count(self.preempt_count.load(Ordering::Relaxed) + 1);
        let count = self.preempt_count.load(Ordering::Relaxed);
        let alone = count == 1;
        // Before the slot is given away: who gets it would set a timer of this thread.
        let is_outermost = !self.deaf.swap(true, Ordering::SeqCst);
        if is_outermost {
            self.stop_timers();
        }
        let given = alone && self.owns() && self.shared.take_slot(self.cpu(), self.id);
        let outer = self.blocks_at.load(Ordering::Relaxed);
        let _end = Blocking { worker: self, given, is_outermost, outer };
        if is_outermost && !given {
            self.shared.slot(self.cpu()).be_deaf(self.id);
        }
        self.blocks_at.store(count, Ordering::Relaxed);
        section()
    }

    /// Whether this thread, which asks, is in the foreign code of a section that blocks.
    pub(crate) fn is_blocking(&self) -> bool {
        let blocks_at = self.blocks_at.load(Ordering::Relaxed);
        blocks_at > 0 && blocks_at == self.preempt_count.load(Ordering::Relaxed)
    }

    fn stop_timers(&self) {
        self.armed.store(UNSET, Ordering::Relaxed);
        self.timer.stop();
        self.cpu_timer.stop();
    }
}

/// The end of a section that blocks, also if it panics.
struct Blocking<'a> {
    worker: &'a Worker,
    given: bool,
    /// One in another is as deaf as that, and does not end its deafness.
    is_outermost: bool,
    /// `blocks_at` of the section around it.
    outer: u32,
}

impl Drop for Blocking<'_> {
    fn drop(&mut self) {
        let worker = self.worker;
        worker.blocks_at.store(self.outer, Ordering::Relaxed);
        if self.is_outermost {
            worker.deaf.store(false, Ordering::SeqCst);
        }
        if self.given {
            worker.come_back();
            worker.arm(os::thread::now());
            worker.shared.slot(worker.cpu()).enter_all_the_same(worker.id);
        } else if self.is_outermost {
            // Who called meanwhile is heard when the section ends.
            worker.shared.slot(worker.cpu()).hear_again(worker.id);
            worker.arm(os::thread::now());
        }
        worker.end_section();
    }
}
