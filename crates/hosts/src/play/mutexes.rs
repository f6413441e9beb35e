//! Mutexes that belong to a host, outside of the world's lock, as the world sees them.
//!
//! The world still has to know when no task can go on, in a run without a duration. So a task that begins to wait
//! stores the mutex that it wants in its [`Seat`], and checks whether all other tasks wait, too. A mutex that is free,
//! or that belongs to the task that wants it, delays no task; its word tells both exactly.

use crate::sync::{AtomicU32, AtomicU64, Ordering};
use runyard_engine::task::TaskId;
use runyard_engine::time::Time;
use runyard_workload::scenario::{MutexKind, ObjectId};
use std::fmt::Debug;

/// The state of a task that other tasks may read.
#[derive(Debug)]
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "only the host `linux` has such mutexes")
)]
pub(crate) struct Seat {
    pub(crate) task: TaskId,
    /// The number of its thread, while it has one.
    pub(crate) thread: AtomicU32,
    /// The mutex that the task wants, as [`Wanted::encode`] encodes it; 0 if it wants none. Only the task writes it.
    wants: AtomicU64,
}

/// A mutex that a task wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) mutex: ObjectId,
    /// Whether the task can never get it, whatever others do.
    pub(crate) in_vain: bool,
    /// The number of earlier requests of the task, so that two requests are not taken for one.
    nth: u32,
}

/// The outcome of a wait for a mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "only the host `linux` has such mutexes")
)]
pub(crate) enum Waited {
    /// The task has the mutex; with the time at which it was given, if the task slept.
    Has(Option<Time>),
    /// The task was woken at this time and has to try again.
    Woken(Time),
    /// The task can never have it.
    InVain,
    /// The run is over.
    Over,
}

/// The mutexes of a host.
pub(crate) trait Mutexes: Debug + Send + Sync {
    /// Whether the host has mutexes of this kind.
    fn has(&self, kind: MutexKind) -> bool;

    /// Takes a mutex if it is free.
    fn try_lock(&self, seat: &Seat, mutex: ObjectId) -> bool;

    /// Waits for a mutex.
    fn wait(&self, seat: &Seat, mutex: ObjectId, now: &dyn Fn() -> Time) -> Waited;

    /// Gives a mutex back, if the task has it.
    fn unlock(&self, seat: &Seat, mutex: ObjectId, now: &dyn Fn() -> Time);

    /// Sleeps until the run is over.
    fn wait_for_end(&self);

    /// Whether a mutex is free, or belongs to this task.
    fn is_free_for(&self, seat: &Seat, mutex: ObjectId) -> bool;

    /// The task that has a mutex, or that had it when the run was over.
    fn owner(&self, mutex: ObjectId) -> Option<TaskId>;

    /// Ends the run: no task waits any more.
    fn end(&self);

    /// Lets a task leave a finished run. Tasks that wait for its mutexes are released.
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

    /// Stores that the task wants `mutex`; this is its `nth` request.
    pub(crate) fn want(&self, mutex: ObjectId, in_vain: bool, nth: u32) {
        self.wants.store(Wanted { mutex, in_vain, nth }.encode(), Ordering::SeqCst);
    }

    /// Stores that the task wants no mutex.
    pub(crate) fn want_none(&self) {
        self.wants.store(0, Ordering::SeqCst);
    }
}

impl Wanted {
    /// The request number, the mutex, and two flags. The last flag is always set.
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
