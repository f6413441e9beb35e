//! The kernel's settings of a worker's thread: the same as those of any other thread of the process, since all threads
//! and programs that a task starts inherit them.
//!
//! No signal is blocked in a section that blocks: a program that is started there inherits that too. Instead no thread
//! rings it, and its timer is stopped. If the section computes all the same, the timer on its CPU clock or the keeper
//! detects it ([`crate::crew::slotless`]). From then on it is stopped, charged and picked as any poll, until it loses
//! its slot as it waits.

use super::Worker;
use crate::os;
use crate::task::Cell;

impl Worker {
    /// Binds this thread to the CPUs of the task that it is about to poll or to go on with, if those are not all.
    #[inline]
    pub(super) fn bind_for(&self, cell: &Cell) {
        if cell.has_affinity() || self.binding.is_for_task() {
            self.rebind(Some(cell));
        }
    }

    /// Lets this thread run on all CPUs of the process, after a poll.
    #[inline]
    pub(super) fn unbind(&self) {
        if self.binding.is_for_task() {
            self.rebind(None);
        }
    }

    /// Binds this thread to the CPUs that a task has now asked for, if the thread is in its poll.
    pub(crate) fn follow_affinity_of(&self, cell: &Cell) {
        if self.poll.is_of(cell) {
            self.rebind(Some(cell));
        }
    }

    fn rebind(&self, cell: Option<&Cell>) {
        self.binding.follow(
            || cell.and_then(Cell::affinity),
            |cpus| {
                self.shared.scheduler.crew.cpus.bind(self.tid(), cpus);
            },
        );
    }

    /// Runs `section`, which is going to block in the kernel, without the slot, and queues for one after it. It runs
    /// with the slot if that cannot be given away. A section inside another one is part of the outer one. In a child of
    /// fork there is no other thread that could have the slot.
    pub(crate) fn blocking<R>(&self, section: impl FnOnce() -> R) -> R {
        if self.section.is_inside() || os::fork::is_child() {
            return section();
        }
        let count = self.own.count();
        self.own.set_count(count + 1);
        let halted = self.halt_clock();
        // This is stored before the slot is given away: the new owner would set a timer of this thread.
        self.section.begin();
        self.wait_quietly();
        self.stop_when_it_runs();
        let given =
            count == 0 && self.owns() && self.shared.scheduler.crew.take_slot(self.cpu(), self.id);
        if !given {
            self.shared.scheduler.crew.slot(self.cpu()).be_unrung(self.id);
        }
        self.section.has_count(count);
        let _end = Blocking { worker: self, count, halted };
        self.own.set_count(count);
        section()
    }

    /// Runs a blocking function, which is all that its task does: as any poll, if polls can be stopped, otherwise as a
    /// [section](Worker::blocking).
    pub(crate) fn function<R>(&self, function: impl FnOnce() -> R) -> R {
        if self.shared.scheduler.crew.preemption.is_on {
            self.at_length(function)
        } else {
            self.blocking(function)
        }
    }

    /// Returns whether the calling thread is in the foreign code of a section that blocks.
    pub(crate) fn is_blocking(&self) -> bool {
        self.section.is_foreign(self.own.count())
    }

    /// Returns whether the section has computed for so long that it may be interrupted from now on. Called in the
    /// signal handler.
    pub(super) fn has_computed_in_section(&self) -> bool {
        let computes = self.section.has_computed(os::thread::own_cpu_time());
        if computes {
            self.hear_in_section();
        }
        computes
    }

    /// Notes that a section that this thread may be in computes: it may be interrupted from now on.
    pub(crate) fn hear_in_section(&self) {
        if self.section.computes() {
            // This is for a section that could not give its slot away.
            self.shared.scheduler.crew.slot(self.cpu()).be_rung_again(self.id);
        }
    }

    /// Stops the timer, which would interrupt the wait of this thread without a slot. If the thread runs, the timer on
    /// its CPU clock or the keeper detects it.
    pub(super) fn wait_quietly(&self) {
        self.alarm.stop();
        if self.section.waits_again() {
            self.section.waits_from(os::thread::cpu_time(self.tid()).unwrap_or_default());
        }
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
            return worker.own.set_count(count);
        }
        worker.own.set_count(count + 1);
        worker.section.end();
        if count == 0 && !worker.owns() {
            worker.come_back();
            worker.shared.scheduler.crew.slot(worker.cpu()).enter_all_the_same(worker.id);
        } else {
            // Requests that came meanwhile are handled when the section ends.
            worker.shared.scheduler.crew.slot(worker.cpu()).be_rung_again(worker.id);
        }
        worker.arm(os::thread::now());
        worker.go_on_clock(halted);
        worker.end_section();
    }
}
