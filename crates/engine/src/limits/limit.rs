//! The hard limit of a task group, and its usage over time.
//!
//! A group may use `runtime` of CPU time in each `period`, over all CPUs or, if `per_cpu`, on each
//! one. Of an unused rest at most `burst` is carried over. [`Pool`](crate::limits::pool::Pool)
//! keeps the account.

use crate::time::Nanos;
use std::fmt;

/// The CPU time that a task group may use (`cpu.max`, `cpu.max.burst`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    runtime: Nanos,
    period: Nanos,
    burst: Nanos,
    per_cpu: bool,
}

/// The reason why the values are no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadLimit {
    /// The period is outside [`Limit::PERIODS`].
    Period,
    /// The runtime is less than [`Limit::MIN_RUNTIME`], or more than 65,536 CPUs have in a period.
    Runtime,
    /// The burst is more than the runtime.
    Burst,
}

impl fmt::Display for BadLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadLimit::Period => "the period of a limit is from 1 ms to 1 s",
            BadLimit::Runtime => {
                "the runtime of a limit is 1 ms at least, and no more than 65,536 periods"
            }
            BadLimit::Burst => "the burst of a limit is no more than its runtime",
        })
    }
}

impl std::error::Error for BadLimit {}

impl Limit {
    /// The default period (`default_cfs_period`).
    pub const PERIOD: Nanos = Nanos::from_millis(100);
    /// The shortest and the longest period (`min_cfs_quota_period`, `max_cfs_quota_period`).
    pub const PERIODS: std::ops::RangeInclusive<Nanos> =
        Nanos::from_millis(1)..=Nanos::from_secs(1);
    /// The least runtime (`min_cfs_quota_period`).
    pub const MIN_RUNTIME: Nanos = Nanos::from_millis(1);
    /// The highest number of CPUs of a machine.
    const MAX_CPUS: u64 = 65_536;

    /// Returns a limit of `runtime` per `period` over all CPUs, or on each if `per_cpu`.
    ///
    /// # Errors
    /// If a value is out of range. The kernel refuses the same values, apart from a runtime of more
    /// than 65,536 periods, which is this crate's number of CPUs.
    pub fn new(
        runtime: Nanos,
        period: Nanos,
        burst: Nanos,
        per_cpu: bool,
    ) -> Result<Limit, BadLimit> {
        if !Limit::PERIODS.contains(&period) {
            return Err(BadLimit::Period);
        }
        let most = Nanos(period.0 * Limit::MAX_CPUS);
        if !(Limit::MIN_RUNTIME..=most).contains(&runtime) {
            return Err(BadLimit::Runtime);
        }
        if burst > runtime {
            return Err(BadLimit::Burst);
        }
        Ok(Limit { runtime, period, burst, per_cpu })
    }

    /// Returns the CPU time in a period.
    #[must_use]
    pub fn runtime(&self) -> Nanos {
        self.runtime
    }

    /// Returns the window of the limit.
    #[must_use]
    pub fn period(&self) -> Nanos {
        self.period
    }

    /// Returns the most that is carried over from one period to the next.
    #[must_use]
    pub fn burst(&self) -> Nanos {
        self.burst
    }

    /// Returns whether each CPU has a budget of its own, as in the founding document.
    #[must_use]
    pub fn is_per_cpu(&self) -> bool {
        self.per_cpu
    }
}

/// The effects of a limit on a group (`cpu.stat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Periods in which the group drew budget or tried to.
    pub nr_periods: u64,
    /// Those of these periods in which it was throttled on some CPU.
    pub nr_throttled: u64,
    /// The time for which it was throttled, summed over CPUs.
    pub throttled: Nanos,
    /// Periods in which it used more than its quota, from the carried-over part.
    pub nr_bursts: u64,
    /// CPU time that it used beyond its quota in those periods.
    pub burst: Nanos,
    /// CPU time that CPUs used beyond their own parts of the runtime.
    pub borrowed: Nanos,
}

/// The effects of a limit on a group on one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageOnCpu {
    /// CPU time that it used on this CPU.
    pub used: Nanos,
    /// The number of times that it was throttled there.
    pub nr_throttled: u64,
    /// The time for which it was throttled there.
    pub throttled: Nanos,
    /// CPU time that it used beyond the CPU's own part of the runtime of each period.
    pub borrowed: Nanos,
}
