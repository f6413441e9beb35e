//! Priority inheritance: who holds a mutex runs as importantly as the best of those who wait for
//! it, through chains of mutexes.
//!
//! The mutexes keep base priorities and donors; the engine is told the result, as a request like
//! any other. A chain is walked from the waiter to the owner, to the mutex that the owner waits
//! for, and on, until a priority does not change. A cycle is a deadlock of the scenario's; the walk
//! ends there too, since priorities only rise along it and are bounded.
//!
//! Who is held back by the limit of a group in which a waiter is not runs on in the lowest group that
//! both are in, and its own group pays.
//!
//! Nice values are not inherited, as in the kernel.

use crate::program::Waiting;
use crate::sim::{Observer, Sim};
use runyard_engine::attr::{GroupId, RtPrio};
use runyard_engine::task::{Change, TaskId};
use runyard_workload::objects::Awaited;
use runyard_workload::scenario::ObjectId;

/// What a task inherits from those who wait for what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lent {
    /// The best of their real-time priorities.
    pub(crate) boost: Option<RtPrio>,
    /// Where it competes, if a limit of its own group could keep them waiting.
    pub(crate) group: Option<GroupId>,
}

impl<O: Observer> Sim<'_, O> {
    /// `task` began to wait for `mutex`.
    pub(crate) fn inherit(&mut self, task: TaskId, mutex: ObjectId) {
        debug_assert_eq!(self.tasks[task.index()].waiting, Waiting::Other(Awaited::Mutex(mutex)));
        if let Some(owner) = self.objects.owner(mutex) {
            self.disinherit(owner);
        }
    }

    /// The donors of `task` may be others than before.
    pub(crate) fn disinherit(&mut self, task: TaskId) {
        if !self.scenario.pi_enabled {
            return;
        }
        let mut next = Some(task);
        while let Some(task) = next.take() {
            let lent = self.lent_to(task);
            let program = &mut self.tasks[task.index()];
            if program.lent == lent {
                return;
            }
            program.lent = lent;
            if let Waiting::Other(Awaited::Mutex(mutex)) = program.waiting {
                next = self.objects.owner(mutex);
            }
            let Lent { boost, group } = lent;
            let change =
                Change { boost: Some(boost), inherited_group: Some(group), ..Change::default() };
            self.request(task, change);
        }
    }

    /// What those who wait for a task lend it.
    fn lent_to(&self, task: TaskId) -> Lent {
        let holds = self.tasks[task.index()].holds.iter();
        let waiters = holds.flat_map(|&mutex| self.objects.waiters(mutex));
        let waiters = waiters.map(|waiter| &self.tasks[waiter.index()]);
        let own = self.tasks[task.index()].group();
        waiters.fold(Lent::default(), |Lent { boost, group }, waiter| Lent {
            boost: boost.max(waiter.rt_prio()),
            group: self.unlimited_with(own, group, waiter.queue_group()).or(group),
        })
    }

    /// The lowest group that a task of group `own`, which inherited `so_far`, has in common with one of
    /// `waiter`, if a limit below it would hold the task back.
    fn unlimited_with(
        &self,
        own: GroupId,
        so_far: Option<GroupId>,
        waiter: GroupId,
    ) -> Option<GroupId> {
        let lineage = |group| {
            let parent = |&group: &GroupId| {
                let above = self.scenario.groups[group.index()].parent;
                (group != GroupId::ROOT).then_some(above)
            };
            std::iter::successors(Some(group), parent)
        };
        let outside = |&group: &GroupId| !lineage(waiter).any(|above| above == group);
        let limited = |group| self.machine.limit(group).is_some();
        let start = so_far.unwrap_or(own);
        let held = lineage(own).take_while(outside).any(limited);
        let common = lineage(start).find(|group| !outside(group));
        common.filter(|&common| held && common != own)
    }
}
