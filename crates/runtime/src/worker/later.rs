//! The checks that a poll leaves for later: whether a request to its thread, a due timer or a task that waits may wait for
//! its end. Nothing here allocates or takes a lock: the signal handler asks.

use super::POLL_GRACE;
use super::own::Own;
use super::poll::{Later, Poll, YOUNG};
use super::thread::Thread;
use super::timer::is_due;
use crate::crew::kick::ring;
use crate::driver;
use crate::os;
use crate::shared::Scheduler;
use crate::task::Job;
use runyard_engine::cpu::CpuId;
use runyard_engine::time::{Nanos, Time};
use runyard_smp::machine::Machine;

/// The time after which a worker that could not hand over its slot, for want of a spare, tries again (H18).
pub(super) const NO_SPARE_RETRY: Nanos = Nanos::from_micros(200);

impl Poll {
    /// Makes the thread of the poll check, as it was called in foreign code. If its poll has only just begun, it checks
    /// when that is no longer so. Otherwise it checks at once; if it `is_here`, on the calling thread, it checks when its
    /// section ends.
    pub(crate) fn call(&self, thread: &Thread, machine: &Machine<Job>, is_here: bool) {
        let now = os::thread::now();
        if self.may_end_first(machine, thread.cpu(), now) {
            thread.alarm.ring_at(thread.in_time(machine, now + YOUNG));
        } else if !is_here {
            thread.signal();
        }
    }

    /// Returns whether the thread is called, and does not wait for the end of the poll. In a child of fork the call was
    /// for the parent's thread.
    pub(super) fn is_called_now(&self, thread: &Thread, machine: &Machine<Job>) -> bool {
        let may_wait = || {
            let lasted = os::thread::now().since(self.began());
            // A poll that others keep off the CPU of the machine is young by its own time.
            !machine.sight().has_rt(thread.cpu()) && thread.used_of(lasted) < YOUNG
        };
        thread.is_called() && !os::fork::is_child() && !(thread.owns() && may_wait())
    }

    /// Asks the thread again later, if it is called still: a signal came too early, or there is no spare.
    #[cold]
    pub(super) fn call_again(&self, thread: &Thread, machine: &Machine<Job>) {
        if self.is_called_now(thread, machine) {
            thread.alarm.ring_after(NO_SPARE_RETRY);
        }
    }

    /// Checks the work that the poll left: rings an idle CPU for a task that waits here, if the poll has lasted.
    /// Returns whether a task here should preempt.
    pub(super) fn has_left_a_kick(&self, scheduler: &Scheduler, cpu: CpuId, now: Time) -> bool {
        // Tasks that came from outside are not noted in `later`.
        let waits = self.later() == Later::Waiter || scheduler.dispatch().has_any(cpu);
        if waits && now < self.lasts_from() {
            // A task waits that arrived in this poll, which is probably over before the next check.
            return false;
        }
        let left = self.take_later();
        if waits
            && left != Later::Kick
            && let Some(idle) = scheduler.idle_cpu_for(cpu)
        {
            ring(scheduler, idle);
        }
        left == Later::Kick
    }

    /// Returns whether the thread, which got a signal in the runtime's own code, has to check when that code ends. If
    /// not, the timer is set again.
    pub(super) fn is_to_look(&self, thread: &Thread, scheduler: &Scheduler, now: Time) -> bool {
        let (cpu, machine) = (thread.cpu(), scheduler.machine());
        let has_left_something = || self.later() != Later::Nothing;
        let is_to_look = self.is_called_now(thread, machine)
            || is_due(machine, cpu, now) && !self.tick_waits(machine, cpu, now)
            || has_left_something() && now >= self.lasts_from()
            // A visit to the driver may last, and the keeper takes only the slot of a worker that is called.
            || self.is_overdue(thread, scheduler, now);
        if !is_to_look {
            self.look_later(thread, machine, now);
        }
        is_to_look
    }

    /// Sets the timer to the next check, as there is nothing to do now.
    pub(super) fn look_later(&self, thread: &Thread, machine: &Machine<Job>, now: Time) {
        if thread.is_called() || is_due(machine, thread.cpu(), now) {
            thread.alarm.set_at(thread.in_time(machine, now + YOUNG));
        } else if self.later() != Later::Nothing {
            thread.alarm.set_at(thread.in_time(machine, self.lasts_from().max(now + YOUNG)));
        } else {
            // A caller may have set the timer.
            thread.alarm.unset();
            thread.arm(machine, now);
        }
    }

    /// Checks, as a running worker, whether no thread has driven for long. Other busy workers do not detect it. Its timer
    /// checks again in a long poll, unless that is `in_section`.
    pub(super) fn look_at_driver(
        &self,
        (thread, own): (&Thread, &Own),
        scheduler: &Scheduler,
        now: Time,
        in_section: bool,
    ) {
        let driver = scheduler.driver().for_workers();
        let Some(since) = driver.and_then(driver::Own::free_since) else { return };
        let in_poll = || self.cpu(thread).is_some() && !own.is_here();
        if now >= since + POLL_GRACE {
            scheduler.see_to_driver();
        } else if !self.is_young(now) && in_poll() && !in_section {
            thread.alarm.set_at(thread.in_time(scheduler.machine(), since + POLL_GRACE));
        }
    }

    /// Returns whether the poll has lasted longer than it may while other tasks wait in the runtime.
    pub(super) fn is_overdue(&self, thread: &Thread, scheduler: &Scheduler, now: Time) -> bool {
        let (cpu, span) = (thread.cpu(), now.since(self.began()));
        let debit = scheduler.machine().sight().debit(cpu);
        !self.is_rt()
            && span >= debit
            && scheduler.dispatch().has_any(cpu)
            && thread.used_of(span) >= debit
    }
}
