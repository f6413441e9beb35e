//! What the CPUs did lately, as far as that says why a task waited.
//!
//! Each CPU has a *lane* of what it did when, and all together have one list of how important what they run is: a CPU that
//! runs something less important than a task, or nothing, is *free* for it. Such changes are few where somebody waits for
//! long. All of it is bounded; what is older is forgotten.

use super::ring::Ring;
use crate::account::Doing;
use runyard_engine::attr::{GroupId, Policy};
use runyard_engine::cpu::CpuId;
use runyard_engine::task::TaskId;
use runyard_engine::time::Time;

/// How much of what one CPU did is kept: some hundreds of switches.
const LANE: usize = 2_048;
/// How much that is on all CPUs together at most, unless a lane would be shorter than [`SHORTEST_LANE`]: 2 MiB,
/// which is in a cache beside what a machine of some hundred CPUs needs there.
const ALL_LANES: usize = 1 << 17;
const SHORTEST_LANE: usize = 64;
/// How many changes of importance are kept: 256 KiB.
const CHANGES: usize = 1 << 14;
/// How many of a CPU's throttlings are kept.
const THROTTLINGS: usize = 512;

/// How important what a CPU runs is, of little importance first: a real-time priority, or one of the following.
pub(crate) type Rank = i8;
const NOTHING: Rank = -2;
const IDLE_POLICY: Rank = -1;
const FAIR: Rank = 0;
/// Of the scheduler's own work on a CPU that was idle, and of a CPU that is forced to be idle.
const CLOSED: Rank = 100;
const RANKS: usize = 103;

/// How important a task of this policy is.
pub(crate) fn rank(policy: Policy) -> Rank {
    match policy {
        Policy::Fifo(prio) | Policy::RoundRobin(prio) => prio.get().cast_signed(),
        Policy::Normal(_) | Policy::Batch(_) => FAIR,
        Policy::Idle => IDLE_POLICY,
    }
}

/// A task, in little space.
pub(crate) type Who = u32;

pub(crate) fn who(task: TaskId) -> Who {
    u32::try_from(task.0).unwrap_or(Who::MAX)
}

/// What a CPU does from a moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Did {
    Nothing,
    Forced,
    Overhead,
    Exec {
        task: Who,
        rank: Rank,
    },
    /// Nothing else than before: the task waits there though it comes before the one that executes.
    PassedOver {
        task: Who,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) at: Time,
    pub(crate) did: Did,
}

/// A task group is throttled from a moment on, or is not any more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Throttling {
    pub(crate) at: Time,
    pub(crate) group: GroupId,
    pub(crate) begins: bool,
}

/// A CPU runs something of another rank from a moment on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) at: Time,
    pub(crate) cpu: CpuId,
    pub(crate) old: Rank,
    pub(crate) new: Rank,
}

/// What one CPU did lately.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) entries: Ring<Entry>,
    pub(crate) throttlings: Ring<Throttling>,
    /// What is throttled there now.
    pub(crate) throttled: Vec<GroupId>,
}

/// How important what each CPU runs is, and how that changed lately.
#[derive(Debug)]
pub(crate) struct Ranks {
    pub(crate) of: Vec<Rank>,
    pub(crate) changes: Ring<Change>,
    /// How many CPUs have each rank, from [`NOTHING`] on.
    counts: [u32; RANKS],
    /// What each CPU runs, whatever its core does.
    own: Vec<Rank>,
    /// How many CPUs are a core whose threads decide together.
    threads: usize,
}

/// What all CPUs did lately.
#[derive(Debug)]
pub(crate) struct Record {
    lane: usize,
    lanes: Vec<Lane>,
    /// Kept if it is to be said why tasks wait.
    pub(crate) ranks: Option<Ranks>,
}

impl Record {
    pub(crate) fn new() -> Record {
        Record { lane: LANE, lanes: Vec::new(), ranks: None }
    }

    /// One of so many CPUs, of which each so many are a core whose threads decide together.
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
    /// How many CPUs are free for a task of this rank.
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
        // An idle thread beside a busy one may take some tasks only: it is not told which.
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

/// Where the CPUs of a rank are counted.
fn place(rank: Rank) -> usize {
    usize::from((rank - NOTHING).cast_unsigned())
}
