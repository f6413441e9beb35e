//! The invariants between all run queues. They are recounted over all CPUs, or only where a run queue changed.

use crate::cpu::{OneCpu, Queue};
use crate::groups::GroupTable;
use crate::host::Controlled;
use crate::machine::Machine;
use runyard_engine::attr::GroupId;
use runyard_engine::cpu::CpuId;
use runyard_engine::group::Groups;
use runyard_engine::limits::Pools;
use runyard_engine::time::{Nanos, Time};

/// The parts of the task groups on each CPU and their sums, as of the last visit of [`Machine::check_cpus`].
#[derive(Debug, Default)]
pub struct Sums {
    /// For each CPU, the names and parts of the groups that had anything there.
    parts: Vec<Vec<(GroupId, Part)>>,
    /// The sum of each group.
    all: Vec<Part>,
    /// The parts of the last count.
    counted: Vec<(CpuId, GroupId, Part)>,
}

impl Sums {
    /// Returns the groups that have or had a part on the CPUs of the last count. A group may appear several times.
    pub fn groups_counted(&self) -> impl Iterator<Item = GroupId> {
        self.counted.iter().map(|&(_, group, _)| group)
    }

    fn count<W: Controlled>(&mut self, cpu: CpuId, one: &OneCpu<'_, W>) {
        let old = std::mem::take(&mut self.parts[cpu.index()]);
        let groups = one.inspect(|rq| {
            let there = rq.queues().group_loads().map(|(group, _)| group);
            // The accounts of a limit remain after the group's queue is gone.
            let mut groups: Vec<_> = there.chain(old.iter().map(|&(group, _)| group)).collect();
            groups.sort_unstable();
            groups.dedup();
            groups
        });
        if groups.is_empty() {
            return;
        }
        old.iter().for_each(|&(group, part)| self.all[group.index()].subtract(part));
        let mut new = Vec::with_capacity(groups.len());
        for group in groups {
            let part = one.inspect(|rq| Part::of(rq, &one.sight.groups, group));
            self.all[group.index()].add(part);
            self.counted.push((cpu, group, part));
            new.push((group, part));
        }
        new.retain(|&(_, part)| part != Part::default());
        self.parts[cpu.index()] = new;
    }
}

/// The part of a task group on one CPU, or on all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Part {
    load: u64,
    /// The budget of the group's limit that is drawn and not given back.
    held: Nanos,
    /// The CPU time used, as far as the pools know it.
    used: Nanos,
}

impl Part {
    fn of<W>(rq: &Queue<W>, groups: &GroupTable, group: GroupId) -> Part {
        let load = rq.queues().group_load(group);
        if !groups.has_limit(group) {
            return Part { load, ..Part::default() };
        }
        let charged = rq.queues().usage(Time::ZERO, group).unwrap_or_default().used;
        Part { load, held: rq.queues().held(group), used: charged - rq.queues().in_use(group) }
    }

    fn add(&mut self, other: Part) {
        self.load += other.load;
        self.held += other.held;
        self.used += other.used;
    }

    fn subtract(&mut self, other: Part) {
        self.load -= other.load;
        self.held -= other.held;
        self.used -= other.used;
    }
}

impl<W: Controlled> Machine<W> {
    /// Asserts the invariants of every run queue, and those between run queues.
    ///
    /// # Panics
    /// If an invariant does not hold. No other thread may use the machine during the call.
    pub fn check(&self) {
        let groups = self.groups();
        let mut loads = vec![0; groups.count()];
        let mut blocked = vec![Vec::new(); groups.count()];
        let mut newest = 0;
        for cpu in self.cpus.all() {
            cpu.check();
            cpu.inspect(|rq| {
                newest = newest.max(rq.queues().load_period());
                for (group, load) in rq.queues().group_loads() {
                    loads[group.index()] += load;
                }
                for (group, part) in rq.queues().blocked_loads() {
                    blocked[group.index()].push(part);
                }
            });
        }
        self.check_limits();
        for group in groups.ids().skip(1) {
            groups.check_load(group, loads[group.index()]);
            groups.check_blocked(group, &blocked[group.index()], newest);
        }
    }

    /// Asserts the invariants of the run queues that changed since the last count of `sums`. For every group that has
    /// or had a part on them, it also asserts the invariants between CPUs. Recounts their parts of the sums.
    ///
    /// # Panics
    /// As [`Machine::check`].
    pub fn check_cpus(&self, changed: &[CpuId], sums: &mut Sums) {
        let groups = self.groups();
        sums.parts.resize_with(self.sight().nr_cpus(), Vec::new);
        sums.all.resize(groups.count(), Part::default());
        sums.counted.clear();
        for &cpu in changed {
            let one = self.cpu(cpu);
            one.check();
            sums.count(cpu, &one);
        }
        for &(cpu, group, part) in &sums.counted {
            let all = sums.all[group.index()];
            groups.check_load(group, all.load);
            if groups.has_limit(group) {
                groups.check_part(group, cpu, part.held, all.held);
                groups.check_used(group, all.used);
            }
        }
    }

    /// Asserts that all granted budget is accounted for.
    fn check_limits(&self) {
        let groups = self.groups();
        for group in groups.ids().skip(1).filter(|&group| groups.has_limit(group)) {
            let (mut held, mut used) = (Vec::new(), Nanos::ZERO);
            for cpu in self.cpus.all() {
                let part = cpu.inspect(|rq| Part::of(rq, groups, group));
                held.push(part.held);
                used += part.used;
            }
            groups.check(group, &held);
            groups.check_used(group, used);
        }
    }
}
