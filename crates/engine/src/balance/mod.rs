//! Balancing of fair tasks as choices over snapshots: which CPU group is the busiest, how much is
//! to be pulled from it, and from which of its CPUs. Who takes the snapshots, and does it, is the
//! machine.
//!
//! A *domain* is the CPUs that balance at a [`Level`]: it consists of *CPU groups*, which are the
//! domains below. A CPU pulls to itself, on behalf of its own (local) CPU group. There is one path
//! (`find_busiest_group`, `find_busiest_queue`): survey the CPU groups, choose the busiest, compute an imbalance, choose a
//! queue. A [`Measure`] says which tasks count in the load and the power of a CPU group:
//!
//! - `NO_IDLE_LOAD_BALANCE`: one measure of all tasks. By the rules of Linux 2.6.35 loads decide always
//!   (`fix_small_imbalance`). With weights that nobody can serve, the heaviest task's neighbours end idle: the founding
//!   document's failure. By those of 5.5 and later, `BALANCE_BY_ROOM`, loads count only where there is no room (`room.rs`).
//! - `IDLE_LOAD_BALANCE`: two measures. Normal tasks, to which a CPU with nothing but SCHED_IDLE
//!   tasks is free; and SCHED_IDLE tasks, whose load is their number by the power that normal tasks
//!   leave (the founding document's metric, which is the same formula). In each, loads are compared
//!   only where neither side has room; a CPU group with room takes who waits, whatever weighs what
//!   (the rework of Linux 5.5).
//!
//! Integers only. Loads are sums of weights, powers of [`FULL_POWER`] a CPU.

pub mod power;
mod room;
pub mod survey;

use crate::balance::power::FULL_POWER;
use crate::cpu::CpuId;
use crate::features::{Feature, Features};
use crate::time::Nanos;
use crate::topology::{Level, Topology};

/// Which tasks a balancing pass counts, and moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// All tasks, by weight.
    All,
    /// All but those of SCHED_IDLE and of idle task groups, by weight.
    Normal,
    /// Those of SCHED_IDLE and of idle task groups, by number.
    Idle,
}

/// What a CPU does when it balances (`cpu_idle_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IdleKind {
    /// It runs a task, and balances from time to time at a tick (`CPU_NOT_IDLE`).
    Busy,
    /// It idles, and balances from time to time (`CPU_IDLE`).
    Idle,
    /// It is about to idle (`CPU_NEWLY_IDLE`).
    NewlyIdle,
}

/// What a CPU found and did when it balanced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Balanced {
    /// At which level.
    pub level: Level,
    /// In which of these cases.
    pub idle_kind: IdleKind,
    /// What it counted.
    pub measure: Measure,
    /// What came of it.
    pub found: Found,
}

/// What came of a balancing pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Found {
    /// Nothing was to be done.
    Balance,
    /// What should be moved may not run on this CPU.
    Pinned,
    /// What should be moved was too heavy, had run a moment ago, or was running.
    Nothing,
    /// So many waiting tasks were moved.
    Tasks(u32),
    /// After failures, a running task is to be preempted and moved. It follows the pass that found
    /// nothing, and is no pass of its own.
    Running,
}

/// How a level balances. Linux 2.6.35, `SD_SIBLING_INIT`, `SD_MC_INIT` and `SD_NODE_INIT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Domain {
    /// Between two passes of an idle CPU, at first and after success.
    pub min_interval: Nanos,
    /// The same after many passes that found nothing to do.
    pub max_interval: Nanos,
    /// How many times as long a busy CPU waits.
    pub busy_factor: u64,
    /// How many per cent of the own load another must have to be worth a pass.
    pub imbalance_pct: u64,
    /// After how many failures tasks are taken that ran a moment ago; three more, and a running
    /// task is taken.
    pub cache_nice_tries: u32,
    /// SCHED_IDLE tasks are balanced by a measure of their own (`SD_IDLE_LOAD_BALANCE`). The
    /// founding document leaves hardware threads out: what is left of a thread depends on what its
    /// sibling does, which no average knows.
    pub idle_measure: bool,
    /// The CPU groups would rather have one task each than one of them two (`SD_PREFER_SIBLING` of
    /// the level below).
    pub spreads: bool,
    /// Passes that count all tasks follow the rules of Linux 5.5 and later ([`Feature::BalanceByRoom`]).
    pub by_room: bool,
}

/// What a power of `smt_gain` is: that of a core with two threads, in per cent of one with one
/// (1178 of 1024, `init_sched_groups_power`).
const SMT_POWER: u64 = 1_178;

/// How long a busy CPU waits at most between two passes, for each CPU of the machine
/// (`HZ * nr_cpus / 10` ticks).
pub const MAX_INTERVAL_PER_CPU: Nanos = Nanos::from_millis(100);

/// An interval after which a pass that found only pinned tasks is not put off further
/// (`MAX_PINNED_INTERVAL`).
pub const MAX_PINNED_INTERVAL: Nanos = Nanos::from_millis(512);

impl Domain {
    /// How `level` balances on a machine of this shape and with these features. With [`Feature::BalanceByRoom`] as
    /// `sd_init` of 6.1 to 6.18 has it; of two nodes each is looked at as one of many (`SD_NUMA`).
    #[must_use]
    pub fn of(level: Level, topology: Topology, features: Features) -> Domain {
        let by_room = features.has(Feature::BalanceByRoom);
        let cpus = topology.span(CpuId(0), level).len() as u64;
        let (intervals, busy_factor, imbalance_pct) = match (by_room, level) {
            (true, Level::Smt) => ((cpus, 2 * cpus), 16, 110),
            (true, Level::Node | Level::Machine) => ((cpus, 2 * cpus), 16, 117),
            (false, Level::Smt) => ((1, 2), 64, 110),
            (false, Level::Node) => ((1, 4), 64, 125),
            (false, Level::Machine) => ((8, 32), 32, 125),
        };
        let cache_nice_tries = match level {
            Level::Smt => 0,
            Level::Node => 1,
            Level::Machine => 2,
        };
        Domain {
            min_interval: Nanos::from_millis(intervals.0),
            max_interval: Nanos::from_millis(intervals.1),
            busy_factor,
            imbalance_pct,
            cache_nice_tries,
            idle_measure: level != Level::Smt,
            spreads: topology.group_size(level) > 1,
            by_room,
        }
    }
}

/// The power of one CPU of this machine if nothing is taken from it. Since 4.20 a thread counts as a whole CPU.
#[must_use]
pub fn power_of_cpu(topology: Topology, features: Features) -> u64 {
    match topology.threads() {
        1 => FULL_POWER,
        _ if features.has(Feature::BalanceByRoom) => FULL_POWER,
        threads => SMT_POWER / threads as u64,
    }
}

/// What a balancing CPU sees of another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Tasks of fair policies.
    pub nr_fair: u32,
    /// Those of them that are SCHED_IDLE or in idle task groups.
    pub nr_idle: u32,
    /// They stand in the way of normal ones ([`crate::run_queue::CpuLoad::idle_is_heavy`]).
    pub idle_is_heavy: bool,
    /// Real-time tasks.
    pub nr_rt: u32,
    /// The weights of the fair entities.
    pub load: u64,
    /// The power that real-time tasks leave.
    pub power: u64,
    /// The power that real-time and normal tasks leave.
    pub idle_power: u64,
    /// How much of the CPU its fair tasks use, of [`FULL_POWER`].
    pub util: u64,
    /// How many of its fair tasks run or wait, each as [`FULL_POWER`].
    pub runnable: u64,
}

/// The same in terms of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Measured {
    nr: u64,
    load: u64,
    power: u64,
    /// A task of the measure could start at once.
    free: bool,
    /// A task of the measure waits.
    waits: bool,
    idle: bool,
}

/// The load of a SCHED_IDLE task in its own measure: finer than its weight, 3, so that ratios of
/// small numbers of tasks differ.
pub(crate) const IDLE_TASK_LOAD: u64 = 3 * 1_024;

impl Seen {
    fn measured(self, measure: Measure) -> Measured {
        let running = u64::from(self.nr_fair + self.nr_rt);
        let (nr, some) = match measure {
            Measure::All => (running, self.nr_fair),
            Measure::Normal => {
                let normal = self.nr_fair - self.nr_idle;
                (u64::from(normal + self.nr_rt + u32::from(self.idle_is_heavy)), normal)
            }
            Measure::Idle => (u64::from(self.nr_idle), self.nr_idle),
        };
        let (load, power) = match measure {
            Measure::All | Measure::Normal => (self.load, self.power),
            Measure::Idle => (nr * IDLE_TASK_LOAD, self.idle_power),
        };
        // SCHED_IDLE tasks stand in nobody's way unless they are heavy, everybody stands in theirs.
        let before = if measure == Measure::Normal { nr } else { running };
        let (free, waits) = (before == 0, some > 0 && before > 1);
        Measured { nr, load, power: power.max(1), free, waits, idle: running == 0 }
    }

    /// Whether a task of the measure waits here.
    #[must_use]
    pub fn waits(self, measure: Measure) -> bool {
        self.measured(measure).waits
    }

    /// Whether a task of the measure could start here at once.
    #[must_use]
    pub fn is_free(self, measure: Measure) -> bool {
        self.measured(measure).free
    }
}

/// A CPU group, summed up over its CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuGroup {
    cpus: u64,
    nr: u64,
    load: u64,
    power: u64,
    /// How many of its CPUs are free, have somebody waiting, are idle.
    free: u64,
    waiting: u64,
    idle: u64,
    /// The largest and the smallest load of its CPUs.
    loads: Option<(u64, u64)>,
    /// Its fair tasks, how much they use, and how many of them run or wait.
    nr_fair: u64,
    util: u64,
    runnable: u64,
}

/// What a CPU group is, from the best to the worst (`group_type` of 5.5 and later).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    HasSpare,
    FullyBusy,
    /// There is room, and somebody waits all the same: affinities keep its own CPUs from it.
    Imbalanced,
    Overloaded,
}

impl CpuGroup {
    /// Adds one of its CPUs.
    pub fn add(&mut self, seen: Seen, measure: Measure) {
        let Measured { nr, load, power, free, waits, idle } = seen.measured(measure);
        self.cpus += 1;
        self.nr += nr;
        self.load += load;
        self.power += power;
        self.free += u64::from(free);
        self.waiting += u64::from(waits);
        self.idle += u64::from(idle);
        let (most, least) = self.loads.unwrap_or((load, load));
        self.loads = Some((most.max(load), least.min(load)));
        self.nr_fair += u64::from(seen.nr_fair);
        self.util += seen.util;
        self.runnable += seen.runnable;
    }

    /// Load by power, in loads of a CPU of full power.
    fn avg_load(&self) -> u64 {
        average(self.load, self.power)
    }

    /// For how many tasks there is a CPU.
    fn capacity(&self) -> u64 {
        rounded(self.power).max(1)
    }

    fn load_per_task(&self) -> u64 {
        self.load / self.nr.max(1)
    }

    /// Whether its CPUs are loaded so unevenly that it should be looked at (`group_imb`).
    fn is_uneven(&self) -> bool {
        let (most, least) = self.loads.unwrap_or_default();
        self.nr > 0 && self.cpus > 1 && most - least > 2 * self.load_per_task()
    }

    fn kind(&self) -> Kind {
        match (self.waiting > 0, self.free > 0) {
            (true, _) if self.nr > self.capacity() => Kind::Overloaded,
            (true, true) => Kind::Imbalanced,
            (true, false) => Kind::Overloaded,
            (false, true) => Kind::HasSpare,
            (false, false) => Kind::FullyBusy,
        }
    }
}

fn average(load: u64, power: u64) -> u64 {
    load.saturating_mul(FULL_POWER) / power.max(1)
}

fn rounded(power: u64) -> u64 {
    (power + FULL_POWER / 2) / FULL_POWER
}

/// How a pass compares CPU groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// What it counts.
    pub measure: Measure,
    /// In which of these cases.
    pub idle_kind: IdleKind,
    /// The level's numbers.
    pub domain: Domain,
}

/// How much is to be pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Imbalance {
    /// Tasks of this load in all; one counts as fitting if half of it does.
    Load(u64),
    /// One task that waits, however heavy: there is room for it.
    Waiting,
    /// One task, running if none waits: there are CPU groups with less to do.
    Any,
    /// So many tasks, however heavy (`migrate_task`).
    Tasks(u64),
}

impl Imbalance {
    /// Which tasks are to be pulled in a pass that counts `measure`.
    #[must_use]
    pub fn measure(self, measure: Measure) -> Measure {
        match self {
            Imbalance::Any => Measure::All,
            Imbalance::Load(_) | Imbalance::Waiting | Imbalance::Tasks(_) => measure,
        }
    }
}

impl Pass {
    /// Whether loads decide though there may be room: Linux 2.6.35.
    fn by_load_alone(self) -> bool {
        self.measure == Measure::All && !self.domain.by_room
    }

    /// Whether the rules are those of Linux 5.5 and later.
    #[must_use]
    pub fn by_room(self) -> bool {
        self.measure == Measure::All && self.domain.by_room
    }

    /// The measures of a level, in order.
    pub fn measures(features: Features, domain: Domain) -> impl Iterator<Item = Measure> {
        let measures: &[Measure] =
            match (features.has(Feature::IdleLoadBalance), domain.idle_measure) {
                (false, _) => &[Measure::All],
                (true, true) => &[Measure::Normal, Measure::Idle],
                (true, false) => &[Measure::Normal],
            };
        measures.iter().copied()
    }
}

/// Whether the queue of a CPU of the busiest CPU group is one to pull from, and how busy it is
/// (`find_busiest_queue`).
#[must_use]
pub fn queue_rank(seen: Seen, measure: Measure, imbalance: Imbalance) -> Option<u64> {
    let it = seen.measured(measure);
    let wanted = match imbalance {
        Imbalance::Load(load) if measure == Measure::All => {
            let lone_and_heavy = rounded(it.power) > 0 && it.nr == 1 && it.load > load;
            it.nr > 0 && !lone_and_heavy
        }
        Imbalance::Load(_) | Imbalance::Waiting => it.waits,
        Imbalance::Any | Imbalance::Tasks(_) => seen.nr_fair > 0,
    };
    let rank = match imbalance {
        Imbalance::Tasks(_) => u64::from(seen.nr_fair),
        _ => average(it.load, it.power),
    };
    wanted.then_some(rank)
}
