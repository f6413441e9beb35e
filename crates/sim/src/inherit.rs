//! Priority inheritance: the owner of a mutex runs with the highest priority of the tasks that wait for it, through
//! chains of mutexes.
//!
//! The mutexes keep base priorities and donors. The engine receives the result as an ordinary request. The walk along a
//! chain goes from the waiter to the owner, then to the mutex that the owner waits for, and on, until a priority does
//! not change. A cycle is a deadlock of the scenario. The walk ends there as well, since priorities only rise along it
//! and are bounded.
//!
//! An owner may be throttled by the limit of a group that its waiter is not in. It then continues in the lowest group
//! that contains both tasks, and its own group is charged.
//!
//! Nice values are not inherited, as in the kernel.

use crate::program::Waiting;
use crate::sim::Sim;
use runyard_engine::inherit::{Lent, Waiter};
use runyard_engine::task::TaskId;
use runyard_workload::objects::Awaited;
use runyard_workload::scenario::{MutexKind, ObjectId};

impl Sim<'_> {
    /// Propagates priorities after `task` began to wait for `mutex`.
    pub(crate) fn inherit(&mut self, task: TaskId, mutex: ObjectId) {
        debug_assert_eq!(self.tasks[task.index()].waiting, Waiting::Other(Awaited::Mutex(mutex)));
        if let Some(owner) = self.lends_to(mutex) {
            self.disinherit(owner);
        }
    }

    /// Updates the priority of `task` after its donors may have changed.
    pub(crate) fn disinherit(&mut self, task: TaskId) {
        if !self.inherits {
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
                next = self.lends_to(mutex);
            }
            self.request(task, lent.change());
        }
    }

    /// Returns the task that inherits from the waiters of `mutex`.
    fn lends_to(&self, mutex: ObjectId) -> Option<TaskId> {
        self.objects.owner(mutex).filter(|_| self.objects.kind(mutex) == MutexKind::Inherit)
    }

    /// Returns the attributes that a task inherits from its waiters.
    fn lent_to(&self, task: TaskId) -> Lent {
        let inherits = |mutex: &&ObjectId| self.objects.kind(**mutex) == MutexKind::Inherit;
        let holds = self.tasks[task.index()].holds.iter().filter(inherits);
        let waiters = holds.flat_map(|&mutex| self.objects.waiters(mutex));
        let waiters = waiters.map(|waiter| {
            let waiter = &self.tasks[waiter.index()];
            Waiter { prio: waiter.class().lent_prio(), group: waiter.queue_group() }
        });
        let (own, groups) = (self.tasks[task.index()].group(), self.machine.groups());
        waiters.fold(Lent::default(), |lent, waiter| lent.also_from(waiter, own, groups))
    }
}
