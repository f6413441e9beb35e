//! The rank of each CPU: the importance of its activity, by which it is free for a task or not.
//!
//! A CPU that is idle or runs a task of a lower rank is *free* for a task. Where the threads of a core heed cookies, an idle
//! thread beside a busy one may take only some tasks; which ones is unknown here, so it is free for none.

use crate::account::Doing;
use runyard_engine::attr::Policy;
use runyard_engine::cpu::CpuId;

/// The importance of a CPU's activity, the least important first: a real-time priority, or one of the following.
pub(crate) type Rank = i8;
pub(crate) const NOTHING: Rank = -2;
const IDLE_POLICY: Rank = -1;
const FAIR: Rank = 0;
/// The rank of the scheduler's own work on an idle CPU, and of a CPU that is forced idle.
pub(crate) const CLOSED: Rank = 100;

/// The rank of a task of this policy.
#[inline]
pub(crate) fn rank(policy: Policy) -> Rank {
    match policy {
        Policy::Fifo(prio) | Policy::RoundRobin(prio) => prio.get().cast_signed(),
        Policy::Normal(_) | Policy::Batch(_) => FAIR,
        Policy::Idle => IDLE_POLICY,
    }
}

/// The ranks of all CPUs.
#[derive(Debug)]
pub(crate) struct CpuRanks {
    of: Vec<Rank>,
    /// The rank of each CPU by itself, whatever its core does.
    own: Vec<Rank>,
    /// The number of CPUs of a core whose threads decide together.
    threads: usize,
}

impl CpuRanks {
    /// So many idle CPUs, in cores of so many threads that decide together.
    pub(crate) fn new(cpus: usize, threads: usize) -> CpuRanks {
        CpuRanks { of: vec![NOTHING; cpus], own: vec![NOTHING; cpus], threads }
    }

    /// The rank of each CPU.
    pub(crate) fn all(&self) -> &[Rank] {
        &self.of
    }

    /// Notes the activity of a CPU. `changed` receives each CPU whose rank changes, with the old and the new rank.
    #[inline]
    pub(crate) fn turn(
        &mut self,
        cpu: CpuId,
        doing: Doing,
        changed: impl FnMut(CpuId, Rank, Rank),
    ) {
        let Some(&old) = self.own.get(cpu.index()) else { return };
        let new = match doing {
            Doing::Idle => NOTHING,
            Doing::Exec { policy, .. } => rank(policy),
            Doing::Forced { .. } => CLOSED,
            Doing::Overhead if old == NOTHING => CLOSED,
            Doing::Overhead => old,
        };
        if new != old {
            self.own[cpu.index()] = new;
            self.change(cpu, changed);
        }
    }

    #[inline]
    fn change(&mut self, cpu: CpuId, mut changed: impl FnMut(CpuId, Rank, Rank)) {
        if self.threads == 1 {
            let own = self.own[cpu.index()];
            changed(cpu, std::mem::replace(&mut self.of[cpu.index()], own), own);
            return;
        }
        let first = cpu.index() / self.threads * self.threads;
        let core = first..(first + self.threads).min(self.own.len());
        let is_apart = core.len() > 1 && core.clone().any(|cpu| self.own[cpu] != NOTHING);
        for cpu in core {
            let new = match self.own[cpu] {
                NOTHING if is_apart => CLOSED,
                own => own,
            };
            let old = std::mem::replace(&mut self.of[cpu], new);
            if old != new {
                changed(CpuId::at(cpu), old, new);
            }
        }
    }
}
