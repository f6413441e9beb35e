//! The CPUs by the importance of their running tasks: the kernel's `cpupri`.
//!
//! Each importance has a mask of CPUs and their count. The search for the least important CPU scans importances, not
//! CPUs. A CPU that changes its importance enters the new mask before it leaves the old one. A concurrent search may
//! then find the CPU twice but cannot miss it.

use crate::mask::Mask;
use crate::sync::{AtomicU8, AtomicU32, Ordering};
use runyard_engine::attr::RtPrio;
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::run_queue::Importance;

/// The number of importances: one without real-time tasks, then the priorities 1..=99. A model checker explores every
/// access, so its machines have three priorities only.
const IMPORTANCES: usize = if cfg!(loom) { 4 } else { 100 };

/// The value of [`CpuPri::published`] for a CPU that is in no mask.
const CLOSED: u8 = u8::MAX;

/// The bit of [`CpuPri::published`] that says that the running real-time task cannot leave.
const PINNED: u8 = 0x80;

/// The CPUs with one importance.
#[derive(Debug)]
struct Cpus {
    count: AtomicU32,
    mask: Mask,
}

/// The importances of all CPUs. The part of a CPU is written with its run-queue lock held and read without the lock.
#[derive(Debug)]
pub(crate) struct CpuPri {
    by_importance: Box<[Cpus]>,
    /// For each CPU, [`Published`] in one byte.
    published: Box<[AtomicU8]>,
}

/// The state that a CPU published last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Published {
    pub(crate) importance: Importance,
    /// The running real-time task is allowed on this CPU only.
    pub(crate) pinned: bool,
}

impl CpuPri {
    /// Returns the initial state, in which every CPU is closed.
    pub(crate) fn new(cpus: usize) -> CpuPri {
        let none = |_| Cpus { count: AtomicU32::new(0), mask: Mask::new(cpus) };
        CpuPri {
            by_importance: (0..IMPORTANCES).map(none).collect(),
            published: (0..cpus).map(|_| AtomicU8::new(CLOSED)).collect(),
        }
    }

    /// Moves `cpu` from the importance that it published last to that of `new`.
    #[inline(always)]
    pub(crate) fn set(&self, cpu: CpuId, old: Importance, new: Published) {
        if let Some(at) = place(new.importance)
            && old != new.importance
        {
            self.by_importance[at].mask.set(cpu, true);
            self.by_importance[at].count.fetch_add(1, Ordering::Release);
        }
        let pinned = if new.pinned { PINNED } else { 0 };
        let byte = place(new.importance).map_or(CLOSED, |at| at as u8 | pinned);
        self.published[cpu.index()].store(byte, Ordering::Release);
        if let Some(at) = place(old)
            && old != new.importance
        {
            self.by_importance[at].count.fetch_sub(1, Ordering::Release);
            self.by_importance[at].mask.set(cpu, false);
        }
    }

    /// Returns the state that `cpu` published last.
    pub(crate) fn of(&self, cpu: CpuId) -> Published {
        let byte = self.published[cpu.index()].load(Ordering::Acquire);
        let importance = match byte & !PINNED {
            _ if byte == CLOSED => Importance::Closed,
            at => importance(at.into()),
        };
        Published { importance, pinned: byte != CLOSED && byte & PINNED != 0 }
    }

    /// Returns the lowest importance of any CPU.
    pub(crate) fn lowest(&self) -> Importance {
        let at = (0..IMPORTANCES).find(|&at| self.has_cpus(at));
        at.map_or(Importance::Closed, importance)
    }

    /// Returns, for each importance below `prio`, the CPUs of `affinity` with that importance. The least important come
    /// first, and empty sets are left out.
    pub(crate) fn below<'a>(
        &'a self,
        prio: RtPrio,
        affinity: &'a CpuSet,
    ) -> impl Iterator<Item = &'a Mask> {
        let below = (0..usize::from(prio.get())).filter(|&at| self.has_cpus(at));
        below
            .map(|at| &self.by_importance[at].mask)
            .filter(|cpus| (0..affinity.words()).any(|at| affinity.word(at) & cpus.word(at) != 0))
    }

    fn has_cpus(&self, at: usize) -> bool {
        self.by_importance[at].count.load(Ordering::Acquire) > 0
    }
}

fn place(importance: Importance) -> Option<usize> {
    match importance {
        Importance::Normal => Some(0),
        Importance::Rt(prio) => Some(prio.get().into()),
        Importance::Closed => None,
    }
}

fn importance(place: usize) -> Importance {
    RtPrio::new(place as i64).map_or(Importance::Normal, Importance::Rt)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn rt(prio: i64) -> Importance {
        Importance::Rt(RtPrio::new(prio).unwrap())
    }

    fn movable(importance: Importance) -> Published {
        Published { importance, pinned: false }
    }

    #[test]
    fn the_search_finds_the_least_important_cpus_within_the_affinity() {
        let cpupri = CpuPri::new(3);
        assert_eq!(cpupri.lowest(), Importance::Closed);
        for (cpu, prio) in [(0, 50), (1, 10), (2, 90)] {
            cpupri.set(CpuId(cpu), Importance::Closed, movable(rt(prio)));
        }
        let find = |prio, cpus: &[u16]| {
            let cpus = cpus.iter().copied().map(CpuId).collect();
            let mask = cpupri.below(RtPrio::new(prio).unwrap(), &cpus).next()?;
            mask.ring(&cpus, 0..3, CpuId(0)).next()
        };
        assert_eq!(cpupri.lowest(), rt(10));
        assert_eq!(find(60, &[0, 1, 2]), Some(CpuId(1)));
        assert_eq!(find(60, &[0, 2]), Some(CpuId(0)));
        assert_eq!(find(50, &[0, 2]), None, "equals do not give way");
        cpupri.set(CpuId(2), rt(90), movable(Importance::Normal));
        assert_eq!((cpupri.lowest(), find(1, &[0, 2])), (Importance::Normal, Some(CpuId(2))));
    }

    #[test]
    fn a_cpu_publishes_whether_its_task_is_pinned() {
        let cpupri = CpuPri::new(1);
        assert_eq!(cpupri.of(CpuId(0)), movable(Importance::Closed));
        let pinned = Published { importance: rt(99), pinned: true };
        cpupri.set(CpuId(0), Importance::Closed, pinned);
        assert_eq!(cpupri.of(CpuId(0)), pinned);
    }
}
