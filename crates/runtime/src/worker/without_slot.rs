//! The charges of a thread that has lost its slot because it blocks, and is not yet picked again
//! ([`crate::crew::slotless`]).

use super::section::Section;
use super::thread::Thread;
use crate::os;
use crate::os::sync::{AtomicU32, AtomicU64, Ordering};
use crate::task::Job;
use runyard_engine::attr::GroupId;
use runyard_engine::limits::Pools;
use runyard_engine::time::{Nanos, Time};
use runyard_smp::machine::Machine;

/// The charges of a thread without a slot. Written by the thread that takes its slot, while it blocks, by the keeper,
/// and by the thread that gives it one.
#[derive(Debug)]
pub(crate) struct WithoutSlot {
    /// The group of its task.
    group: AtomicU32,
    /// The thread's CPU time up to which the group has paid.
    paid: AtomicU64,
}

/// The CPU time that a thread without a slot used since the last check and in all, and whether its group has no budget
/// left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    pub(crate) ran: Nanos,
    pub(crate) all: Nanos,
    pub(crate) is_exhausted: bool,
}

impl WithoutSlot {
    pub(super) fn new() -> WithoutSlot {
        WithoutSlot { group: AtomicU32::new(GroupId::ROOT.0), paid: AtomicU64::new(0) }
    }

    fn group(&self) -> GroupId {
        GroupId(self.group.load(Ordering::SeqCst))
    }

    /// Notes that the thread has lost its slot, and that its task is in `group`. Called before the task can be queued
    /// again.
    pub(super) fn begin(
        &self,
        thread: &Thread,
        section: &Section,
        machine: &Machine<Job>,
        group: GroupId,
    ) {
        let used = if !section.waits() || machine.groups().is_limited(group) {
            thread.reading().runs_without_slot();
            os::thread::cpu_time(thread.tid()).unwrap_or_default()
        } else {
            // The thread has read the clock itself, and no group pays.
            section.used_as_it_began_to_wait()
        };
        self.paid.store(used.0, Ordering::SeqCst);
        self.group.store(group.0, Ordering::SeqCst);
        thread.crew().slotless().add(thread.id(), section.is_inside());
    }

    /// Charges the thread's group for the time that it used without a slot, as the thread is about to be given one. Does
    /// nothing if it did not lose one.
    pub(super) fn end(&self, thread: &Thread, machine: &Machine<Job>) {
        let lost = thread.crew().slotless().remove(thread.id());
        if lost && machine.groups().is_limited(self.group()) {
            self.charge(thread, machine, os::thread::now());
        }
    }

    /// Charges the time that the thread used without a slot since the last call.
    pub(crate) fn charge(&self, thread: &Thread, machine: &Machine<Job>, now: Time) -> Used {
        let Some(used) = os::thread::cpu_time(thread.tid()) else {
            return Used { ran: Nanos::ZERO, all: Nanos::ZERO, is_exhausted: false };
        };
        // The task that is picked next on this thread does not pay for this time again.
        thread.reading().renew(used);
        let paid = self.paid.fetch_max(used.0, Ordering::SeqCst);
        // Time on the clock does not measure a thread that is supposed to wait.
        let ran = if os::thread::KNOWS_CPU_TIME { used.0.saturating_sub(paid) } else { 0 };
        let ran = Nanos(ran);
        let is_exhausted = machine.cpu(thread.cpu()).charge_unpicked(now, self.group(), ran);
        Used { ran, all: used, is_exhausted }
    }

    /// Reduces the debt of the group of the thread, whose poll no signal could end, to the budget of one period.
    pub(super) fn forgive(&self, thread: &Thread, machine: &Machine<Job>) {
        let (now, group) = (os::thread::now(), self.group());
        if machine.groups().is_limited(group) {
            self.charge(thread, machine, now);
            machine.cpu(thread.cpu()).forgive(now, group);
        }
    }
}
