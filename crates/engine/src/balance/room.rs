//! The rules of Linux 5.5 and later (`group_classify`, `find_busiest_group`, `calculate_imbalance`; read in 6.18.35, and
//! the same in 6.1 but for hardware threads).
//!
//! A CPU group is of the worst [`Kind`] that holds, and one that is worse is busier whatever it weighs. A CPU that has room
//! takes tasks, by their number; loads are evened out only where neither side has room.
//!
//! Beyond the caches that a node shares the kernel takes tasks by the time they use (`migrate_util`); here it takes as
//! many as find a CPU.

use super::{CpuGroup, Domain, IdleKind, Imbalance, Kind, Pass};
use crate::balance::power::FULL_POWER;

/// What a CPU group is, and how busy beside others of that kind (`update_sd_pick_busiest`).
pub(super) fn rank(group: &CpuGroup, domain: Domain) -> (Kind, u64, u64) {
    let kind = kind(group, domain);
    match kind {
        Kind::Overloaded | Kind::FullyBusy => (kind, group.avg_load(), 0),
        // There is no way to tell one from another: the first is taken.
        Kind::Imbalanced => (kind, 0, 0),
        Kind::HasSpare => (kind, group.cpus - group.idle, group.nr),
    }
}

/// `group_classify`. The mark of a level below at which affinities kept a pass from balancing (`sgc->imbalance`) is not kept, so
/// that no CPU group is [`Kind::Imbalanced`].
fn kind(group: &CpuGroup, domain: Domain) -> Kind {
    let (capacity, pct) = (group.power, domain.imbalance_pct);
    let (util, runnable) = (group.util, group.runnable);
    let is_overloaded =
        group.nr > group.cpus && (capacity * 100 < util * pct || capacity * pct < runnable * 100);
    let has_capacity =
        group.nr < group.cpus || capacity * pct >= runnable * 100 && capacity * 100 > util * pct;
    match (is_overloaded, has_capacity) {
        (true, _) => Kind::Overloaded,
        (false, true) => Kind::HasSpare,
        (false, false) => Kind::FullyBusy,
    }
}

/// The local CPU group of a pass beside the busiest other one.
pub(super) struct Compared<'a> {
    pub(super) pass: Pass,
    pub(super) local: &'a CpuGroup,
    pub(super) busiest: &'a CpuGroup,
    /// The load of the domain by its power.
    pub(super) all: u64,
}

impl Compared<'_> {
    /// What is to be pulled, if anything is.
    pub(super) fn imbalance(&self) -> Option<Imbalance> {
        let domain = self.pass.domain;
        let (local, busiest) = (kind(self.local, domain), kind(self.busiest, domain));
        if local > busiest {
            return None;
        }
        let (own, most) = (self.local.avg_load(), self.busiest.avg_load());
        if local == Kind::Overloaded {
            let enough = 100 * most > domain.imbalance_pct * own;
            if own >= most || own >= self.all || !enough {
                return None;
            }
        }
        let spreads = domain.spreads && local == Kind::HasSpare && self.more_tasks() > 1;
        if !spreads && busiest != Kind::Overloaded && !self.may_take_from_room() {
            return None;
        }
        match local {
            Kind::HasSpare => self.tasks(busiest),
            _ if own >= most || own >= self.all => None,
            _ => self.load(own, most),
        }
    }

    /// Whether a CPU without a task takes from a CPU group that is not overloaded.
    fn may_take_from_room(&self) -> bool {
        let evens_out = self.busiest.cpus == 1 || self.local.idle > self.busiest.idle + 1;
        self.pass.idle_kind != IdleKind::Busy && evens_out && self.busiest.nr_fair != 1
    }

    /// How many tasks more the busiest one has (`sibling_imbalance`).
    fn more_tasks(&self) -> u64 {
        match self.pass.idle_kind {
            IdleKind::Busy => 0,
            IdleKind::Idle | IdleKind::NewlyIdle => self.busiest.nr.saturating_sub(self.local.nr),
        }
    }

    /// Half of what would even out the numbers of tasks, or of idle CPUs.
    fn tasks(&self, busiest: Kind) -> Option<Imbalance> {
        let beyond_cache = self.pass.domain.cache_nice_tries > 1;
        let idle = self.local.idle.saturating_sub(self.busiest.idle);
        let tasks = match busiest {
            Kind::Overloaded if beyond_cache => self.local.idle.max(1),
            _ if self.busiest.cpus == 1 || self.pass.domain.spreads => {
                self.busiest.nr.saturating_sub(self.local.nr) / 2
            }
            _ => idle / 2,
        };
        (tasks > 0).then_some(Imbalance::Tasks(tasks))
    }

    /// What brings the one no lower, and the other no higher, than the average.
    fn load(&self, own: u64, most: u64) -> Option<Imbalance> {
        let over = most.saturating_sub(self.all).saturating_mul(self.busiest.power);
        let under = (self.all - own).saturating_mul(self.local.power);
        let load = over.min(under) / FULL_POWER;
        (load > 0).then_some(Imbalance::Load(load))
    }
}
