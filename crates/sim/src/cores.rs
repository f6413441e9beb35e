//! What the simulator keeps of cores whose threads decide together.

use runyard_engine::attr::Cookie;
use runyard_engine::config::Config;
use runyard_engine::cpu::CpuId;
use runyard_engine::time::Time;
use runyard_engine::topology::{Level, Topology};

/// The cores of a machine whose tasks have cookies.
#[derive(Debug)]
pub(crate) struct Cores {
    pub(crate) topology: Topology,
    /// By CPU, the cookie because of which it was last said to be forced idle, since it last did something else.
    pub(crate) told: Vec<Option<Option<Cookie>>>,
    /// By core.
    pub(crate) seen: Vec<Seen>,
}

/// A core when it was looked at last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// What it decided to run.
    pub(crate) runs: Option<Option<Cookie>>,
    /// It executes tasks of several cookies.
    pub(crate) mixed: bool,
    /// Since when that is so.
    pub(crate) since: Time,
}

impl Cores {
    /// Those of a machine with cookies and several hardware threads a core.
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
