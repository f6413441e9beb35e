//! The host's clock of CPU time, and when a run queue asks for it.

use crate::cpu::CpuId;
use crate::time::{Nanos, Time};
use std::fmt::Debug;
use std::sync::Arc;

/// How long a CPU is busy until the host is asked. A gap that is shorter is charged: at every tick of a CPU
/// with two tasks the host is asked once, and of short turns one in hundreds pays for the question, which
/// takes less than a microsecond.
const BETWEEN_LOOKS: Nanos = Nanos::from_millis(1);

/// The CPU time that a worker which was idle may have used to look for work and to wake up. It is no task's,
/// but the host's clock has it.
const TO_COME_FROM_IDLE: Nanos = Nanos::from_micros(50);

/// A host's clock of CPU time.
pub trait Meter: Debug + Send + Sync {
    /// CPU time that was used on `cpu` until `now` since this was last asked, for whatever runs there.
    /// Rather more than less. No call of it waits for anything, and none calls back: a run-queue lock is held.
    fn used(&self, cpu: CpuId, now: Time) -> Nanos;
}

/// When the host was last asked, in terms of what it will answer.
#[derive(Debug, Default)]
pub(super) struct Metered {
    meter: Option<Arc<dyn Meter>>,
    /// How long the CPU was busy since.
    busy: Nanos,
    /// For how long nobody was charged until now, of whatever time there was: the CPU was idle, or stood still.
    uncharged: Nanos,
}

impl Metered {
    /// By what the host knows from now on.
    pub(super) fn set(&mut self, meter: Arc<dyn Meter>) {
        (self.meter, self.busy) = (Some(meter), Nanos::ZERO);
    }

    /// How much of a span that has just passed the running task had the CPU.
    #[inline]
    pub(super) fn had_of(&mut self, span: Nanos, cpu: CpuId, now: Time) -> Nanos {
        if self.meter.is_none() {
            return span;
        }
        self.busy += span;
        if self.busy < BETWEEN_LOOKS { span } else { self.ask(span, cpu, now) }
    }

    #[cold]
    fn ask(&mut self, span: Nanos, cpu: CpuId, now: Time) -> Nanos {
        self.busy = Nanos::ZERO;
        // What was charged since the last look without asking is part of the answer: the task that is
        // charged now may be charged for as much too much, less than one interval.
        let had = self.meter.as_ref().map_or(span, |meter| meter.used(cpu, now).min(span));
        self.uncharged += Nanos(span.0 - had.0);
        had
    }

    /// The same of a span that is not charged yet: an estimate, for which the host is not asked. While
    /// others wait there is a tick in each interval.
    pub(super) fn estimate(&self, span: Nanos) -> Nanos {
        if self.meter.is_some() { span.min(BETWEEN_LOOKS) } else { span }
    }

    /// The CPU was idle for so long.
    #[inline]
    pub(super) fn was_idle(&mut self, span: Nanos) {
        self.busy += span.min(TO_COME_FROM_IDLE);
        self.uncharged = Nanos(self.uncharged.0 + span.0);
    }

    /// How much was charged, if all time until `until` was charged or spent idle.
    #[inline]
    pub(super) fn charged(&self, until: Time) -> Nanos {
        Nanos(until.0 - self.uncharged.0)
    }
}
