//! The rules of Linux 5.5 and later (`group_classify`, `find_busiest_group`, `calculate_imbalance`;
//! from 6.18.35, and the same in 6.1 except for hardware threads).
//!
//! A CPU group has the worst [`Kind`] that applies, and a group of a worse kind is busier, whatever
//! the loads. A CPU that has room takes tasks, by their number. Loads are evened out only where
//! neither side has room.
//!
//! Beyond the caches that a node shares the kernel takes tasks by their utilization
//! (`migrate_util`). This file instead takes as many tasks as there are idle CPUs.

use super::{CpuGroup, Domain, IdleKind, Imbalance, Kind, Pass};
use crate::balance::power::FULL_POWER;

/// Returns the kind of a CPU group, and how busy it is among others of that kind
/// (`update_sd_pick_busiest`).
pub(super) fn rank(group: &CpuGroup, domain: Domain) -> (Kind, u64, u64) {
    let kind = kind(group, domain);
    match kind {
        Kind::Overloaded | Kind::FullyBusy => (kind, group.avg_load(), 0),
        // Such groups cannot be distinguished: the first is taken.
        Kind::Imbalanced => (kind, 0, 0),
        Kind::HasSpare => (kind, group.cpus - group.idle, group.nr),
    }
}

/// `group_classify`. The kernel's mark of a lower level whose balancing failed because of
/// affinities (`sgc->imbalance`) does not exist here, so no CPU group is [`Kind::Imbalanced`].
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

/// The local CPU group of a pass, compared with the busiest other one.
pub(super) struct Compared<'a> {
    pub(super) pass: Pass,
    pub(super) local: &'a CpuGroup,
    pub(super) busiest: &'a CpuGroup,
    /// The load of the domain relative to its power.
    pub(super) all: u64,
}

impl Compared<'_> {
    /// Returns the tasks or the load to pull, if any.
    pub(super) fn imbalance(&self) -> Option<Imbalance> {
        let domain = self.pass.domain;
        let (local, busiest) = (kind(self.local, domain), kind(self.busiest, domain));
        if local > busiest {
            return None;
        }
        let (own, most) = (self.local.avg_load(), self.busiest.avg_load());
        if local == Kind::Overloaded && 100 * most <= domain.imbalance_pct * own {
            return None;
        }
        let spreads = domain.spreads
            && local == Kind::HasSpare
            && self.pass.idle_kind != IdleKind::Busy
            && self.more_tasks() > 1;
        if !spreads && busiest != Kind::Overloaded && !self.may_take_from_room() {
            return None;
        }
        match local {
            Kind::HasSpare => self.tasks(busiest),
            _ if own >= most || own >= self.all => None,
            _ => self.load(own, most),
        }
    }

    /// Returns whether a CPU without a task takes from a CPU group that is not overloaded.
    fn may_take_from_room(&self) -> bool {
        let evens_out = self.busiest.cpus == 1 || self.local.idle > self.busiest.idle + 1;
        self.pass.idle_kind != IdleKind::Busy && evens_out && self.busiest.nr_fair != 1
    }

    /// Returns how many more tasks the busiest group has (`sibling_imbalance`).
    fn more_tasks(&self) -> u64 {
        self.busiest.nr.saturating_sub(self.local.nr)
    }

    /// Returns half of the difference in the numbers of tasks, or of idle CPUs.
    fn tasks(&self, busiest: Kind) -> Option<Imbalance> {
        let beyond_cache = self.pass.domain.cache_nice_tries > 1;
        let idle = self.local.idle.saturating_sub(self.busiest.idle);
        let tasks = match busiest {
            Kind::Overloaded if beyond_cache => self.local.idle.max(1),
            _ if self.busiest.cpus == 1 || self.pass.domain.spreads => self.more_tasks() / 2,
            _ => idle / 2,
        };
        (tasks > 0).then_some(Imbalance::Tasks(tasks))
    }

    /// Returns the load that brings the busiest group no lower, and the local one no higher, than
    /// the average.
    fn load(&self, own: u64, most: u64) -> Option<Imbalance> {
        let over = most.saturating_sub(self.all).saturating_mul(self.busiest.power);
        let under = (self.all - own).saturating_mul(self.local.power);
        let load = over.min(under) / FULL_POWER;
        (load > 0).then_some(Imbalance::Load(load))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::survey::{BalanceVerdict, Survey};
    use crate::balance::{Measure, Seen};
    use crate::features::{Feature, Features};
    use crate::topology::Level;

    /// Returns a CPU with `nr_fair` tasks of a weight, of which each used it for a part of the
    /// time, in per cent.
    fn cpu(nr_fair: u32, weight: u64, percent: u64) -> Seen {
        let nr = u64::from(nr_fair);
        let (load, util) = (nr * weight, percent * FULL_POWER / 100);
        Seen { nr_fair, load, util, runnable: nr * util, power: FULL_POWER, ..Seen::default() }
    }

    fn domain(level: Level) -> Domain {
        Domain::of(level, "2x4".parse().unwrap(), Features::NONE.with(Feature::BalanceByRoom))
    }

    fn group(cpus: &[Seen]) -> CpuGroup {
        let mut group = CpuGroup::default();
        cpus.iter().for_each(|&cpu| group.add(cpu, Measure::All));
        group
    }

    /// Returns the decision of the first of these CPU groups about the second.
    fn decide(
        level: Level,
        idle_kind: IdleKind,
        local: &[Seen],
        other: &[Seen],
    ) -> Option<Imbalance> {
        let pass = Pass { measure: Measure::All, idle_kind, domain: domain(level) };
        let mut survey = Survey::new(pass, group(local));
        survey.add(1, group(other));
        match survey.decide() {
            BalanceVerdict::Balanced => None,
            BalanceVerdict::Pull(_, imbalance) => Some(imbalance),
        }
    }

    #[test]
    fn a_cpu_group_is_of_the_worst_kind_that_holds() {
        let kind = |cpus: &[Seen]| kind(&group(cpus), domain(Level::Node));
        assert_eq!(kind(&[cpu(0, 0, 0)]), Kind::HasSpare);
        assert_eq!(kind(&[cpu(1, 1_024, 100)]), Kind::FullyBusy);
        assert_eq!(kind(&[cpu(1, 1_024, 50)]), Kind::HasSpare);
        assert_eq!(kind(&[cpu(2, 1_024, 100)]), Kind::Overloaded);
        // Two tasks that hardly ever run are no burden, though both are there at the moment.
        assert_eq!(kind(&[cpu(2, 1_024, 10)]), Kind::HasSpare);
        assert_eq!(kind(&[cpu(2, 1_024, 100), cpu(0, 0, 0)]), Kind::HasSpare);
    }

    #[test]
    fn a_cpu_with_room_takes_half_of_the_difference_whatever_it_weighs() {
        for weight in [3, 1_024, 88_761] {
            let crowded = [cpu(4, weight, 100)];
            for idle_kind in [IdleKind::NewlyIdle, IdleKind::Idle] {
                let verdict = decide(Level::Node, idle_kind, &[cpu(0, 0, 0)], &crowded);
                assert_eq!(verdict, Some(Imbalance::Tasks(2)));
                let one = decide(Level::Node, idle_kind, &[cpu(0, 0, 0)], &[cpu(1, weight, 100)]);
                assert_eq!(one, None, "the other CPU would idle next");
            }
        }
    }

    #[test]
    fn loads_are_evened_out_where_nobody_has_room() {
        let pull = |local, other| decide(Level::Node, IdleKind::Busy, &[local], &[other]);
        let (two, three) = (cpu(2, 1_024, 100), cpu(3, 1_024, 100));
        // A difference of less than 17 % is ignored.
        assert_eq!(pull(cpu(2, 1_024, 100), cpu(2, 1_100, 100)), None);
        assert_eq!(pull(two, three), Some(Imbalance::Load(512)));
        assert_eq!(pull(three, two), None);
        // The heavy task alone has more load than two light ones, and no task waits behind it.
        assert_eq!(pull(cpu(2, 15, 100), cpu(1, 88_761, 100)), None);
        assert_eq!(pull(cpu(1, 1_024, 100), two), Some(Imbalance::Load(512)));
    }

    #[test]
    fn a_busy_cpu_takes_nothing_from_where_there_is_room() {
        let some = [cpu(1, 1_024, 50), cpu(2, 1_024, 60), cpu(0, 0, 0), cpu(0, 0, 0)];
        assert_eq!(decide(Level::Machine, IdleKind::Busy, &[cpu(1, 15, 10); 4], &some), None);
        let idle = [cpu(0, 0, 0); 4];
        assert_eq!(decide(Level::Machine, IdleKind::Idle, &idle, &some), Some(Imbalance::Tasks(1)));
    }
}
