//! The invariants between all run queues. They are recounted over all CPUs, or only where a run queue changed.

use crate::control::{Home, Tag};
use crate::hints::Snapshot;
use crate::host::{Controlled, tag};
use crate::machine::{Machine, Queue};
use crate::sync::lock;
use runyard_engine::attr::GroupId;
use runyard_engine::cpu::CpuId;
use runyard_engine::group::{Blocked, Groups};
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
        let mut loads = vec![0; self.sight.groups.count()];
        let mut blocked = vec![Vec::new(); self.sight.groups.count()];
        for cpu in self.sight.config.topology.iter() {
            self.check_queue(cpu);
            self.inspect(cpu, |rq| {
                for (group, load) in rq.group_loads() {
                    loads[group.index()] += load;
                }
                for (group, part) in rq.blocked_loads() {
                    blocked[group.index()].push(part);
                }
            });
        }
        self.check_limits();
        for group in self.sight.groups.ids().skip(1) {
            self.check_load(group, loads[group.index()]);
            self.check_blocked(group, &blocked[group.index()]);
        }
    }

    /// Asserts the invariants of the run queues that changed since the last count of `sums`. For every group that has
    /// or had a part on them, it also asserts the invariants between CPUs. Recounts their parts of the sums.
    ///
    /// # Panics
    /// As [`Machine::check`].
    pub fn check_cpus(&self, changed: &[CpuId], sums: &mut Sums) {
        sums.parts.resize_with(self.sight.nr_cpus(), Vec::new);
        sums.all.resize(self.sight.groups.count(), Part::default());
        sums.counted.clear();
        for &cpu in changed {
            self.check_queue(cpu);
            self.count(cpu, sums);
        }
        for &(cpu, group, part) in &sums.counted {
            let all = sums.all[group.index()];
            self.check_load(group, all.load);
            if self.sight.groups.has_limit(group) {
                self.sight.groups.check_part(group, cpu, part.held, all.held);
                self.sight.groups.check_used(group, all.used);
            }
        }
    }

    fn count(&self, cpu: CpuId, sums: &mut Sums) {
        let old = std::mem::take(&mut sums.parts[cpu.index()]);
        let groups = self.inspect(cpu, |rq| {
            let there = rq.group_loads().map(|(group, _)| group);
            // The accounts of a limit remain after the group's queue is gone.
            let mut groups: Vec<_> = there.chain(old.iter().map(|&(group, _)| group)).collect();
            groups.sort_unstable();
            groups.dedup();
            groups
        });
        if groups.is_empty() {
            return;
        }
        old.iter().for_each(|&(group, part)| sums.all[group.index()].subtract(part));
        let mut new = Vec::with_capacity(groups.len());
        for group in groups {
            let part = self.inspect(cpu, |rq| self.part(rq, group));
            sums.all[group.index()].add(part);
            sums.counted.push((cpu, group, part));
            new.push((group, part));
        }
        new.retain(|&(_, part)| part != Part::default());
        sums.parts[cpu.index()] = new;
    }

    fn part(&self, rq: &Queue<W>, group: GroupId) -> Part {
        let load = rq.group_load(group);
        if !self.sight.groups.has_limit(group) {
            return Part { load, ..Part::default() };
        }
        let charged = rq.usage(Time::ZERO, group).unwrap_or_default().used;
        Part { load, held: rq.held(group), used: charged - rq.in_use(group) }
    }

    fn check_queue(&self, cpu: CpuId) {
        self.check_hints(cpu);
        self.inspect(cpu, |rq| {
            rq.check();
            for (slot, task) in rq.tasks() {
                let home = tag(task).map(Tag::home);
                let known = home.is_none_or(|home| home == Home::At(cpu, slot));
                assert!(known, "{} knows its home, {home:?}\n{rq}", task.id);
            }
        });
    }

    fn check_load(&self, group: GroupId, sum: u64) {
        assert_eq!(sum, self.sight.groups.load(group), "the load of {group:?} is that of its CPUs");
    }

    /// Removing a part rounds it down by less than a 64th of a weight. This happens at most once on each CPU in a
    /// period, and the error left in the sum decays. The remaining error is at most that of 47 periods.
    fn check_blocked(&self, group: GroupId, parts: &[Blocked]) {
        // A part that decays to nothing disappears without an update of the sum, so the sum may be old.
        let newest =
            self.sight.config.topology.iter().map(|cpu| self.inspect(cpu, Queue::load_period));
        let all = self.sight.groups.blocked(group).at(newest.max().unwrap_or(0));
        let sum: u64 = parts.iter().map(|part| part.at(all.period()).get()).sum();
        let rounded = 47 * self.sight.nr_cpus() as u64;
        let slack = (1 << Blocked::FRACTION_BITS) + rounded + sum / 16;
        let off = all.get().abs_diff(sum);
        assert!(off <= slack, "{group:?}: its sleepers left {} on all CPUs, {sum}", all.get());
    }

    /// Asserts that the hints of a CPU are up to date, unless the host holds them back.
    fn check_hints(&self, cpu: CpuId) {
        let locked = lock(&self.cpus[cpu.index()].queue);
        if locked.held_back.is_some() {
            return;
        }
        let is = Snapshot::of(&locked.rq);
        assert_eq!(locked.published, is, "CPU {cpu} has published its state\n{}", locked.rq);
        self.sight.hints.check(cpu, is, &locked.rq);
    }
}
