//! The engine's part of the task that a thread polls.

use crate::crew::keeper::Keeper;
use crate::os::sync::{AtomicBool, Ordering};
use crate::protocol::in_kernel::InKernel;
use crate::shared::Scheduler;
use crate::task::Job;
use runyard_engine::task::Task;
use runyard_smp::machine::TaskOf;

/// The engine's part of the task that a thread polls.
#[derive(Debug)]
pub(crate) struct Part {
    /// Whether the thread has it: it is neither stopped nor has lost its slot. Written by the owner of the slot.
    is_here: AtomicBool,
    /// The part of a task that blocks in the kernel on this thread: left by the worker that took the slot, taken by this
    /// thread or the keeper.
    in_kernel: InKernel<TaskOf<Job>>,
    /// Whether the slot was taken in this poll, as the thread blocked.
    has_blocked: AtomicBool,
}

impl Part {
    pub(super) fn none() -> Part {
        Part {
            is_here: AtomicBool::new(false),
            in_kernel: InKernel::new(),
            has_blocked: AtomicBool::new(false),
        }
    }

    /// Returns whether the thread has the part of the task that it polls.
    #[inline]
    pub(super) fn is_here(&self) -> bool {
        self.is_here.load(Ordering::Acquire)
    }

    /// Notes that the thread has the part of the task that it polls, or has it no more.
    #[inline]
    pub(super) fn be_here(&self, is_here: bool) {
        self.is_here.store(is_here, Ordering::Release);
    }

    /// Takes the part from the thread, which is stopped or has lost its slot. Returns whether it had it.
    pub(super) fn take(&self) -> bool {
        self.is_here.swap(false, Ordering::AcqRel)
    }

    /// Returns whether the slot was taken in this poll, as the thread blocked.
    #[inline]
    pub(super) fn has_blocked(&self) -> bool {
        self.has_blocked.load(Ordering::Relaxed)
    }

    /// Notes whether the slot was taken in this poll, as the thread blocked.
    #[inline]
    pub(super) fn note_blocked(&self, has_blocked: bool) {
        self.has_blocked.store(has_blocked, Ordering::Relaxed);
    }

    /// Leaves the part of a task that blocks on this thread here, until the thread runs again. Returns it if the thread
    /// runs already.
    pub(super) fn leave_in_kernel(&self, task: TaskOf<Job>) -> Option<TaskOf<Job>> {
        self.in_kernel.leave(task)
    }

    /// Takes the part that was left here, as the thread is back in the runtime's code. There may be none: the worker
    /// that took the slot may not have left the task yet; or the task is queued already, as this thread was let go.
    pub(super) fn come_back(&self) -> Option<TaskOf<Job>> {
        self.in_kernel.come_back()
    }

    /// Notes that the thread owns a slot again.
    pub(super) fn owns_again(&self) {
        self.in_kernel.owns_again();
    }

    /// Calls `look` with the task that blocks in the kernel on this thread, if there is one.
    pub(crate) fn look_in_kernel(&self, look: impl FnOnce(&Task<Job>)) {
        self.in_kernel.look(|task| look(task));
    }

    /// Asks for a slot in the name of this thread, if it waits for one and cannot ask. Calls no foreign code.
    pub(crate) fn ask_if_it_wants(&self, scheduler: &Scheduler) {
        let task = self.in_kernel.take_if_wanted();
        task.into_iter().for_each(|task| scheduler.wake_now(task));
    }

    /// Returns whether another thread has to ask for a slot in the name of this one.
    pub(super) fn wants_slot(&self) -> bool {
        self.in_kernel.wants_slot()
    }

    /// Sets whether this thread wants a slot for which another thread has to ask. May be called in a signal handler.
    pub(super) fn want_slot(&self, keeper: &Keeper, wants: bool) {
        if self.in_kernel.want_slot(wants) {
            keeper.count_wanting(wants);
        }
    }
}
