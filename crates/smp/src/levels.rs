//! Which CPUs run how important things: the kernel's `cpupri`.
//!
//! For each level of importance a mask of CPUs and their count. The search for the least important
//! CPU scans levels, not CPUs. A CPU that changes level enters the new one before it leaves the
//! old one, so that a search that runs meanwhile may find it twice but not miss it.

use crate::mask::Mask;
use crate::sync::{AtomicU8, AtomicU32, Ordering};
use runyard_engine::attr::RtPrio;
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::run_queue::Importance;

/// Nothing real-time, then the priorities 1..=99. A model checker explores every access, so its
/// machines know three priorities only.
const LEVELS: usize = if cfg!(loom) { 4 } else { 100 };

/// In [`Levels::of`]: the CPU is in no level.
const CLOSED: u8 = u8::MAX;

/// In [`Levels::of`]: the running real-time task cannot leave.
const PINNED: u8 = 0x80;

#[derive(Debug)]
struct Level {
    count: AtomicU32,
    cpus: Mask,
}

/// The levels of all CPUs. A CPU's part is written with its run-queue lock held, read without.
#[derive(Debug)]
pub(crate) struct Levels {
    levels: Box<[Level]>,
    of: Box<[AtomicU8]>,
}

/// What one CPU last said of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) level: Importance,
    /// The running real-time task is allowed on this CPU only.
    pub(crate) pinned: bool,
}

impl Levels {
    /// Every CPU in no level.
    pub(crate) fn new(cpus: usize) -> Levels {
        let level = |_| Level { count: AtomicU32::new(0), cpus: Mask::new(cpus) };
        Levels {
            levels: (0..LEVELS).map(level).collect(),
            of: (0..cpus).map(|_| AtomicU8::new(CLOSED)).collect(),
        }
    }

    /// Moves `cpu` from the level that it said last to that of `new`.
    pub(crate) fn set(&self, cpu: CpuId, old: Importance, new: Said) {
        if let Some(level) = place(new.level)
            && old != new.level
        {
            self.levels[level].cpus.set(cpu, true);
            self.levels[level].count.fetch_add(1, Ordering::Release);
        }
        let pinned = if new.pinned { PINNED } else { 0 };
        let said = place(new.level).map_or(CLOSED, |level| level as u8 | pinned);
        self.of[cpu.index()].store(said, Ordering::Release);
        if let Some(level) = place(old)
            && old != new.level
        {
            self.levels[level].count.fetch_sub(1, Ordering::Release);
            self.levels[level].cpus.set(cpu, false);
        }
    }

    /// What `cpu` last said of itself.
    pub(crate) fn of(&self, cpu: CpuId) -> Said {
        let said = self.of[cpu.index()].load(Ordering::Acquire);
        let level = match said & !PINNED {
            _ if said == CLOSED => Importance::Closed,
            level => RtPrio::new(level.into()).map_or(Importance::Normal, Importance::Rt),
        };
        Said { level, pinned: said != CLOSED && said & PINNED != 0 }
    }

    /// The least important level that has a CPU.
    pub(crate) fn lowest(&self) -> Importance {
        let level = (0..LEVELS).find(|&level| self.has_cpus(level));
        level.map_or(Importance::Closed, importance)
    }

    /// The CPUs of each level below `prio` at which `affinity` has any, least important first.
    pub(crate) fn below<'a>(
        &'a self,
        prio: RtPrio,
        affinity: &'a CpuSet,
    ) -> impl Iterator<Item = &'a Mask> {
        let levels = (0..usize::from(prio.get())).filter(|&level| self.has_cpus(level));
        levels
            .map(|level| &self.levels[level].cpus)
            .filter(|cpus| (0..affinity.words()).any(|at| affinity.word(at) & cpus.word(at) != 0))
    }

    fn has_cpus(&self, level: usize) -> bool {
        self.levels[level].count.load(Ordering::Acquire) > 0
    }
}

fn place(level: Importance) -> Option<usize> {
    match level {
        Importance::Normal => Some(0),
        Importance::Rt(prio) => Some(prio.get().into()),
        Importance::Closed => None,
    }
}

fn importance(level: usize) -> Importance {
    RtPrio::new(level as i64).map_or(Importance::Normal, Importance::Rt)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn rt(prio: i64) -> Importance {
        Importance::Rt(RtPrio::new(prio).unwrap())
    }

    fn said(level: Importance) -> Said {
        Said { level, pinned: false }
    }

    #[test]
    fn the_search_finds_the_least_important_level_within_the_affinity() {
        let levels = Levels::new(3);
        assert_eq!(levels.lowest(), Importance::Closed);
        for (cpu, prio) in [(0, 50), (1, 10), (2, 90)] {
            levels.set(CpuId(cpu), Importance::Closed, said(rt(prio)));
        }
        let find = |prio, cpus: &[u16]| {
            let cpus = cpus.iter().copied().map(CpuId).collect();
            let mask = levels.below(RtPrio::new(prio).unwrap(), &cpus).next()?;
            mask.ring(&cpus, 0..3, CpuId(0)).next()
        };
        assert_eq!(levels.lowest(), rt(10));
        assert_eq!(find(60, &[0, 1, 2]), Some(CpuId(1)));
        assert_eq!(find(60, &[0, 2]), Some(CpuId(0)));
        assert_eq!(find(50, &[0, 2]), None, "equals do not give way");
        levels.set(CpuId(2), rt(90), said(Importance::Normal));
        assert_eq!((levels.lowest(), find(1, &[0, 2])), (Importance::Normal, Some(CpuId(2))));
    }

    #[test]
    fn a_cpu_says_whether_its_task_is_pinned() {
        let levels = Levels::new(1);
        assert_eq!(levels.of(CpuId(0)), said(Importance::Closed));
        let pinned = Said { level: rt(99), pinned: true };
        levels.set(CpuId(0), Importance::Closed, pinned);
        assert_eq!(levels.of(CpuId(0)), pinned);
    }
}
