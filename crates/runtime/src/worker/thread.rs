//! The kernel's settings of a worker's thread: the same as those of any other thread of the process, since all threads
//! and programs that a task starts inherit them.
//!
//! No signal is blocked in a section that blocks: a program that is started there inherits that too. Instead no thread
//! rings it, and its timer is stopped. If the section computes all the same, the timer on its CPU clock or the keeper
//! detects it ([`crate::crew::slotless`]). From then on it is stopped, charged and picked as any poll, until it loses
//! its slot as it waits.

use super::stop::SECTION_GRACE;
use super::{UNSET, Worker, section};
use crate::os;
use crate::os::sync::{Ordering, lock};
use crate::task::Cell;
use runyard_engine::time::Nanos;

impl Worker {
    /// Binds this thread to the CPUs of the task that it is about to poll or to go on with, if those are not all.
    #[inline]
    pub(super) fn bind_for(&self, cell: &Cell) {
        if cell.has_affinity() || self.is_bound.load(Ordering::Relaxed) {
            self.rebind(Some(cell));
        }
    }

    /// Lets this thread run on all CPUs of the process, after a poll.
    #[inline]
    pub(super) fn unbind(&self) {
        if self.is_bound.load(Ordering::Relaxed) {
            self.rebind(None);
        }
    }

    /// Binds this thread to the CPUs that a task has now asked for, if the thread is in its poll.
    pub(crate) fn follow_affinity_of(&self, cell: &Cell) {
        let place = cell.place.load(Ordering::Relaxed);
        if self.polling.load(Ordering::Relaxed) == place {
            self.rebind(Some(cell));
        }
    }

    fn rebind(&self, cell: Option<&Cell>) {
        // The task is asked under the lock: of two threads that do this at the same time, the second gets the latest
        // answer.
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

    /// Runs `section`, which is going to block in the kernel, without the slot, and queues for one after it. It runs
    /// with the slot if that cannot be given away. A section inside another one is part of the outer one. In a child of
    /// fork there is no other thread that could have the slot.
    pub(crate) fn blocking<R>(&self, section: impl FnOnce() -> R) -> R {
        if self.is_in_section() || os::fork::is_child() {
            return section();
        }
        let count = self.preempt_count.load(Ordering::Relaxed);
        self.set_preempt_count(count + 1);
        let halted = self.halt_clock();
        // This is stored before the slot is given away: the new owner would set a timer of this thread.
        self.section.store(section::WAITS, Ordering::SeqCst);
        self.wait_quietly();
        self.stop_when_it_runs();
        let given = count == 0 && self.owns() && self.shared.take_slot(self.cpu(), self.id);
        if !given {
            self.shared.slot(self.cpu()).be_unrung(self.id);
        }
        self.blocks_at.store(count, Ordering::Relaxed);
        let _end = Blocking { worker: self, count, halted };
        self.set_preempt_count(count);
        section()
    }

    /// Runs a blocking function, which is all that its task does: as any poll, if polls can be stopped, otherwise as a
    /// [section](Worker::blocking).
    pub(crate) fn function<R>(&self, function: impl FnOnce() -> R) -> R {
        if self.shared.preempts { self.at_length(function) } else { self.blocking(function) }
    }

    /// Returns whether this thread is in a section that blocks.
    pub(crate) fn is_in_section(&self) -> bool {
        self.section.load(Ordering::SeqCst) != section::OUTSIDE
    }

    /// Returns whether this thread is in a section that waits, which our signals must not interrupt.
    #[inline]
    pub(crate) fn waits_in_section(&self) -> bool {
        self.section.load(Ordering::SeqCst) == section::WAITS
    }

    /// Returns whether the calling thread is in the foreign code of a section that blocks.
    pub(crate) fn is_blocking(&self) -> bool {
        let count = self.preempt_count.load(Ordering::Relaxed);
        self.is_in_section() && self.blocks_at.load(Ordering::Relaxed) == count
    }

    /// Returns the CPU time that this thread had used when its section began to wait.
    pub(crate) fn used_as_it_began_to_wait(&self) -> Nanos {
        Nanos(self.computes_at.load(Ordering::SeqCst)).saturating_sub(SECTION_GRACE)
    }

    /// Returns whether the section has computed for so long that it may be interrupted from now on. Called in the
    /// signal handler.
    pub(super) fn has_computed_in_section(&self) -> bool {
        let used = os::thread::own_cpu_time().0;
        let computes = used >= self.computes_at.load(Ordering::SeqCst);
        if computes {
            self.hear_in_section();
        }
        computes
    }

    /// Notes that a section that this thread may be in computes: it may be interrupted from now on.
    pub(crate) fn hear_in_section(&self) {
        if self.change_section(section::WAITS, section::COMPUTES) {
            // This is for a section that could not give its slot away.
            self.shared.slot(self.cpu()).be_rung_again(self.id);
        }
    }

    fn change_section(&self, from: u32, to: u32) -> bool {
        self.section.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Stops the timer, which would interrupt the wait of this thread without a slot. If the thread runs, the timer on
    /// its CPU clock or the keeper detects it.
    pub(super) fn wait_quietly(&self) {
        self.timer.stop();
        self.armed.store(UNSET, Ordering::Relaxed);
        self.change_section(section::COMPUTES, section::WAITS);
        if self.waits_in_section() {
            let used = os::thread::cpu_time(self.tid()).unwrap_or_default();
            self.computes_at.store(used.0 + SECTION_GRACE.0, Ordering::SeqCst);
        }
    }

    /// Notes that this thread has a slot again in the middle of a section, which waits no longer then.
    pub(super) fn goes_on_in_section(&self) {
        self.change_section(section::WAITS, section::COMPUTES);
    }
}

/// The end of a section that blocks, also if it panics.
struct Blocking<'a> {
    worker: &'a Worker,
    /// The `preempt_count` before it.
    count: u32,
    /// Whether it stopped the clock of the poll.
    halted: bool,
}

impl Drop for Blocking<'_> {
    fn drop(&mut self) {
        let Blocking { worker, count, halted } = *self;
        if os::fork::is_child() {
            // It was made in the section, and goes on with the poll: there is nothing to wait for.
            return worker.set_preempt_count(count);
        }
        worker.set_preempt_count(count + 1);
        worker.section.store(section::OUTSIDE, Ordering::SeqCst);
        if count == 0 && !worker.owns() {
            worker.come_back();
            worker.shared.slot(worker.cpu()).enter_all_the_same(worker.id);
        } else {
            // Requests that came meanwhile are handled when the section ends.
            worker.shared.slot(worker.cpu()).be_rung_again(worker.id);
        }
        worker.arm(os::thread::now());
        worker.go_on_clock(halted);
        worker.end_section();
    }
}
