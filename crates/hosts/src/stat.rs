//! The CPU time that the kernel has counted since its start, as `/proc/stat` has it.
//!
//! The benches and `xtask` have this text too, so it names no crate.

use std::fs;

/// The unit of the file, in nanoseconds, on every Linux (`USER_HZ`).
const TICK_NS: u64 = 10_000_000;

/// The counts over some CPUs; zero where the kernel does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) cpus: u64,
    pub(crate) idle_ns: u64,
    /// The time that the host of a virtual machine took.
    pub(crate) stolen_ns: u64,
}

impl Stat {
    /// The counts of these CPUs, or of all.
    pub(crate) fn now(of: Option<&[usize]>) -> Stat {
        Stat::read(&fs::read_to_string("/proc/stat").unwrap_or_default(), of)
    }

    pub(crate) fn read(text: &str, of: Option<&[usize]>) -> Stat {
        let lines = text.lines().filter_map(|line| line.strip_prefix("cpu")?.split_once(' '));
        let (all, each): (Vec<_>, Vec<_>) = lines.partition(|(cpu, _)| cpu.is_empty());
        let Some(of) = of else { return Stat { cpus: each.len() as u64, ..Stat::sum(&all) } };
        let is_listed = |cpu: &str| cpu.parse().is_ok_and(|cpu| of.contains(&cpu));
        Stat::sum(&each.into_iter().filter(|(cpu, _)| is_listed(cpu)).collect::<Vec<_>>())
    }

    /// The sum over these lines, each with the name of its CPU.
    fn sum(lines: &[(&str, &str)]) -> Stat {
        // user nice system idle iowait irq softirq steal
        let ns = |at| {
            let ticks = |line: &str| line.split_whitespace().nth(at)?.parse::<u64>().ok();
            lines.iter().filter_map(|(_, line)| ticks(line)).sum::<u64>() * TICK_NS
        };
        Stat { cpus: lines.len() as u64, idle_ns: ns(3) + ns(4), stolen_ns: ns(7) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_of_all_cpus_or_of_some() {
        let text =
            "cpu  10 0 5 100 20 0 0 3 9 9\ncpu0 1 2 3 4 5 6 7 8 9\ncpu1 1\ncpu12 0 0 0 7\nintr 7\n";
        let of = |cpus, idle, stolen| Stat {
            cpus,
            idle_ns: idle * TICK_NS,
            stolen_ns: stolen * TICK_NS,
        };
        assert_eq!(Stat::read(text, None), of(3, 120, 3));
        assert_eq!(Stat::read(text, Some(&[0, 12])), of(2, 16, 8));
        assert_eq!(Stat::read(text, Some(&[2])), Stat::default());
        assert_eq!(Stat::read("", None), Stat::default());
    }
}
