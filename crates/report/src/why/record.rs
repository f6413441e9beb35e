//! The recent activity of the CPUs, as far as it explains waits.
//!
//! Each CPU has a *lane* with its activity. All CPUs together have one list of the ranks of their tasks: a CPU that is
//! idle or runs a task of lower rank is *free* for a task. Such changes are few where a task waits for long. All lists
//! are bounded; older entries are forgotten.

use super::ring::Ring;
use crate::account::Doing;
use runyard_engine::attr::{GroupId, Policy};
use runyard_engine::cpu::CpuId;
use runyard_engine::task::TaskId;
use runyard_engine::time::Time;

/// The number of entries in a CPU's lane: some hundreds of switches.
const LANE: usize = 2_048;
/// The largest number of entries of all lanes together, unless a lane would be shorter than [`SHORTEST_LANE`]: 2 MiB.
/// They fit into a cache beside the other data of a machine of some hundred CPUs.
const ALL_LANES: usize = 1 << 17;
const SHORTEST_LANE: usize = 64;
/// The number of changes of rank that are kept: 256 KiB.
const CHANGES: usize = 1 << 14;
/// The number of a CPU's throttlings that are kept.
const THROTTLINGS: usize = 512;

/// The importance of a CPU's activity, the least important first: a real-time priority, or one of the following.
pub(crate) type Rank = i8;
const NOTHING: Rank = -2;
const IDLE_POLICY: Rank = -1;
const FAIR: Rank = 0;
/// The rank of the scheduler's own work on an idle CPU, and of a CPU that is forced idle.
const CLOSED: Rank = 100;
const RANKS: usize = 103;

/// The rank of a task of this policy.
pub(crate) fn rank(policy: Policy) -> Rank {
    match policy {
        Policy::Fifo(prio) | Policy::RoundRobin(prio) => prio.get().cast_signed(),
        Policy::Normal(_) | Policy::Batch(_) => FAIR,
        Policy::Idle => IDLE_POLICY,
    }
}

/// A task, in a compact form.
pub(crate) type Who = u32;

pub(crate) fn who(task: TaskId) -> Who {
    u32::try_from(task.0).unwrap_or(Who::MAX)
}

/// The activity of a CPU from an instant on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Did {
    Nothing,
    Forced,
    Overhead,
    Exec {
        task: Who,
        rank: Rank,
    },
    /// The same activity: the task waits there although it comes before the executing task.
    PassedOver {
        task: Who,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) at: Time,
    pub(crate) did: Did,
}

/// The beginning or the end of a task group's throttling.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Throttling {
    pub(crate) at: Time,
    pub(crate) group: GroupId,
    pub(crate) begins: bool,
}

/// A change of a CPU's rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) at: Time,
    pub(crate) cpu: CpuId,
    pub(crate) old: Rank,
    pub(crate) new: Rank,
}

/// The recent activity of one CPU.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) entries: Ring<Entry>,
    pub(crate) throttlings: Ring<Throttling>,
    /// The groups that are throttled there now.
    pub(crate) throttled: Vec<GroupId>,
}

/// The ranks of all CPUs, and their recent changes.
#[derive(Debug)]
pub(crate) struct Ranks {
    pub(crate) of: Vec<Rank>,
    pub(crate) changes: Ring<Change>,
    /// The number of CPUs of each rank, from [`NOTHING`] on.
    counts: [u32; RANKS],
    /// The rank of each CPU by itself, whatever its core does.
    own: Vec<Rank>,
    /// The number of CPUs of a core whose threads decide together.
    threads: usize,
}

/// The recent activity of all CPUs.
#[derive(Debug)]
pub(crate) struct Record {
    lane: usize,
    lanes: Vec<Lane>,
    /// The ranks, if causes are wanted.
    pub(crate) ranks: Option<Ranks>,
}

impl Record {
    pub(crate) fn new() -> Record {
        Record { lane: LANE, lanes: Vec::new(), ranks: None }
    }

    /// A record of so many CPUs, in cores of so many threads that decide together.
    pub(crate) fn with_ranks(cpus: usize, threads: usize) -> Record {
        let lane = (ALL_LANES / cpus.max(1)).clamp(SHORTEST_LANE, LANE);
        let mut counts = [0; RANKS];
        counts[place(NOTHING)] = cpus as u32;
        let ranks = Ranks {
            of: vec![NOTHING; cpus],
            changes: Ring::new(CHANGES),
            counts,
            own: vec![NOTHING; cpus],
            threads,
        };
        Record { lane, lanes: Vec::new(), ranks: Some(ranks) }
    }

    #[inline]
    pub(crate) fn turn(&mut self, cpu: CpuId, doing: Doing, at: Time) {
        let did = match doing {
            Doing::Idle => Did::Nothing,
            Doing::Forced { .. } => Did::Forced,
            Doing::Overhead => Did::Overhead,
            Doing::Exec { task, policy } => Did::Exec { task: who(task), rank: rank(policy) },
        };
        self.lane_mut(cpu).entries.push(Entry { at, did });
        if let Some(ranks) = &mut self.ranks {
            ranks.turn(cpu, did, at);
        }
    }

    pub(crate) fn passed_over(&mut self, cpu: CpuId, task: TaskId, at: Time) {
        let did = Did::PassedOver { task: who(task) };
        self.lane_mut(cpu).entries.push(Entry { at, did });
    }

    pub(crate) fn throttle(&mut self, cpu: CpuId, group: GroupId, (begins, at): (bool, Time)) {
        let lane = self.lane_mut(cpu);
        lane.throttlings.push(Throttling { at, group, begins });
        lane.throttled.retain(|&it| it != group);
        if begins {
            lane.throttled.push(group);
        }
    }

    pub(crate) fn lane(&self, cpu: CpuId) -> Option<&Lane> {
        self.lanes.get(cpu.index())
    }

    #[inline]
    fn lane_mut(&mut self, cpu: CpuId) -> &mut Lane {
        if cpu.index() >= self.lanes.len() {
            let most = self.lane;
            self.lanes.resize_with(cpu.index() + 1, || Lane::new(most));
        }
        &mut self.lanes[cpu.index()]
    }
}

impl Lane {
    fn new(most: usize) -> Lane {
        let throttlings = Ring::new(THROTTLINGS);
        Lane { entries: Ring::new(most), throttlings, throttled: Vec::new() }
    }
}

impl Ranks {
    /// The number of CPUs that are free for a task of this rank.
    pub(crate) fn free_for(&self, rank: Rank) -> u32 {
        self.counts[..place(rank)].iter().sum()
    }

    #[inline]
    fn turn(&mut self, cpu: CpuId, did: Did, at: Time) {
        let Some(&old) = self.own.get(cpu.index()) else { return };
        let new = match did {
            Did::Nothing => NOTHING,
            Did::Exec { rank, .. } => rank,
            Did::Forced => CLOSED,
            Did::Overhead if old == NOTHING => CLOSED,
            Did::Overhead | Did::PassedOver { .. } => old,
        };
        if new != old {
            self.own[cpu.index()] = new;
            self.change(cpu, at);
        }
    }

    #[inline(never)]
    fn change(&mut self, cpu: CpuId, at: Time) {
        let first = cpu.index() / self.threads * self.threads;
        let core = first..(first + self.threads).min(self.own.len());
        // An idle thread beside a busy one may take only some tasks; which ones is unknown here.
        let is_apart = core.len() > 1 && core.clone().any(|cpu| self.own[cpu] != NOTHING);
        for cpu in core {
            let new = match self.own[cpu] {
                NOTHING if is_apart => CLOSED,
                own => own,
            };
            let old = std::mem::replace(&mut self.of[cpu], new);
            if old != new {
                self.counts[place(old)] -= 1;
                self.counts[place(new)] += 1;
                self.changes.push(Change { at, cpu: CpuId::at(cpu), old, new });
            }
        }
    }
}

/// The index of a rank's count.
fn place(rank: Rank) -> usize {
    usize::from((rank - NOTHING).cast_unsigned())
}
