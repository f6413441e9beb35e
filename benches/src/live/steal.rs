//! Steal time: the time for which CPUs of a virtual machine had work while the hypervisor ran another machine. A round
//! with much steal time measures those machines more than the runtimes.

use crate::stat::Stat;
use std::time::{Duration, Instant};

/// A sample of this machine's steal time, for all CPUs together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    at: Instant,
    stat: Stat,
}

impl Look {
    /// Takes a sample. A system that does not count steal time reports zero.
    pub(super) fn now() -> Look {
        Look { at: Instant::now(), stat: Stat::now(None) }
    }

    /// Returns the part of the CPUs' time that was stolen between `before` and this sample.
    pub(super) fn stolen_since(&self, before: &Look) -> f64 {
        stolen(before.stat, self.stat, self.at.duration_since(before.at))
    }
}

fn stolen(before: Stat, now: Stat, wall: Duration) -> f64 {
    let all = wall.as_nanos() as f64 * now.cpus.max(1) as f64;
    now.stolen_ns.saturating_sub(before.stolen_ns) as f64 / all.max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_a_part_of_the_time_of_all_cpus() {
        let of = |stolen_ns| Stat { cpus: 2, idle_ns: 0, stolen_ns };
        let part = stolen(of(70), of(170), Duration::from_nanos(500));
        assert!((part - 0.1).abs() < f64::EPSILON);
        assert!(stolen(of(70), of(70), Duration::ZERO).abs() < f64::EPSILON);
    }
}
