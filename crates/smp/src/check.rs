//! What must hold between all run queues, counted afresh.

use crate::control::{Home, Tag};
use crate::hints::Snapshot;
use crate::host::{Controlled, tag};
use crate::machine::Machine;
use crate::sync::lock;
use runyard_engine::cpu::CpuId;
use runyard_engine::group::Groups;

impl<W: Controlled> Machine<W> {
    /// Asserts every run queue's invariants, and those between them.
    ///
    /// # Panics
    /// If one does not hold. Only for a machine that nobody is using meanwhile.
    pub fn check(&self) {
        let mut loads = vec![0; self.groups.count()];
        for cpu in self.config.topology.iter() {
            self.check_hints(cpu);
            self.inspect(cpu, |rq| {
                rq.check();
                for (slot, task) in rq.tasks() {
                    let home = tag(task).map(Tag::home);
                    let known = home.is_none_or(|home| home == Home::At(cpu, slot));
                    assert!(known, "{} knows its home, {home:?}\n{rq}", task.id);
                }
                for (group, load) in rq.group_loads() {
                    loads[group.index()] += load;
                }
            });
        }
        self.check_limits();
        for group in self.groups.ids().skip(1) {
            let sum = loads[group.index()];
            assert_eq!(sum, self.groups.load(group), "the load of {group:?} is that of its CPUs");
        }
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
