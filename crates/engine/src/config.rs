//! The parameters of the policy, each with its source. They are checked once, when a machine is
//! made.

use crate::attr::{LatencyNice, Policy, Slice, Weight};
use crate::cpu::CpuId;
use crate::features::{Feature, Features};
use crate::root_domains::RootDomains;
use crate::rules::FairRules;
use crate::time::{Nanos, Time};
use crate::topology::Topology;
use std::fmt;

/// The parameters of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The shape of the machine.
    pub topology: Topology,
    /// The parts of the machine between which no task is balanced, pushed or pulled.
    pub domains: RootDomains,
    /// The switches.
    pub features: Features,
    /// The rules of the fair class in which kernels differ.
    pub rules: FairRules,
    /// The interval between two ticks of a busy CPU; 1 ms as with HZ=1000.
    pub tick: Nanos,
    /// Whether CPUs tick at different moments, so that they do not all meet at one lock. CPU n of N
    /// ticks later by n / N of half a tick (the kernel's parameter `skew_tick`, which is off by
    /// default).
    pub skew_tick: bool,
    /// Whether a CPU with one task has hardly any ticks (`CONFIG_NO_HZ_FULL`).
    pub tickless: bool,
    /// Whether the counters of [`crate::account`] are kept: waits, switches and their causes. No
    /// decision depends on them. A task has counters of its own if its host calls
    /// [`Task::keep_account`](crate::task::Task::keep_account).
    pub accounts: bool,
    /// The span in which each of up to eight fair tasks runs once (`sched_latency_ns`).
    pub latency: Nanos,
    /// The time that a fair task runs before the tick may preempt it (`sched_min_granularity_ns`).
    pub min_granularity: Nanos,
    /// The distance by which a woken task of nice 0 must be behind to preempt
    /// (`sched_wakeup_granularity_ns`).
    pub wakeup_granularity: Nanos,
    /// The default slice (EEVDF, `base_slice_ns` of 6.12).
    pub base_slice: Nanos,
    /// The time for which a task that ran is still in the caches of its CPU. A CPU whose idle
    /// periods are shorter than this does not look for work (`sched_migration_cost_ns`).
    pub migration_cost: Nanos,
    /// The idle time after which a CPU is in a deep sleep: the target residency of C6 on Intel's
    /// servers (`intel_idle`, 600 us).
    pub deep_sleep: Nanos,
    /// The slice of SCHED_RR tasks of one priority (`sched_rr_timeslice_ms`).
    pub rr_slice: Nanos,
    /// The CPU time that real-time tasks may have in each `rt_period` on a CPU
    /// (`sched_rt_runtime_us`); `None` for all of it.
    pub rt_runtime: Option<Nanos>,
    /// The period of `rt_runtime` (`sched_rt_period_us`).
    pub rt_period: Nanos,
    /// The CPU time that fair tasks have in each `server_period` on a CPU, whatever the load of
    /// real-time tasks, with [`Feature::FairServer`] (`fair_server/cpuN/runtime` of debugfs).
    pub server_runtime: Nanos,
    /// The period of `server_runtime`.
    pub server_period: Nanos,
    /// The budget that a CPU draws at a time for a group with a limit, with
    /// [`Feature::CfsBandwidth`] (`sched_cfs_bandwidth_slice_us`).
    pub bandwidth_slice: Nanos,
    /// The utilization by fair tasks below which a waking task stays on a busy CPU, of 1024, the
    /// task included, with [`Feature::Pelt`]. No upstream kernel does this. Some guest kernels do,
    /// to wake few virtual CPUs (`sched_vcpu_pack`).
    pub packs_below: Option<u64>,
    /// Whether tasks with different [cookies](crate::attr::Cookie) never run on one core at the
    /// same time (core scheduling, `CONFIG_SCHED_CORE`). Where cores have one thread, or if no task
    /// has a cookie, this costs nothing and has no visible effect.
    pub cookies: bool,
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
    /// The `rt_runtime` of a kernel that throttles real-time tasks.
    pub const RT_RUNTIME: Nanos = Nanos::from_micros(950_000);

    /// Returns the kernel's values for a machine of this size (6.1; RT throttling as through 6.11).
    /// The spans of the fair class grow with 1 + log2 of the number of CPUs, of which at most eight
    /// count.
    #[must_use]
    pub fn new(topology: Topology) -> Config {
        let factor = factor(topology.cpus());
        Config {
            topology,
            domains: RootDomains::default(),
            features: Features::default(),
            rules: FairRules::RUNYARD,
            tick: Nanos::from_millis(1),
            skew_tick: false,
            tickless: false,
            accounts: false,
            latency: Nanos(6_000_000 * factor),
            min_granularity: Nanos(750_000 * factor),
            wakeup_granularity: Nanos(1_000_000 * factor),
            base_slice: Nanos(700_000 * factor),
            migration_cost: Nanos::from_micros(500),
            deep_sleep: Nanos::from_micros(600),
            rr_slice: Nanos::from_millis(100),
            rt_runtime: Some(Config::RT_RUNTIME),
            rt_period: Nanos::from_micros(1_000_000),
            server_runtime: Nanos::from_millis(50),
            server_period: Nanos::from_millis(1_000),
            bandwidth_slice: Nanos::from_millis(5),
            packs_below: None,
            cookies: false,
        }
    }

    /// Returns a span of the fair class for this machine, given its nanoseconds on one CPU.
    pub(crate) fn scaled(&self, span: u64) -> Nanos {
        Nanos(span * factor(self.topology.cpus()))
    }

    /// Returns these values with `cpus` CPUs online: the spans of the fair class depend on them
    /// (`update_sysctl`).
    #[must_use]
    pub fn with_online(&self, cpus: usize) -> Config {
        let (had, has) = (factor(self.topology.cpus()), factor(cpus.max(1)));
        let scaled = |span: Nanos| Nanos(span.0 * has / had);
        Config {
            latency: scaled(self.latency),
            min_granularity: scaled(self.min_granularity),
            wakeup_granularity: scaled(self.wakeup_granularity),
            base_slice: scaled(self.base_slice),
            ..self.clone()
        }
    }

    /// Returns the first tick of a CPU that is later than `now`.
    ///
    /// ```
    /// use runyard_engine::config::Config;
    /// use runyard_engine::cpu::CpuId;
    /// use runyard_engine::time::Time;
    /// use runyard_engine::topology::Topology;
    ///
    /// let config = Config { skew_tick: true, ..Config::new(Topology::flat(4).unwrap()) };
    /// let ticks = [0, 1, 2, 3].map(|cpu| config.next_tick(CpuId(cpu), Time(7_000_000)).0);
    /// assert_eq!(ticks, [8_000_000, 7_125_000, 7_250_000, 7_375_000]);
    /// ```
    #[must_use]
    #[inline]
    pub fn next_tick(&self, cpu: CpuId, now: Time) -> Time {
        if !self.skew_tick {
            return now.next_multiple(self.tick);
        }
        // The skew is less than a tick, so a time before the first tick of this CPU counts from the
        // tick before.
        let skew = Nanos(self.tick.0 / 2 / self.topology.cpus() as u64 * u64::from(cpu.0));
        let early = Nanos(self.tick.0 - skew.0);
        Time((now + early).next_multiple(self.tick).0 - early.0)
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// If a span is zero that must not be, or a runtime is longer than its period.
    pub fn validate(&self) -> Result<(), BadConfig> {
        let fair = [self.latency, self.min_granularity, self.base_slice];
        let spans = fair.into_iter().chain([
            self.tick,
            self.rr_slice,
            self.rt_period,
            self.bandwidth_slice,
        ]);
        if spans.into_iter().any(|span| span == Nanos::ZERO) {
            return Err(BadConfig("tick, latency, granularity, slice and period must not be zero"));
        }
        if !(Nanos(1)..=self.server_period).contains(&self.server_runtime) {
            return Err(BadConfig(
                "the runtime of the fair server must be at least 1 ns and at most its period",
            ));
        }
        if self.rt_runtime.is_some_and(|runtime| runtime > self.rt_period) {
            return Err(BadConfig("the real-time runtime is at most its period"));
        }
        Ok(())
    }

    /// Returns the credit of a task of this policy for its sleep: at its wake-up it is placed at most
    /// so much virtual time behind the clock (`place_entity` of 6.1). That is the latency, half of it
    /// with `GENTLE_FAIR_SLEEPERS`, and less for SCHED_IDLE.
    #[must_use]
    pub(crate) fn sleeper_credit(&self, policy: Option<Policy>) -> u64 {
        let credit = match policy {
            Some(Policy::Idle) => self.min_granularity,
            _ => self.latency,
        };
        if self.features.has(Feature::GentleFairSleepers) { credit.0 / 2 } else { credit.0 }
    }

    /// Returns the virtual time by which a latency nice value moves the margin of a preemption, in
    /// nanoseconds; negative for a task that wants to wait less (`calc_latency_offset`).
    #[must_use]
    pub fn latency_offset(&self, latency_nice: LatencyNice) -> i64 {
        self.sleeper_credit(None).cast_signed() * i64::from(latency_nice.get()) / 20
    }

    /// Returns the most that the running task may be ahead, whatever the weight and the latency
    /// nice of a waiting one. That is the credit of a sleeper, less the time until a tick may
    /// notice it (`get_latency_max`).
    #[must_use]
    pub fn latency_max(&self) -> i64 {
        self.sleeper_credit(None).cast_signed() - self.min_granularity.0.cast_signed()
    }

    /// Returns the change of the margin by which a running entity may be ahead of another, from the
    /// latency nice of both (`wakeup_latency_gran`). Two entities with positive values are not
    /// compared: neither preempts the other only because that one can wait even longer.
    pub(crate) fn relative_offset(&self, curr: LatencyNice, other: LatencyNice) -> i64 {
        let zero = LatencyNice::ZERO;
        if other == zero && curr >= zero {
            return 0;
        }
        let mut offset = self.latency_offset(other);
        if other < zero || curr < zero {
            offset -= self.latency_offset(curr);
        }
        offset.min(self.latency_max())
    }

    /// Returns the slice of an entity in EEVDF: the requested one, or the one that its latency nice
    /// determines.
    pub(crate) fn slice_for(&self, asked: Option<Slice>, latency_nice: LatencyNice) -> Slice {
        asked.filter(|_| self.rules.takes_slices).unwrap_or_else(|| {
            match self.features.has(Feature::LatencyNice) {
                true => self.slice(latency_nice),
                false => self.slice(LatencyNice::ZERO),
            }
        })
    }

    /// Returns the slice of a task of this latency nice value in EEVDF: the base slice, scaled by
    /// the weight of the nice value of that number, within the range of slices. This was the first
    /// mapping of Linux's EEVDF, before latency nice was removed from it (March 2023).
    #[must_use]
    pub fn slice(&self, latency_nice: LatencyNice) -> Slice {
        let weight = latency_nice.weight();
        let span = Nanos(self.base_slice.0 * u64::from(Weight::NICE_0.get()) / u64::from(weight));
        Slice::new(span.clamp(Slice::MIN.get(), Slice::MAX.get())).expect("the span was clamped")
    }
}

/// Returns the factor by which the spans of the fair class grow with the machine
/// (`get_update_sysctl_factor`).
fn factor(cpus: usize) -> u64 {
    u64::from(1 + cpus.min(8).ilog2())
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
    fn spans_follow_the_cpus_that_are_online() {
        let config = |cpus| Config::new(Topology::flat(cpus).unwrap());
        let (eight, four) = (config(8), config(4));
        let expected = Config { topology: eight.topology, ..four };
        assert_eq!(eight.with_online(4), expected);
        assert_eq!(eight.with_online(8), eight);
    }

    /// The table of the patch set: sleep latency, cap and offsets of -20, -10, 10 and 19 on one CPU
    /// and on eight.
    #[test]
    fn offsets_are_those_of_the_patch_set() {
        let offsets = |cpus| {
            let config = Config::new(Topology::flat(cpus).unwrap());
            let offset = |value| config.latency_offset(LatencyNice::new(value).unwrap());
            ([-20, -10, 0, 10, 19].map(offset), config.latency_max())
        };
        assert_eq!(offsets(1), ([-3_000_000, -1_500_000, 0, 1_500_000, 2_850_000], 2_250_000));
        assert_eq!(offsets(8), ([-12_000_000, -6_000_000, 0, 6_000_000, 11_400_000], 9_000_000));
    }

    #[test]
    fn slices_follow_latency_nice_within_their_range() {
        let config = Config::new(Topology::flat(8).unwrap());
        let slice = |value| config.slice(LatencyNice::new(value).unwrap()).get();
        assert_eq!(
            [slice(-20), slice(0), slice(19)].map(|it| it.0),
            [100_000, 2_800_000, 100_000_000]
        );
    }

    #[test]
    fn a_runtime_longer_than_its_period_is_refused() {
        let mut config = Config::new(Topology::flat(1).unwrap());
        assert_eq!(config.validate(), Ok(()));
        config.rt_runtime = Some(config.rt_period + Nanos(1));
        assert!(config.validate().is_err());
    }
}
