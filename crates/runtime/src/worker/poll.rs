//! The poll that a thread is in.

use super::POLL_GRACE;
use super::stall::Clock;
use super::thread::Thread;
use crate::os;
use crate::os::sync::{Arc, AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use crate::registry::Registry;
use crate::stall::Stalls;
use crate::task::{Cell, Job};
use runyard_engine::cpu::CpuId;
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_smp::machine::Machine;

/// The time for which a fair task, or a tick, waits for the end of a poll that has only just begun: most polls are over
/// by then, and to hand over the slot takes some twenty microseconds.
pub(super) const YOUNG: Nanos = Nanos::from_micros(50);

/// The CPU time for which a tick waits for the end of a poll, once in each poll. A slice is at least 0.75 ms. Many polls
/// of services take 20 to 80 us, and to stop one in its middle takes two switches of threads.
const TICK_WAITS: Nanos = Nanos::from_micros(100);

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
    /// (o) Whether the thread has woken a task since this was last cleared.
    woke: AtomicBool,
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
    clock: Clock,
}

impl Poll {
    pub(super) fn none(stalls: Option<Arc<Stalls>>) -> Poll {
        Poll {
            place: AtomicU64::new(NO_POLL),
            is_foreign: AtomicBool::new(false),
            began: AtomicU64::new(0),
            is_rt: AtomicBool::new(false),
            ended: AtomicU64::new(0),
            later: AtomicU32::new(Later::Nothing as u32),
            since: AtomicU64::new(0),
            woke: AtomicBool::new(false),
            batch: AtomicU64::new(0),
            clock_at: AtomicU64::new(0),
            shares_at: AtomicU64::new(0),
            tick_waits_for: AtomicU64::new(0),
            used_before_tick: AtomicU64::new(0),
            guards: AtomicI32::new(0),
            clock: Clock::new(stalls),
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

    /// Returns the clock of the polls.
    #[inline]
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the place of the task that is polled.
    #[inline]
    pub(crate) fn place(&self) -> Option<u64> {
        Some(self.place.load(Ordering::Relaxed)).filter(|&place| place < NO_POLL)
    }

    /// Returns whether the task of `cell` is polled.
    pub(crate) fn is_of(&self, cell: &Cell) -> bool {
        self.place.load(Ordering::Relaxed) == cell.place.load(Ordering::Relaxed)
    }

    /// Returns the cell of the task that is polled.
    pub(crate) fn cell(&self, registry: &Registry) -> Option<Arc<Cell>> {
        self.place().and_then(|place| registry.cell_at(place))
    }

    /// Returns the task that the thread acts for while it wakes tasks; `None` if a timer wakes them.
    pub(crate) fn waking(&self, registry: &Registry) -> Option<TaskId> {
        let task = self.waking_since().is_none().then(|| self.cell(registry)).flatten();
        task.map(|cell| cell.id)
    }

    /// Returns the CPU on which the thread, of which this is the poll, is in a poll.
    pub(crate) fn cpu(&self, thread: &Thread) -> Option<CpuId> {
        self.is_foreign().then(|| thread.own_cpu()).flatten()
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

    /// Runs `wakes` as if outside a poll: a task that it wakes does not wait for the end of this poll.
    pub(crate) fn outside<R>(&self, wakes: impl FnOnce() -> R) -> R {
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

    /// Returns whether the poll has only just begun.
    pub(super) fn is_young(&self, now: Time) -> bool {
        now < self.began() + YOUNG
    }

    /// Returns whether the poll, on this CPU, has only just begun, and no real-time task waits.
    pub(super) fn may_end_first(&self, machine: &Machine<Job>, cpu: CpuId, now: Time) -> bool {
        self.is_young(now) && !machine.sight().has_rt(cpu)
    }

    /// Returns the time from which the poll has lasted so long that others should not wait for its end.
    pub(super) fn lasts_from(&self) -> Time {
        self.began() + POLL_GRACE
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

    /// Plans a check soon after a task was queued on the CPU of the thread, unless its poll ends before.
    pub(crate) fn look_soon(&self, thread: &Thread, now: Time, kicked: bool) {
        self.add_later(if kicked { Later::Kick } else { Later::Waiter });
        let armed = thread.alarm.armed();
        if armed <= now || armed > now + POLL_GRACE {
            thread.alarm.set_at(now + POLL_GRACE);
        }
    }

    /// Adds work for a check soon.
    fn add_later(&self, what: Later) {
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
    pub(crate) fn waking_since(&self) -> Option<Time> {
        let since = self.since.load(Ordering::Relaxed);
        (since > 0).then_some(Time(since))
    }

    /// Wakes a task that could have run since `since`.
    pub(crate) fn wake_since(&self, since: Time, wake: impl FnOnce()) {
        self.since.store(since.0, Ordering::Relaxed);
        wake();
        self.since.store(0, Ordering::Relaxed);
    }

    /// Notes that the thread wakes a task.
    #[inline]
    pub(super) fn note_wake(&self) {
        self.woke.store(true, Ordering::Relaxed);
    }

    /// Returns whether `code` wakes a task.
    pub(super) fn wakes_in(&self, code: impl FnOnce()) -> bool {
        self.woke.store(false, Ordering::Relaxed);
        code();
        self.woke.load(Ordering::Relaxed)
    }

    /// Returns whether the due tick of this CPU waits for the end of the poll: nothing else is due, and the poll has not
    /// used much CPU time since a tick began to wait for it.
    pub(super) fn tick_waits(&self, machine: &Machine<Job>, cpu: CpuId, now: Time) -> bool {
        machine.sight().next_timer(cpu) > now && self.delays_tick(TICK_WAITS)
    }

    /// Returns whether a due tick waits for the end of this poll: until the poll has used `most` CPU time since a tick
    /// began to wait for it. The duration of the poll does not say whether it is a long one, as others may have had its
    /// CPU.
    fn delays_tick(&self, most: Nanos) -> bool {
        let (began, used) = (self.began().0, os::thread::own_cpu_time().0);
        if self.tick_waits_for.swap(began, Ordering::Relaxed) != began {
            self.used_before_tick.store(used, Ordering::Relaxed);
        }
        used < self.used_before_tick.load(Ordering::Relaxed) + most.0
    }

    /// Counts mutexes that the task at a place takes or releases, if the poll is of that task. Returns whether it is.
    pub(crate) fn count_guard(&self, place: u64, more: i32) -> bool {
        let is_of = self.place() == Some(place);
        if is_of {
            self.guards.store(self.guards.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        }
        is_of
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
