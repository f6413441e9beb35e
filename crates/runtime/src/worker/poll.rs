//! The poll that a thread is in.

use crate::os;
use crate::os::sync::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use crate::stall::PollClock;
use crate::task::Cell;
use runyard_engine::time::{Nanos, Time};

/// The work that a poll left for a check soon, the more urgent the larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Later {
    Nothing = 0,
    /// A task waits on this CPU, and might run on another.
    Waiter = 1,
    /// A task waits that should preempt.
    Kick = 2,
}

/// The value of `place` in no poll.
const NO_POLL: u64 = u64::MAX;

/// The state of the poll that a thread is in, and of its last one.
///
/// Legend of access: `(o)` read and written by this thread only, in its handler too; `(w)` written by this thread, read
/// by others.
#[derive(Debug)]
pub(crate) struct Poll {
    /// (w) The place of its task among the live ones.
    place: AtomicU64,
    /// (o) Whether foreign code of a poll runs.
    is_foreign: AtomicBool,
    /// (o) Its start, and whether it is of a real-time task.
    began: AtomicU64,
    is_rt: AtomicBool,
    /// (o) The time at which the last poll ended.
    ended: AtomicU64,
    /// (o) One of [`Later`].
    later: AtomicU32,
    /// (o) The time since which the tasks that this thread is waking could run; 0 for now.
    since: AtomicU64,
    /// (o) The batch of the poll; 0 for none.
    pub(super) batch: AtomicU64,
    /// (o) The time at which the virtual clock of its CPU was last updated in a poll.
    pub(super) clock_at: AtomicU64,
    /// (o) The time of the next search for a CPU that takes some of the waiting tasks.
    pub(super) shares_at: AtomicU64,
    /// (o) The start of the last poll that delayed a tick to its end, and the CPU time used by then.
    tick_waits_for: AtomicU64,
    used_before_tick: AtomicU64,
    /// (o) The number of mutexes that the poll took, less those that it released.
    guards: AtomicI32,
    /// (w) Its clock, for threads that ask how long it has lasted.
    pub(crate) clock: PollClock,
}

impl Poll {
    pub(super) fn none() -> Poll {
        Poll {
            place: AtomicU64::new(NO_POLL),
            is_foreign: AtomicBool::new(false),
            began: AtomicU64::new(0),
            is_rt: AtomicBool::new(false),
            ended: AtomicU64::new(0),
            later: AtomicU32::new(Later::Nothing as u32),
            since: AtomicU64::new(0),
            batch: AtomicU64::new(0),
            clock_at: AtomicU64::new(0),
            shares_at: AtomicU64::new(0),
            tick_waits_for: AtomicU64::new(0),
            used_before_tick: AtomicU64::new(0),
            guards: AtomicI32::new(0),
            clock: PollClock::default(),
        }
    }

    /// Begins a poll of a task.
    #[inline]
    pub(super) fn begin(&self, now: Time, cell: &Cell) {
        self.began.store(now.0, Ordering::Relaxed);
        self.is_rt.store(cell.slack.is_real_time(), Ordering::Relaxed);
        self.later.store(Later::Nothing as u32, Ordering::Relaxed);
        self.place.store(cell.place.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Ends a poll.
    #[inline]
    pub(super) fn end(&self) {
        self.place.store(NO_POLL, Ordering::Relaxed);
    }

    /// Returns the place of the task that is polled.
    #[inline]
    pub(super) fn place(&self) -> Option<u64> {
        Some(self.place.load(Ordering::Relaxed)).filter(|&place| place < NO_POLL)
    }

    /// Returns whether the task of `cell` is polled.
    pub(super) fn is_of(&self, cell: &Cell) -> bool {
        self.place.load(Ordering::Relaxed) == cell.place.load(Ordering::Relaxed)
    }

    /// Returns whether foreign code of a poll runs.
    #[inline]
    pub(super) fn is_foreign(&self) -> bool {
        self.is_foreign.load(Ordering::Relaxed)
    }

    /// Returns whether foreign code of a poll runs, for another thread. If the poll ends at this moment, it sees all that
    /// the caller has written before.
    pub(super) fn is_foreign_for_others(&self) -> bool {
        self.is_foreign.load(Ordering::SeqCst)
    }

    /// Runs foreign code of a poll.
    #[inline]
    pub(super) fn foreign(&self, code: impl FnOnce()) {
        self.is_foreign.store(true, Ordering::Relaxed);
        code();
        self.is_foreign.store(false, Ordering::Relaxed);
    }

    /// Runs `wakes` as if outside a poll.
    pub(super) fn outside<R>(&self, wakes: impl FnOnce() -> R) -> R {
        let is_foreign = self.is_foreign.swap(false, Ordering::Relaxed);
        let result = wakes();
        self.is_foreign.store(is_foreign, Ordering::Relaxed);
        result
    }

    /// Returns the time at which the poll began.
    #[inline]
    pub(super) fn began(&self) -> Time {
        Time(self.began.load(Ordering::Relaxed))
    }

    /// Returns whether the poll is of a real-time task.
    pub(super) fn is_rt(&self) -> bool {
        self.is_rt.load(Ordering::Relaxed)
    }

    /// Notes that the poll ends now.
    pub(super) fn has_ended(&self) {
        self.ended.store(os::thread::now().0, Ordering::Relaxed);
    }

    /// Returns the time at which the last poll ended.
    pub(super) fn ended(&self) -> Time {
        Time(self.ended.load(Ordering::Relaxed))
    }

    /// Returns the work that the poll left for a check soon.
    pub(super) fn later(&self) -> Later {
        Later::of(self.later.load(Ordering::Relaxed))
    }

    /// Adds work for a check soon.
    pub(super) fn add_later(&self, what: Later) {
        // Only this thread and its handler access the word: the handler checks and clears it.
        if self.later() < what {
            self.later.store(what as u32, Ordering::Relaxed);
        }
    }

    /// Takes the work that the poll left for a check soon.
    pub(super) fn take_later(&self) -> Later {
        Later::of(self.later.swap(Later::Nothing as u32, Ordering::Relaxed))
    }

    /// Returns the time since which the tasks that this thread is waking could run.
    pub(super) fn waking_since(&self) -> Option<Time> {
        let since = self.since.load(Ordering::Relaxed);
        (since > 0).then_some(Time(since))
    }

    /// Wakes a task that could have run since `since`.
    pub(super) fn wake_since(&self, since: Time, wake: impl FnOnce()) {
        self.since.store(since.0, Ordering::Relaxed);
        wake();
        self.since.store(0, Ordering::Relaxed);
    }

    /// Returns whether a due tick waits for the end of this poll: until the poll has used `most` CPU time since a tick
    /// began to wait for it. The duration of the poll does not say whether it is a long one, as others may have had its
    /// CPU.
    pub(super) fn delays_tick(&self, most: Nanos) -> bool {
        let (began, used) = (self.began().0, os::thread::own_cpu_time().0);
        if self.tick_waits_for.swap(began, Ordering::Relaxed) != began {
            self.used_before_tick.store(used, Ordering::Relaxed);
        }
        used < self.used_before_tick.load(Ordering::Relaxed) + most.0
    }

    /// Counts mutexes that the poll takes or releases.
    pub(super) fn count_guard(&self, more: i32) {
        self.guards.store(self.guards.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    }

    /// Takes the count of mutexes.
    #[inline]
    pub(super) fn take_guards(&self) -> i32 {
        let guards = self.guards.load(Ordering::Relaxed);
        if guards != 0 {
            self.guards.store(0, Ordering::Relaxed);
        }
        guards
    }
}

impl Later {
    fn of(word: u32) -> Later {
        match word {
            0 => Later::Nothing,
            1 => Later::Waiter,
            _ => Later::Kick,
        }
    }
}
