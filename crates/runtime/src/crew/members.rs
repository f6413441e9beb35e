//! The crew: the slots of a runtime, the threads that own them in turn, and the threads that serve those.

use super::host_cpus::HostCpus;
use super::keeper::Keeper;
use super::maker::{self, Maker};
use super::meter::Meters;
use super::slotless::Slotless;
use super::threads::Threads;
use crate::deferred::rubbish::{Rubbish, discard};
use crate::os::refusal::{Later, Refusal};
use crate::os::sync::{Arc, AtomicBool, Mutex, Ordering, lock};
use crate::os::threads::LOWEST_NICE;
use crate::protocol::handoff::{Slot, WorkerId};
use crate::registry::Registry;
use crate::task::Cell;
use crate::worker::Worker;
use runyard_engine::cpu::CpuId;
use std::thread::JoinHandle;

/// The means to stop a task in the middle of its poll.
#[derive(Debug)]
pub(crate) struct Preemption {
    /// Whether foreign code is preempted.
    pub(crate) is_on: bool,
    pub(crate) signal: i32,
    /// The seed of the siege, if this runtime is under one.
    pub(crate) siege: Option<u64>,
}

/// The slots and the threads of a runtime.
#[derive(Debug)]
pub(crate) struct Crew {
    pub(super) slots: Box<[Slot]>,
    /// The workers.
    pub(super) threads: Arc<Threads>,
    /// The worker that runs the task of each slot.
    pub(super) meters: Arc<Meters>,
    pub(super) keeper: Keeper,
    pub(super) maker: Maker,
    /// The threads that run without a slot.
    pub(super) slotless: Slotless,
    pub(super) cpus: HostCpus,
    pub(super) preemption: Preemption,
    /// The threads of the keeper, the maker, the siege and the search for stalls.
    servants: Mutex<Vec<JoinHandle<()>>>,
    over: AtomicBool,
    /// Whether it was told that an affinity cannot hold.
    has_said_in_vain: AtomicBool,
}

impl Crew {
    /// A crew without a running thread, with this many slots.
    pub(crate) fn new(
        slots: usize,
        (threads, meters): (Arc<Threads>, Arc<Meters>),
        maker: Maker,
        cpus: HostCpus,
        preemption: Preemption,
    ) -> Crew {
        Crew {
            slots: (0..slots as u32).map(|nth| Slot::new(WorkerId(nth))).collect(),
            slotless: Slotless::new(threads.most()),
            threads,
            meters,
            keeper: Keeper::new(),
            maker,
            cpus,
            preemption,
            servants: Mutex::default(),
            over: AtomicBool::new(false),
            has_said_in_vain: AtomicBool::new(false),
        }
    }

    #[inline]
    pub(crate) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    #[inline]
    pub(crate) fn threads(&self) -> &Arc<Threads> {
        &self.threads
    }

    #[inline]
    pub(crate) fn meters(&self) -> &Meters {
        &self.meters
    }

    #[inline]
    pub(crate) fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    #[inline]
    pub(crate) fn maker(&self) -> &Maker {
        &self.maker
    }

    #[inline]
    pub(crate) fn slotless(&self) -> &Slotless {
        &self.slotless
    }

    #[inline]
    pub(crate) fn cpus(&self) -> &HostCpus {
        &self.cpus
    }

    #[inline]
    pub(crate) fn preemption(&self) -> &Preemption {
        &self.preemption
    }

    #[inline]
    pub(crate) fn slot(&self, cpu: CpuId) -> &Slot {
        &self.slots[cpu.index()]
    }

    /// Keeps the handle of a servant's thread until the end.
    pub(crate) fn keep_servant(&self, thread: JoinHandle<()>) {
        lock(&self.servants).push(thread);
    }

    /// Takes the handles of the servants' threads.
    pub(crate) fn take_servants(&self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut *lock(&self.servants))
    }

    /// Asks all threads to end.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// Returns whether all threads were asked to end.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Takes the slot of `cpu` from a worker that blocks in foreign code, and gives it to a spare. Returns `false` if
    /// there is no spare, or the worker does not block any more.
    pub(crate) fn take_slot(&self, cpu: CpuId, from: WorkerId) -> bool {
        let slot = self.slot(cpu);
        let Some(spare) = slot.take_spare() else {
            self.maker.order();
            return false;
        };
        if !slot.has_spares(maker::SPARES) {
            self.maker.order();
        }
        let taken = slot.take_from(from, spare);
        if taken {
            self.grant(spare);
        } else {
            // The spare does not return to the pool, whose lock the handler must not take. If 64 others came meanwhile,
            // it waits until the end.
            slot.put_spare(spare);
        }
        taken
    }

    /// Grants a worker its baton. May be called in a signal handler.
    fn grant(&self, id: WorkerId) {
        self.threads.worker(id).into_iter().for_each(|worker| worker.thread.baton().grant());
    }

    /// Takes a worker of the pool, or of a slot that has more than `kept`.
    pub(crate) fn take_spare_beyond(&self, kept: usize) -> Option<WorkerId> {
        let pooled = self.threads.take_from_pool();
        pooled.or_else(|| self.slots.iter().find_map(|slot| slot.take_spare_beyond(kept)))
    }

    /// Gives every slot its spares, first one each: workers of the pool, of a slot that has more, or with new threads that
    /// `start` makes until one is refused. Returns the reason if a slot has fewer. Only the maker calls this.
    pub(crate) fn provide(
        &self,
        start: impl Fn(CpuId) -> Result<WorkerId, Refusal>,
    ) -> Option<Refusal> {
        let mut refused = None;
        for wanted in 1..=maker::SPARES {
            for nth in 0..self.slots.len() {
                let cpu = CpuId::at(nth);
                if self.slot(cpu).has_spares(wanted) {
                    continue;
                }
                let id = match (self.take_spare_beyond(wanted), refused.take()) {
                    (Some(id), _) => Ok(id),
                    (None, Some(refusal)) => Err(refusal),
                    (None, None) => start(cpu),
                };
                refused = id.map(|id| self.add_spare(cpu, id)).err();
            }
        }
        refused
    }

    /// Adds a worker, which waits at no slot or at another one, to the spares of a slot.
    fn add_spare(&self, cpu: CpuId, id: WorkerId) {
        self.threads.worker(id).into_iter().for_each(|worker| worker.thread.move_to(cpu));
        self.keep_spare(cpu, id);
    }

    /// Adds a worker without work to the spares of a slot, or to the pool.
    pub(crate) fn keep_spare(&self, cpu: CpuId, id: WorkerId) {
        if !self.slot(cpu).put_spare(id) {
            self.threads.put_into_pool(id);
        }
        if self.maker.nr_in_lobby() > 0 {
            self.maker.call();
        }
    }

    /// Retires a worker of the pool, or of a slot that has more than `kept`, and returns it.
    pub(crate) fn retire_spare_beyond(&self, kept: usize) -> Option<Arc<Worker>> {
        let worker = self.threads.worker(self.take_spare_beyond(kept)?)?;
        worker.thread.retire();
        Some(worker)
    }

    /// Takes the slots from sections that kept theirs because there was no spare when they began. It does so only
    /// without preemption, and so without the keeper.
    pub(crate) fn take_from_sections(&self) {
        if self.preemption.is_on {
            return;
        }
        for (nth, slot) in self.slots.iter().enumerate() {
            let owner = slot.owner();
            if self.threads.worker(owner).is_some_and(|worker| worker.section.waits()) {
                // If the section has just ended, its poll runs to its end without a slot.
                self.take_slot(CpuId::at(nth), owner);
            }
        }
    }

    /// Returns how many spares wait at the slots.
    pub(crate) fn nr_spares(&self) -> usize {
        self.slots.iter().map(Slot::nr_spares).sum()
    }

    /// Returns whether the owner of a slot must not poll a task: the task might block, and there is no spare that could
    /// take the slot over. A runtime that ends polls all.
    pub(crate) fn must_wait(&self, registry: &Registry, cpu: CpuId, cell: &Cell) -> bool {
        !cell.is_light() && !self.slot(cpu).has_spares(1) && !registry.is_closed()
    }

    /// Returns whether tasks are stopped in the middle of their polls now, on each worker.
    pub(crate) fn preempts_everywhere(&self) -> bool {
        let is_refused = [Later::Timers, Later::Signals].into_iter().any(Later::was_refused);
        self.preemption.is_on && self.keeper.nr_deaf() == 0 && !is_refused
    }

    /// Says once that a task's affinity cannot hold, because the process may not run on any of its CPUs. Called by the
    /// maker.
    pub(crate) fn say_if_nothing_in_common(&self) {
        if self.cpus.take_nothing_in_common()
            && !self.has_said_in_vain.swap(true, Ordering::Relaxed)
        {
            eprintln!(
                "runyard: the process may run on none of the CPUs of a task's affinity: the task runs on all CPUs of the \
                 process"
            );
        }
    }

    /// Says once that a thread is deaf, with the name of its task. Called by the maker.
    pub(crate) fn say_if_deaf(&self) {
        let Some((thread, cell)) = self.keeper.take_first_deaf() else { return };
        let name = cell.name().map_or_else(|| format!("{}", cell.id), str::to_owned);
        eprintln!(
            "runyard: thread {} does not let signal {} through in the poll of task {name}: the poll goes on without a \
             CPU of the runtime, at nice {LOWEST_NICE} if that can be undone; then the runtime unblocks the signal",
            thread.0, self.preemption.signal
        );
        discard(Rubbish::Cell(cell));
    }
}
