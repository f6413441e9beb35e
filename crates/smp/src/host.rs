//! What a host and the machine give each other: tasks, and what is to be done with them.
//!
//! Hosts know it by [`crate::machine`]. It is a file of its own because every part of the machine uses
//! it, and it uses none of them.

pub use crate::control::Controlled;
use crate::control::{Control, Home, Requests, Tag, take};
use crate::sync::Arc;
use runyard_engine::attr::{Cookie, RtPrio};
use runyard_engine::balance::Balanced;
use runyard_engine::cpu::CpuId;
use runyard_engine::limits::Throttling;
use runyard_engine::run_queue::{Enqueue, Resched, Switch};
use runyard_engine::task::Task;
use runyard_engine::time::VTime;

/// The plain form of what a host gives a task: the control cell, and whatever else the host needs.
#[derive(Debug)]
pub struct Work<W> {
    /// The task's control cell.
    pub control: Arc<Control>,
    /// The host's part.
    pub work: W,
}

impl<W> Controlled for Work<W> {
    fn tag(&self) -> &Tag {
        self.control.tag()
    }

    fn requests(&self) -> &Requests {
        self.control.requests()
    }
}

/// A task of a machine whose host needs `W` to run one.
pub type TaskOf<W> = Box<Task<W>>;

/// A task on its way to a run queue.
#[derive(Debug)]
pub struct Moving<W> {
    pub(crate) task: TaskOf<W>,
    /// Where it goes.
    pub to: CpuId,
    /// Where it was.
    pub from: CpuId,
    pub(crate) why: Enqueue,
    pub(crate) refusals: u8,
    /// With which priority `to` pulled it, and so passed over others.
    pub(crate) pulled: Option<RtPrio>,
}

impl<W> Moving<W> {
    pub(crate) fn new(task: TaskOf<W>, from: CpuId, to: CpuId, why: Enqueue) -> Moving<W> {
        Moving { task, to, from, why, refusals: 0, pulled: None }
    }

    /// The task that is moved.
    #[must_use]
    pub fn task(&self) -> &Task<W> {
        &self.task
    }
}

/// What a call asks of its host, in the order in which it must be done.
pub trait Effects<W> {
    /// `cpu` must call [`Machine::schedule`](crate::machine::Machine::schedule) as soon as it can.
    fn kick(&mut self, cpu: CpuId);

    /// A task is on its way. A host on which that takes no time gives it back; one that keeps it
    /// must bring it to [`Machine::arrive`](crate::machine::Machine::arrive) later.
    fn carry(&mut self, moving: Moving<W>) -> Option<Moving<W>> {
        Some(moving)
    }

    /// `cpu` compared itself with others, or searched them for tasks. For accounts; nothing is to be done.
    fn balanced(&mut self, cpu: CpuId, balanced: Balanced) {
        let _ = (cpu, balanced);
    }

    /// A task group is throttled on `cpu` from now on, or all real-time tasks are; or they are not any
    /// more. For accounts; nothing is to be done, and the run queue's lock is held.
    fn throttling(&mut self, cpu: CpuId, throttling: Throttling) {
        let _ = (cpu, throttling);
    }

    /// `cpu` idles from now on though tasks wait there, as its core runs tasks of this cookie, or such without one. It
    /// may be said again with another cookie. That it ends is seen by what `cpu` schedules next. For accounts; nothing is to
    /// be done, and a lock of the core is held.
    fn forced_idle(&mut self, cpu: CpuId, by: Option<Cookie>) {
        let _ = (cpu, by);
    }

    /// Where the first newcomer that waits for `cpu` with the host has its
    /// [place](crate::machine::Machine::place_newcomer). Takes no lock: a run-queue lock is held.
    fn first_outside(&mut self, cpu: CpuId) -> Option<VTime> {
        let _ = cpu;
        None
    }

    /// The run queue of `cpu` changed, or may have; its lock is held. Only for who checks what changed.
    fn touched(&mut self, cpu: CpuId) {
        let _ = cpu;
    }

    /// Whether `cpu` publishes nothing now: the host will call
    /// [`Machine::publish_held_back`](crate::machine::Machine::publish_held_back) later. Only simulators
    /// do that, to make others decide on stale hints.
    fn hold_back(&mut self, cpu: CpuId) -> bool {
        let _ = cpu;
        false
    }
}

/// Kicks `cpu` if its run queue asks for a switch.
pub(crate) fn kick_if<W>(resched: Resched, cpu: CpuId, fx: &mut impl Effects<W>) {
    if resched == Resched::Yes {
        fx.kick(cpu);
    }
}

/// The task's tag; a running task's is with its host.
pub(crate) fn tag<W: Controlled>(task: &Task<W>) -> Option<&Tag> {
    task.payload.as_ref().map(Controlled::tag)
}

/// The task is in no run queue from now on. The caller holds the lock of the one it left.
pub(crate) fn mark_away<W: Controlled>(task: &TaskOf<W>) {
    tag(task).expect("a task that leaves has its payload").set_home(Home::Away);
}

/// What a switch released is in no run queue from now on. The caller holds the lock of the one it left.
#[inline(always)]
pub(crate) fn mark_released<W: Controlled>(switch: &Switch<W>) {
    if let Some((task, _)) = &switch.released {
        tag(task).into_iter().for_each(|tag| tag.set_home(Home::Away));
    }
}

/// Carries out what was asked while the task was with its host, which may do so before it brings it.
pub fn apply_pending<W: Controlled>(task: &mut TaskOf<W>) {
    let cell = task.payload.as_ref().expect("a task that is with its host has its payload");
    if cell.tag().was_asked()
        && let Some(change) = take(cell)
    {
        task.apply(change);
    }
}
