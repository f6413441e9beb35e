//! The timers that are due on the CPU of a worker, and the kernel's timer that interrupts the worker for them.

use super::own::Own;
use super::thread::Thread;
use crate::crew::kick::KickNow;
use crate::os;
use crate::shared::Scheduler;
use crate::task::Job;
use crate::time::timers::Timers;
use runyard_engine::cpu::CpuId;
use runyard_engine::event::What;
use runyard_engine::run_queue::Expired;
use runyard_engine::time::Time;
use runyard_engine::timer::Walk;
use runyard_smp::machine::Machine;

/// Returns whether a timer or a tick of a CPU is due.
#[inline]
pub(super) fn is_due(machine: &Machine<Job>, cpu: CpuId, now: Time) -> bool {
    machine.sight().next_expiry(cpu).is_some_and(|due| due <= now)
}

impl Own {
    /// Serves the timers of `cpu` whose time has come, all in one visit. Returns whether there were any. For an `idle`
    /// worker these are all timers whose windows are open: to serve them now costs less than a later interrupt. But
    /// none of these delays a task: if another thread asks for the worker, the rest is served before its next wait.
    pub(super) fn expire(
        &self,
        (scheduler, timers): (&Scheduler, &Timers),
        cpu: CpuId,
        now: Time,
        idle: bool,
    ) -> bool {
        let Some(next) = scheduler.machine().sight().next_expiry(cpu) else { return false };
        let due = next <= now;
        let walk = match (idle, due) {
            (false, false) => return false,
            (false, true) => Walk::Busy,
            (true, false) => Walk::BeforeIdle,
            (true, true) => Walk::Idle,
        };
        if due {
            scheduler.tell(cpu, || What::TimerInterrupt);
        }
        self.serve(|| serve((scheduler, timers), cpu, now, walk))
    }
}

fn serve((scheduler, timers): (&Scheduler, &Timers), cpu: CpuId, now: Time, walk: Walk) -> bool {
    let mut any = false;
    while let Some(expired) = scheduler.machine().expire(now, cpu, walk, &mut KickNow(scheduler)) {
        any = true;
        let Expired::Timer(expiry) = expired else { continue };
        timers.fire(scheduler, now, cpu, expiry);
        if expiry.greedy && scheduler.crew().slot(cpu).is_pending() {
            // The worker schedules next.
            scheduler.crew().slot(cpu).take_pending();
            break;
        }
    }
    any
}

impl Thread {
    /// Sets the timer to the next moment at which a check is needed. That is the next tick at the latest: other threads
    /// that queue a task here, while this one runs alone, do not notify it. May be called in a signal handler.
    #[inline]
    pub(super) fn arm(&self, machine: &Machine<Job>, now: Time) {
        let due = machine.sight().next_expiry(self.cpu()).unwrap_or(Time::MAX);
        let armed = self.alarm.armed();
        let config = machine.config();
        // The timer may have been set to a far moment, for a timer of a task that is gone since.
        let late = due < armed || armed <= now || armed > now + config.tick;
        if late {
            self.alarm.set_at(due.min(config.next_tick(self.cpu(), now)));
        }
    }

    /// Sets the worker's timer to a timer that was armed in a poll, if it is set to a later time. If the tick is due,
    /// the worker's timer is set for that already, or its signal is on its way.
    pub(crate) fn arm_sooner(&self, machine: &Machine<Job>) {
        let due = machine.sight().next_timer(self.cpu());
        if due < self.alarm.armed() {
            self.alarm.set_at(due);
        }
    }

    /// Sets the timer of a worker that has nothing to do until then. It is set to the tick after that, to which
    /// [`Thread::arm`] would set it when the worker polls the woken task. A signal before that would only wake the
    /// worker. The call takes longer than all other steps between a timer and its task, which does not have to wait for
    /// it now. A worker that sleeps longer, as a spare may, is woken once without need.
    pub(super) fn arm_for_sleep(&self, machine: &Machine<Job>, until: Option<Time>) {
        let armed = self.alarm.armed();
        let tick_after = |until| machine.config().next_tick(self.cpu(), until);
        match until.map(tick_after) {
            Some(tick) if armed != tick => self.alarm.set_at(tick),
            None if armed > os::thread::now() => {
                self.alarm.ring_at(Time::MAX);
            }
            _ => {}
        }
    }

    /// Returns the time of a check: `at`, or the next timer of the CPU if that is earlier.
    pub(super) fn in_time(&self, machine: &Machine<Job>, at: Time) -> Time {
        at.min(machine.sight().next_timer(self.cpu()))
    }
}
