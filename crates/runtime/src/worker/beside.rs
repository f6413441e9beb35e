//! The tasks that wait beside the run queues, in batches and as newcomers, as any thread finds and changes them.

use super::Worker;
use super::batch::{Batches, Polls};
use crate::crew::kick::KickNow;
use crate::crew::kick::ring;
use crate::os;
use crate::os::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::shared::Scheduler;
use crate::task::Job;
use runyard_engine::cpu::CpuId;
use runyard_engine::time::{Nanos, Time, VTime};
use runyard_smp::control::Tag;
use runyard_smp::machine::TaskOf;

/// The tasks that no poll has spawned, away from the fields that all threads read.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Outsiders {
    /// The number of such tasks so far.
    pub(super) nr: AtomicUsize,
    /// The arrival of the last one with a number that is a multiple of the size of a flood.
    pub(super) counted_at: AtomicU64,
    pub(super) is_flood: AtomicBool,
    /// The CPU of the last one.
    pub(super) last: AtomicU32,
}

impl Outsiders {
    /// Returns whether the last ones were a flood.
    pub(super) fn is_flood(&self) -> bool {
        self.is_flood.load(Ordering::Relaxed)
    }
}

/// The tasks that are polled in batches, and those that come to them.
#[derive(Debug)]
pub(crate) struct Dispatch {
    /// The batches of each CPU. Empty if each poll is a separate scheduling decision.
    batches: Box<[Batches]>,
    /// The tasks that were spawned outside of every poll.
    pub(super) outsiders: Outsiders,
}

impl Dispatch {
    pub(crate) fn new(batches: Box<[Batches]>) -> Dispatch {
        Dispatch { batches, outsiders: Outsiders::default() }
    }

    /// Returns whether tasks are dispatched in batches.
    pub(crate) fn is_on(&self) -> bool {
        !self.batches.is_empty()
    }

    /// Returns the batches of a CPU, if tasks are dispatched in batches.
    pub(crate) fn of(&self, cpu: CpuId) -> Option<&Batches> {
        self.batches.get(cpu.index())
    }

    /// Returns the batches of all CPUs.
    pub(crate) fn all(&self) -> &[Batches] {
        &self.batches
    }

    /// Returns whether a task waits on a CPU in the runtime, outside the run queue.
    pub(crate) fn has_any(&self, cpu: CpuId) -> bool {
        self.len(cpu) > 0
    }

    /// Returns how many tasks wait on a CPU in the runtime, outside the run queue.
    pub(super) fn len(&self, cpu: CpuId) -> usize {
        self.of(cpu).map_or(0, |it| it.company.len() + it.newcomers.len())
    }

    /// Returns the place of the first newcomer of a CPU, as far as is known without the cache line that a push writes.
    #[inline]
    pub(crate) fn first_newcomer(&self, cpu: CpuId) -> Option<VTime> {
        self.of(cpu)?.newcomers.first().map(VTime)
    }

    /// Returns whether newcomers wait at a CPU.
    pub(super) fn has_newcomers(&self, cpu: CpuId) -> bool {
        self.of(cpu).is_some_and(|it| it.newcomers.len() > 0)
    }

    /// Returns the time that a task of a batch was charged until `now`.
    pub(crate) fn used_in_batch(&self, now: Time, tag: &Tag) -> Option<Nanos> {
        self.batches.iter().filter(|it| it.company.is_open()).find_map(|batches| {
            batches.company.look(|polls, task, is_polled| {
                let own = task.payload.as_ref().map(|job| (&raw const job.cell.tag).addr());
                let own = if is_polled { Some(polls.tag) } else { own };
                let more = if is_polled { now.since(polls.since) } else { Nanos::ZERO };
                (own == Some((&raw const *tag).addr())).then(|| task.runtime() + more)
            })
        })
    }
}

impl Scheduler {
    /// Returns whether a task waits on a CPU, in its queue or in a batch.
    pub(crate) fn is_wanted(&self, cpu: CpuId) -> bool {
        self.machine().sight().is_wanted(cpu) || self.dispatch().has_any(cpu)
    }

    /// Adds a task that the calling thread's poll wakes to its batch, if it may join.
    pub(crate) fn rejoin(&self, task: TaskOf<Job>) -> Result<(), TaskOf<Job>> {
        if !self.dispatch().is_on() {
            return Err(task);
        }
        let rejoins = |worker: &Worker, task| worker.poll.rejoin(&worker.thread, self, task);
        self.by_worker(task, rejoins)
    }

    /// Passes a task to the calling thread's worker, if it is one of this runtime.
    pub(crate) fn by_worker(
        &self,
        task: TaskOf<Job>,
        takes: impl FnOnce(&Worker, TaskOf<Job>) -> Result<(), TaskOf<Job>>,
    ) -> Result<(), TaskOf<Job>> {
        let mut task = Some(task);
        match self.here(|worker| takes(worker, task.take()?).err()) {
            None => task.map_or(Ok(()), Err),
            Some(left) => left.map_or(Ok(()), Err),
        }
    }

    /// Returns an idle CPU that could run a task that waits on `cpu`.
    pub(crate) fn idle_cpu_for(&self, cpu: CpuId) -> Option<CpuId> {
        let machine = self.machine();
        let beside =
            || machine.sight().idle_cpu_beside(cpu).filter(|_| self.dispatch().has_any(cpu));
        machine.sight().idle_cpu_for(cpu).or_else(beside)
    }

    /// Makes a task leave its batch, if it is in one, since a request was made to a task that is in no run queue.
    pub(crate) fn claim(&self, tag: &Tag) {
        if !self.dispatch().is_on() || !tag.is_away() {
            return;
        }
        for cpu in self.machine().config().topology.iter() {
            let Some(batches) = self.dispatch().of(cpu).filter(|it| it.has_any()) else { continue };
            let is_it = |task: &TaskOf<Job>| {
                task.payload.as_ref().is_some_and(|job| std::ptr::eq(&raw const job.cell.tag, tag))
            };
            let newcomer = || batches.newcomers.claim(is_it);
            if let Some(task) = batches.company.claim(is_it).or_else(newcomer) {
                let now = os::thread::now();
                return self.machine().give_back(now, task, (cpu, cpu), &mut KickNow(self));
            }
            let polled =
                |polls: &Polls, _: &_, is_polled| (is_polled && polls.is_of(tag)).then_some(());
            if batches.company.look(polled).is_some() {
                // The task names its batch, so the batch has to end.
                return ring(self, cpu);
            }
        }
    }

    /// Gives a task that was taken from the run queue of `from` to that of `to`.
    pub(super) fn give_back(&self, now: Time, from: CpuId, to: CpuId, task: TaskOf<Job>) {
        self.machine().give_back(now, task, (from, to), &mut KickNow(self));
    }
}
