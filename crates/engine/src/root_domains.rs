//! The root domains of a machine: the parts into which cpusets and isolated CPUs divide it.
//!
//! Fair tasks are balanced inside of a root domain, and real-time tasks are pushed and pulled inside
//! of it. Two kinds of cpusets make one: partitions of the kinds `root` and `isolated`. The CPUs of
//! isolated partitions, and those that are isolated from the boot on (`isolcpus`), have no domains
//! to balance over (`build_sched_domains` is not called for them). All of them together are one
//! root domain (`def_root_domain`, `kernel/sched/topology.c`), so real-time tasks move between them.

use crate::cpu::{CpuId, CpuSet};
use std::sync::Arc;

/// The root domains of a machine. The default is one for all CPUs.
///
/// ```
/// use runyard_engine::cpu::{CpuId, CpuSet};
/// use runyard_engine::root_domains::RootDomains;
///
/// let pair: CpuSet = [CpuId(2), CpuId(3)].into_iter().collect();
/// let domains = RootDomains::new(4, [pair.clone()], CpuSet::only(CpuId(1)));
/// assert_eq!(domains.of(CpuId(2)), Some(&pair));
/// assert_eq!(domains.of(CpuId(0)), Some(&CpuSet::only(CpuId(0))));
/// assert!(domains.is_isolated(CpuId(1)) && !domains.is_isolated(CpuId(0)));
/// assert_eq!(RootDomains::default().of(CpuId(0)), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RootDomains {
    /// The root domain of each CPU; empty if there is one for all.
    of: Arc<[CpuSet]>,
    isolated: CpuSet,
}

impl RootDomains {
    /// Returns the root domains of a machine with this number of CPUs. Each of `partitions` is one;
    /// they do not overlap. The CPUs of `isolated` are one without balance, also those in a
    /// partition. The remaining CPUs are one.
    #[must_use]
    pub fn new(
        cpus: usize,
        partitions: impl IntoIterator<Item = CpuSet>,
        isolated: CpuSet,
    ) -> RootDomains {
        let partitions: Vec<_> =
            partitions.into_iter().map(|cpus| cpus.without(&isolated)).collect();
        if partitions.is_empty() && isolated.is_empty() {
            return RootDomains::default();
        }
        let own = partitions.iter().chain([&isolated]);
        let rest = own.fold(CpuSet::first(cpus), |rest, own| rest.without(own));
        let all: Vec<_> = partitions.into_iter().chain([isolated.clone(), rest]).collect();
        let of = |cpu: usize| {
            let found = all.iter().find(|set| set.contains(CpuId::at(cpu)));
            found.expect("the rest has every other CPU").clone()
        };
        RootDomains { of: (0..cpus).map(of).collect(), isolated }
    }

    /// Returns whether there is one root domain for all CPUs.
    #[inline]
    #[must_use]
    pub fn is_one(&self) -> bool {
        self.of.is_empty()
    }

    /// Returns the root domain of `cpu`; `None` if it has all CPUs.
    #[inline]
    #[must_use]
    pub fn of(&self, cpu: CpuId) -> Option<&CpuSet> {
        self.of.get(cpu.index())
    }

    /// Returns whether `cpu` has no load balance at all.
    #[inline]
    #[must_use]
    pub fn is_isolated(&self, cpu: CpuId) -> bool {
        self.isolated.contains(cpu)
    }
}
