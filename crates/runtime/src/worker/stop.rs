//! How a worker is stopped in the middle of a poll, and goes on: sections in which it is not, what the
//! doorbell does, and parking.
//!
//! [`Worker::rung`] runs in the signal handler. It compares words, moves the slot, and waits.

use super::{POLL_GRACE, Worker, later, ring};
use crate::crew::maker;
use crate::os;
use crate::os::signal::Signals;
use crate::os::sync::Ordering;
use crate::os::timer::Clock;
use runyard_engine::time::{Nanos, Time};

/// How long a thread that was stopped at an unsafe point is let go on: it may hold the allocator's lock (H4).
/// Most such locks are held for less than the first grace; each later one is twice as long, up to the longest. Of
/// shorter ones the signals would take most.
const FIRST_GRACE: Nanos = Nanos::from_micros(5);
const LONGEST_GRACE: Nanos = Nanos::from_micros(30);

/// How much CPU time a thread may use in all graces together, however late the timers are that end them: some 250
/// graces. Of a task that holds such a lock nineteen times of twenty, all these samples hit that four times of
/// 10^6; then it is stopped there all the same, and the keeper lets it go on if somebody waits. By the clock on the
/// wall a thread would be stopped with the lock since others had its CPU.
const GRACES: Nanos = Nanos::from_millis(10);

/// For how long a fair task, or a tick, waits for the end of a poll that has only just begun: most polls are over by then,
/// and to hand over the slot takes some twenty microseconds.
const YOUNG: Nanos = Nanos::from_micros(50);

/// When a worker that could not hand over its slot, for want of a spare, tries again (H18).
const NO_SPARE_RETRY: Nanos = Nanos::from_micros(200);

/// After a slot was taken from a thread that blocked in the kernel, it may use this much CPU time
/// before it is stopped and asks for a slot.
const UNSCHEDULED_GRACE: Nanos = Nanos::from_micros(50);

/// A section that blocks may compute for this long before it counts as one that does not: as long as one that
/// blocks goes without being seen by the keeper.
pub(super) const SECTION_GRACE: Nanos = Nanos::from_millis(1);

/// How often a thread without a slot looks whether it has used that, if the kernel does not tell.
const LOOK_WITHOUT_CPU_TIMER: Nanos = Nanos::from_millis(1);

impl Worker {
    /// Runs `section` without being stopped in it; acts at its end on what came meanwhile.
    pub(crate) fn without_preemption<R>(&self, section: impl FnOnce() -> R) -> R {
        self.set_preempt_count(self.preempt_count.load(Ordering::Relaxed) + 1);
        let _end = Unstopped(self);
        section()
    }

    /// Whether this thread, which asks, is in the runtime's own code.
    pub(crate) fn is_in_own_code(&self) -> bool {
        let drives = self.drives.load(Ordering::Relaxed);
        self.preempt_count.load(Ordering::Relaxed) > u32::from(drives)
    }

    pub(super) fn end_section(&self) {
        let count = self.preempt_count.load(Ordering::Relaxed) - 1;
        // Parking is the runtime's own code: a signal in the middle of it must find the count above zero.
        // Who panics holds locks that others need (H5): it is asked again.
        let hears = count == 0 && !self.waits_in_section();
        let answers = hears && !std::thread::panicking();
        while answers && self.is_called_now() && self.answer() {}
        self.set_preempt_count(count);
        if hears && self.is_called_now() {
            // A signal came too early, or there is no spare.
            self.ring_again(NO_SPARE_RETRY);
        }
    }

    fn is_called(&self) -> bool {
        self.shared.slot(self.cpu()).calls(self.id)
    }

    /// Whether this thread is called, and does not wait for the end of the poll.
    fn is_called_now(&self) -> bool {
        self.is_called() && !(self.owns() && self.may_end_first(os::thread::now()))
    }

    /// Whether the poll that this worker is in has only just begun, and nobody waits who is real-time.
    fn may_end_first(&self, now: Time) -> bool {
        self.is_young(now) && !self.shared.machine.has_rt(self.cpu())
    }

    /// Whether the poll that this worker is in has only just begun.
    pub(super) fn is_young(&self, now: Time) -> bool {
        now < Time(self.began.load(Ordering::Relaxed)) + YOUNG
    }

    /// Tells this worker, which was in foreign code as it was called, to look: now, unless it `is_here`, on the thread
    /// that calls it, and looks when its section ends; or when its poll is not young any more.
    pub(super) fn call(&self, is_here: bool) {
        let now = os::thread::now();
        if self.may_end_first(now) {
            self.armed.store(super::UNSET, Ordering::Relaxed);
            self.timer.set_at(self.in_time(now + YOUNG));
        } else if !is_here {
            os::signal::ring(self.tid(), self.shared.signal);
        }
    }

    /// The doorbell was rung. Runs in the signal handler.
    /// `deaf_to` are the signals that could not have interrupted this thread.
    pub(crate) fn rung(&self, at_unsafe_point: bool, deaf_to: Signals) {
        self.shared.crew.keeper.somebody_runs();
        self.note_place();
        let now = os::thread::now();
        self.look_at_driver(now);
        let slot = self.shared.slot(self.cpu());
        if self.preempt_count.load(Ordering::Relaxed) > 0 {
            if !slot.belongs_to(self.id) || self.waits_in_section() {
                // It goes on without a slot, or deaf: asked again when it has used some more CPU time.
                self.stop_when_it_runs();
            } else if !self.is_to_look(now) {
                return;
            }
            return slot.remember(self.id);
        }
        if self.waits_in_section() && !self.has_computed_in_section() {
            return;
        }
        if !slot.belongs_to(self.id) && self.goes_on() {
            return;
        }
        let due = self.is_due(self.cpu(), now) && !self.tick_waits(now);
        let is_kicked = self.has_left_a_kick(now);
        let is_wanted = due || self.is_called_now() || is_kicked || self.is_overdue(now);
        // A section that computed may wait again, and then is not to be interrupted.
        let may_wait = self.is_in_section() && at_unsafe_point;
        if !is_wanted && !may_wait {
            // Nobody waits; or somebody else's signal, or a setting that was overtaken.
            self.graces.store(0, Ordering::Relaxed);
            return self.look_later(now);
        }
        let at_unsafe_point = self.is_in_a_handler(deaf_to) || at_unsafe_point;
        if at_unsafe_point && let Some(grace) = self.next_grace() {
            if is_kicked {
                slot.remember(self.id);
            }
            return self.ring_again(grace);
        }
        let blocks = at_unsafe_point && self.stands_still(self.last_grace());
        if blocks && !self.owns() && self.has_graces_left() {
            // Or others have the CPU, on a busy machine: it is not to be stopped here for that.
            self.wait_quietly();
            return self.stop_when_it_runs();
        }
        self.graces.store(0, Ordering::Relaxed);
        if !blocks {
            // Handlers are shorter than that: a task has blocked signals on its thread.
            self.deaf_to.store(deaf_to, Ordering::Relaxed);
        }
        // Who blocks loses its slot, and asks for one when it runs again.
        if blocks && self.owns() {
            if self.shared.take_slot(self.cpu(), self.id) {
                return;
            }
            if self.is_in_section() {
                // There is no spare: it waits with its slot, as a section does that begins so.
                self.wait_quietly();
                self.shared.slot(self.cpu()).be_deaf(self.id);
                return self.stop_when_it_runs();
            }
        }
        if is_wanted {
            self.answer();
        } else {
            self.arm(now);
        }
    }

    /// Whether the thread is in the handler of another signal, which may hold a lock or must not be entered
    /// twice (H9): that is deaf to more than the thread.
    fn is_in_a_handler(&self, deaf_to: Signals) -> bool {
        // A handler hears nothing that its thread does not, so what is heard here the thread hears too.
        let usual = self.deaf_to.load(Ordering::Relaxed) & deaf_to;
        self.deaf_to.store(usual, Ordering::Relaxed);
        deaf_to & !usual != 0
    }

    /// Looks at what the poll left to be looked at: tells an idle CPU that somebody waits here, if the poll has
    /// lasted. Whether somebody here should preempt.
    fn has_left_a_kick(&self, now: Time) -> bool {
        let cpu = self.cpu();
        // Those that came from outside are not noted.
        let waits =
            self.later.load(Ordering::Relaxed) == later::WAITER || self.shared.has_company(cpu);
        if waits && now < self.lasts_from() {
            // Somebody waits who came in this poll. It is probably over before the next look.
            return false;
        }
        let left = self.later.swap(later::NOTHING, Ordering::Relaxed);
        if waits
            && left != later::KICK
            && let Some(idle) = self.shared.idle_cpu_for(cpu)
        {
            ring(&self.shared, idle);
        }
        left == later::KICK
    }

    /// A signal came in the runtime's own code: whether there is something to look at when that ends. If not, the timer is
    /// set again.
    fn is_to_look(&self, now: Time) -> bool {
        let has_left_something = || self.later.load(Ordering::Relaxed) != later::NOTHING;
        let is_to_look = self.is_called_now()
            || self.is_due(self.cpu(), now) && !self.tick_waits(now)
            || has_left_something() && now >= self.lasts_from();
        if !is_to_look {
            self.look_later(now);
        }
        is_to_look
    }

    /// There is nothing to do now: sets the timer to when there may be.
    fn look_later(&self, now: Time) {
        if self.is_called() || self.is_due(self.cpu(), now) {
            self.set_timer(self.in_time(now + YOUNG));
        } else if self.later.load(Ordering::Relaxed) != later::NOTHING {
            self.set_timer(self.in_time(self.lasts_from().max(now + YOUNG)));
        } else {
            // Whoever called has set the timer, perhaps.
            self.armed.store(super::UNSET, Ordering::Relaxed);
            self.arm(now);
        }
    }

    /// When to look, which is `at`, or with the next timer of the CPU.
    pub(super) fn in_time(&self, at: Time) -> Time {
        at.min(self.shared.machine.next_timer(self.cpu()))
    }

    /// Whether the tick, which is due, waits for the end of this poll: if nothing else is due, and the poll has not used
    /// much CPU time since a tick began to wait for it. How long the poll has lasted does not say whether it is a long
    /// one, as others may have had its CPU.
    fn tick_waits(&self, now: Time) -> bool {
        if self.shared.machine.next_timer(self.cpu()) <= now {
            return false;
        }
        let (began, used) = (self.began.load(Ordering::Relaxed), os::thread::own_cpu_time().0);
        if self.tick_waits_for.swap(began, Ordering::Relaxed) != began {
            self.used_before_tick.store(used, Ordering::Relaxed);
        }
        used < self.used_before_tick.load(Ordering::Relaxed) + YOUNG.0 / 2
    }

    /// From when on the poll has lasted for so long that others are not to wait for its end.
    fn lasts_from(&self) -> Time {
        Time(self.began.load(Ordering::Relaxed)) + POLL_GRACE
    }

    /// For how long a thread at an unsafe point may go on: not for ever, and not if it did nothing with the last
    /// grace.
    fn next_grace(&self) -> Option<Nanos> {
        let graces = self.graces.load(Ordering::Relaxed);
        let used = os::thread::own_cpu_time().0;
        if graces == 0 {
            self.used_before_graces.store(used, Ordering::Relaxed);
        } else if self.stands_still(self.last_grace()) || !self.has_graces_left() {
            return None;
        }
        self.graces.store(graces + 1, Ordering::Relaxed);
        self.note_used(used);
        Some(self.last_grace())
    }

    fn last_grace(&self) -> Nanos {
        grace(self.graces.load(Ordering::Relaxed))
    }

    fn has_graces_left(&self) -> bool {
        let before = self.used_before_graces.load(Ordering::Relaxed);
        os::thread::own_cpu_time().0 - before < GRACES.0
    }

    /// A thread is about to be started for this worker: what was known of one before says nothing of it.
    pub(super) fn begin_anew(&self) {
        self.goes_on_until.store(0, Ordering::SeqCst);
        self.used.store(0, Ordering::SeqCst);
        self.waits.store(0, Ordering::SeqCst);
    }

    /// The thread, which had used so much CPU time when it was interrupted, is let go on.
    fn note_used(&self, used: u64) {
        self.used.store(used, Ordering::Relaxed);
        self.waits.store(os::thread::nr_own_waits(), Ordering::Relaxed);
    }

    /// Whether the thread has hardly run since it was last let go on for `grace`, or began to wait again. CPU time
    /// alone does not say it: the signal and the call that begins anew take as much as a grace has.
    fn stands_still(&self, grace: Nanos) -> bool {
        let used = os::thread::own_cpu_time().0 - self.used.load(Ordering::Relaxed);
        used < grace.0 / 2 || os::thread::nr_own_waits() != self.waits.load(Ordering::Relaxed)
    }

    /// Whether this thread, which was let go without a slot, may go on: until its grace is used up. One
    /// that has hardly run since it was looked at the last time blocks: it is not to be interrupted again
    /// before it runs.
    fn goes_on(&self) -> bool {
        let until = self.goes_on_until.load(Ordering::Relaxed);
        let used = os::thread::own_cpu_time().0;
        if used >= until {
            return false;
        }
        if self.stands_still(LONGEST_GRACE) {
            self.stop_when_it_runs();
        } else {
            self.note_used(used);
            self.ring_again(Nanos(until - used).max(UNSCHEDULED_GRACE));
        }
        true
    }

    /// Goes on without a slot for as long as who let it go said.
    fn go_on_without_slot(&self) {
        let used = os::thread::own_cpu_time().0;
        let grace = self.baton.grace();
        self.reading.runs_without_slot();
        self.note_used(used);
        self.goes_on_until.store(used + grace, Ordering::Relaxed);
        self.ring_again(Nanos(grace));
    }

    /// Does what is wanted of this worker. `false` if it could not, or nobody is stopped here, or it goes
    /// on all the same.
    fn answer(&self) -> bool {
        if self.shared.is_over() || !self.shared.preempts {
            return false;
        }
        if self.owns() { self.park() } else { self.park_without_slot() }
    }

    /// Hands the slot to a spare and waits to be resumed, again and again while it is wanted.
    /// `false` if there is no spare, or it was let go.
    fn park(&self) -> bool {
        loop {
            let slot = self.shared.slot(self.cpu());
            // The last one is kept for a task that blocks, if there are no more.
            let kept = usize::from(self.shared.crew.maker.is_scarce());
            let Some(spare) = slot.take_spare_beyond(kept) else {
                slot.enter_all_the_same(self.id);
                self.shared.crew.maker.order();
                self.ring_again(NO_SPARE_RETRY);
                return false;
            };
            self.baton.lay_down();
            if !slot.hand_over(self.id, spare) {
                slot.put_spare(spare);
                return self.park_without_slot();
            }
            self.shared.worker(spare).iter().for_each(|spare| {
                self.steer(spare);
                spare.baton.grant();
            });
            if !slot.has_spares(maker::SPARES) {
                self.shared.crew.maker.order();
            }
            if !self.wait_for_slot() {
                return false;
            }
            if self.shared.slot(self.cpu()).enter(self.id) {
                return true;
            }
        }
    }

    /// The slot was taken while this thread blocked in the kernel, and it goes on with foreign code:
    /// waits for a slot, which the keeper asks for. `false` if it was let go.
    fn park_without_slot(&self) -> bool {
        self.baton.lay_down();
        self.want_slot(true);
        self.wait_for_slot() && (self.shared.slot(self.cpu()).enter(self.id) || self.park())
    }

    /// Waits, having laid down the baton, until this worker owns a slot. `false` if it was let go, and goes
    /// on without one: it may hold a lock that somebody waits for, wherever it was stopped.
    fn wait_for_slot(&self) -> bool {
        let now = || {
            self.shared.crew.keeper.count_stopped(true);
            os::thread::now().0
        };
        let goes_on = || self.shared.crew.keeper.count_stopped(false);
        let halted = self.halt_clock();
        let owns = self.asleep(|| self.baton.wait_for_slot(|| self.owns(), now, goes_on));
        self.go_on_clock(halted);
        self.want_slot(false);
        if owns {
            // What is left of a grace is not for the next time that it has no slot.
            self.goes_on_until.store(0, Ordering::Relaxed);
            self.goes_on_in_section();
            self.arm(os::thread::now());
            return true;
        }
        self.go_on_without_slot();
        false
    }

    fn ring_again(&self, after: Nanos) {
        self.armed.store(super::UNSET, Ordering::Relaxed);
        self.timer.set_after(after);
    }

    /// After its slot was taken: stop it when it has used CPU time again. In a section that blocks it stops by
    /// itself, at the end. Where the kernel refuses a timer for that, the thread looks now and then by the other
    /// one.
    pub(crate) fn stop_when_it_runs(&self) {
        let (shared, tid) = (&self.shared, self.tid());
        if !shared.preempts {
            return;
        }
        let waits = self.waits_in_section();
        if self.cpu_timer.make(Clock::CpuTime, tid, shared.signal) {
            return self.cpu_timer.set_after(if waits { SECTION_GRACE } else { UNSCHEDULED_GRACE });
        }
        if waits {
            // To look now and then would interrupt what it waits for.
            return;
        }
        let used = os::thread::cpu_time(tid).unwrap_or_default().0;
        self.used.store(used, Ordering::Relaxed);
        self.goes_on_until.store(used + UNSCHEDULED_GRACE.0, Ordering::Relaxed);
        self.timer.set_after(LOOK_WITHOUT_CPU_TIMER);
    }
}

/// How long the grace of that number is, from 1.
fn grace(number: u32) -> Nanos {
    let doubled = number.saturating_sub(1).min(LONGEST_GRACE.0.ilog2());
    Nanos(FIRST_GRACE.0 << doubled).min(LONGEST_GRACE)
}

/// The end of a section in which the thread is not stopped, also if it panics.
struct Unstopped<'a>(&'a Worker);

impl Drop for Unstopped<'_> {
    fn drop(&mut self) {
        self.0.end_section();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graces_grow_up_to_the_longest() {
        let micros = |number| grace(number).0 / 1_000;
        assert_eq!([1, 2, 3, 4, 5, 1_000].map(micros), [5, 10, 20, 30, 30, 30]);
    }
}
