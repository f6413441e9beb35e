//! The cores of a machine with core scheduling: a lock for each core, and a published word with its last decision for
//! readers without the lock. The work under the lock is in `beside`.

use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use runyard_engine::attr::Cookie;
use runyard_engine::core::Decision;
use runyard_engine::cpu::CpuId;
use runyard_engine::topology::Topology;

/// The published words of the cores.
#[derive(Debug)]
pub(crate) struct Cores {
    /// For each core, a [`Word`]: the cookie that the core runs, and whether a thread is forced idle. A hint.
    words: Box<[AtomicU64]>,
    /// The number of hardware threads of each core.
    threads: usize,
}

/// The last decision of each core, each behind the lock of its core.
#[derive(Debug)]
pub(crate) struct Decisions {
    cores: Box<[Mutex<Decision>]>,
    /// The number of hardware threads of each core.
    threads: usize,
}

/// The published state of a core, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) runs: Option<Option<Cookie>>,
    pub(crate) in_episode: bool,
}

impl Word {
    const RUNS: u64 = 1 << 32;
    const IN_EPISODE: u64 = 1 << 33;

    fn to_bits(self) -> u64 {
        let cookie = self.runs.flatten().map_or(0, Cookie::get);
        let runs = if self.runs.is_some() { Word::RUNS } else { 0 };
        let in_episode = if self.in_episode { Word::IN_EPISODE } else { 0 };
        u64::from(cookie) | runs | in_episode
    }

    fn from_bits(bits: u64) -> Word {
        let runs = (bits & Word::RUNS != 0).then(|| Cookie::new(bits as u32));
        Word { runs, in_episode: bits & Word::IN_EPISODE != 0 }
    }
}

impl Decisions {
    /// Returns the decisions of a machine whose cores have several hardware threads.
    pub(crate) fn new(topology: Topology) -> Option<Decisions> {
        let threads = topology.threads();
        let core = |_| Mutex::new(Decision::among(threads - 1));
        let cores = (0..topology.cpus() / threads).map(core).collect();
        (threads > 1).then_some(Decisions { cores, threads })
    }

    /// Reserves memory for tasks in groups nested up to `depth`. Up to that depth, a switch does not allocate.
    pub(crate) fn reserve(&self, depth: usize) {
        self.cores.iter().for_each(|core| lock(core).reserve(depth));
    }

    /// Returns the decision of the core of `cpu`.
    pub(crate) fn of(&self, cpu: CpuId) -> &Mutex<Decision> {
        &self.cores[cpu.index() / self.threads]
    }
}

impl Cores {
    /// Returns the cores of a machine whose cores have several hardware threads.
    pub(crate) fn new(topology: Topology) -> Option<Cores> {
        let threads = topology.threads();
        let idle = |_| AtomicU64::new(Word { runs: None, in_episode: false }.to_bits());
        let words = (0..topology.cpus() / threads).map(idle).collect();
        (threads > 1).then_some(Cores { words, threads })
    }

    /// Returns the threads of the core of `cpu`.
    pub(crate) fn threads_beside(&self, cpu: CpuId) -> impl Iterator<Item = CpuId> + use<> {
        std::iter::once(cpu).chain(self.siblings(cpu))
    }

    /// Publishes a decision to readers without the lock.
    pub(crate) fn publish(&self, cpu: CpuId, word: Word) {
        self.words[cpu.index() / self.threads].store(word.to_bits(), Ordering::Release);
    }

    pub(crate) fn word(&self, cpu: CpuId) -> Word {
        Word::from_bits(self.words[cpu.index() / self.threads].load(Ordering::Acquire))
    }

    /// Returns whether a thread of the core of `cpu` is forced idle, as a hint.
    pub(crate) fn is_in_episode(&self, cpu: CpuId) -> bool {
        self.word(cpu).in_episode
    }

    /// Returns the other threads of the core of `cpu`, the next one first.
    pub(crate) fn siblings(&self, cpu: CpuId) -> impl Iterator<Item = CpuId> + use<> {
        let (threads, first) = (self.threads, cpu.index() / self.threads * self.threads);
        (1..threads).map(move |nth| CpuId::at(first + (cpu.index() - first + nth) % threads))
    }
}
