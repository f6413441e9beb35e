//! The idle time of a CPU.

use crate::config::Config;
use crate::time::{Nanos, Time};
use crate::wakees::Wakees;

/// Whether a CPU is idle, and how long it usually is.
#[derive(Debug)]
pub struct Idle {
    since: Option<Time>,
    /// The mean length of an idle period: a moving average in which each period has a weight of one
    /// eighth.
    average: Nanos,
    /// The tasks that timers woke while the CPU was idle.
    wakees: Wakees,
}

impl Idle {
    pub(super) fn new(config: &Config) -> Idle {
        let average = Nanos(2 * config.migration_cost.0);
        Idle { since: Some(Time::ZERO), average, wakees: Wakees::default() }
    }

    /// Returns the time since which the CPU has been idle, if it is idle.
    #[inline]
    #[must_use]
    pub fn since(&self) -> Option<Time> {
        self.since
    }

    /// Returns the recent mean length of an idle period (`avg_idle`).
    #[inline]
    #[must_use]
    pub fn average(&self) -> Nanos {
        self.average
    }

    pub(super) fn wakees_mut(&mut self) -> &mut Wakees {
        &mut self.wakees
    }

    /// Notes that the CPU is idle, perhaps for some time already.
    #[inline]
    pub(super) fn begin(&mut self, now: Time) {
        self.since = self.since.or(Some(now));
    }

    /// Notes that the CPU is not idle; returns for how long it was, if it was. The average has
    /// samples of at most twice `migration_cost` (`update_avg`).
    #[inline(always)]
    pub(super) fn end(&mut self, now: Time, config: &Config) -> Option<Nanos> {
        let idle = now.since(self.since.take()?);
        let (old, most) = (self.average.0, 2 * config.migration_cost.0);
        self.average = Nanos(old - old / 8 + idle.0.min(most) / 8);
        Some(idle)
    }
}
