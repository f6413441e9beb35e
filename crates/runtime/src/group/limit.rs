//! Limits of task groups as users set them, and their values on this machine.

use runyard_engine::limits::{self, BadLimit};
use runyard_engine::time::Nanos;
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;

/// The most CPU time that the tasks of a [`crate::Group`] may use in each period, over all CPUs together. When they
/// have used it up, they wait for the next period, even if the machine is idle.
///
/// As with the kernel's `cpu.max`, the CPU time is at least 1 ms, and the period is 1 ms to 1 s. Values outside are
/// refused where the limit is set.
///
/// ```
/// use runyard::{Limit, Runtime};
/// use std::time::Duration;
///
/// let runtime = Runtime::new();
/// let limit = Limit::new(Duration::from_millis(20), Duration::from_millis(100));
/// let tenant = runtime.group("tenant").limit(limit).create().unwrap();
/// assert_eq!(tenant.limit(), Some(limit));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    amount: Amount,
    period: Nanos,
    burst: Nanos,
    per_cpu: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Amount {
    Runtime(Nanos),
    PercentOfMachine(f64),
}

impl Limit {
    /// Makes a limit of `runtime` of CPU time in each `period`. For example, 150 ms in 100 ms are one and a half CPUs.
    #[must_use]
    pub fn new(runtime: Duration, period: Duration) -> Limit {
        let amount = Amount::Runtime(Nanos::from(runtime));
        Limit { amount, period: Nanos::from(period), burst: Nanos::ZERO, per_cpu: false }
    }

    /// Makes a limit of `percent` of the machine, in periods of 100 ms. The machine is all CPUs of the runtime, or the
    /// limit of the process's control group, if that is less ([`crate::Runtime::capacity`]). If that changes, so does
    /// the limit of each group. It is then at least 1 ms in a period.
    #[must_use]
    pub fn percent_of_machine(percent: f64) -> Limit {
        let amount = Amount::PercentOfMachine(percent);
        Limit { amount, period: limits::Limit::PERIOD, burst: Nanos::ZERO, per_cpu: false }
    }

    /// Sets the period. With a short one tasks wait less, but it costs more interrupts.
    #[must_use]
    pub fn period(mut self, period: Duration) -> Limit {
        self.period = Nanos::from(period);
        self
    }

    /// Sets how much unused CPU time of a period the group may use later. It is at most the runtime of one period.
    #[must_use]
    pub fn burst(mut self, burst: Duration) -> Limit {
        self.burst = Nanos::from(burst);
        self
    }

    /// Makes the quota a quota of each CPU: on each CPU the group may use only that, plus the time that other CPUs
    /// leave unused of theirs. A percentage of the machine becomes that percentage of each CPU.
    #[must_use]
    pub fn per_cpu(mut self) -> Limit {
        self.per_cpu = true;
        self
    }

    /// Returns the limit in a runtime whose capacity has changed; `None` if it does not depend on that. It is as near to
    /// what [`Limit::of`] would return as a limit can be.
    pub(crate) fn after(self, capacity: Nanos, cpus: usize) -> Option<limits::Limit> {
        let Amount::PercentOfMachine(_) = self.amount else { return None };
        let whole = Limit { burst: Nanos::ZERO, ..self };
        let least = Limit { amount: Amount::Runtime(limits::Limit::MIN_RUNTIME), ..whole };
        let limit = whole.of(capacity, cpus).or_else(|_| least.of(capacity, cpus)).ok()?;
        let burst = self.burst.min(limit.runtime());
        limits::Limit::new(limit.runtime(), limit.period(), burst, limit.is_per_cpu()).ok()
    }

    /// Returns the limit in a runtime with `cpus` CPUs in use and `capacity` of CPU time in each second.
    pub(crate) fn of(self, capacity: Nanos, cpus: usize) -> Result<limits::Limit, BadLimit> {
        let Limit { amount, period, burst, per_cpu } = self;
        let parts = if per_cpu { cpus as u64 } else { 1 };
        let runtime = match amount {
            Amount::Runtime(runtime) => runtime,
            Amount::PercentOfMachine(percent) => {
                let all = period.0 as f64 * capacity.0 as f64 / SECOND as f64;
                // NaN, and values that are too large, become numbers that are refused below.
                Nanos((all * percent / 100.0 / parts as f64).round() as u64)
            }
        };
        limits::Limit::new(runtime, period, burst, per_cpu)
    }
}

/// Returns the CPU time that `cpus` CPUs have in a second, if the process may use no more than `quota`.
pub(crate) fn capacity(cpus: usize, quota: Option<Nanos>) -> Nanos {
    let all = Nanos(cpus as u64 * SECOND);
    quota.map_or(all, |quota| quota.min(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: Nanos = Nanos(2 * SECOND);

    #[test]
    fn a_part_of_the_machine_is_one_of_what_the_process_may_use() {
        let tenth = Limit::percent_of_machine(10.0);
        assert_eq!(tenth.of(TWO, 2).unwrap().runtime(), Nanos::from_millis(20));
        let quota = capacity(2, Some(Nanos(SECOND / 2)));
        assert_eq!(tenth.of(quota, 2).unwrap().runtime(), Nanos::from_millis(5));
        let each = tenth.per_cpu().period(Duration::from_secs(1));
        assert_eq!(each.of(TWO, 2).unwrap().runtime(), Nanos::from_millis(100));
        assert_eq!(capacity(2, Some(Nanos(9 * SECOND))), TWO, "no more than there are CPUs");
    }

    #[test]
    fn a_part_of_the_machine_follows_the_machine_and_stays_a_limit() {
        let ms = Nanos::from_millis;
        let (half, tenth) = (Nanos(SECOND / 2), Limit::percent_of_machine(10.0));
        assert_eq!(tenth.after(half, 2).unwrap().runtime(), ms(5));
        assert_eq!(tenth.after(Nanos(SECOND / 200), 2).unwrap().runtime(), ms(1), "no less");
        let bursts = tenth.burst(Duration::from_millis(20)).after(half, 2).unwrap();
        assert_eq!((bursts.runtime(), bursts.burst()), (ms(5), ms(5)), "no more than the runtime");
        let each = tenth.per_cpu().after(Nanos(SECOND), 2).unwrap();
        assert_eq!((each.runtime(), each.is_per_cpu()), (ms(5), true));
        let fixed = Limit::new(Duration::from_millis(20), Duration::from_millis(100));
        assert_eq!(fixed.after(half, 2), None);
    }

    #[test]
    fn what_the_kernel_refuses_is_refused() {
        let (ms, us) = (Duration::from_millis, Duration::from_micros);
        let refused = |limit: Limit| limit.of(TWO, 2).unwrap_err();
        assert_eq!(refused(Limit::new(us(999), ms(10))), BadLimit::Runtime);
        assert_eq!(refused(Limit::new(ms(10), ms(1_001))), BadLimit::Period);
        assert_eq!(refused(Limit::new(ms(10), ms(100)).burst(ms(11))), BadLimit::Burst);
        for percent in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(refused(Limit::percent_of_machine(percent)), BadLimit::Runtime);
        }
    }
}
