//! The host's clock of CPU time, and when a run queue reads it.

use crate::cpu::CpuId;
use crate::time::{Nanos, Time};
use std::fmt::Debug;
use std::sync::Arc;

/// The busy time of a CPU after which the host is asked. A shorter gap is charged. A CPU with two
/// tasks asks the host at every tick. Of short turns one in hundreds pays for the question, which
/// takes less than a microsecond.
const BETWEEN_LOOKS: Nanos = Nanos::from_millis(1);

/// The CPU time that an idle worker may have used to search for work and to wake up. No task is
/// charged for it, but the clock of the host includes it.
const TO_COME_FROM_IDLE: Nanos = Nanos::from_micros(50);

/// A host's clock of CPU time.
pub trait Meter: Debug + Send + Sync {
    /// Returns the CPU time that was used on `cpu` until `now`, by whatever ran there, since the
    /// last call. The answer may be too high rather than too low. A call neither waits nor calls
    /// back, because a run-queue lock is held.
    fn used(&self, cpu: CpuId, now: Time) -> Nanos;
}

/// The state of the run queue between two questions to the host.
#[derive(Debug, Default)]
pub(super) struct Metered {
    meter: Option<Arc<dyn Meter>>,
    /// The busy time of the CPU since the last question.
    busy: Nanos,
    /// All time so far for which no task was charged: the CPU was idle, or stood still.
    uncharged: Nanos,
}

impl Metered {
    /// Uses the clock of the host from now on.
    pub(super) fn set(&mut self, meter: Arc<dyn Meter>) {
        (self.meter, self.busy) = (Some(meter), Nanos::ZERO);
    }

    /// Returns for how much of a span that has just passed the running task had the CPU.
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
        // The answer includes spans that were charged since the last question. So the task that is
        // charged now may be charged too much, by less than one interval.
        let had = self.meter.as_ref().map_or(span, |meter| meter.used(cpu, now).min(span));
        self.uncharged += Nanos(span.0 - had.0);
        had
    }

    /// Estimates the same for a span that is not charged yet, without a question to the host. While
    /// other tasks wait there is a tick in each interval.
    pub(super) fn estimate(&self, span: Nanos) -> Nanos {
        if self.meter.is_some() { span.min(BETWEEN_LOOKS) } else { span }
    }

    /// Notes that the CPU was idle for this span.
    #[inline]
    pub(super) fn was_idle(&mut self, span: Nanos) {
        self.busy += span.min(TO_COME_FROM_IDLE);
        self.uncharged = Nanos(self.uncharged.0 + span.0);
    }

    /// Returns the time charged, if all time until `until` was charged or spent idle.
    #[inline]
    pub(super) fn charged(&self, until: Time) -> Nanos {
        Nanos(until.0 - self.uncharged.0)
    }
}
