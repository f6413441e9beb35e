//! What the kernel knows of a worker's thread: the same as of any other thread of the process, since whatever
//! a task starts inherits it.
//!
//! No signal is blocked in a section that blocks: a program that is started there inherits that too. Instead nobody
//! rings, and the timer is stopped. A section that computes all the same is found by the timer on the clock of its
//! CPU time, or by the keeper ([`crate::crew::slotless`]): from then on it is stopped, charged and picked as any poll,
//! until it loses its slot as it waits.

use super::stop::SECTION_GRACE;
use super::{UNSET, Worker, section};
use crate::os;
use crate::os::sync::{Ordering, lock};
use crate::task::Cell;
use runyard_engine::time::Nanos;

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
            self.steering.bind_for_task(|| {
                self.shared.bind(self, cpus.as_ref());
                self.is_bound.store(cpus.is_some(), Ordering::Relaxed);
            });
            *bound = cpus;
        }
    }

    /// Runs `section`, which is going to block in the kernel, without the slot, and queues for one
    /// after it. With the slot, if it cannot be given away. One in another is part of that.
    pub(crate) fn blocking<R>(&self, section: impl FnOnce() -> R) -> R {
        if self.is_in_section() {
            return section();
        }
        let count = self.preempt_count.load(Ordering::Relaxed);
        self.set_preempt_count(count + 1);
        let halted = self.halt_clock();
        // Before the slot is given away: who gets it would set a timer of this thread.
        self.section.store(section::WAITS, Ordering::SeqCst);
        self.wait_quietly();
        self.stop_when_it_runs();
        let given = count == 0 && self.owns() && self.shared.take_slot(self.cpu(), self.id);
        if !given {
            self.shared.slot(self.cpu()).be_deaf(self.id);
        }
        self.blocks_at.store(count, Ordering::Relaxed);
        let _end = Blocking { worker: self, count, halted };
        self.set_preempt_count(count);
        section()
    }

    /// Runs a blocking function, which is all that its task does: as any poll, if that can be stopped, else as a
    /// [section](Worker::blocking).
    pub(crate) fn function<R>(&self, function: impl FnOnce() -> R) -> R {
        if self.shared.preempts { self.at_length(function) } else { self.blocking(function) }
    }

    /// Whether this thread is in a section that blocks.
    pub(crate) fn is_in_section(&self) -> bool {
        self.section.load(Ordering::SeqCst) != section::OUTSIDE
    }

    /// Whether it is in one that waits, which no signal of ours is to interrupt.
    pub(crate) fn waits_in_section(&self) -> bool {
        self.section.load(Ordering::SeqCst) == section::WAITS
    }

    /// Whether this thread, which asks, is in the foreign code of a section that blocks.
    pub(crate) fn is_blocking(&self) -> bool {
        let count = self.preempt_count.load(Ordering::Relaxed);
        self.is_in_section() && self.blocks_at.load(Ordering::Relaxed) == count
    }

    /// What this thread had used as its section began to wait.
    pub(crate) fn used_as_it_began_to_wait(&self) -> Nanos {
        Nanos(self.computes_at.load(Ordering::SeqCst)).saturating_sub(SECTION_GRACE)
    }

    /// Whether the section has computed for so long that it may be interrupted from now on. In the signal handler.
    pub(super) fn has_computed_in_section(&self) -> bool {
        let used = os::thread::own_cpu_time().0;
        let computes = used >= self.computes_at.load(Ordering::SeqCst);
        if computes {
            self.hear_in_section();
        }
        computes
    }

    /// A section that this thread may be in computes: it may be interrupted from now on.
    pub(crate) fn hear_in_section(&self) {
        if self.change_section(section::WAITS, section::COMPUTES) {
            // If it could not give its slot away.
            self.shared.slot(self.cpu()).hear_again(self.id);
        }
    }

    fn change_section(&self, from: u32, to: u32) -> bool {
        self.section.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// This thread waits without a slot: its timer would interrupt that. It hears of us if it runs, by the clock of its
    /// CPU time or the keeper.
    pub(super) fn wait_quietly(&self) {
        self.timer.stop();
        self.armed.store(UNSET, Ordering::Relaxed);
        self.change_section(section::COMPUTES, section::WAITS);
        if self.waits_in_section() {
            let used = os::thread::cpu_time(self.tid()).unwrap_or_default();
            self.computes_at.store(used.0 + SECTION_GRACE.0, Ordering::SeqCst);
        }
    }

    /// This thread has a slot again in the middle of a section, which is no wait then.
    pub(super) fn goes_on_in_section(&self) {
        self.change_section(section::WAITS, section::COMPUTES);
    }
}

/// The end of a section that blocks, also if it panics.
struct Blocking<'a> {
    worker: &'a Worker,
    /// `preempt_count` before it.
    count: u32,
    /// Whether it stopped the clock of the poll.
    halted: bool,
}

impl Drop for Blocking<'_> {
    fn drop(&mut self) {
        let Blocking { worker, count, halted } = *self;
        worker.set_preempt_count(count + 1);
        worker.section.store(section::OUTSIDE, Ordering::SeqCst);
        if count == 0 && !worker.owns() {
            worker.come_back();
            worker.shared.slot(worker.cpu()).enter_all_the_same(worker.id);
        } else {
            // Who called meanwhile is heard when the section ends.
            worker.shared.slot(worker.cpu()).hear_again(worker.id);
        }
        worker.arm(os::thread::now());
        worker.go_on_clock(halted);
        worker.end_section();
    }
}
