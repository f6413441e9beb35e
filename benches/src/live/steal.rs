//! Steal time: the time for which CPUs of a virtual machine had work and the hypervisor ran another machine.
//! A round with much steal time says more of those machines than of the runtimes.

use rustix::param::clock_ticks_per_second;
use std::fs;
use std::time::Instant;

/// The place of steal time among the figures of a line of `/proc/stat`, from 0 (proc(5)).
const STEAL: usize = 7;

/// A look at the steal time of this machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    at: Instant,
    counted: Counted,
}

/// The contents of `/proc/stat` that matter here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    cpus: usize,
    /// Steal time of all CPUs together, in the kernel's ticks for users.
    ticks: u64,
}

impl Look {
    /// A look at this moment. A system that does not count steal time has none.
    pub(super) fn now() -> Look {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        Look { at: Instant::now(), counted: counted(&text).unwrap_or_default() }
    }

    /// The part of the time of all CPUs that was stolen from the look `before` to this one.
    pub(super) fn stolen_since(&self, before: &Look) -> f64 {
        let ticks = self.counted.ticks.saturating_sub(before.counted.ticks);
        let stolen = ticks as f64 / clock_ticks_per_second() as f64;
        let all = (self.at - before.at).as_secs_f64() * self.counted.cpus.max(1) as f64;
        stolen / all
    }
}

fn counted(text: &str) -> Option<Counted> {
    let (all, each): (Vec<_>, Vec<_>) = text
        .lines()
        .filter(|line| line.starts_with("cpu"))
        .partition(|line| line.starts_with("cpu "));
    let ticks = all.first()?.split_whitespace().skip(1).nth(STEAL)?.parse().ok()?;
    Some(Counted { cpus: each.len(), ticks })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn steal_time_is_the_eighth_figure_of_all_cpus_together() {
        let text = "cpu  1 2 3 4 5 6 7 68 9 10\ncpu0 1 2 3 4 5 6 7 28 9 10\n\
                    cpu1 0 0 0 0 0 0 0 40 0 0\nintr 7\n";
        assert_eq!(counted(text), Some(Counted { cpus: 2, ticks: 68 }));
        assert_eq!(counted("intr 7\n"), None);
    }

    #[test]
    fn stolen_time_is_a_part_of_the_time_of_all_cpus() {
        let now = Instant::now();
        let look = |at, ticks| Look { at, counted: Counted { cpus: 2, ticks } };
        let second = clock_ticks_per_second();
        let (before, after) = (look(now, 7), look(now + Duration::from_secs(5), 7 + second));
        assert!((after.stolen_since(&before) - 0.1).abs() < f64::EPSILON);
    }
}
