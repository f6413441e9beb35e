//! Steal time: the time for which CPUs of a virtual machine had work and the hypervisor ran another machine.
//! A round with much steal time says more of those machines than of the runtimes.

use std::fs;

/// How many figures of a line of `/proc/stat` are parts of a CPU's time; those that follow are parts of these. The last
/// is steal time (proc(5)).
const PARTS: usize = 8;

/// A look at the steal time of this machine: of all CPUs together, in the kernel's ticks for users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Look {
    stolen: u64,
    all: u64,
}

impl Look {
    /// A look at this moment. A system that does not count steal time has none.
    pub(super) fn now() -> Look {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        counted(&text).unwrap_or_default()
    }

    /// The part of the time of all CPUs that was stolen from the look `before` to this one.
    pub(super) fn stolen_since(&self, before: &Look) -> f64 {
        let stolen = self.stolen.saturating_sub(before.stolen);
        stolen as f64 / self.all.saturating_sub(before.all).max(1) as f64
    }
}

fn counted(text: &str) -> Option<Look> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> =
        line.split_whitespace().take(PARTS).map_while(|it| it.parse().ok()).collect();
    let stolen = *ticks.get(PARTS - 1)?;
    Some(Look { stolen, all: ticks.iter().sum() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_time_is_the_eighth_figure_of_all_cpus_together() {
        let text = "cpu  1 2 3 4 5 6 7 68 9 10\ncpu0 1 2 3 4 5 6 7 28 9 10\n\
                    cpu1 0 0 0 0 0 0 0 40 0 0\nintr 7\n";
        assert_eq!(counted(text), Some(Look { stolen: 68, all: 96 }));
        assert_eq!(counted("cpu 1 2 3\n"), None);
        assert_eq!(counted("intr 7\n"), None);
    }

    #[test]
    fn stolen_time_is_a_part_of_the_time_of_all_cpus() {
        let (before, after) = (Look { stolen: 7, all: 50 }, Look { stolen: 17, all: 150 });
        assert!((after.stolen_since(&before) - 0.1).abs() < f64::EPSILON);
        assert!(before.stolen_since(&before).abs() < f64::EPSILON);
    }
}
