//! The ways in which workers come to slots: their threads are started, they wait as spares, and tasks that might need a
//! spare wait for them. The [maker](crate::crew::maker) decides when.

use crate::current::runtime::Entered;
use crate::os;
use crate::os::above::without_preemption;
use crate::os::refusal::Refusal;
use crate::os::sync::Arc;
use crate::os::threads;
use crate::protocol::handoff::WorkerId;
use crate::registry::Registry;
use crate::shared::{Scheduler, Shared};
use crate::task::Job;
use crate::worker::Worker;
use runyard_engine::cpu::CpuId;
use runyard_smp::machine::TaskOf;
use std::thread;

/// Ends the process if the runtime's own code panics: its tasks would wait for ever for a worker that is gone. Panics
/// of tasks are caught before.
struct Fatal;

impl Drop for Fatal {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}

impl Shared {
    /// Starts a thread with a worker of its own, which owns the slot or waits until it is needed.
    pub(crate) fn start_worker(
        self: &Arc<Shared>,
        cpu: CpuId,
        owns: bool,
    ) -> Result<WorkerId, Refusal> {
        let new = |id| Worker::new(self, id, cpu);
        let worker = self.scheduler.crew().threads.take_vacant(new).ok_or(Refusal::Ceiling)?;
        worker.prepare(cpu);
        let thread = self.scheduler.crew().threads.hooks.thread(format!("runyard-{cpu}"));
        let (shared, lives) = (self.clone(), worker.clone());
        let spawned = thread.spawn(move || {
            let _fatal = Fatal;
            let _context = Entered::enter(&shared);
            shared.scheduler.driver().enter_for_life();
            shared.scheduler.crew().threads.hooks.around(|| lives.live(owns));
        });
        let started = match spawned {
            Err(error) => Err(Refusal::Thread(error)),
            Ok(thread)
                if self.scheduler.crew().keeper.unseen(|| worker.thread.wait_until_ready()) =>
            {
                Ok(thread)
            }
            Ok(thread) => {
                threads::join(thread);
                Err(Refusal::Timer)
            }
        };
        match started {
            Ok(thread) => {
                let id = worker.thread.id();
                self.scheduler.crew().threads.has_started(id, thread);
                Ok(id)
            }
            Err(refusal) => {
                self.scheduler.crew().threads.vacate(worker);
                Err(refusal)
            }
        }
    }
}

impl Scheduler {
    /// Makes a task wait for threads, in the lobby, unless the runtime ends.
    pub(crate) fn wait_for_threads(&self, registry: &Registry, task: TaskOf<Job>) {
        self.crew().maker.wait_in_lobby(task);
        self.crew().maker.order();
        if registry.is_closed() {
            self.let_in(usize::MAX);
        }
    }

    /// Lets the next task of the lobby in after a poll on `cpu`, if its slot still has a spare for it.
    pub(crate) fn let_in_next(&self, cpu: CpuId) {
        if self.crew().maker.nr_in_lobby() > 0 && self.crew().slot(cpu).has_spares(1) {
            self.let_in(1);
        }
    }

    /// Lets this many tasks of the lobby in: there are threads for them, or all tasks are to end.
    pub(crate) fn let_in(&self, many: usize) {
        // Tasks that return to the lobby meanwhile wait for the next call.
        for _ in 0..self.crew().maker.nr_in_lobby().min(many) {
            without_preemption(|| {
                let first = self.crew().maker.leave_lobby();
                let now = os::thread::now();
                first.into_iter().for_each(|task| self.wake(now, task, now));
            });
        }
    }
}
