//! How workers come to slots: their threads are started, they wait there as spares, and tasks that might
//! need one wait for them. When that happens is for the [maker](crate::crew::maker).

use crate::crew::maker::Refusal;
use crate::crew::threads;
use crate::os;
use crate::os::sync::{Arc, Ordering};
use crate::protocol::handoff::{Slot, WorkerId};
use crate::runtime::Entered;
use crate::shared::Shared;
use crate::task::{Cell, Job};
use crate::worker::Worker;
use crate::worker::current::without_preemption;
use runyard_engine::cpu::CpuId;
use runyard_smp::machine::TaskOf;
use std::thread;

/// Ends the process if the runtime's own code panics: its tasks would wait for ever for a worker
/// that is gone. Panics of tasks are caught before.
struct Fatal;

impl Drop for Fatal {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}

impl Shared {
    /// Brings a slot a worker that waits there until it is needed: one of the pool, one of a slot that has
    /// more than `kept`, or one with a new thread, unless that was `refused`. Only for the maker.
    pub(crate) fn add_spare(
        self: &Arc<Shared>,
        cpu: CpuId,
        kept: usize,
        refused: Option<Refusal>,
    ) -> Result<(), Refusal> {
        let id = match (self.take_spare_beyond(kept), refused) {
            (Some(id), _) => id,
            (None, Some(refusal)) => return Err(refusal),
            (None, None) => self.start_worker(cpu, false)?,
        };
        self.threads.worker(id).into_iter().for_each(|worker| worker.move_to(cpu));
        self.keep_spare(cpu, id);
        Ok(())
    }

    /// A worker that is needed at no slot, or of which a slot has more than `kept`.
    pub(crate) fn take_spare_beyond(&self, kept: usize) -> Option<WorkerId> {
        let pooled = self.threads.take_from_pool();
        pooled.or_else(|| self.slots.iter().find_map(|slot| slot.take_spare_beyond(kept)))
    }

    /// Leaves a worker that has nothing to do among the spares of a slot, or in the pool.
    pub(crate) fn keep_spare(&self, cpu: CpuId, id: WorkerId) {
        if !self.slot(cpu).put_spare(id) {
            self.threads.put_into_pool(id);
        }
        if self.maker.nr_in_lobby() > 0 {
            self.maker.call();
        }
    }

    /// Starts a thread with a worker of its own, which owns the slot or waits until it is needed.
    pub(crate) fn start_worker(
        self: &Arc<Shared>,
        cpu: CpuId,
        owns: bool,
    ) -> Result<WorkerId, Refusal> {
        let new = |id| Worker::new(self, id, cpu);
        let worker = self.threads.take_vacant(new).ok_or(Refusal::Ceiling)?;
        worker.prepare(cpu);
        let thread = self.threads.hooks.thread(format!("runyard-{cpu}"));
        let (shared, lives) = (self.clone(), worker.clone());
        let spawned = thread.spawn(move || {
            let _fatal = Fatal;
            let _context = Entered::enter(&shared);
            shared.driver.enter_for_life();
            shared.threads.hooks.around(|| lives.live(owns));
        });
        let started = match spawned {
            Err(error) => Err(Refusal::Thread(error)),
            Ok(thread) if self.keeper.unseen(|| worker.wait_until_ready()) => Ok(thread),
            Ok(thread) => {
                threads::join(thread);
                Err(Refusal::Timer)
            }
        };
        match started {
            Ok(thread) => {
                let id = worker.id;
                self.threads.has_started(id, thread);
                Ok(id)
            }
            Err(refusal) => {
                self.threads.vacate(worker);
                Err(refusal)
            }
        }
    }

    /// Whether the owner of a slot may not poll a task: the task might block, and there is no spare that
    /// could take the slot over.
    pub(crate) fn must_wait(&self, cpu: CpuId, cell: &Cell) -> bool {
        !self.slot(cpu).has_spares(1) && !cell.is_light() && !self.closed.load(Ordering::SeqCst)
    }

    /// How many spares wait at the slots.
    pub(crate) fn nr_spares(&self) -> usize {
        self.slots.iter().map(Slot::nr_spares).sum()
    }

    /// A task that must wait for threads does.
    pub(crate) fn wait_for_threads(&self, task: TaskOf<Job>) {
        self.maker.wait_in_lobby(task);
        self.maker.order();
        if self.closed.load(Ordering::SeqCst) {
            self.let_in(usize::MAX);
        }
    }

    /// A poll has ended on `cpu`: if its slot still has a spare, that is there for the next task of the lobby.
    pub(crate) fn let_in_next(&self, cpu: CpuId) {
        if self.maker.nr_in_lobby() > 0 && self.slot(cpu).has_spares(1) {
            self.let_in(1);
        }
    }

    /// There are threads for so many tasks of the lobby, or all tasks are to end.
    pub(crate) fn let_in(&self, many: usize) {
        // Those that come back meanwhile wait for the next time.
        for _ in 0..self.maker.nr_in_lobby().min(many) {
            without_preemption(|| {
                let first = self.maker.leave_lobby();
                let now = os::thread::now();
                first.into_iter().for_each(|task| self.wake(now, task, now));
            });
        }
    }
}
