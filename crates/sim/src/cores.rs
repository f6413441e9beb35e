//! The state of cores with core scheduling.

use runyard_engine::attr::Cookie;
use runyard_engine::config::Config;
use runyard_engine::cpu::CpuId;
use runyard_engine::time::Time;
use runyard_engine::topology::{Level, Topology};

/// The cores of a machine with cookies.
#[derive(Debug)]
pub(crate) struct Cores {
    pub(crate) topology: Topology,
    /// For each CPU, the cookie of its last report as forced idle, if it has done nothing else since then.
    pub(crate) told: Vec<Option<Option<Cookie>>>,
    /// The state of each core at the last check.
    pub(crate) seen: Vec<Seen>,
}

/// A core at the last check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The cookie that it decided to run.
    pub(crate) runs: Option<Option<Cookie>>,
    /// Whether the core executes tasks of several cookies.
    pub(crate) mixed: bool,
    /// The instant at which this began.
    pub(crate) since: Time,
}

impl Cores {
    /// Returns the cores of a machine with cookies and several hardware threads a core.
    pub(crate) fn new(config: &Config) -> Option<Cores> {
        let topology = config.topology;
        let cores = topology.cpus() / topology.threads();
        let (told, seen) = (vec![None; topology.cpus()], vec![Seen::default(); cores]);
        (config.cookies && topology.threads() > 1).then_some(Cores { topology, told, seen })
    }

    pub(crate) fn threads_of(&self, cpu: CpuId) -> impl Iterator<Item = CpuId> + use<> {
        self.topology.span(cpu, Level::Smt).map(CpuId::at)
    }
}
