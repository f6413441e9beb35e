//! The kernel thread of a worker: who it is, the slot that it owns, and the baton on which it waits for one. Here are the
//! steps from one slot to the next; [`super::steer`] has the CPUs to which the thread is bound, [`super::timer`] its
//! timer.

use super::alarm::Alarm;
use super::binding::Binding;
use super::life::Life;
use crate::crew::host_cpus::Given;
use crate::crew::members::Crew;
use crate::crew::meter::Reading;
use crate::os;
use crate::os::sync::{Arc, AtomicU32, Ordering};
use crate::os::thread::Tid;
use crate::protocol::baton::Baton;
use crate::protocol::handoff::{Slot, WorkerId};
use runyard_engine::cpu::CpuId;
use runyard_engine::time::Nanos;

/// The length of a poll from which the thread's CPU time is read: the read takes half a microsecond.
const METERED_FROM: Nanos = Nanos::from_millis(1);

/// The kernel thread of a worker, and its slot. Any thread may ask for them; the thread that gives a slot writes them.
#[derive(Debug)]
pub(crate) struct Thread {
    id: WorkerId,
    crew: Arc<Crew>,
    /// The slot that it owns, or owned last. Written by the thread that gives it one.
    slot: AtomicU32,
    /// Granted by the thread that gives it a slot, or lets it go.
    baton: Baton,
    life: Life,
    pub(super) alarm: Alarm,
    pub(super) binding: Binding,
    /// Its CPU time when the engine last asked; see the type.
    reading: Reading,
}

impl Thread {
    /// A thread that has not started, for a slot.
    pub(super) fn new(id: WorkerId, crew: &Arc<Crew>, slot: CpuId) -> Thread {
        Thread {
            id,
            crew: crew.clone(),
            slot: AtomicU32::new(slot.0.into()),
            baton: Baton::new(),
            life: Life::new(),
            alarm: Alarm::none(),
            binding: Binding::none(),
            reading: Reading::default(),
        }
    }

    /// Prepares for a new thread.
    pub(super) fn prepare(&self, cpu: CpuId) {
        self.slot.store(cpu.0.into(), Ordering::Release);
        self.baton.lay_down();
        self.reading.begin();
        self.life.begin_anew();
    }

    /// Notes the calling thread as this one, and sets it up. Returns whether the kernel grants all that it needs.
    pub(super) fn begins_here(&self) -> bool {
        let (tid, preemption) = (self.life.begins_here(), self.crew.preemption());
        self.pin(Given::Everywhere, self.cpu(), || {});
        !preemption.is_on || self.alarm.make(tid, preemption.signal)
    }

    /// Notes whether the thread can run tasks.
    pub(super) fn is_ready(&self, granted: bool) {
        self.life.is_ready(granted);
    }

    /// Waits until the thread has started: before that its state cannot be read. Returns `false` if the kernel refuses a
    /// resource that it needs; then the thread ends.
    pub(crate) fn wait_until_ready(&self) -> bool {
        self.life.wait_until_ready()
    }

    /// Notes that the thread, which calls this, is about to end.
    pub(super) fn ends(&self) {
        self.life.ends();
    }

    /// Returns whether the worker has a thread that has started and is not about to end.
    pub(super) fn has_thread(&self) -> bool {
        self.life.has_thread()
    }

    /// Ends the thread, which waited as a spare and was taken out of the spares.
    pub(crate) fn retire(&self) {
        self.life.retire();
        self.baton.grant();
    }

    /// Ends the thread, which calls this, as soon as it has given its slot away.
    pub(super) fn leaves(&self) {
        self.life.retire();
        self.crew.threads().leaves(self.id);
    }

    /// Returns whether the thread, which waited as a spare, is to end.
    pub(super) fn is_to_end(&self) -> bool {
        self.crew.is_over() || self.life.retires()
    }

    #[inline]
    pub(crate) fn id(&self) -> WorkerId {
        self.id
    }

    pub(super) fn crew(&self) -> &Crew {
        &self.crew
    }

    #[inline]
    pub(crate) fn tid(&self) -> Tid {
        self.life.tid()
    }

    pub(crate) fn baton(&self) -> &Baton {
        &self.baton
    }

    #[inline]
    pub(crate) fn reading(&self) -> &Reading {
        &self.reading
    }

    /// Returns the CPU of the slot that the thread owns, or owned last.
    #[inline]
    pub(crate) fn cpu(&self) -> CpuId {
        CpuId(self.slot.load(Ordering::Acquire) as u16)
    }

    /// Returns the slot that the thread owns, or owned last.
    #[inline]
    pub(super) fn slot(&self) -> &Slot {
        self.crew.slot(self.cpu())
    }

    /// Returns whether the thread owns its slot.
    #[inline]
    pub(crate) fn owns(&self) -> bool {
        self.slot().belongs_to(self.id)
    }

    /// Returns the CPU of the slot that the thread owns.
    pub(crate) fn own_cpu(&self) -> Option<CpuId> {
        self.owns().then(|| self.cpu())
    }

    /// Returns whether another thread calls this one.
    #[inline]
    pub(super) fn is_called(&self) -> bool {
        self.slot().calls(self.id)
    }

    /// Returns whether polls on this thread can be stopped.
    pub(crate) fn is_preempted(&self) -> bool {
        self.crew.preemption().is_on
    }

    /// Sends the runtime's signal to the thread.
    pub(super) fn signal(&self) {
        os::signal::ring(self.tid(), self.crew.preemption().signal);
    }

    /// Moves the thread, which waits as a spare, to another slot.
    pub(crate) fn move_to(&self, cpu: CpuId) {
        if self.cpu() != cpu {
            let moves = || self.slot.store(cpu.0.into(), Ordering::Release);
            self.pin(Given::Slot(self.cpu()), cpu, moves);
        }
    }

    /// Gives the slot of the thread, which blocks, to a spare. Returns `false` if there is none, or the thread does not
    /// block any more.
    pub(super) fn loses_slot(&self) -> bool {
        self.crew.take_slot(self.cpu(), self.id)
    }

    /// Makes the thread a spare of its slot.
    pub(super) fn becomes_spare(&self) {
        self.baton.lay_down();
        self.crew.keep_spare(self.cpu(), self.id);
    }

    /// Waits in the runtime's own code, after the baton was laid down, until the thread owns a slot or is to end.
    pub(super) fn wait_to_own(&self) {
        self.asleep(|| self.baton.wait_until(|| self.owns() || self.is_to_end()));
    }

    /// Waits in the middle of foreign code, after the baton was laid down, until the thread owns a slot. Returns `false` if
    /// it was let go. May be called in a signal handler.
    pub(super) fn wait_for_slot(&self) -> bool {
        let keeper = self.crew.keeper();
        let now = || {
            keeper.count_stopped(true);
            os::thread::now().0
        };
        let goes_on = || keeper.count_stopped(false);
        self.asleep(|| self.baton.wait_for_slot(|| self.owns(), now, goes_on))
    }

    /// Returns the most CPU time that a poll of this thread, which has lasted for `span`, has used. A thread that loses
    /// its CPU to others, or is stopped with its process, uses none meanwhile. The CPU clock is read only for a long
    /// poll.
    #[inline]
    pub(super) fn used_of(&self, span: Nanos) -> Nanos {
        if span < METERED_FROM {
            return span;
        }
        let used = os::thread::cpu_time(self.tid());
        used.map_or(span, |used| span.min(self.reading.of_poll(used)))
    }
}
