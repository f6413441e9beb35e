//! The numbers of the policy, each with its source; checked once, when a machine is made.

use crate::attr::Policy;
use crate::features::Features;
use crate::time::Nanos;
use crate::topology::Topology;
use std::fmt;

/// What a machine is told once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The CPUs and their nearness.
    pub topology: Topology,
    /// The switches.
    pub features: Features,
    /// Between two ticks of a busy CPU; 1 ms as with HZ=1000.
    pub tick: Nanos,
    /// A CPU with one task has hardly any ticks (`CONFIG_NO_HZ_FULL`).
    pub tickless: bool,
    /// In this span each of up to eight fair tasks runs once (`sched_latency_ns`).
    pub latency: Nanos,
    /// A fair task is not preempted by the tick before it ran so long (`sched_min_granularity_ns`).
    pub min_granularity: Nanos,
    /// A woken task of nice 0 preempts if it is behind by more (`sched_wakeup_granularity_ns`).
    pub wakeup_granularity: Nanos,
    /// A task that ran less than this ago is still in the caches of its CPU, and a CPU that is idle
    /// for less than this at a time does not look for work (`sched_migration_cost_ns`).
    pub migration_cost: Nanos,
    /// An idle CPU is in a deep sleep after this: the target residency of C6 on Intel's servers
    /// (`intel_idle`, 600 us).
    pub deep_sleep: Nanos,
    /// How long SCHED_RR tasks of one priority run in turn (`sched_rr_timeslice_ms`).
    pub rr_slice: Nanos,
    /// How much of each `rt_period` real-time tasks may have on a CPU (`sched_rt_runtime_us`);
    /// `None` for all of it.
    pub rt_runtime: Option<Nanos>,
    /// The period of `rt_runtime` (`sched_rt_period_us`).
    pub rt_period: Nanos,
}

/// A [`Config`] that contradicts itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadConfig(pub &'static str);

impl fmt::Display for BadConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for BadConfig {}

impl Config {
    /// The kernel's values for a machine of this size (6.1; RT throttling as through 6.11). The
    /// fair class's spans grow with 1 + log2 of the CPUs, of which at most eight count.
    #[must_use]
    pub fn new(topology: Topology) -> Config {
        let factor = u64::from(1 + topology.cpus().min(8).ilog2());
        Config {
            topology,
            features: Features::default(),
            tick: Nanos::from_millis(1),
            tickless: false,
            latency: Nanos(6_000_000 * factor),
            min_granularity: Nanos(750_000 * factor),
            wakeup_granularity: Nanos(1_000_000 * factor),
            migration_cost: Nanos::from_micros(500),
            deep_sleep: Nanos::from_micros(600),
            rr_slice: Nanos::from_millis(100),
            rt_runtime: Some(Nanos::from_micros(950_000)),
            rt_period: Nanos::from_micros(1_000_000),
        }
    }

    /// # Errors
    /// If a span is zero that must not be, or a runtime is longer than its period.
    pub fn validate(&self) -> Result<(), BadConfig> {
        let spans = [self.tick, self.latency, self.min_granularity, self.rr_slice, self.rt_period];
        if spans.contains(&Nanos::ZERO) {
            return Err(BadConfig("tick, latency, granularity, slice and period are not zero"));
        }
        if self.rt_runtime.is_some_and(|runtime| runtime > self.rt_period) {
            return Err(BadConfig("the real-time runtime is at most its period"));
        }
        Ok(())
    }

    /// How much of the virtual time it slept a waking task of this policy is credited
    /// (`place_entity` of 6.1): half of the latency if gently, little if SCHED_IDLE.
    #[must_use]
    pub(crate) fn sleeper_credit(&self, policy: Option<Policy>) -> u64 {
        let credit = match policy {
            Some(Policy::Idle) => self.min_granularity,
            _ => self.latency,
        };
        if self.features.has(crate::features::Feature::GentleFairSleepers) {
            credit.0 / 2
        } else {
            credit.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_grow_with_the_machine_up_to_eight_cpus() {
        let config = |cpus| Config::new(Topology::flat(cpus).unwrap());
        assert_eq!(config(1).latency, Nanos::from_millis(6));
        assert_eq!(config(8).latency, Nanos::from_millis(24));
        assert_eq!(config(64).wakeup_granularity, Nanos::from_millis(4));
    }

    #[test]
    fn a_runtime_longer_than_its_period_is_refused() {
        let mut config = Config::new(Topology::flat(1).unwrap());
        assert_eq!(config.validate(), Ok(()));
        config.rt_runtime = Some(config.rt_period + Nanos(1));
        assert!(config.validate().is_err());
    }
}
