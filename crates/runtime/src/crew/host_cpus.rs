//! The CPUs of the machine that the process may use, and the threads that are bound to them.

use super::homes::Homes;
use crate::os;
use crate::os::thread::{Places, Tid};
use runyard_engine::cpu::{CpuId, CpuSet, MAX_CPUS};
use runyard_engine::topology::Topology;

/// The most CPUs that a message names.
const SHOWN: usize = 16;

/// Returns the numbers of CPUs that a caller names. An endless list of them ends.
pub(crate) fn numbers(cpus: impl IntoIterator<Item = usize>) -> Vec<usize> {
    cpus.into_iter().take(MAX_CPUS).collect()
}

/// Returns the message for a caller that asks for CPUs of which a runtime with this many CPUs has none.
pub(crate) fn none_of(cpus: usize, asked: &[usize]) -> String {
    let (shown, more) = asked.split_at(asked.len().min(SHOWN));
    let more = if more.is_empty() { "" } else { " and more" };
    format!("the runtime has {cpus} CPUs, numbered from 0, and none of the CPUs {shown:?}{more}")
}

/// The CPUs of the machine that the process may use.
#[derive(Debug)]
pub(crate) struct HostCpus {
    /// Their numbers: first those of the slots, in order.
    numbers: Vec<usize>,
    /// The CPUs of the runtime. Each CPU has its own copy of the set, because the set is reference counted.
    all: Box<[CpuSet]>,
    /// All of them, as a set for binding.
    everywhere: Places,
    homes: Homes,
    /// Whether each worker is bound to the CPU of its slot.
    pins: bool,
}

impl HostCpus {
    /// The CPUs with these numbers, for the slots of a topology. Workers sleep bound if `homes_are_kept`.
    pub(crate) fn new(
        numbers: Vec<usize>,
        topology: Topology,
        pins: bool,
        homes_are_kept: bool,
    ) -> HostCpus {
        HostCpus {
            everywhere: Places::new(&numbers),
            homes: Homes::new(topology.cpus(), homes_are_kept),
            numbers,
            all: topology.iter().map(|_| topology.iter().collect()).collect(),
            pins,
        }
    }

    /// Returns all of them, as a set for binding.
    pub(crate) fn everywhere(&self) -> &Places {
        &self.everywhere
    }

    pub(crate) fn homes(&self) -> &Homes {
        &self.homes
    }

    /// Returns the CPUs of the runtime, of which each CPU has its own copy: the `nth`, modulo their number.
    pub(crate) fn all(&self, nth: usize) -> &CpuSet {
        &self.all[nth % self.all.len()]
    }

    /// Returns those of the CPUs `wanted` that the runtime has, or `None` if it has none of them.
    pub(crate) fn among(&self, wanted: &[usize]) -> Option<CpuSet> {
        let has = |&&cpu: &&usize| cpu < self.all.len();
        let here: CpuSet = wanted.iter().filter(has).map(|&cpu| CpuId::at(cpu)).collect();
        (!here.is_empty()).then_some(here)
    }

    /// Returns whether each worker is bound to the CPU behind its slot.
    pub(crate) fn pins(&self) -> bool {
        self.pins
    }

    /// Binds a worker's thread to the CPU behind a slot, if workers are bound. A refusal costs precision, but not
    /// correctness.
    pub(crate) fn pin(&self, thread: Tid, cpu: CpuId) {
        if self.pins {
            os::thread::bind(thread, [self.numbers[cpu.index()]]);
        }
    }

    /// Binds a worker's thread to the CPUs behind `cpus`, or to all of the process. A pinned thread is not changed.
    pub(crate) fn bind(&self, thread: Tid, cpus: Option<&CpuSet>) {
        let behind = |cpu: CpuId| self.numbers[cpu.index()];
        match cpus {
            _ if self.pins => false,
            Some(cpus) => os::thread::bind(thread, cpus.iter().map(behind)),
            None => os::thread::bind(thread, self.numbers.iter().copied()),
        };
    }

    /// Returns the CPU on which the sleeping owner of a slot should wake: where it slept, or where no owner is. Returns
    /// `None` if there is no such CPU.
    pub(crate) fn home_of(&self, slot: CpuId, slept_on: u32) -> Option<u32> {
        let all = self.numbers.iter().map(|&cpu| cpu as u32);
        std::iter::once(slept_on).chain(all).find(|&cpu| !self.homes.has_others(slot, cpu))
    }
}
