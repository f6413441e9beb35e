//! The section of a poll that blocks ([`super::blocking`]).

use super::graces::Graces;
use super::thread::Thread;
use crate::crew::slotless::A_WAIT;
use crate::os;
use crate::os::sync::{AtomicU32, AtomicU64, Ordering};
use runyard_engine::time::Nanos;

/// The time for which a section that blocks may compute before it counts as one that does not: as long as the keeper
/// leaves a blocked thread undetected.
const SECTION_GRACE: Nanos = Nanos::from_millis(1);

/// The CPU time that a thread may use after its slot was taken while it blocked in the kernel, before it is stopped and
/// asks for a slot.
pub(super) const UNSCHEDULED_GRACE: Nanos = Nanos::from_micros(50);

/// The interval at which a thread without a slot checks whether it has used that time, if the kernel makes no timer for
/// that.
const LOOK_WITHOUT_CPU_TIMER: Nanos = Nanos::from_millis(1);

mod state {
    pub(super) const OUTSIDE: u32 = 0;
    /// In a section that waits: our signals must not interrupt it. Set when the section begins, and by the thread that
    /// takes the slot from a section that had computed.
    pub(super) const WAITS: u32 = 1;
    /// In a section that computes: it is stopped as in any poll. Set by the thread that detects it, which may be the
    /// keeper.
    pub(super) const COMPUTES: u32 = 2;
}

/// Whether a thread is in a section that blocks. Any thread may ask.
#[derive(Debug)]
pub(crate) struct Section {
    /// One of [`state`].
    state: AtomicU32,
    /// The CPU time of the thread at which the section has computed for so long that it may be interrupted.
    computes_at: AtomicU64,
    /// The `preempt_count` of the section; of this thread only.
    count: AtomicU32,
}

impl Section {
    pub(super) fn outside() -> Section {
        Section {
            state: AtomicU32::new(state::OUTSIDE),
            computes_at: AtomicU64::new(0),
            count: AtomicU32::new(0),
        }
    }

    /// Begins a section, which waits.
    pub(super) fn begin(&self) {
        self.state.store(state::WAITS, Ordering::SeqCst);
    }

    /// Notes the `preempt_count` of the section.
    pub(super) fn has_count(&self, count: u32) {
        self.count.store(count, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        self.state.store(state::OUTSIDE, Ordering::SeqCst);
    }

    /// Returns whether the thread is in a section.
    pub(crate) fn is_inside(&self) -> bool {
        self.state.load(Ordering::SeqCst) != state::OUTSIDE
    }

    /// Returns whether the thread is in a section that waits, which our signals must not interrupt.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        self.state.load(Ordering::SeqCst) == state::WAITS
    }

    /// Returns whether the thread is in the foreign code of a section, if its `preempt_count` is this.
    pub(crate) fn is_foreign(&self, count: u32) -> bool {
        self.is_inside() && self.count.load(Ordering::Relaxed) == count
    }

    /// Returns whether the section of the calling thread has computed for so long that it may be interrupted from now on.
    /// Called in the signal handler.
    pub(super) fn has_computed_here(&self, thread: &Thread) -> bool {
        let computes = os::thread::own_cpu_time().0 >= self.computes_at.load(Ordering::SeqCst);
        if computes {
            self.hear(thread);
        }
        computes
    }

    /// Notes that a section that the thread may be in computes: it may be interrupted from now on.
    pub(super) fn hear(&self, thread: &Thread) {
        if self.computes() {
            // This is for a section that could not give its slot away.
            thread.slot().be_rung_again(thread.id());
        }
    }

    /// Notifies the thread if it is in a section that could not give its slot away, and computes. `ran` is the CPU time
    /// that it, as the owner of a slot, has used since the keeper's last check.
    pub(crate) fn look_at_owner(&self, thread: &Thread, ran: Nanos) {
        if ran > A_WAIT && self.waits() {
            self.hear(thread);
            thread.signal();
        }
    }

    /// Stops the timer, which would interrupt the wait of the thread without a slot. If the thread runs, the timer on its
    /// CPU clock or the keeper detects it.
    pub(super) fn wait_quietly(&self, thread: &Thread) {
        thread.alarm.stop();
        self.change(state::COMPUTES, state::WAITS);
        if self.waits() {
            let used = os::thread::cpu_time(thread.tid()).unwrap_or_default();
            self.computes_at.store(used.0 + SECTION_GRACE.0, Ordering::SeqCst);
        }
    }

    /// Arranges, after its slot was taken, that the thread is stopped when it has used CPU time again. In a section
    /// that blocks it stops by itself, at the end. Where the kernel refuses a timer for that, the thread checks now and
    /// then by the other timer.
    pub(super) fn stop_when_it_runs(&self, thread: &Thread, graces: &Graces) {
        let preemption = thread.crew().preemption();
        if !preemption.is_on {
            return;
        }
        let waits = self.waits();
        let after = if waits { SECTION_GRACE } else { UNSCHEDULED_GRACE };
        // To check now and then would interrupt the wait of a section.
        let alarm = &thread.alarm;
        if alarm.ring_after_cpu_time(thread.tid(), preemption.signal, after) || waits {
            return;
        }
        let used = os::thread::cpu_time(thread.tid()).unwrap_or_default();
        graces.go_on_when_it_runs(used, UNSCHEDULED_GRACE);
        alarm.look_after(LOOK_WITHOUT_CPU_TIMER);
    }

    /// Returns the CPU time that the thread had used when the section began to wait.
    pub(super) fn used_as_it_began_to_wait(&self) -> Nanos {
        Nanos(self.computes_at.load(Ordering::SeqCst)).saturating_sub(SECTION_GRACE)
    }

    /// Notes that the section computes, if it waited. Returns whether it did.
    pub(super) fn computes(&self) -> bool {
        self.change(state::WAITS, state::COMPUTES)
    }

    fn change(&self, from: u32, to: u32) -> bool {
        self.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Returns the state as a number, for a picture.
    pub(super) fn number(&self) -> u32 {
        self.state.load(Ordering::Relaxed)
    }
}
