//! Balancing of fair tasks, as choices over snapshots: the busiest CPU group, the load to pull from
//! it, and the CPU to pull from. The machine takes the snapshots and moves the tasks.
//!
//! A *domain* is the set of CPUs that balance at a [`Level`]. It consists of *CPU groups*, which
//! are the domains below. A CPU pulls to itself, on behalf of its own (local) CPU group. There is
//! one path (`find_busiest_group`, `find_busiest_queue`): survey the CPU groups, choose the
//! busiest, compute an imbalance, choose a queue. A [`Measure`] determines which tasks count in the
//! load and the power of a CPU group:
//!
//! - `NO_IDLE_LOAD_BALANCE`: one measure of all tasks. By the rules of Linux 2.6.35 loads always
//!   decide (`fix_small_imbalance`). If weights are too unequal to be balanced, the neighbours of
//!   the heaviest task end up idle: this is the failure in the founding document. By the rules of
//!   5.5 and later, `BALANCE_BY_ROOM`, loads count only where there is no room (`room.rs`).
//! - `IDLE_LOAD_BALANCE`: two measures. For normal tasks a CPU with only SCHED_IDLE tasks is free.
//!   For SCHED_IDLE tasks the load is their number, relative to the power that normal tasks leave
//!   (the metric of the founding document, by the same formula). In each measure, loads are
//!   compared only where neither side has room. A CPU group with room takes waiting tasks, whatever
//!   the weights (the rework of Linux 5.5).
//!
//! All values are integers. Loads are sums of weights; the power of a CPU is up to [`FULL_POWER`].

pub mod power;
mod room;
pub mod survey;

use crate::balance::power::FULL_POWER;
use crate::cpu::CpuId;
use crate::features::{Feature, Features};
use crate::time::Nanos;
use crate::topology::{Level, Topology};

/// The tasks that a balancing pass counts and moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// All tasks, by weight.
    All,
    /// All tasks except those of SCHED_IDLE and of idle task groups, by weight.
    Normal,
    /// The tasks of SCHED_IDLE and of idle task groups, by number.
    Idle,
}

/// The state of a CPU that balances (`cpu_idle_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IdleKind {
    /// The CPU runs a task, and balances from time to time at a tick (`CPU_NOT_IDLE`).
    Busy,
    /// The CPU idles, and balances from time to time (`CPU_IDLE`).
    Idle,
    /// The CPU is about to idle (`CPU_NEWLY_IDLE`).
    NewlyIdle,
}

/// A balancing pass of a CPU, with its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Balanced {
    /// The level.
    pub level: Level,
    /// The state of the CPU.
    pub idle_kind: IdleKind,
    /// The tasks that counted.
    pub measure: Measure,
    /// The result.
    pub found: Found,
}

/// The result of a balancing pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Found {
    /// No task had to move.
    Balance,
    /// The tasks that should move may not run on this CPU.
    Pinned,
    /// The tasks that should move were too heavy, had run recently, or were running.
    Nothing,
    /// The number of waiting tasks that were moved.
    Tasks(u32),
    /// After failures, a running task is to be preempted and moved. This result follows the pass
    /// that found no task, and is not a pass of its own.
    Running,
}

/// The parameters by which a level balances. Linux 2.6.35: `SD_SIBLING_INIT`, `SD_MC_INIT` and
/// `SD_NODE_INIT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Domain {
    /// The interval between two passes of an idle CPU, at first and after success.
    pub min_interval: Nanos,
    /// The same interval after many passes that found no work.
    pub max_interval: Nanos,
    /// The factor by which a busy CPU waits longer.
    pub busy_factor: u64,
    /// The load of another CPU group that is worth a pass, in per cent of the own load.
    pub imbalance_pct: u64,
    /// The number of failures after which tasks that ran recently are taken; after three more, a
    /// running task is taken.
    pub cache_nice_tries: u32,
    /// Whether SCHED_IDLE tasks are balanced by a measure of their own (`SD_IDLE_LOAD_BALANCE`).
    /// The founding document excludes hardware threads: the power that is left of a thread depends
    /// on its sibling, which no average includes.
    pub idle_measure: bool,
    /// Whether the CPU groups prefer one task each over two in one of them (`SD_PREFER_SIBLING` of
    /// the level below).
    pub spreads: bool,
    /// Whether passes that count all tasks follow the rules of Linux 5.5 and later
    /// ([`Feature::BalanceByRoom`]).
    pub by_room: bool,
}

/// The power `smt_gain` of a core with two threads; 1024 is that of a core with one (1178 of 1024,
/// `init_sched_groups_power`).
const SMT_POWER: u64 = 1_178;

/// The longest interval between two passes of a busy CPU, for each CPU of the machine (`HZ *
/// nr_cpus / 10` ticks).
pub const MAX_INTERVAL_PER_CPU: Nanos = Nanos::from_millis(100);

/// The longest interval after passes that found only pinned tasks (`MAX_PINNED_INTERVAL`).
pub const MAX_PINNED_INTERVAL: Nanos = Nanos::from_millis(512);

impl Domain {
    /// Returns the parameters of `level` on a machine of this shape and with these features. With
    /// [`Feature::BalanceByRoom`] they are those of `sd_init` of 6.1 to 6.18, where two nodes are
    /// treated like many (`SD_NUMA`).
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

/// Returns the power of one CPU of this machine if no time is taken from it. Since 4.20 a thread
/// counts as a whole CPU.
#[must_use]
pub fn power_of_cpu(topology: Topology, features: Features) -> u64 {
    match topology.threads() {
        1 => FULL_POWER,
        _ if features.has(Feature::BalanceByRoom) => FULL_POWER,
        threads => SMT_POWER / threads as u64,
    }
}

/// The data of another CPU that a balancing CPU sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The number of tasks of fair policies.
    pub nr_fair: u32,
    /// The number of those that are SCHED_IDLE or in idle task groups.
    pub nr_idle: u32,
    /// Whether these delay normal tasks ([`crate::run_queue::CpuLoad::idle_is_heavy`]).
    pub idle_is_heavy: bool,
    /// The number of real-time tasks.
    pub nr_rt: u32,
    /// The sum of the weights of the fair entities.
    pub load: u64,
    /// The power that real-time tasks leave.
    pub power: u64,
    /// The power that real-time and normal tasks leave.
    pub idle_power: u64,
    /// The part of the CPU that its fair tasks use, of [`FULL_POWER`].
    pub util: u64,
    /// The number of its fair tasks that run or wait, times [`FULL_POWER`].
    pub runnable: u64,
}

/// The same data in terms of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Measured {
    nr: u64,
    load: u64,
    power: u64,
    /// Whether a task of the measure could start at once.
    free: bool,
    /// Whether a task of the measure waits.
    waits: bool,
    idle: bool,
}

/// The load of a SCHED_IDLE task in its own measure. It is finer than its weight, 3, so that ratios
/// of small numbers of tasks differ.
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
        // SCHED_IDLE tasks delay no other task unless they are heavy; every task delays them.
        let before = if measure == Measure::Normal { nr } else { running };
        let (free, waits) = (before == 0, some > 0 && before > 1);
        Measured { nr, load, power: power.max(1), free, waits, idle: running == 0 }
    }

    /// Returns whether a task of the measure waits here.
    #[must_use]
    pub fn waits(self, measure: Measure) -> bool {
        self.measured(measure).waits
    }

    /// Returns whether a task of the measure could start here at once.
    #[must_use]
    pub fn is_free(self, measure: Measure) -> bool {
        self.measured(measure).free
    }
}

/// The sums over the CPUs of a CPU group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuGroup {
    cpus: u64,
    nr: u64,
    load: u64,
    power: u64,
    /// The number of its CPUs that are free, that have a waiting task, and that are idle.
    free: u64,
    waiting: u64,
    idle: u64,
    /// The largest and the smallest load of its CPUs.
    loads: Option<(u64, u64)>,
    /// Its fair tasks: their number, their utilization, and the number of those that run or wait.
    nr_fair: u64,
    util: u64,
    runnable: u64,
}

/// The state of a CPU group, from the best to the worst (`group_type` of 5.5 and later).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    HasSpare,
    FullyBusy,
    /// There is room, and a task waits nevertheless: affinities keep it from the CPUs of its group.
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

    /// Returns its load relative to its power, as the load of a CPU of full power.
    fn avg_load(&self) -> u64 {
        average(self.load, self.power)
    }

    /// Returns the number of tasks for which there is a CPU.
    fn capacity(&self) -> u64 {
        rounded(self.power).max(1)
    }

    fn load_per_task(&self) -> u64 {
        self.load / self.nr.max(1)
    }

    /// Returns whether its CPUs are loaded so unevenly that it needs a pass (`group_imb`).
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

/// The parameters of a pass that compares CPU groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The tasks that count.
    pub measure: Measure,
    /// The state of the CPU.
    pub idle_kind: IdleKind,
    /// The parameters of the level.
    pub domain: Domain,
}

/// The tasks to pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Imbalance {
    /// Tasks with this total load; a task fits if half of its load does.
    Load(u64),
    /// One waiting task, however heavy, because there is room for it.
    Waiting,
    /// One task, a running one if none waits, because other CPU groups have fewer tasks.
    Any,
    /// This number of tasks, however heavy (`migrate_task`).
    Tasks(u64),
}

impl Imbalance {
    /// Returns which tasks are to be pulled in a pass that counts `measure`.
    #[must_use]
    pub fn measure(self, measure: Measure) -> Measure {
        match self {
            Imbalance::Any => Measure::All,
            Imbalance::Load(_) | Imbalance::Waiting | Imbalance::Tasks(_) => measure,
        }
    }
}

impl Pass {
    /// Returns whether loads decide even if there is room: Linux 2.6.35.
    fn by_load_alone(self) -> bool {
        self.measure == Measure::All && !self.domain.by_room
    }

    /// Returns whether the rules are those of Linux 5.5 and later.
    #[must_use]
    pub fn by_room(self) -> bool {
        self.measure == Measure::All && self.domain.by_room
    }

    /// Returns the measures of a level, in order.
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

/// Returns how busy the queue of a CPU of the busiest CPU group is, or `None` if there is no task
/// to pull from it (`find_busiest_queue`).
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
