//! The shape of a machine: nodes, their cores, their hardware threads, and the domains that follow
//! from it.
//!
//! CPUs are numbered node by node, core by core, thread by thread: with `2x4x2`, CPU 9 is the
//! second thread of the first core of node 1.

use crate::cpu::{CpuId, MAX_CPUS};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// The grouping of the CPUs of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    nodes: u32,
    cores: u32,
    threads: u32,
}

/// A level of the machine at which CPUs balance among themselves, from small to large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The hardware threads of a core.
    Smt,
    /// The cores of a node, which share a cache.
    Node,
    /// The whole machine.
    Machine,
}

impl Topology {
    /// Returns a machine of `nodes` nodes with `cores` cores each, with `threads` threads each.
    ///
    /// # Errors
    /// If a number is zero or the machine would have more than [`MAX_CPUS`] CPUs.
    pub fn new(nodes: u32, cores: u32, threads: u32) -> Result<Topology, BadTopology> {
        let cpus = u64::from(nodes).saturating_mul(cores.into()).saturating_mul(threads.into());
        if (1..=MAX_CPUS as u64).contains(&cpus) {
            Ok(Topology { nodes, cores, threads })
        } else {
            Err(BadTopology)
        }
    }

    /// Returns a machine of `cpus` single-threaded cores on one node.
    ///
    /// # Errors
    /// If `cpus` is zero or above [`MAX_CPUS`].
    pub fn flat(cpus: u32) -> Result<Topology, BadTopology> {
        Topology::new(1, cpus, 1)
    }

    /// Returns the number of CPUs of the machine.
    #[must_use]
    pub fn cpus(self) -> usize {
        self.nodes as usize * self.per_node()
    }

    /// Returns every CPU in order.
    pub fn iter(self) -> impl Iterator<Item = CpuId> {
        (0..self.cpus()).map(CpuId::at)
    }

    /// Returns the indices of the CPUs that balance with `cpu` at `level`.
    #[must_use]
    pub fn span(self, cpu: CpuId, level: Level) -> Range<usize> {
        let size = match level {
            Level::Smt => self.threads as usize,
            Level::Node => self.per_node(),
            Level::Machine => self.cpus(),
        };
        let low = cpu.index() / size * size;
        low..low + size
    }

    /// Returns the number of hardware threads of a core.
    #[must_use]
    pub fn threads(self) -> usize {
        self.threads as usize
    }

    /// Returns the number of CPUs in each CPU group of a domain of `level`. The groups are the
    /// domains of the next smaller level, or single CPUs.
    #[must_use]
    pub fn group_size(self, level: Level) -> usize {
        match level {
            Level::Smt => 1,
            Level::Node => self.threads as usize,
            Level::Machine => self.per_node(),
        }
    }

    /// Returns the indices of the CPUs in the CPU group of `cpu` at `level`.
    #[must_use]
    pub fn group(self, cpu: CpuId, level: Level) -> Range<usize> {
        let size = self.group_size(level);
        let first = cpu.index() / size * size;
        first..first + size
    }

    /// Returns the levels at which a CPU has others to balance with, from small to large.
    pub fn levels(self) -> impl Iterator<Item = Level> {
        let mut last = 1;
        [Level::Smt, Level::Node, Level::Machine].into_iter().filter(move |&level| {
            let size = self.span(CpuId(0), level).len();
            std::mem::replace(&mut last, size) < size
        })
    }

    fn per_node(self) -> usize {
        self.cores as usize * self.threads as usize
    }
}

/// The error for a text that is not of the form `NODESxCORES[xTHREADS]`, or has no CPU, or has more
/// than 65,536.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadTopology;

impl fmt::Display for BadTopology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a topology is NODESxCORES or NODESxCORESxTHREADS with 1 to {MAX_CPUS} CPUs")
    }
}

impl std::error::Error for BadTopology {}

impl FromStr for Topology {
    type Err = BadTopology;

    fn from_str(text: &str) -> Result<Topology, BadTopology> {
        let numbers: Result<Vec<u32>, _> = text.split('x').map(str::parse).collect();
        match numbers.map_err(|_| BadTopology)?[..] {
            [nodes, cores] => Topology::new(nodes, cores, 1),
            [nodes, cores, threads] => Topology::new(nodes, cores, threads),
            _ => Err(BadTopology),
        }
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.nodes, self.cores)?;
        if self.threads > 1 {
            write!(f, "x{}", self.threads)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_grow_from_core_to_machine() {
        let machine: Topology = "2x4x2".parse().unwrap();
        assert_eq!(machine.cpus(), 16);
        assert_eq!(machine.span(CpuId(9), Level::Smt), 8..10);
        assert_eq!(machine.span(CpuId(9), Level::Node), 8..16);
        assert_eq!(machine.span(CpuId(9), Level::Machine), 0..16);
        assert_eq!(machine.group_size(Level::Node), 2);
        assert_eq!(machine.group_size(Level::Machine), 8);
        assert_eq!(machine.levels().collect::<Vec<_>>(), [Level::Smt, Level::Node, Level::Machine]);
    }

    #[test]
    fn levels_that_add_nothing_are_left_out() {
        assert_eq!(Topology::flat(4).unwrap().levels().collect::<Vec<_>>(), [Level::Node]);
        assert_eq!(Topology::flat(1).unwrap().levels().count(), 0);
    }

    #[test]
    fn malformed_topologies_are_refused() {
        for text in ["", "4", "0x4", "1x65537", "1x2x3x4", "1x-1", "65536x65536x65536"] {
            assert_eq!(text.parse::<Topology>(), Err(BadTopology), "{text}");
        }
    }
}
