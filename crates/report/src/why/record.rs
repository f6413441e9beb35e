//! The recent activity of the CPUs, as far as it explains waits.
//!
//! Each CPU has a *lane* with its activity. All CPUs together have one list of the ranks of their tasks: a CPU that is
//! idle or runs a task of lower rank is *free* for a task. Such changes are few where a task waits for long. All lists
//! are bounded; older entries are forgotten.

use super::ring::Ring;
use crate::account::Doing;
use crate::ranks::{CLOSED, CpuRanks, NOTHING, Rank, rank};
use runyard_engine::attr::GroupId;
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

/// The number of ranks, from [`NOTHING`] on.
const RANKS: usize = (CLOSED - NOTHING) as usize + 1;

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
        /// A switch is due.
        due: bool,
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
    /// What it does now, and the task that it executed last.
    did: Did,
    last: Who,
    /// A switch of the CPU is due, although it goes on with that task.
    due: bool,
    pub(crate) throttlings: Ring<Throttling>,
    /// The groups that are throttled there now.
    pub(crate) throttled: Vec<GroupId>,
}

/// The ranks of all CPUs, and their recent changes.
#[derive(Debug)]
pub(crate) struct Ranks {
    cpus: CpuRanks,
    pub(crate) changes: Ring<Change>,
    /// The number of CPUs of each rank, from [`NOTHING`] on.
    counts: [u32; RANKS],
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
        let ranks =
            Ranks { cpus: CpuRanks::new(cpus, threads), changes: Ring::new(CHANGES), counts };
        Record { lane, lanes: Vec::new(), ranks: Some(ranks) }
    }

    #[inline]
    pub(crate) fn turn(&mut self, cpu: CpuId, doing: Doing, at: Time) {
        let lane = self.lane_mut(cpu);
        let did = match doing {
            Doing::Idle | Doing::Forced { .. } => {
                (lane.last, lane.due) = (Who::MAX, false);
                if doing == Doing::Idle { Did::Nothing } else { Did::Forced }
            }
            Doing::Overhead => Did::Overhead,
            Doing::Exec { task, policy } => {
                let task = who(task);
                lane.due &= std::mem::replace(&mut lane.last, task) == task;
                Did::Exec { task, rank: rank(policy), due: lane.due }
            }
        };
        lane.did = did;
        lane.entries.push(Entry { at, did });
        if let Some(Ranks { cpus, changes, counts }) = &mut self.ranks {
            cpus.turn(cpu, doing, |cpu, old, new| {
                counts[place(old)] -= 1;
                counts[place(new)] += 1;
                changes.push(Change { at, cpu, old, new });
            });
        }
    }

    /// Notes that a switch of a CPU is due, although it goes on with its task.
    pub(crate) fn switch_due(&mut self, cpu: CpuId, at: Time) {
        let lane = self.lane_mut(cpu);
        lane.due = true;
        if let Did::Exec { task, rank, .. } = lane.did {
            lane.did = Did::Exec { task, rank, due: true };
            lane.entries.push(Entry { at, did: lane.did });
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
        Lane {
            entries: Ring::new(most),
            did: Did::Nothing,
            last: Who::MAX,
            due: false,
            throttlings,
            throttled: Vec::new(),
        }
    }
}

impl Ranks {
    /// The number of CPUs that are free for a task of this rank.
    pub(crate) fn free_for(&self, rank: Rank) -> u32 {
        self.counts[..place(rank)].iter().sum()
    }

    /// The rank of each CPU now.
    pub(crate) fn all(&self) -> &[Rank] {
        self.cpus.all()
    }
}

/// The index of a rank's count.
fn place(rank: Rank) -> usize {
    usize::from((rank - NOTHING).cast_unsigned())
}
