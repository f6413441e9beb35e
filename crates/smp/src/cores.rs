//! The cores of a machine whose threads decide together: a lock for each, and what it decided, for who has not the lock. What
//! is done under it is in `beside`.

use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use runyard_engine::attr::Cookie;
use runyard_engine::core::Decision;
use runyard_engine::cpu::CpuId;
use runyard_engine::topology::Topology;

/// The cores of a machine.
#[derive(Debug)]
pub(crate) struct Cores {
    cores: Box<[OneCore]>,
    /// How many hardware threads each has.
    threads: usize,
}

#[derive(Debug)]
pub(crate) struct OneCore {
    pub(crate) decision: Mutex<Decision>,
    /// What it runs and whether a thread is forced idle, for who has no lock of it: [`Word`]. A hint.
    word: AtomicU64,
}

/// What a core runs, in a word.
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

impl OneCore {
    /// Tells those who have not the lock what was decided.
    pub(crate) fn publish(&self, word: Word) {
        self.word.store(word.to_bits(), Ordering::Release);
    }
}

impl Cores {
    /// Those of a machine whose cores have several hardware threads.
    pub(crate) fn new(topology: Topology) -> Option<Cores> {
        let threads = topology.threads();
        let core = |_| OneCore {
            decision: Mutex::new(Decision::among(threads - 1)),
            word: AtomicU64::new(Word { runs: None, in_episode: false }.to_bits()),
        };
        let cores = (0..topology.cpus() / threads).map(core).collect();
        (threads > 1).then_some(Cores { cores, threads })
    }

    /// Makes room for tasks in groups that are nested so deep: up to that, a switch allocates nothing.
    pub(crate) fn reserve(&self, depth: usize) {
        self.cores.iter().for_each(|core| lock(&core.decision).reserve(depth));
    }

    /// The threads of the core of `cpu`.
    pub(crate) fn threads_beside(&self, cpu: CpuId) -> impl Iterator<Item = CpuId> + use<> {
        std::iter::once(cpu).chain(self.siblings(cpu))
    }

    pub(crate) fn of(&self, cpu: CpuId) -> &OneCore {
        &self.cores[cpu.index() / self.threads]
    }

    pub(crate) fn word(&self, cpu: CpuId) -> Word {
        Word::from_bits(self.of(cpu).word.load(Ordering::Acquire))
    }

    /// Whether a thread of the core of `cpu` is forced idle, as far as is known without its lock.
    pub(crate) fn is_in_episode(&self, cpu: CpuId) -> bool {
        self.word(cpu).in_episode
    }

    /// The other threads of the core of `cpu`, the next one first.
    pub(crate) fn siblings(&self, cpu: CpuId) -> impl Iterator<Item = CpuId> + use<> {
        let (threads, first) = (self.threads, cpu.index() / self.threads * self.threads);
        (1..threads).map(move |nth| CpuId::at(first + (cpu.index() - first + nth) % threads))
    }
}
