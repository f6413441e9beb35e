//! The CPU groups of a domain as one CPU sees them, and the choice of a group and of the tasks to
//! pull from it.

use super::{CpuGroup, IdleKind, Imbalance, Kind, Measure, Pass, average, room};
use crate::balance::power::FULL_POWER;

/// The decision of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BalanceVerdict<Id> {
    /// No task has to move.
    Balanced,
    /// The tasks to pull from the CPU group.
    Pull(Id, Imbalance),
}

/// A domain as one CPU sees it. Of the surveyed CPU groups it keeps the local one, the busiest
/// other one, and the sum.
#[derive(Clone, Copy, Debug)]
pub struct Survey<Id> {
    pass: Pass,
    local: CpuGroup,
    busiest: Option<(Id, CpuGroup)>,
    load: u64,
    power: u64,
}

impl<Id: Copy> Survey<Id> {
    /// Returns a survey that begins with the local CPU group.
    #[must_use]
    pub fn new(pass: Pass, local: CpuGroup) -> Survey<Id> {
        Survey { pass, local, busiest: None, load: local.load, power: local.power }
    }

    /// Adds another CPU group. Of equal ones the first stays the busiest.
    pub fn add(&mut self, id: Id, group: CpuGroup) {
        self.load += group.load;
        self.power += group.power;
        if self.is_candidate(&group)
            && self.busiest.is_none_or(|(_, busiest)| self.rank(&group) > self.rank(&busiest))
        {
            self.busiest = Some((id, group));
        }
    }

    /// Returns the decision.
    #[must_use]
    pub fn decide(&self) -> BalanceVerdict<Id> {
        let Some((id, busiest)) = &self.busiest else { return BalanceVerdict::Balanced };
        let imbalance = match self.pass {
            pass if pass.by_room() => {
                let all = average(self.load, self.power);
                room::Compared { pass, local: &self.local, busiest, all }.imbalance()
            }
            pass if pass.by_load_alone() => self.imbalance_of_loads(busiest),
            _ => self.imbalance_by_room(busiest),
        };
        imbalance.map_or(BalanceVerdict::Balanced, |imbalance| BalanceVerdict::Pull(*id, imbalance))
    }

    fn is_candidate(&self, group: &CpuGroup) -> bool {
        if self.pass.by_room() {
            group.nr_fair > 0
        } else if self.pass.by_load_alone() {
            group.nr > self.capacity(group) || group.is_uneven()
        } else {
            group.nr > 0
        }
    }

    fn rank(&self, group: &CpuGroup) -> (Kind, u64, u64) {
        if self.pass.by_room() {
            return room::rank(group, self.pass.domain);
        }
        if self.pass.by_load_alone() {
            return (Kind::Overloaded, group.avg_load(), 0);
        }
        let kind = group.kind();
        let busy = group.cpus - group.idle;
        match kind {
            Kind::HasSpare | Kind::FullyBusy => (Kind::HasSpare, busy, group.nr),
            Kind::Imbalanced | Kind::Overloaded => (kind, group.avg_load(), group.nr),
        }
    }

    fn capacity(&self, group: &CpuGroup) -> u64 {
        let capacity = group.capacity();
        if self.pass.domain.spreads { capacity.min(1) } else { capacity }
    }

    /// Compares loads only where neither side has room.
    fn imbalance_by_room(&self, busiest: &CpuGroup) -> Option<Imbalance> {
        let local = &self.local;
        match (local.free > 0, busiest.kind()) {
            (true, Kind::Overloaded | Kind::Imbalanced) => Some(Imbalance::Waiting),
            (true, Kind::FullyBusy | Kind::HasSpare) => {
                let spread = self.pass.domain.spreads
                    && self.pass.measure == Measure::Normal
                    && busiest.cpus - busiest.idle > 1
                    && local.idle > busiest.idle + 1;
                spread.then_some(Imbalance::Any)
            }
            (false, Kind::Overloaded) => self.imbalance_of_loads(busiest),
            (false, _) => None,
        }
    }

    fn imbalance_of_loads(&self, busiest: &CpuGroup) -> Option<Imbalance> {
        let (local, pass) = (&self.local, self.pass);
        let (own, most, all) =
            (local.avg_load(), busiest.avg_load(), average(self.load, self.power));
        let enough = match pass.idle_kind {
            IdleKind::Idle => local.idle > busiest.idle + 1 || busiest.nr > busiest.cpus,
            IdleKind::Busy | IdleKind::NewlyIdle => 100 * most > pass.domain.imbalance_pct * own,
        };
        if own >= most || own >= all || !enough {
            return None;
        }
        let small = self.small_imbalance(busiest);
        if most <= all {
            return small;
        }
        let over = (busiest.nr.saturating_sub(self.capacity(busiest))) * FULL_POWER;
        let over = if busiest.is_uneven() { u64::MAX } else { average(over, busiest.power) };
        let (give, take) = ((most - all).min(over), all - own);
        let imbalance =
            give.saturating_mul(busiest.power).min(take.saturating_mul(local.power)) / FULL_POWER;
        if imbalance < busiest.load_per_task() {
            let some = imbalance > 0 && (pass.by_load_alone() || self.may_swap(busiest));
            return small.or(some.then_some(Imbalance::Load(imbalance)));
        }
        // The tasks of a group whose weight is less than their number add zero each.
        Some(Imbalance::Load(imbalance.max(1)))
    }

    /// Returns whether the busiest CPU group with one more task would be no better off than the
    /// local one with it. Then the local group may have the task after failures, so that other
    /// tasks share with it next. A local group that more important tasks leave nearly no power must
    /// not have it.
    fn may_swap(&self, busiest: &CpuGroup) -> bool {
        let task = busiest.load_per_task();
        let joined = average(self.local.load + task, self.local.power);
        joined <= busiest.avg_load().saturating_add(average(task, busiest.power))
    }

    /// Returns one task, though there is less to even out. The first rule of Linux 2.6.35
    /// (`fix_small_imbalance`) is easily met. Here the task must be better off: the load that it
    /// joins, itself included, must be less than the load that it leaves.
    fn small_imbalance(&self, busiest: &CpuGroup) -> Option<Imbalance> {
        let (local, task) = (&self.local, busiest.load_per_task().max(1));
        if !self.pass.by_load_alone() {
            let joined = average(local.load + task, local.power);
            return (joined < busiest.avg_load()).then_some(Imbalance::Load(task));
        }
        let lighter_here = local.nr > 0 && task > local.load_per_task();
        let scaled = average(task, busiest.power);
        let gain = busiest.avg_load() - local.avg_load();
        (lighter_here || gain >= scaled).then_some(Imbalance::Load(task))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::{Domain, IDLE_TASK_LOAD, Seen, power_of_cpu, queue_rank};
    use crate::features::Features;
    use crate::topology::{Level, Topology};

    const TOPOLOGY: &str = "4x4";

    /// Returns a CPU of full power with these numbers of nice 0 and SCHED_IDLE tasks. Normal tasks
    /// leave no power.
    fn cpu(normal: u32, idle: u32) -> Seen {
        Seen {
            nr_fair: normal + idle,
            nr_idle: idle,
            idle_is_heavy: false,
            nr_rt: 0,
            load: u64::from(1_024 * normal + 3 * idle),
            power: FULL_POWER,
            idle_power: if normal == 0 { FULL_POWER } else { 0 },
            util: if normal + idle == 0 { 0 } else { FULL_POWER },
            runnable: u64::from(normal + idle) * FULL_POWER,
        }
    }

    fn group(cpus: &[Seen], measure: Measure) -> CpuGroup {
        let mut group = CpuGroup::default();
        cpus.iter().for_each(|&cpu| group.add(cpu, measure));
        group
    }

    fn pass(level: Level, measure: Measure, idle_kind: IdleKind) -> Pass {
        Pass {
            measure,
            idle_kind,
            domain: Domain::of(level, TOPOLOGY.parse().unwrap(), Features::NONE),
        }
    }

    /// Returns the decision of the first of `groups`.
    fn decide(pass: Pass, groups: &[&[Seen]]) -> BalanceVerdict<usize> {
        let mut survey = Survey::new(pass, group(groups[0], pass.measure));
        for (nth, cpus) in groups.iter().enumerate().skip(1) {
            survey.add(nth, group(cpus, pass.measure));
        }
        survey.decide()
    }

    /// The failure in the founding document step by step, with the numbers of 2.6.35.
    #[test]
    fn by_weights_the_node_of_a_normal_task_loses_all_others() {
        let pass = pass(Level::Machine, Measure::All, IdleKind::Busy);
        let full = [cpu(0, 1); 4];
        let first = [cpu(1, 1), cpu(0, 1), cpu(0, 1), cpu(0, 1)];
        // The load of a CPU is 259 there, 3 elsewhere, and 67 on average: a node may take 4 x 64.
        let verdict = decide(pass, &[&full, &full, &first, &full]);
        assert_eq!(verdict, BalanceVerdict::Pull(2, Imbalance::Load(256)));
        // The waiting SCHED_IDLE task goes; then only running tasks are left.
        let then = [cpu(1, 0), cpu(0, 1), cpu(0, 1), cpu(0, 1)];
        let imbalance = Imbalance::Load(258);
        assert_eq!(decide(pass, &[&full, &full, &then, &full]), BalanceVerdict::Pull(2, imbalance));
        let rank = |seen| queue_rank(seen, Measure::All, imbalance);
        assert_eq!((rank(cpu(1, 0)), rank(cpu(0, 1))), (None, Some(3)));
        // In the end its CPUs are idle and take no task, since their own node is the heaviest.
        let last = [cpu(1, 0), cpu(0, 0), cpu(0, 0), cpu(0, 0)];
        let crowded = [cpu(0, 2), cpu(0, 1), cpu(0, 1), cpu(0, 1)];
        for idle_kind in [IdleKind::Idle, IdleKind::NewlyIdle] {
            let pass = Pass { idle_kind, ..pass };
            assert_eq!(decide(pass, &[&last, &crowded, &crowded, &full]), BalanceVerdict::Balanced);
        }
        let normal = Pass { measure: Measure::Idle, idle_kind: IdleKind::Idle, ..pass };
        let verdict = decide(normal, &[&last, &crowded, &crowded, &full]);
        assert_eq!(verdict, BalanceVerdict::Pull(1, Imbalance::Waiting));
    }

    /// Returns all domains of two CPU groups of two CPUs with up to two normal and two SCHED_IDLE
    /// tasks each.
    fn domains() -> impl Iterator<Item = [[Seen; 2]; 2]> {
        let states = || (0..9).map(|nth| cpu(nth / 3, nth % 3));
        let groups = move || states().flat_map(move |a| states().map(move |b| [a, b]));
        groups().flat_map(move |local| groups().map(move |other| [local, other]))
    }

    /// A CPU group with room takes a waiting task of another, and no group without room takes one
    /// from a group with room.
    #[test]
    fn room_is_for_whoever_waits() {
        for [local, other] in domains() {
            for measure in [Measure::Normal, Measure::Idle] {
                for idle_kind in [IdleKind::Busy, IdleKind::Idle] {
                    let verdict = decide(pass(Level::Node, measure, idle_kind), &[&local, &other]);
                    let room = |group: [Seen; 2]| group.iter().any(|cpu| cpu.is_free(measure));
                    let waits = other.iter().any(|cpu| cpu.waits(measure));
                    let case = format!("{measure:?}: {local:?} {other:?}: {verdict:?}");
                    let waiting = verdict == BalanceVerdict::Pull(1, Imbalance::Waiting);
                    assert_eq!(waiting, room(local) && waits, "{case}");
                    let full = !room(local) && other.iter().all(|cpu| cpu.is_free(measure));
                    assert!(!full || verdict == BalanceVerdict::Balanced, "{case}");
                }
            }
        }
    }

    /// By load, a task moves to a lower load, or to an equal one: never to a higher one, however
    /// small the gain.
    #[test]
    fn loads_are_pulled_downwards() {
        for [local, other] in domains() {
            for measure in [Measure::Normal, Measure::Idle] {
                let pass = pass(Level::Node, measure, IdleKind::Busy);
                let verdict = decide(pass, &[&local, &other]);
                let [own, theirs] = [local, other].map(|cpus| group(&cpus, measure));
                if let BalanceVerdict::Pull(_, Imbalance::Load(load)) = verdict {
                    assert!(load > 0 && own.avg_load() < theirs.avg_load(), "{local:?} {other:?}");
                }
                let equal = decide(pass, &[&local, &local]);
                let room = local.iter().any(|cpu| cpu.is_free(measure));
                assert!(
                    room || equal == BalanceVerdict::Balanced,
                    "{measure:?} {local:?}: {equal:?}"
                );
            }
        }
    }

    #[test]
    fn to_a_normal_task_a_cpu_with_sched_idle_work_is_free() {
        let [soaker, both, alone] = [cpu(0, 3), cpu(1, 1), cpu(0, 0)];
        assert!(soaker.is_free(Measure::Normal) && !soaker.is_free(Measure::Idle));
        assert!(!both.waits(Measure::Normal) && both.waits(Measure::Idle));
        assert!(alone.is_free(Measure::Normal) && alone.is_free(Measure::Idle));
        let pass = pass(Level::Node, Measure::Normal, IdleKind::Busy);
        let verdict = decide(pass, &[&[soaker], &[cpu(2, 0)]]);
        assert_eq!(verdict, BalanceVerdict::Pull(1, Imbalance::Waiting));
        assert_eq!(queue_rank(both, Measure::Normal, Imbalance::Waiting), None);
        // This does not hold if its only SCHED_IDLE tasks are in a group of normal weight.
        assert!(!Seen { idle_is_heavy: true, ..soaker }.is_free(Measure::Normal));
    }

    /// A SCHED_IDLE task behind a normal one is better off with another of its kind; but no task is
    /// sent behind a normal one.
    #[test]
    fn idle_load_is_by_what_normal_tasks_leave() {
        let pass = pass(Level::Node, Measure::Idle, IdleKind::Busy);
        let pulls = |local, other| match decide(pass, &[&[local], &[other]]) {
            BalanceVerdict::Pull(_, Imbalance::Load(load)) => load >= IDLE_TASK_LOAD / 2,
            verdict => panic!("{verdict:?} though neither has room"),
        };
        assert!(pulls(cpu(0, 1), cpu(1, 1)));
        assert_eq!(decide(pass, &[&[cpu(1, 0)], &[cpu(0, 2)]]), BalanceVerdict::Balanced);
        // Of three tasks on two CPUs one may change places after failures, if half of it fits.
        let small = decide(pass, &[&[cpu(0, 1)], &[cpu(0, 2)]]);
        assert!(
            matches!(small, BalanceVerdict::Pull(_, Imbalance::Load(load)) if load < IDLE_TASK_LOAD)
        );
    }

    #[test]
    fn cpu_groups_with_nobody_waiting_are_evened_out_by_idle_cpus() {
        let pass = pass(Level::Machine, Measure::Normal, IdleKind::Idle);
        let (idle, one) = ([cpu(0, 0); 4], [cpu(1, 0); 4]);
        let two = [cpu(1, 0), cpu(0, 1), cpu(0, 0), cpu(0, 0)];
        assert_eq!(decide(pass, &[&idle, &one]), BalanceVerdict::Pull(1, Imbalance::Any));
        assert_eq!(decide(pass, &[&idle, &two]), BalanceVerdict::Pull(1, Imbalance::Any));
        assert_eq!(decide(pass, &[&two, &idle]), BalanceVerdict::Balanced);
        let lone = [cpu(1, 0), cpu(0, 0), cpu(0, 0), cpu(0, 0)];
        assert_eq!(decide(pass, &[&idle, &lone]), BalanceVerdict::Balanced);
    }

    #[test]
    fn threads_of_a_core_have_less_power_each_and_levels_their_own_pace() {
        let smt: Topology = "2x2x2".parse().unwrap();
        assert_eq!(power_of_cpu(smt, Features::NONE), 589);
        assert_eq!(power_of_cpu(TOPOLOGY.parse().unwrap(), Features::NONE), FULL_POWER);
        let domain = |level| Domain::of(level, smt, Features::NONE);
        assert!(domain(Level::Node).spreads && domain(Level::Machine).spreads);
        assert!(!domain(Level::Smt).spreads && !domain(Level::Smt).idle_measure);
        let busy = |level| domain(level).min_interval.0 * domain(level).busy_factor;
        assert!(busy(Level::Smt) <= busy(Level::Node) && busy(Level::Node) < busy(Level::Machine));
    }
}
