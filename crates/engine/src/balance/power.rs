//! The power of a CPU that is left for less important tasks: a decaying average.
//!
//! The time taken by more important tasks is summed up and halved at the end of each period, like
//! `rt_avg` of Linux 2.6.35 for real-time tasks (`scale_rt_power`). The founding document does the
//! same with the time of SCHED_NORMAL and SCHED_BATCH, for SCHED_IDLE. Periods begin at the same
//! times on all CPUs, so an average is just two numbers, and a later reader can age it without the
//! writer.

use crate::time::{Nanos, Time};

/// The power of a whole CPU (`SCHED_LOAD_SCALE`).
pub const FULL_POWER: u64 = 1_024;

/// The interval between two halvings of the sum: half of `sched_time_avg`, 1 s. A load that begins
/// counts for two thirds of its weight after one period.
pub const PERIOD: Nanos = Nanos::from_millis(500);

/// The time that was recently taken: at most two periods, since each halving leaves less than one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    sum: u32,
    /// The number of the period up to which `sum` was halved; wraps after 68 years.
    period: u32,
}

impl Taken {
    /// Adds `span`, which ended at `now`; `now` does not run back between calls.
    pub fn add(&mut self, now: Time, span: Nanos) {
        let aged = self.aged(now);
        // A stretch without a tick may be longer than the average covers.
        let most = 2 * PERIOD.0 as u32;
        let sum = u64::from(aged.sum).saturating_add(span.0).min(most.into());
        *self = Taken { sum: sum as u32, ..aged };
    }

    /// Returns the rest of a CPU of `full` power at `now`: all of it if no time was taken recently.
    #[must_use]
    pub fn left(self, now: Time, full: u64) -> u64 {
        let total = PERIOD.0 + now.0 % PERIOD.0;
        let left = total.saturating_sub(self.aged(now).sum.into());
        full * left / total
    }

    /// Returns both numbers in a word, for hints.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        u64::from(self.period) << 32 | u64::from(self.sum)
    }

    /// Returns the value of a word from [`Taken::to_bits`].
    #[must_use]
    pub fn from_bits(bits: u64) -> Taken {
        Taken { sum: bits as u32, period: (bits >> 32) as u32 }
    }

    fn aged(self, now: Time) -> Taken {
        let period = (now.0 / PERIOD.0) as u32;
        let halvings = period.wrapping_sub(self.period);
        // A reader's clock may be behind the writer's.
        if halvings.cast_signed() <= 0 {
            return self;
        }
        Taken { sum: self.sum.checked_shr(halvings).unwrap_or(0), period }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn busy(percent: u64, seconds: u64) -> Taken {
        let mut taken = Taken::default();
        for ms in 0..seconds * 1_000 {
            taken.add(Time((ms + 1) * MS), Nanos(MS * percent / 100));
        }
        taken
    }

    #[test]
    fn what_is_left_tends_to_what_is_not_taken() {
        for percent in [0, 25, 50, 100] {
            let left = busy(percent, 10).left(Time(10_000 * MS), FULL_POWER);
            let expected = FULL_POWER * (100 - percent) / 100;
            assert!(left.abs_diff(expected) <= FULL_POWER / 50, "{percent} %: {left}");
        }
    }

    #[test]
    fn what_was_taken_is_forgotten_though_nobody_writes() {
        let taken = busy(100, 10);
        assert_eq!(Taken::from_bits(taken.to_bits()), taken);
        let left = |ms: u64| taken.left(Time((10_000 + ms) * MS), FULL_POWER);
        assert!(left(0) < 10 && (500..530).contains(&left(500)) && left(20_000) == FULL_POWER);
    }

    #[test]
    fn a_long_stretch_is_no_more_than_all() {
        let mut taken = Taken::default();
        taken.add(Time(100_000 * MS), Nanos(90_000 * MS));
        assert_eq!(taken.left(Time(100_000 * MS), FULL_POWER), 0);
    }
}
