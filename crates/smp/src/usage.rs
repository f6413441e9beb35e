//! The CPU time that tasks and groups used, over all CPUs.

use crate::control::Home;
use crate::host::{Controlled, Effects};
use crate::machine::Machine;
use runyard_engine::attr::GroupId;
use runyard_engine::cpu::CpuId;
use runyard_engine::time::{Nanos, Time};

impl<W: Controlled> Machine<W> {
    /// Returns the CPU time that the tasks of a group other than the root used on a CPU until `now`, during the group's
    /// life. It includes the groups below, also those that were removed.
    pub fn used_in(
        &self,
        now: Time,
        group: GroupId,
        cpu: CpuId,
        fx: &mut impl Effects<W>,
    ) -> Nanos {
        // The charge of the running task may have used up a budget.
        self.cpus.act(now, cpu, fx, |rq| rq.used_in(now, group))
    }

    /// Returns the CPU time charged until `now` to the task with the control cell `cell`. Returns `None` if it is in no
    /// run queue.
    pub fn used_by(
        &self,
        now: Time,
        cell: &(impl Controlled + ?Sized),
        fx: &mut impl Effects<W>,
    ) -> Option<Nanos> {
        let tag = cell.tag();
        while let Home::At(cpu, slot) = tag.home() {
            let seen = self.cpus.act(now, cpu, fx, |rq| {
                let is_here = tag.home() == Home::At(cpu, slot);
                is_here.then(|| rq.used_by(now, slot).filter(|&(task, _)| tag.is_of(task)))
            });
            if let Some(known) = seen {
                return known.map(|(_, used)| used);
            }
        }
        None
    }
}
