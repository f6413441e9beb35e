//! The mixes of requests: B1, B3 and B4 of the collected facts, adapted to two CPUs and to preemption that takes
//! microseconds.

use runyard_engine::time::Nanos;
use serde::{Deserialize, Serialize};

/// A mix of requests with a few service times.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[value(rename_all = "verbatim")]
pub enum Mix {
    /// 99.5 % take 4 us and 0.5 % take 10 ms: requests to RocksDB, as in ghOSt and Skyloft
    B1,
    /// Half take 10 us and half 1 ms: high bimodal, ten times as long
    B3,
    /// 57, 60, 200, 880 and 1,000 us: TPC-C, ten times as long
    B4,
}

/// One service time of a mix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// Number of requests of this kind in a thousand.
    pub(crate) per_mille: u64,
    /// Computing time of such a request.
    pub(crate) service: Nanos,
}

/// The class of a request: short requests should not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Short,
    Long,
}

const fn kind(per_mille: u64, micros: u64) -> Kind {
    Kind { per_mille, service: Nanos::from_micros(micros) }
}

const B1: &[Kind] = &[kind(995, 4), kind(5, 10_000)];
const B3: &[Kind] = &[kind(500, 10), kind(500, 1_000)];
const B4: &[Kind] = &[kind(440, 57), kind(40, 60), kind(440, 200), kind(40, 880), kind(40, 1_000)];

impl Mix {
    pub(crate) fn kinds(self) -> &'static [Kind] {
        match self {
            Mix::B1 => B1,
            Mix::B3 => B3,
            Mix::B4 => B4,
        }
    }

    /// Returns the mean service time.
    pub(crate) fn mean(self) -> Nanos {
        let weighed = |kind: &Kind| kind.per_mille * kind.service.0;
        Nanos(self.kinds().iter().map(weighed).sum::<u64>() / 1_000)
    }

    /// Returns the class of a kind: short if its service time is below the mean.
    pub(crate) fn class(self, kind: usize) -> Class {
        if self.kinds()[kind].service < self.mean() { Class::Short } else { Class::Long }
    }

    /// Returns the default length of a point: 10,000 requests from a load of 0.1 (B1), 0.4 (B3) or 0.3 (B4) on. A lower
    /// load has no p99.9.
    pub(crate) fn seconds(self) -> f64 {
        match self {
            Mix::B1 => 3.0,
            Mix::B3 => 8.0,
            Mix::B4 => 4.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::CPUS;
    use super::*;

    #[test]
    fn the_means_are_those_of_the_facts() {
        for (mix, mean, capacity) in
            [(Mix::B1, 53_980, 37_050), (Mix::B3, 505_000, 3_960), (Mix::B4, 190_680, 10_489)]
        {
            assert_eq!(mix.kinds().iter().map(|kind| kind.per_mille).sum::<u64>(), 1_000);
            assert_eq!(mix.mean(), Nanos(mean));
            let per_second = CPUS as u64 * 1_000_000_000 / mix.mean().0;
            assert!(per_second.abs_diff(capacity) * 1_000 <= capacity, "{mix:?}: {per_second}/s");
        }
    }

    #[test]
    fn short_is_what_is_below_the_mean() {
        let short = |mix: Mix| {
            let kinds = mix.kinds().iter().enumerate();
            let short = kinds.filter(|&(kind, _)| mix.class(kind) == Class::Short);
            short.map(|(_, kind)| kind.service.0 / 1_000).collect::<Vec<_>>()
        };
        assert_eq!([Mix::B1, Mix::B3, Mix::B4].map(short), [vec![4], vec![10], vec![57, 60]]);
    }
}
