//! Priority inheritance: who holds a mutex runs as importantly as the best of those who wait for
//! it, through chains of mutexes.
//!
//! The mutexes keep base priorities and donors; the engine is told the result, as a request like
//! any other. A chain is walked from the waiter to the owner, to the mutex that the owner waits
//! for, and on, until a priority does not change. A cycle is a deadlock of the scenario's; the walk
//! ends there too, since priorities only rise along it and are bounded.
//!
//! Nice values are not inherited, as in the kernel: a fair waiter lends nothing.

use crate::program::Waiting;
use crate::sim::{Observer, Sim};
use runyard_engine::task::{Change, TaskId};
use runyard_workload::objects::Awaited;
use runyard_workload::scenario::ObjectId;

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
            let boost = self.best_donor(task);
            let program = &mut self.tasks[task.index()];
            if program.boost == boost {
                return;
            }
            program.boost = boost;
            if let Waiting::Other(Awaited::Mutex(mutex)) = program.waiting {
                next = self.objects.owner(mutex);
            }
            self.request(task, Change { boost: Some(boost), ..Change::default() });
        }
    }

    fn best_donor(&self, task: TaskId) -> Option<runyard_engine::attr::RtPrio> {
        let holds = self.tasks[task.index()].holds.iter();
        let waiters = holds.flat_map(|&mutex| self.objects.waiters(mutex));
        waiters.filter_map(|waiter| self.tasks[waiter.index()].rt_prio()).max()
    }
}
