//! Sections of polls that block.
//!
//! No signal is blocked in such a section: a program that is started there inherits that too. Instead no thread rings it,
//! and its timer is stopped. If the section computes all the same, the timer on its CPU clock or the keeper detects it
//! ([`crate::crew::slotless`]). From then on it is stopped, charged and picked as any poll, until it loses its slot as it
//! waits.

use super::Worker;
use crate::os;

impl Worker {
    /// Runs `section`, which is going to block in the kernel, without the slot, and queues for one after it. It runs
    /// with the slot if that cannot be given away. A section inside another one is part of the outer one. In a child of
    /// fork there is no other thread that could have the slot.
    pub(crate) fn blocking<R>(&self, section: impl FnOnce() -> R) -> R {
        if self.section.is_inside() || os::fork::is_child() {
            return section();
        }
        let count = self.own.count();
        self.own.set_count(count + 1);
        let halted = self.poll.clock().halt();
        // This is stored before the slot is given away: the new owner would set a timer of this thread.
        self.section.begin();
        self.section.wait_quietly(&self.thread);
        self.section.stop_when_it_runs(&self.thread, &self.graces);
        let given = count == 0 && self.thread.owns() && self.thread.loses_slot();
        if !given {
            self.thread.slot().be_unrung(self.thread.id());
        }
        self.section.has_count(count);
        let _end = Blocking { worker: self, count, halted };
        self.own.set_count(count);
        section()
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
        if count == 0 && !worker.thread.owns() {
            worker.come_back();
            worker.thread.slot().enter_all_the_same(worker.thread.id());
        } else {
            // Requests that came meanwhile are handled when the section ends.
            worker.thread.slot().be_rung_again(worker.thread.id());
        }
        worker.thread.arm(worker.shared.scheduler.machine(), os::thread::now());
        worker.poll.clock().go_on(halted);
        worker.end_section();
    }
}
