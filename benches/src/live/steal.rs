//! Steal time: the time for which CPUs of a virtual machine had work while the hypervisor ran another machine. A round
//! with much steal time measures those machines more than the runtimes.

use std::fs;

/// Number of fields of a line of `/proc/stat` that are parts of a CPU's time; the later fields are parts of these. The
/// last of them is steal time (proc(5)).
const PARTS: usize = 8;

/// A sample of this machine's steal time, for all CPUs together, in ticks of USER_HZ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Look {
    stolen: u64,
    all: u64,
}

impl Look {
    /// Takes a sample. A system that does not count steal time reports zero.
    pub(super) fn now() -> Look {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        counted(&text).unwrap_or_default()
    }

    /// Returns the part of the CPUs' time that was stolen between `before` and this sample.
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
