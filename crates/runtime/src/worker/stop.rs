//! How a worker is stopped in the middle of a poll, and goes on: sections in which it is not stopped, the reaction to
//! the doorbell, and parking.
//!
//! [`Worker::rung`] runs in the signal handler. It compares words, moves the slot, and waits.
//!
//! Invariants: the code that the handler reaches allocates nothing, takes no lock, and is safe at any instruction of
//! foreign code. Own code is never stopped.

use super::graces::Going;
use super::poll::Later;
use super::section::SECTION_GRACE;
use super::{POLL_GRACE, Worker};
use crate::crew::kick::ring;
use crate::crew::maker;
use crate::os;
use crate::os::signal::Signals;
use runyard_engine::time::{Nanos, Time};

/// The time for which a fair task, or a tick, waits for the end of a poll that has only just begun: most polls are over
/// by then, and to hand over the slot takes some twenty microseconds.
const YOUNG: Nanos = Nanos::from_micros(50);

/// The time after which a worker that could not hand over its slot, for want of a spare, tries again (H18).
const NO_SPARE_RETRY: Nanos = Nanos::from_micros(200);

/// The CPU time that a thread may use after its slot was taken while it blocked in the kernel, before it is stopped and
/// asks for a slot.
const UNSCHEDULED_GRACE: Nanos = Nanos::from_micros(50);

/// The interval at which a thread without a slot checks whether it has used that time, if the kernel makes no timer for
/// that.
const LOOK_WITHOUT_CPU_TIMER: Nanos = Nanos::from_millis(1);

impl Worker {
    /// Runs `section` without being stopped in it. Acts at its end on requests that came meanwhile.
    #[inline]
    pub(crate) fn without_preemption<R>(&self, section: impl FnOnce() -> R) -> R {
        self.own.set_count(self.own.count() + 1);
        let _end = Unstopped(self);
        section()
    }

    /// Returns whether the calling thread is in the runtime's own code.
    pub(crate) fn is_in_own_code(&self) -> bool {
        self.own.count() > u32::from(self.visits.drives())
    }

    #[inline]
    pub(super) fn end_section(&self) {
        let count = self.own.count() - 1;
        let hears = count == 0 && !self.section.waits();
        if hears && self.is_called() {
            self.answer_calls();
        }
        self.own.set_count(count);
        if hears && self.is_called() {
            self.be_called_again();
        }
    }

    /// Acts on requests. Parking is the runtime's own code: a signal in the middle of it must find the count of sections
    /// above zero. A thread that panics holds locks that others need (H5), so it is asked again later.
    #[cold]
    fn answer_calls(&self) {
        while !std::thread::panicking() && self.is_called_now() && self.answer() {}
    }

    /// Asks this thread again later: a signal came too early, or there is no spare.
    #[cold]
    fn be_called_again(&self) {
        if self.is_called_now() {
            self.ring_again(NO_SPARE_RETRY);
        }
    }

    #[inline]
    fn is_called(&self) -> bool {
        self.shared.scheduler.crew.slot(self.cpu()).calls(self.id)
    }

    /// Returns whether this thread is called, and does not wait for the end of the poll. In a child of fork the call was
    /// for the parent's thread.
    fn is_called_now(&self) -> bool {
        self.is_called()
            && !os::fork::is_child()
            && !(self.owns() && self.may_end_first(os::thread::now()))
    }

    /// Returns whether this worker's poll has only just begun, and no real-time task waits.
    fn may_end_first(&self, now: Time) -> bool {
        self.is_young(now) && !self.shared.scheduler.machine.has_rt(self.cpu())
    }

    /// Returns whether this worker's poll has only just begun.
    pub(super) fn is_young(&self, now: Time) -> bool {
        now < self.poll.began() + YOUNG
    }

    /// Makes this worker check, as it was called in foreign code. If its poll has only just begun, it checks when that
    /// is no longer so. Otherwise it checks at once; if it `is_here`, on the calling thread, it checks when its section
    /// ends.
    pub(crate) fn call(&self, is_here: bool) {
        let now = os::thread::now();
        if self.may_end_first(now) {
            self.alarm.ring_at(self.in_time(now + YOUNG));
        } else if !is_here {
            os::signal::ring(self.tid(), self.shared.scheduler.crew.preemption.signal);
        }
    }

    /// Reacts to the doorbell, in the signal handler. `deaf_to` are the signals that could not have interrupted this
    /// thread.
    pub(crate) fn rung(&self, at_unsafe_point: bool, deaf_to: Signals) {
        if os::fork::is_child() {
            return;
        }
        self.has_heard();
        self.shared.scheduler.crew.keeper.somebody_runs();
        self.note_place();
        let now = os::thread::now();
        self.look_at_driver(now);
        let slot = self.shared.scheduler.crew.slot(self.cpu());
        if self.own.count() > 0 {
            if !slot.belongs_to(self.id) || self.section.waits() {
                // It goes on without a slot, or unrung: it is asked again when it has used some more CPU time.
                self.stop_when_it_runs();
            } else if !self.is_to_look(now) {
                return;
            }
            return slot.remember(self.id);
        }
        if self.section.waits() && !self.has_computed_in_section() {
            return;
        }
        if !slot.belongs_to(self.id) && self.goes_on() {
            return;
        }
        let due = self.is_due(self.cpu(), now) && !self.tick_waits(now);
        let is_kicked = self.has_left_a_kick(now);
        let is_wanted = due || self.is_called_now() || is_kicked || self.is_overdue(now);
        // A section that computed may wait again, and must not be interrupted then.
        let may_wait = self.section.is_inside() && at_unsafe_point;
        if !is_wanted && !may_wait {
            // No task waits: the signal is another sender's, or its timer setting is outdated.
            self.graces.forget();
            return self.look_later(now);
        }
        let at_unsafe_point = self.is_in_a_handler(deaf_to) || at_unsafe_point;
        if at_unsafe_point && let Some(grace) = self.graces.next() {
            if is_kicked {
                slot.remember(self.id);
            }
            return self.ring_again(grace);
        }
        let blocks = at_unsafe_point && self.graces.stands_still();
        if blocks && !self.owns() && self.graces.are_left() {
            // It may also be that other processes have the CPU, on a busy machine: the thread should not be stopped
            // here for that.
            self.wait_quietly();
            return self.stop_when_it_runs();
        }
        self.graces.forget();
        if !blocks {
            // Handlers are shorter than this: a task has blocked signals on its thread.
            self.hearing.blocks(deaf_to);
        }
        // A thread that blocks loses its slot, and asks for one when it runs again.
        if blocks && self.owns() {
            if self.shared.scheduler.crew.take_slot(self.cpu(), self.id) {
                return;
            }
            if self.section.is_inside() {
                // There is no spare: it waits with its slot, as a section does that begins without a spare.
                self.wait_quietly();
                self.shared.scheduler.crew.slot(self.cpu()).be_unrung(self.id);
                return self.stop_when_it_runs();
            }
        }
        if is_wanted {
            self.answer();
        } else {
            self.arm(now);
        }
    }

    /// Returns whether the thread is in the handler of another signal, which may hold a lock or must not be entered
    /// twice (H9): such a handler blocks more signals than its thread.
    fn is_in_a_handler(&self, deaf_to: Signals) -> bool {
        // A handler blocks all signals that its thread blocks. So the thread does not block a signal that is not
        // blocked here.
        let usual = self.hearing.blocked() & deaf_to;
        self.hearing.blocks(usual);
        deaf_to & !usual != 0
    }

    /// Checks the work that the poll left: rings an idle CPU for a task that waits here, if the poll has lasted.
    /// Returns whether a task here should preempt.
    fn has_left_a_kick(&self, now: Time) -> bool {
        let cpu = self.cpu();
        // Tasks that came from outside are not noted in `later`.
        let waits =
            self.poll.later() == Later::Waiter || self.shared.scheduler.dispatch.has_any(cpu);
        if waits && now < self.lasts_from() {
            // A task waits that arrived in this poll, which is probably over before the next check.
            return false;
        }
        let left = self.poll.take_later();
        if waits
            && left != Later::Kick
            && let Some(idle) = self.shared.scheduler.idle_cpu_for(cpu)
        {
            ring(&self.shared.scheduler, idle);
        }
        left == Later::Kick
    }

    /// Returns whether the thread, which got a signal in the runtime's own code, has to check when that code ends. If
    /// not, the timer is set again.
    fn is_to_look(&self, now: Time) -> bool {
        let has_left_something = || self.poll.later() != Later::Nothing;
        let is_to_look = self.is_called_now()
            || self.is_due(self.cpu(), now) && !self.tick_waits(now)
            || has_left_something() && now >= self.lasts_from();
        if !is_to_look {
            self.look_later(now);
        }
        is_to_look
    }

    /// Sets the timer to the next check, as there is nothing to do now.
    fn look_later(&self, now: Time) {
        if self.is_called() || self.is_due(self.cpu(), now) {
            self.alarm.set_at(self.in_time(now + YOUNG));
        } else if self.poll.later() != Later::Nothing {
            self.alarm.set_at(self.in_time(self.lasts_from().max(now + YOUNG)));
        } else {
            // A caller may have set the timer.
            self.alarm.unset();
            self.arm(now);
        }
    }

    /// Returns the time of a check: `at`, or the next timer of the CPU if that is earlier.
    pub(super) fn in_time(&self, at: Time) -> Time {
        at.min(self.shared.scheduler.machine.next_timer(self.cpu()))
    }

    /// Returns whether the due tick waits for the end of this poll. It does if nothing else is due, and the poll has
    /// not used much CPU time since a tick began to wait for it. The duration of the poll does not say whether it is a
    /// long one, as others may have had its CPU.
    fn tick_waits(&self, now: Time) -> bool {
        self.shared.scheduler.machine.next_timer(self.cpu()) > now
            && self.poll.delays_tick(Nanos(YOUNG.0 / 2))
    }

    /// Returns the time from which the poll has lasted so long that others should not wait for its end.
    fn lasts_from(&self) -> Time {
        self.poll.began() + POLL_GRACE
    }

    /// Returns whether this thread, which was let go without a slot, may go on: until its grace is used up. A thread
    /// that has hardly run since the last check blocks: it must not be interrupted again before it runs.
    fn goes_on(&self) -> bool {
        match self.graces.without_slot() {
            Going::Over => return false,
            Going::Waits => self.stop_when_it_runs(),
            Going::For(left) => self.ring_again(left.max(UNSCHEDULED_GRACE)),
        }
        true
    }

    /// Goes on without a slot for the grace that the rescuer set.
    fn go_on_without_slot(&self) {
        let grace = Nanos(self.baton.grace());
        self.reading.runs_without_slot();
        self.graces.go_on(grace);
        self.ring_again(grace);
    }

    /// Acts on a request to this worker: gives the slot away and waits. Returns `false` if it could not, if no thread is stopped in this runtime, or if
    /// it goes on all the same.
    fn answer(&self) -> bool {
        if self.shared.scheduler.crew.is_over() || !self.shared.scheduler.crew.preemption.is_on {
            return false;
        }
        self.note_answer();
        if self.owns() { self.park() } else { self.park_without_slot() }
    }

    /// Hands the slot to a spare and waits to be resumed, again and again while it is wanted. Returns `false` if there
    /// is no spare, or it was let go.
    fn park(&self) -> bool {
        loop {
            let slot = self.shared.scheduler.crew.slot(self.cpu());
            // If threads are scarce, the last spare is kept for a task that blocks.
            let kept = usize::from(self.shared.scheduler.crew.maker.is_scarce());
            let Some(spare) = slot.take_spare_beyond(kept) else {
                slot.enter_all_the_same(self.id);
                self.shared.scheduler.crew.maker.order();
                self.ring_again(NO_SPARE_RETRY);
                return false;
            };
            self.baton.lay_down();
            if !slot.hand_over(self.id, spare) {
                slot.put_spare(spare);
                return self.park_without_slot();
            }
            self.shared.scheduler.crew.threads.worker(spare).iter().for_each(|spare| {
                self.steer(spare);
                spare.baton.grant();
            });
            if !slot.has_spares(maker::SPARES) {
                self.shared.scheduler.crew.maker.order();
            }
            if !self.wait_for_slot() {
                return false;
            }
            if self.shared.scheduler.crew.slot(self.cpu()).enter(self.id) {
                return true;
            }
        }
    }

    /// Waits for a slot, which the keeper asks for: the slot was taken while this thread blocked in the kernel, and it
    /// goes on with foreign code. Returns `false` if it was let go.
    fn park_without_slot(&self) -> bool {
        self.baton.lay_down();
        self.want_slot(true);
        self.wait_for_slot()
            && (self.shared.scheduler.crew.slot(self.cpu()).enter(self.id) || self.park())
    }

    /// Waits, after `lay_down`, until this worker owns a slot. Returns `false` if it was let go and goes on without
    /// one: it may hold a lock that another thread waits for, wherever it was stopped.
    fn wait_for_slot(&self) -> bool {
        let now = || {
            self.shared.scheduler.crew.keeper.count_stopped(true);
            os::thread::now().0
        };
        let goes_on = || self.shared.scheduler.crew.keeper.count_stopped(false);
        let halted = self.halt_clock();
        let owns = self.asleep(|| self.baton.wait_for_slot(|| self.owns(), now, goes_on));
        self.go_on_clock(halted);
        self.want_slot(false);
        if owns {
            // The rest of a grace does not apply to the next time without a slot.
            self.graces.end();
            self.section.computes();
            self.arm(os::thread::now());
            return true;
        }
        self.go_on_without_slot();
        false
    }

    fn ring_again(&self, after: Nanos) {
        self.alarm.ring_after(after);
    }

    /// Arranges, after its slot was taken, that the thread is stopped when it has used CPU time again. In a section
    /// that blocks it stops by itself, at the end. Where the kernel refuses a timer for that, the thread checks now and
    /// then by the other timer.
    pub(crate) fn stop_when_it_runs(&self) {
        let (shared, tid) = (&self.shared, self.tid());
        if !shared.scheduler.crew.preemption.is_on {
            return;
        }
        let waits = self.section.waits();
        let after = if waits { SECTION_GRACE } else { UNSCHEDULED_GRACE };
        // To check now and then would interrupt the wait of a section.
        if self.alarm.ring_after_cpu_time(tid, shared.scheduler.crew.preemption.signal, after)
            || waits
        {
            return;
        }
        let used = os::thread::cpu_time(tid).unwrap_or_default();
        self.graces.go_on_when_it_runs(used, UNSCHEDULED_GRACE);
        self.alarm.look_after(LOOK_WITHOUT_CPU_TIMER);
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
