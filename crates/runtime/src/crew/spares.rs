//! The ways in which workers come to slots: their threads are started, they wait as spares, and tasks that might need a
//! spare wait for them. The [maker](crate::crew::maker) decides when.

use crate::current::runtime::Entered;
use crate::os;
use crate::os::above::without_preemption;
use crate::os::refusal::Refusal;
use crate::os::sync::Arc;
use crate::os::threads;
use crate::protocol::handoff::WorkerId;
use crate::shared::{Scheduler, Shared};
use crate::task::{Cell, Job};
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
    /// Gives a slot a spare worker: one of the pool, one of a slot that has more than `kept`, or one with a new thread,
    /// unless that was `refused`. Only the maker calls this.
    pub(crate) fn add_spare(
        self: &Arc<Shared>,
        cpu: CpuId,
        kept: usize,
        refused: Option<Refusal>,
    ) -> Result<(), Refusal> {
        let crew = &self.scheduler.crew;
        let id = match (crew.take_spare_beyond(kept), refused) {
            (Some(id), _) => id,
            (None, Some(refusal)) => return Err(refusal),
            (None, None) => self.start_worker(cpu, false)?,
        };
        crew.threads.worker(id).into_iter().for_each(|worker| worker.move_to(cpu));
        crew.keep_spare(cpu, id);
        Ok(())
    }

    /// Starts a thread with a worker of its own, which owns the slot or waits until it is needed.
    pub(crate) fn start_worker(
        self: &Arc<Shared>,
        cpu: CpuId,
        owns: bool,
    ) -> Result<WorkerId, Refusal> {
        let new = |id| Worker::new(self, id, cpu);
        let worker = self.scheduler.crew.threads.take_vacant(new).ok_or(Refusal::Ceiling)?;
        worker.prepare(cpu);
        let thread = self.scheduler.crew.threads.hooks.thread(format!("runyard-{cpu}"));
        let (shared, lives) = (self.clone(), worker.clone());
        let spawned = thread.spawn(move || {
            let _fatal = Fatal;
            let _context = Entered::enter(&shared);
            shared.scheduler.driver.enter_for_life();
            shared.scheduler.crew.threads.hooks.around(|| lives.live(owns));
        });
        let started = match spawned {
            Err(error) => Err(Refusal::Thread(error)),
            Ok(thread) if self.scheduler.crew.keeper.unseen(|| worker.wait_until_ready()) => {
                Ok(thread)
            }
            Ok(thread) => {
                threads::join(thread);
                Err(Refusal::Timer)
            }
        };
        match started {
            Ok(thread) => {
                let id = worker.id;
                self.scheduler.crew.threads.has_started(id, thread);
                Ok(id)
            }
            Err(refusal) => {
                self.scheduler.crew.threads.vacate(worker);
                Err(refusal)
            }
        }
    }

    /// Returns whether the owner of a slot must not poll a task: the task might block, and there is no spare that could
    /// take the slot over.
    pub(crate) fn must_wait(&self, cpu: CpuId, cell: &Cell) -> bool {
        self.scheduler.crew.lacks_spare_for(cpu, cell) && !self.registry.is_closed()
    }

    /// Makes a task wait for threads, in the lobby.
    pub(crate) fn wait_for_threads(&self, task: TaskOf<Job>) {
        self.scheduler.crew.maker.wait_in_lobby(task);
        self.scheduler.crew.maker.order();
        if self.registry.is_closed() {
            self.scheduler.let_in(usize::MAX);
        }
    }
}

impl Scheduler {
    /// Lets the next task of the lobby in after a poll on `cpu`, if its slot still has a spare for it.
    pub(crate) fn let_in_next(&self, cpu: CpuId) {
        if self.crew.maker.nr_in_lobby() > 0 && self.crew.slot(cpu).has_spares(1) {
            self.let_in(1);
        }
    }

    /// Lets this many tasks of the lobby in: there are threads for them, or all tasks are to end.
    pub(crate) fn let_in(&self, many: usize) {
        // Tasks that return to the lobby meanwhile wait for the next call.
        for _ in 0..self.crew.maker.nr_in_lobby().min(many) {
            without_preemption(|| {
                let first = self.crew.maker.leave_lobby();
                let now = os::thread::now();
                first.into_iter().for_each(|task| self.wake(now, task, now));
            });
        }
    }
}
