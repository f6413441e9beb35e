//! The vocabulary that a host and the machine share: tasks, and effects on them.
//!
//! Hosts reach it through [`crate::machine`]. It has a file of its own because every part of the machine uses it, and
//! it uses none of them.

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

/// The simplest payload of a task: the control cell, and the data of the host.
#[derive(Debug)]
pub struct Work<W> {
    /// The task's control cell.
    pub control: Arc<Control>,
    /// The host's data.
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

/// A task of a machine whose host needs `W` to run a task.
pub type TaskOf<W> = Box<Task<W>>;

/// A task on its way to a run queue.
#[derive(Debug)]
pub struct Moving<W> {
    pub(crate) task: TaskOf<W>,
    /// The destination CPU.
    pub to: CpuId,
    /// The CPU that it left.
    pub from: CpuId,
    pub(crate) why: Enqueue,
    pub(crate) refusals: u8,
    /// The priority with which `to` pulled the task. The pull passed over tasks of lower priority.
    pub(crate) pulled: Option<RtPrio>,
}

impl<W> Moving<W> {
    pub(crate) fn new(task: TaskOf<W>, from: CpuId, to: CpuId, why: Enqueue) -> Moving<W> {
        Moving { task, to, from, why, refusals: 0, pulled: None }
    }

    /// Returns the task that moves.
    #[must_use]
    pub fn task(&self) -> &Task<W> {
        &self.task
    }
}

/// The effects that a call has on the outside, in the order in which the host must perform them.
pub trait Effects<W> {
    /// Makes `cpu` call [`Machine::schedule`](crate::machine::Machine::schedule) as soon as it can.
    fn kick(&mut self, cpu: CpuId);

    /// Does the same as [`Effects::kick`] for a fair task that asks for the CPU of another fair task
    /// ([`Resched::Lazy`]). A host whose tasks finish their system calls first may make `cpu` do so later, at its next
    /// tick at the latest.
    fn kick_lazily(&mut self, cpu: CpuId) {
        self.kick(cpu);
    }

    /// Does the same as [`Effects::kick`] when the task of `cpu` is in user mode ([`Resched::InUserMode`]).
    fn kick_in_user_mode(&mut self, cpu: CpuId) {
        self.kick(cpu);
    }

    /// Reports that a timer was set in the run queue of `cpu` by a call for a task, on behalf of this or of another
    /// CPU, so that its next interrupt may be due earlier. No switch needs to follow. Only simulators have such timers,
    /// those of [`Feature::CfsBandwidth`](runyard_engine::features::Feature::CfsBandwidth). The run queue's lock is held
    /// during the call.
    fn timer_set(&mut self, cpu: CpuId) {
        let _ = cpu;
    }

    /// Carries a task to another CPU. A host without a delay for migrations returns the task. A host that keeps it must
    /// bring it to [`Cpus::arrive`](crate::machine::Cpus::arrive) later.
    fn carry(&mut self, moving: Moving<W>) -> Option<Moving<W>> {
        Some(moving)
    }

    /// Reports that `cpu` compared itself with other CPUs, or searched them for tasks. It serves accounting only.
    fn balanced(&mut self, cpu: CpuId, balanced: Balanced) {
        let _ = (cpu, balanced);
    }

    /// Reports that a task group, or all real-time tasks, became throttled or unthrottled on `cpu`. It serves
    /// accounting only. The run queue's lock is held during the call.
    fn throttling(&mut self, cpu: CpuId, throttling: Throttling) {
        let _ = (cpu, throttling);
    }

    /// Reports that `cpu` idles although tasks wait there, because its core runs tasks with this cookie, or tasks
    /// without a cookie. It may be repeated with another cookie. The next task that `cpu` schedules ends the forced
    /// idle time. It serves accounting only. The lock of the core is held during the call.
    fn forced_idle(&mut self, cpu: CpuId, by: Option<Cookie>) {
        let _ = (cpu, by);
    }

    /// Returns the [place](crate::machine::Sight::place_newcomer) of the first newcomer that waits for `cpu` with the
    /// host. The implementation must not take a lock, since a run-queue lock is held.
    fn first_outside(&mut self, cpu: CpuId) -> Option<VTime> {
        let _ = cpu;
        None
    }

    /// Reports that the run queue of `cpu` may have changed. Its lock is held during the call. Only checkers of changed
    /// run queues need it.
    fn touched(&mut self, cpu: CpuId) {
        let _ = cpu;
    }

    /// Returns whether `cpu` must delay the publication of its state. The host then calls
    /// [`Cpus::publish_held_back`](crate::machine::Cpus::publish_held_back) later. Only simulators do so, to make
    /// other CPUs decide on stale hints.
    fn hold_back(&mut self, cpu: CpuId) -> bool {
        let _ = cpu;
        false
    }
}

/// Kicks `cpu` if its run queue asks for a switch.
pub(crate) fn kick_if<W>(resched: Resched, cpu: CpuId, fx: &mut impl Effects<W>) {
    match resched {
        Resched::No => {}
        Resched::Lazy => fx.kick_lazily(cpu),
        Resched::InUserMode => fx.kick_in_user_mode(cpu),
        Resched::Yes => fx.kick(cpu),
    }
}

/// Returns the task's tag. A running task's payload, and so its tag, is with its host.
pub(crate) fn tag<W: Controlled>(task: &Task<W>) -> Option<&Tag> {
    task.payload.as_ref().map(Controlled::tag)
}

/// Marks that the task is in no run queue from now on. The caller holds the lock of the run queue that it left.
pub(crate) fn mark_away<W: Controlled>(task: &TaskOf<W>) {
    tag(task).expect("a task that leaves has its payload").set_home(Home::Away);
}

/// Marks that the task that a switch released is in no run queue from now on. The caller holds the lock of the run
/// queue that it left.
#[inline(always)]
pub(crate) fn mark_released<W: Controlled>(switch: &Switch<W>) {
    if let Some((task, _)) = &switch.released {
        tag(task).into_iter().for_each(|tag| tag.set_home(Home::Away));
    }
}

/// Applies the requests that arrived while the task was with its host. A host may call it before it brings the task
/// back.
pub fn apply_pending<W: Controlled>(task: &mut TaskOf<W>) {
    let cell = task.payload.as_ref().expect("a task that is with its host has its payload");
    if cell.tag().was_asked()
        && let Some(change) = take(cell)
    {
        task.apply(change);
    }
}
