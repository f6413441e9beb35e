//! What must hold between all run queues, counted afresh: over all CPUs, or where something changed.

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

/// What the task groups have on each CPU and in all, as of when [`Machine::check_cpus`] last saw the CPU.
#[derive(Debug, Default)]
pub struct Sums {
    /// By CPU, the groups that had anything there, by their names.
    parts: Vec<Vec<(GroupId, Part)>>,
    /// By group.
    all: Vec<Part>,
    /// What was counted last.
    counted: Vec<(CpuId, GroupId, Part)>,
}

impl Sums {
    /// The groups that have or had anything on the CPUs that were counted last, some of them several times.
    pub fn groups_counted(&self) -> impl Iterator<Item = GroupId> {
        self.counted.iter().map(|&(_, group, _)| group)
    }
}

/// What a task group has on a CPU, or on all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Part {
    load: u64,
    /// Of the budget of its limit, if it has one: drawn and not given back.
    held: Nanos,
    /// Used, as far as the pools know.
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
    /// Asserts every run queue's invariants, and those between them.
    ///
    /// # Panics
    /// If one does not hold. Only for a machine that nobody is using meanwhile.
    pub fn check(&self) {
        let mut loads = vec![0; self.groups.count()];
        let mut blocked = vec![Vec::new(); self.groups.count()];
        for cpu in self.config.topology.iter() {
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
        for group in self.groups.ids().skip(1) {
            self.check_load(group, loads[group.index()]);
            self.check_blocked(group, &blocked[group.index()]);
        }
    }

    /// Asserts the invariants of the run queues that changed since `sums` were counted, and of all groups that
    /// have or had anything there those between CPUs; counts their parts of the sums afresh.
    ///
    /// # Panics
    /// As [`Machine::check`].
    pub fn check_cpus(&self, changed: &[CpuId], sums: &mut Sums) {
        sums.parts.resize_with(self.cpus.len(), Vec::new);
        sums.all.resize(self.groups.count(), Part::default());
        sums.counted.clear();
        for &cpu in changed {
            self.check_queue(cpu);
            self.count(cpu, sums);
        }
        for &(cpu, group, part) in &sums.counted {
            let all = sums.all[group.index()];
            self.check_load(group, all.load);
            if self.groups.has_limit(group) {
                self.groups.check_part(group, cpu, part.held, all.held);
                self.groups.check_used(group, all.used);
            }
        }
    }

    fn count(&self, cpu: CpuId, sums: &mut Sums) {
        let old = std::mem::take(&mut sums.parts[cpu.index()]);
        let groups = self.inspect(cpu, |rq| {
            let there = rq.group_loads().map(|(group, _)| group);
            // What a limit accounts for stays when the queue has gone.
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
        if !self.groups.has_limit(group) {
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
        assert_eq!(sum, self.groups.load(group), "the load of {group:?} is that of its CPUs");
    }

    /// A part that is taken out again is rounded down, by less than a 64th of a weight. That happens once on each CPU in
    /// a period at the most, and what it leaves in the sum decays: 47 periods' worth is left.
    fn check_blocked(&self, group: GroupId, parts: &[Blocked]) {
        // A part of which nothing is left goes without a word, so the sum may not have been looked at since.
        let newest = self.config.topology.iter().map(|cpu| self.inspect(cpu, Queue::load_period));
        let all = self.groups.blocked(group).at(newest.max().unwrap_or(0));
        let sum: u64 = parts.iter().map(|part| part.at(all.period()).get()).sum();
        let rounded = 47 * self.cpus.len() as u64;
        let slack = (1 << Blocked::FRACTION_BITS) + rounded + sum / 16;
        let off = all.get().abs_diff(sum);
        assert!(off <= slack, "{group:?}: its sleepers left {} on all CPUs, {sum}", all.get());
    }

    /// Hints are stale only while they are held back.
    fn check_hints(&self, cpu: CpuId) {
        let locked = lock(&self.cpus[cpu.index()].queue);
        if locked.held_back.is_some() {
            return;
        }
        let is = Snapshot::of(&locked.rq);
        assert_eq!(locked.published, is, "CPU {cpu} has published what it is\n{}", locked.rq);
        self.hints.check(cpu, is, &locked.rq);
    }
}
