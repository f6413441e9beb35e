//! The numbers of the policy, each with its source; checked once, when a machine is made.

use crate::attr::{LatencyNice, Policy, Slice, Weight};
use crate::cpu::CpuId;
use crate::features::{Feature, Features};
use crate::rules::FairRules;
use crate::time::{Nanos, Time};
use crate::topology::Topology;
use std::fmt;

/// What a machine is told once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The CPUs and their nearness.
    pub topology: Topology,
    /// The switches.
    pub features: Features,
    /// The rules of the fair class in which kernels differ.
    pub rules: FairRules,
    /// Between two ticks of a busy CPU; 1 ms as with HZ=1000.
    pub tick: Nanos,
    /// CPUs tick at different moments, so that they do not all meet at one lock: CPU n of N is later by n / N
    /// of half a tick (the kernel's parameter `skew_tick`, which is off unless asked for).
    pub skew_tick: bool,
    /// A CPU with one task has hardly any ticks (`CONFIG_NO_HZ_FULL`).
    pub tickless: bool,
    /// It is counted how long tasks wait, how often they switch, and why ([`crate::account`]). No decision
    /// depends on that. A task has an account of its own if its host says so
    /// ([`Task::keep_account`](crate::task::Task::keep_account)).
    pub accounts: bool,
    /// In this span each of up to eight fair tasks runs once (`sched_latency_ns`).
    pub latency: Nanos,
    /// A fair task is not preempted by the tick before it ran so long (`sched_min_granularity_ns`).
    pub min_granularity: Nanos,
    /// A woken task of nice 0 preempts if it is behind by more (`sched_wakeup_granularity_ns`).
    pub wakeup_granularity: Nanos,
    /// What a task that did not ask for a slice wants at a time (EEVDF, `base_slice_ns` of 6.12).
    pub base_slice: Nanos,
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
    /// How much of each `server_period` fair tasks have on a CPU whatever real-time tasks want, with
    /// [`Feature::FairServer`] (`fair_server/cpuN/runtime` of debugfs).
    pub server_runtime: Nanos,
    /// The period of `server_runtime`.
    pub server_period: Nanos,
    /// A waking task stays on a busy CPU of which fair tasks use less than this, of 1024, itself included, with
    /// [`Feature::Pelt`]. No upstream kernel does that: some guests' kernels do, so as to wake few virtual CPUs
    /// (`sched_vcpu_pack`).
    pub packs_below: Option<u64>,
    /// Tasks with different [cookies](crate::attr::Cookie) never run on one core at the same time (core scheduling,
    /// `CONFIG_SCHED_CORE`). Where cores have one thread, and if no task has a cookie, this costs and changes nothing that is seen.
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
    /// `rt_runtime` of a kernel that throttles real-time tasks.
    pub const RT_RUNTIME: Nanos = Nanos::from_micros(950_000);

    /// The kernel's values for a machine of this size (6.1; RT throttling as through 6.11). The
    /// fair class's spans grow with 1 + log2 of the CPUs, of which at most eight count.
    #[must_use]
    pub fn new(topology: Topology) -> Config {
        let factor = factor(topology.cpus());
        Config {
            topology,
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
            packs_below: None,
            cookies: false,
        }
    }

    /// A span of the fair class as it grows with this machine, from nanoseconds on one CPU.
    pub(crate) fn scaled(&self, span: u64) -> Nanos {
        Nanos(span * factor(self.topology.cpus()))
    }

    /// These values with `cpus` of the machine's online: the spans of the fair class go with them
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

    /// The first tick of a CPU that is later than `now`.
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
    pub fn next_tick(&self, cpu: CpuId, now: Time) -> Time {
        if !self.skew_tick {
            return now.next_multiple(self.tick);
        }
        // Less than a tick: what comes before the first one of this CPU is counted from the tick before.
        let skew = Nanos(self.tick.0 / 2 / self.topology.cpus() as u64 * u64::from(cpu.0));
        let early = Nanos(self.tick.0 - skew.0);
        Time((now + early).next_multiple(self.tick).0 - early.0)
    }

    /// # Errors
    /// If a span is zero that must not be, or a runtime is longer than its period.
    pub fn validate(&self) -> Result<(), BadConfig> {
        let fair = [self.latency, self.min_granularity, self.base_slice];
        let spans = fair.into_iter().chain([self.tick, self.rr_slice, self.rt_period]);
        if spans.into_iter().any(|span| span == Nanos::ZERO) {
            return Err(BadConfig("tick, latency, granularity, slice and period are not zero"));
        }
        if !(Nanos(1)..=self.server_period).contains(&self.server_runtime) {
            return Err(BadConfig("the runtime of the fair server is in 1..=its period"));
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
        if self.features.has(Feature::GentleFairSleepers) { credit.0 / 2 } else { credit.0 }
    }

    /// By how much virtual time a latency nice value moves the margin of a preemption, in
    /// nanoseconds; less than none for who wants to wait less (`calc_latency_offset`).
    #[must_use]
    pub fn latency_offset(&self, latency_nice: LatencyNice) -> i64 {
        self.sleeper_credit(None).cast_signed() * i64::from(latency_nice.get()) / 20
    }

    /// How far the running task may be ahead at the most, whatever the weight and the latency nice
    /// of who waits: what a sleeper is credited, less what it may wait for a tick to notice
    /// (`get_latency_max`).
    #[must_use]
    pub fn latency_max(&self) -> i64 {
        self.sleeper_credit(None).cast_signed() - self.min_granularity.0.cast_signed()
    }

    /// By how much more a running entity may be ahead of another, or must be less, by the latency nice of both
    /// (`wakeup_latency_gran`). Two that can wait are not compared: none shall preempt the other because that cares
    /// even less.
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

    /// How long an entity wants to run at a time in EEVDF: what it asked for, or what its latency nice
    /// makes of it.
    pub(crate) fn slice_for(&self, asked: Option<Slice>, latency_nice: LatencyNice) -> Slice {
        asked.filter(|_| self.rules.takes_slices).unwrap_or_else(|| {
            match self.features.has(Feature::LatencyNice) {
                true => self.slice(latency_nice),
                false => self.slice(LatencyNice::ZERO),
            }
        })
    }

    /// How long a task of this latency nice value wants to run at a time in EEVDF: the base slice,
    /// less by the weight of the nice value of that number, within what a task may ask for. This was
    /// the first mapping of Linux's EEVDF, before latency nice was left out of it (March 2023).
    #[must_use]
    pub fn slice(&self, latency_nice: LatencyNice) -> Slice {
        let weight = latency_nice.weight();
        let span = Nanos(self.base_slice.0 * u64::from(Weight::NICE_0.get()) / u64::from(weight));
        Slice::new(span.clamp(Slice::MIN.get(), Slice::MAX.get())).expect("it was clamped")
    }
}

/// By how much the spans of the fair class grow with the machine (`get_update_sysctl_factor`).
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
