//! What is due on the CPU of a worker, and the timer that tells it.

use super::{UNSET, Worker};
use crate::os;
use crate::os::sync::Ordering;
use crate::shared::KickNow;
use runyard_engine::cpu::CpuId;
use runyard_engine::event::What;
use runyard_engine::run_queue::Expired;
use runyard_engine::time::Time;
use runyard_engine::timer::Walk;

impl Worker {
    /// Serves the timers of `cpu` whose time has come, all in one visit. Of one that is idle these are all
    /// whose windows are open: awake, it serves them for less than an interrupt of their own would cost.
    /// But none of these goes before a task: if somebody asks for the worker, what is left is served
    /// before it waits the next time. Whether there were any.
    pub(super) fn expire(&self, cpu: CpuId, now: Time, idle: bool) -> bool {
        let shared = &self.shared;
        let Some(next) = shared.machine.next_expiry(cpu) else { return false };
        let due = next <= now;
        let walk = match (idle, due) {
            (false, false) => return false,
            (false, true) => Walk::Busy,
            (true, false) => Walk::BeforeIdle,
            (true, true) => Walk::Idle,
        };
        if due {
            shared.tell(cpu, || What::TimerInterrupt);
        }
        self.serves.store(true, Ordering::Relaxed);
        let mut any = false;
        while let Some(expired) = shared.machine.expire(now, cpu, walk, &mut KickNow(shared)) {
            any = true;
            let Expired::Timer(expiry) = expired else { continue };
            shared.fire(now, cpu, expiry);
            if expiry.greedy && shared.slot(cpu).is_pending() {
                // It schedules next.
                shared.slot(cpu).take_pending();
                break;
            }
        }
        self.serves.store(false, Ordering::Relaxed);
        any
    }

    /// Sets the timer to the next moment at which somebody must look: to the next tick at the
    /// latest, as others who queue a task here while this one runs alone do not tell. May be called
    /// in a signal handler.
    pub(crate) fn arm(&self, now: Time) {
        let machine = &self.shared.machine;
        let due = machine.next_expiry(self.cpu()).unwrap_or(Time::MAX);
        let armed = Time(self.armed.load(Ordering::Relaxed));
        let config = machine.config();
        // It may have been set to a moment that is far away, and its timer be gone since.
        let late = due < armed || armed <= now || armed > now + config.tick;
        if late {
            self.set_timer(due.min(config.next_tick(self.cpu(), now)));
        }
    }

    /// After a timer was armed in a poll: sets the own one to that if it is set to later. If the tick is due, the own one
    /// is set for that, or its signal is on its way.
    pub(crate) fn arm_sooner(&self) {
        let due = self.shared.machine.next_timer(self.cpu());
        if due < Time(self.armed.load(Ordering::Relaxed)) {
            self.set_timer(due);
        }
    }

    /// Sets the timer of a worker that has nothing to do until then: to the tick after that, to which
    /// [`Worker::arm`] would set it when it polls whoever is woken. A signal before that would only wake
    /// it, and the call takes longer than all else between a timer and its task, which nobody waits for
    /// now. One who sleeps longer, as a spare may, is woken for nothing, once.
    pub(super) fn arm_for_sleep(&self, until: Option<Time>) {
        let armed = Time(self.armed.load(Ordering::Relaxed));
        let tick_after = |until| self.shared.machine.config().next_tick(self.cpu(), until);
        match until.map(tick_after) {
            Some(tick) if armed != tick => self.set_timer(tick),
            None if armed > os::thread::now() => {
                self.set_timer(Time::MAX);
                self.armed.store(UNSET, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    pub(super) fn set_timer(&self, at: Time) {
        self.armed.store(at.0, Ordering::Relaxed);
        self.timer.set_at(at);
    }
}
