//! How a worker is stopped in the middle of a poll, and goes on: sections in which it is not stopped, the reaction to
//! the doorbell, and parking.
//!
//! [`Worker::rung`] runs in the signal handler. It compares words, moves the slot, and waits.
//!
//! Invariants: the code that the handler reaches allocates nothing, takes no lock, and is safe at any instruction of
//! foreign code. Own code is never stopped.

use super::Worker;
use super::graces::Going;
use super::later::NO_SPARE_RETRY;
use super::section::UNSCHEDULED_GRACE;
use super::timer::is_due;
use crate::crew::maker;
use crate::os;
use crate::os::signal::Signals;

impl Worker {
    /// Runs `section` without being stopped in it. Acts at its end on requests that came meanwhile.
    #[inline]
    pub(crate) fn without_preemption<R>(&self, section: impl FnOnce() -> R) -> R {
        self.own.set_count(self.own.count() + 1);
        let _end = Unstopped(self);
        section()
    }

    #[inline]
    pub(super) fn end_section(&self) {
        let count = self.own.count() - 1;
        if count > 0 || self.section.waits() {
            return self.own.set_count(count);
        }
        // Until the count is zero the thread keeps its slot.
        let (slot, id) = (self.thread.slot(), self.thread.id());
        if slot.calls(id) {
            os::errno::kept(|| self.answer_calls());
        }
        self.own.set_count(0);
        if slot.calls(id) {
            self.hear_again();
        }
    }

    /// Sees to a request that came after the thread had answered those before.
    #[cold]
    fn hear_again(&self) {
        if self.thread.is_called() {
            os::errno::kept(|| {
                self.poll.call_again(&self.thread, self.shared.scheduler.machine());
            });
        }
    }

    /// Acts on requests. Parking is the runtime's own code: a signal in the middle of it must find the count of sections
    /// above zero. A thread that panics holds locks that others need (H5), so it is asked again later.
    #[cold]
    fn answer_calls(&self) {
        let machine = self.shared.scheduler.machine();
        let is_called = || self.poll.is_called_now(&self.thread, machine);
        while !std::thread::panicking() && is_called() && self.answer() {}
    }

    /// Reacts to the doorbell, in the signal handler. `deaf_to` are the signals that could not have interrupted this
    /// thread.
    pub(crate) fn rung(&self, at_unsafe_point: bool, deaf_to: Signals) {
        if os::fork::is_child() {
            return;
        }
        let Worker { thread, own, poll, section, graces, hearing, shared, .. } = self;
        let scheduler = &shared.scheduler;
        let machine = scheduler.machine();
        hearing.has_heard(thread);
        scheduler.crew().keeper().somebody_runs();
        thread.note_place();
        let now = os::thread::now();
        poll.look_at_driver((thread, own), scheduler, now, section.is_inside());
        let (cpu, slot) = (thread.cpu(), thread.slot());
        if own.count() > 0 {
            if !slot.belongs_to(thread.id()) || section.waits() {
                // It goes on without a slot, or unrung: it is asked again when it has used some more CPU time.
                section.stop_when_it_runs(thread, graces);
            } else if !poll.is_to_look(thread, scheduler, now) {
                return;
            }
            return slot.remember(thread.id());
        }
        if section.waits() && !section.has_computed_here(thread) {
            return;
        }
        if !slot.belongs_to(thread.id()) {
            // It was let go without a slot, and may go on until its grace is used up.
            match graces.without_slot() {
                Going::Over => {}
                // It must not be interrupted again before it runs.
                Going::Waits => return section.stop_when_it_runs(thread, graces),
                Going::For(left) => return thread.alarm.ring_after(left.max(UNSCHEDULED_GRACE)),
            }
        }
        let due = is_due(machine, cpu, now) && !poll.tick_waits(machine, cpu, now);
        let is_kicked = poll.has_left_a_kick(scheduler, cpu, now);
        let is_wanted = due
            || poll.is_called_now(thread, machine)
            || is_kicked
            || poll.is_overdue(thread, scheduler, now);
        // A section that computed may wait again, and must not be interrupted then.
        let may_wait = section.is_inside() && at_unsafe_point;
        if !is_wanted && !may_wait {
            // No task waits: the signal is another sender's, or its timer setting is outdated.
            graces.forget();
            return poll.look_later(thread, machine, now);
        }
        let at_unsafe_point = hearing.is_in_a_handler(deaf_to) || at_unsafe_point;
        if at_unsafe_point && let Some(grace) = graces.next() {
            if is_kicked {
                slot.remember(thread.id());
            }
            return thread.alarm.ring_after(grace);
        }
        let blocks = at_unsafe_point && graces.stands_still();
        if blocks && !thread.owns() && graces.are_left() {
            // It may also be that other processes have the CPU, on a busy machine: the thread should not be stopped
            // here for that.
            section.wait_quietly(thread);
            return section.stop_when_it_runs(thread, graces);
        }
        graces.forget();
        if !blocks {
            // Handlers are shorter than this: a task has blocked signals on its thread.
            hearing.blocks(deaf_to);
        }
        // A thread that blocks loses its slot, and asks for one when it runs again.
        if blocks && thread.owns() {
            if thread.loses_slot() {
                return;
            }
            // There is no spare: it waits with its slot, as a section does that begins without a spare. Signals would take
            // CPU time, and the keeper would not see that it stands still.
            section.wait_quietly(thread);
            if section.is_inside() {
                thread.slot().be_unrung(thread.id());
            }
            return section.stop_when_it_runs(thread, graces);
        }
        if is_wanted {
            self.answer();
        } else {
            thread.arm(machine, now);
        }
    }

    /// Acts on a request to this worker: gives the slot away and waits. Returns `false` if it could not, if no thread is
    /// stopped in this runtime, or if it goes on all the same.
    fn answer(&self) -> bool {
        let crew = self.thread.crew();
        if crew.is_over() || !crew.preemption().is_on {
            return false;
        }
        self.hearing.note_answer();
        if self.thread.owns() { self.park() } else { self.park_without_slot() }
    }

    /// Hands the slot to a spare and waits to be resumed, again and again while it is wanted. Returns `false` if there
    /// is no spare, or it was let go.
    fn park(&self) -> bool {
        let (thread, crew) = (&self.thread, self.thread.crew());
        loop {
            let slot = thread.slot();
            // If threads are scarce, the last spare is kept for a task that blocks.
            let kept = usize::from(crew.maker().is_scarce());
            let Some(spare) = slot.take_spare_beyond(kept) else {
                slot.enter_all_the_same(thread.id());
                crew.maker().order();
                thread.alarm.ring_after(NO_SPARE_RETRY);
                return false;
            };
            thread.baton().lay_down();
            if !slot.hand_over(thread.id(), spare) {
                slot.put_spare(spare);
                return self.park_without_slot();
            }
            crew.threads().worker(spare).iter().for_each(|spare| {
                thread.steer(&spare.thread);
                spare.thread.baton().grant();
            });
            if !slot.has_spares(maker::SPARES) {
                crew.maker().order();
            }
            if !self.wait_for_slot() {
                return false;
            }
            if thread.slot().enter(thread.id()) {
                return true;
            }
        }
    }

    /// Waits for a slot, which the keeper asks for: the slot was taken while this thread blocked in the kernel, and it
    /// goes on with foreign code. Returns `false` if it was let go.
    fn park_without_slot(&self) -> bool {
        self.thread.baton().lay_down();
        self.part.want_slot(self.thread.crew().keeper(), true);
        self.wait_for_slot() && (self.thread.slot().enter(self.thread.id()) || self.park())
    }

    /// Waits, after `lay_down`, until this worker owns a slot. Returns `false` if it was let go and goes on without
    /// one: it may hold a lock that another thread waits for, wherever it was stopped.
    fn wait_for_slot(&self) -> bool {
        let (thread, keeper) = (&self.thread, self.thread.crew().keeper());
        let halted = self.poll.clock().halt();
        let owns = thread.wait_for_slot();
        self.poll.clock().go_on(halted);
        self.part.want_slot(keeper, false);
        if owns {
            // The rest of a grace does not apply to the next time without a slot.
            self.graces.end();
            self.section.computes();
            thread.arm(self.shared.scheduler.machine(), os::thread::now());
            return true;
        }
        self.graces.go_on_without_slot(thread);
        false
    }
}

/// The end of a section in which the thread is not stopped, also if it panics.
struct Unstopped<'a>(&'a Worker);

impl Drop for Unstopped<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.end_section();
    }
}
