//! Mutexes that a host has of its own, outside of the world's lock: what the world asks of them.
//!
//! The world still has to know when nobody can go on, in a run without a duration. So a task that comes to wait says in
//! its [`Seat`] what it wants, and looks whether all others wait too. A mutex that is free, or that belongs to whoever
//! wants it, keeps nobody from going on; its word says both exactly.

use crate::sync::{AtomicU32, AtomicU64, Ordering};
use runyard_engine::task::TaskId;
use runyard_engine::time::Time;
use runyard_workload::scenario::{MutexKind, ObjectId};
use std::fmt::Debug;

/// What a task says of itself to the others.
#[derive(Debug)]
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "only the host `linux` has such mutexes")
)]
pub(crate) struct Seat {
    pub(crate) task: TaskId,
    /// The number of its thread, while it has one.
    pub(crate) thread: AtomicU32,
    /// The mutex that it wants, as [`Wanted::encode`] has it; 0 if it wants none. Written by the task alone.
    wants: AtomicU64,
}

/// A mutex that a task wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) mutex: ObjectId,
    /// Whether it never gets it, whatever others do.
    pub(crate) in_vain: bool,
    /// How often the task wanted one before, so that two wishes are not taken for one.
    nth: u32,
}

/// How a wait for a mutex went on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "only the host `linux` has such mutexes")
)]
pub(crate) enum Waited {
    /// The task has the mutex. When it was given to it, if it slept.
    Has(Option<Time>),
    /// It was woken then and is to try again.
    Woken(Time),
    /// It can never have it.
    InVain,
    /// The run is over.
    Over,
}

/// Mutexes of a host's own.
pub(crate) trait Mutexes: Debug + Send + Sync {
    /// Whether mutexes of this kind are.
    fn has(&self, kind: MutexKind) -> bool;

    /// Takes a mutex if it is free.
    fn try_lock(&self, seat: &Seat, mutex: ObjectId) -> bool;

    /// Waits for a mutex.
    fn wait(&self, seat: &Seat, mutex: ObjectId, now: &dyn Fn() -> Time) -> Waited;

    /// Gives a mutex back, if the task has it.
    fn unlock(&self, seat: &Seat, mutex: ObjectId, now: &dyn Fn() -> Time);

    /// Sleeps until the run is over.
    fn wait_for_end(&self);

    /// Whether nobody has a mutex, or this task.
    fn is_free_for(&self, seat: &Seat, mutex: ObjectId) -> bool;

    /// The task that has a mutex, or that had it when the run was over.
    fn owner(&self, mutex: ObjectId) -> Option<TaskId>;

    /// The run is over: nobody waits any more.
    fn end(&self);

    /// A task leaves a run that is over. Whoever waits for what it has is let go.
    fn leave(&self, seat: &Seat);
}

impl Seat {
    pub(crate) fn new(task: TaskId) -> Seat {
        Seat { task, thread: AtomicU32::new(0), wants: AtomicU64::new(0) }
    }

    /// The mutex that the task wants.
    pub(crate) fn wanted(&self) -> Option<Wanted> {
        Wanted::decode(self.wants.load(Ordering::SeqCst))
    }

    /// The task wants `mutex`, for the `nth` time that it wants any.
    pub(crate) fn want(&self, mutex: ObjectId, in_vain: bool, nth: u32) {
        self.wants.store(Wanted { mutex, in_vain, nth }.encode(), Ordering::SeqCst);
    }

    /// The task wants no mutex.
    pub(crate) fn want_none(&self) {
        self.wants.store(0, Ordering::SeqCst);
    }
}

impl Wanted {
    /// The number, the mutex, and two flags, of which the last is always set.
    fn encode(self) -> u64 {
        let nth = u64::from(self.nth) & 0x3fff_ffff;
        nth << 34 | u64::from(self.mutex.0) << 2 | u64::from(self.in_vain) << 1 | 1
    }

    fn decode(bits: u64) -> Option<Wanted> {
        let mutex = ObjectId((bits >> 2) as u32);
        let (in_vain, nth) = (bits >> 1 & 1 == 1, (bits >> 34) as u32);
        (bits != 0).then_some(Wanted { mutex, in_vain, nth })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_is_what_was_said() {
        let seat = Seat::new(TaskId(3));
        assert_eq!(seat.wanted(), None);
        for (mutex, in_vain, nth) in [(0, false, 0), (u32::MAX, true, 9), (7, false, 0x3fff_ffff)] {
            let mutex = ObjectId(mutex);
            seat.want(mutex, in_vain, nth);
            assert_eq!(seat.wanted(), Some(Wanted { mutex, in_vain, nth }));
        }
        seat.want_none();
        assert_eq!(seat.wanted(), None);
    }
}
