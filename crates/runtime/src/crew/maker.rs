//! The maker: the thread that starts workers, and ends those that are not needed.
//!
//! Each slot should have two spares. The system may refuse one, by its limits of threads, of memory for stacks or of
//! timers; so may the runtime's own ceiling. Then threads are *scarce*, and the maker tries again after 1 ms, and after
//! twice as long each time, up to 100 ms. Meanwhile the last spare of a slot is taken only when its owner blocks, never
//! to preempt. The owner of a slot without a spare polls only tasks whose last poll ended without blocking
//! ([`Cell::is_light`](crate::task::Cell::is_light)): other tasks might stop the CPU for good. These wait in the
//! *lobby*, outside the run queues. One task leaves it for each spare that the slots have again, and for each poll that
//! ends and leaves a spare.
//!
//! Threads that were spares during all the last seconds are ended: the smallest number of spares in that time, less two
//! for each CPU.
//!
//! The maker allocates and takes locks, so it may have to wait: the keeper watches it.

use crate::crew::crowd::Crowd;
use crate::observe::teller::Teller;
use crate::os;
use crate::os::refusal::{Later, Refusal};
use crate::os::sync::{Arc, AtomicBool, AtomicU32, AtomicUsize, Mutex, Ordering, lock};
use crate::shared::Shared;
use crate::task::Job;
use runyard_engine::task::Task;
use runyard_engine::time::{Nanos, Time};
use runyard_smp::machine::TaskOf;
use std::collections::VecDeque;

/// The time between two checks of the spares, if no thread asks for one.
const INTERVAL: Nanos = Nanos::from_millis(100);
/// The same time while no task runs: an idle process wakes up rarely.
const IDLE_INTERVAL: Nanos = Nanos::from_millis(1_000);

/// The time from a refusal to the first retry; it doubles at each further refusal, up to [`INTERVAL`].
const FIRST_RETRY: Nanos = Nanos::from_millis(1);

/// The number of spares that each slot should have: one for the next task that is stopped or blocks, and one for the
/// task after it, until the maker has made another.
pub(crate) const SPARES: usize = 2;

/// The requests to the maker, and the tasks that wait for it.
#[derive(Debug, Default)]
pub(crate) struct Maker {
    orders: AtomicU32,
    /// Whether a slot has too few spares because threads were refused.
    scarce: AtomicBool,
    /// The tasks that wait for threads, in the order of their arrival.
    lobby: Mutex<VecDeque<TaskOf<Job>>>,
    nr_in_lobby: AtomicUsize,
}

impl Maker {
    /// Asks for spares where there are none, unless they were refused just now. May be called in a signal handler.
    pub(crate) fn order(&self) {
        if !self.is_scarce() {
            self.call();
        }
    }

    /// Asks the maker for a check, even after a refusal.
    pub(crate) fn call(&self) {
        self.orders.fetch_add(1, Ordering::SeqCst);
        os::futex::wake(&self.orders);
    }

    /// Returns how many tasks wait for threads.
    pub(crate) fn nr_in_lobby(&self) -> usize {
        self.nr_in_lobby.load(Ordering::SeqCst)
    }

    /// Returns whether the system refuses threads that are needed. May be called in a signal handler.
    pub(crate) fn is_scarce(&self) -> bool {
        self.scarce.load(Ordering::SeqCst)
    }

    /// Gives the memory of `room` to the lobby, and the lobby's own memory to `room`.
    pub(crate) fn reserve_lobby(&self, room: &mut VecDeque<TaskOf<Job>>) {
        let mut lobby = lock(&self.lobby);
        if lobby.capacity() < room.capacity() {
            room.append(&mut lobby);
            std::mem::swap(&mut *lobby, room);
        }
    }

    /// Adds a task that might need a thread to the lobby. There is room for all live tasks.
    pub(crate) fn wait_in_lobby(&self, task: TaskOf<Job>) {
        let mut lobby = lock(&self.lobby);
        lobby.push_back(task);
        self.nr_in_lobby.store(lobby.len(), Ordering::SeqCst);
    }

    /// Calls `look` with each task in the lobby.
    pub(crate) fn look_into_lobby(&self, mut look: impl FnMut(&Task<Job>)) {
        lock(&self.lobby).iter().for_each(|task| look(task));
    }

    /// Takes the first task out of the lobby.
    pub(crate) fn leave_lobby(&self) -> Option<TaskOf<Job>> {
        if self.nr_in_lobby() == 0 {
            return None;
        }
        let mut lobby = lock(&self.lobby);
        let first = lobby.pop_front();
        self.nr_in_lobby.store(lobby.len(), Ordering::SeqCst);
        first
    }
}

/// The wait after the next refusal, and whether refusals were reported.
#[derive(Debug)]
struct Retry {
    after: Nanos,
    said: bool,
}

impl Retry {
    /// Returns how long to wait now.
    fn after(&mut self, refused: Option<&Refusal>) -> Nanos {
        let Some(refusal) = refused else {
            self.after = FIRST_RETRY;
            return INTERVAL;
        };
        if !std::mem::replace(&mut self.said, true) {
            eprintln!(
                "runyard: {refusal}: until there are more, long polls are not preempted and tasks \
                       that may block wait"
            );
        }
        let after = self.after;
        self.after = Nanos(2 * after.0).min(INTERVAL);
        after
    }
}

/// The smallest number of spares in each part of [`UNUSED`], the latest part last.
#[derive(Debug)]
struct Surplus {
    least: [usize; PARTS],
    began: Time,
}

/// The time after which a thread that was not needed ends. A thread takes some 50 us to start, and keeps some 50 KiB: a
/// burst in each of these spans makes its threads once.
const UNUSED: Nanos = Nanos::from_millis(7_000);

/// The number of parts of that time. Threads of a burst are ended when no part contains their last use: at the latest
/// one part, and one check of an idle process, after it.
const PARTS: usize = 6;
const PART: Nanos = Nanos(UNUSED.0 / (PARTS as u64 + 1));

impl Surplus {
    fn new(now: Time) -> Surplus {
        Surplus { least: [0; PARTS], began: now }
    }

    /// Notes how many spares wait. Returns how many of them were not needed for [`UNUSED`].
    fn note(&mut self, now: Time, waiting: usize) -> usize {
        if now.since(self.began) >= PART {
            self.began = now;
            self.least.rotate_left(1);
            self.least[PARTS - 1] = waiting;
        }
        let last = &mut self.least[PARTS - 1];
        *last = waiting.min(*last);
        self.least.into_iter().min().unwrap_or(0)
    }

    /// Notes how many spares wait now, for this many slots. Returns how many threads were not needed for [`UNUSED`].
    fn unneeded(&mut self, waiting: usize, slots: usize) -> usize {
        self.note(os::thread::now(), waiting).saturating_sub(SPARES * slots)
    }

    /// Notes that this many threads are ended.
    fn reduce(&mut self, by: usize) {
        self.least.iter_mut().for_each(|least| *least -= by);
    }
}

/// What is said when the system refuses something later on.
const LATER: [(Later, &str); 3] = [
    (
        Later::Timers,
        "the kernel refuses to set timers (timer_settime): long polls are no longer preempted in time",
    ),
    (
        Later::Signals,
        "the kernel refuses signals to threads (tgkill): long polls are no longer preempted in time",
    ),
    (
        Later::Calls,
        "/proc does not show the system calls of threads: a thread that waits for a stopped one is found later",
    ),
];

/// Runs the maker's thread.
pub(crate) fn run(shared: &Arc<Shared>) {
    let (mut signal_is_ours, mut ending) = (shared.scheduler.crew().preemption.is_on, Vec::new());
    let mut unsaid = LATER.to_vec();
    let mut retry = Retry { after: FIRST_RETRY, said: false };
    let mut surplus = Surplus::new(os::thread::now());
    let mut crowd = Crowd::default();
    let crew = shared.scheduler.crew();
    let maker = &crew.maker;
    crew.keeper.is_there();
    while !crew.is_over() {
        let orders = maker.orders.load(Ordering::SeqCst);
        crew.keeper.maker_works(true);
        let refused = crew.provide(|cpu| shared.start_worker(cpu, false));
        maker.scarce.store(refused.is_some(), Ordering::SeqCst);
        crew.take_from_sections();
        crowd.follow(&shared.scheduler);
        shared.scheduler.let_in(crew.nr_spares());
        let unneeded =
            surplus.unneeded(crew.threads.nr_pooled() + crew.nr_spares(), crew.slots.len());
        for worker in (0..unneeded).map_while(|_| crew.retire_spare_beyond(SPARES)) {
            surplus.reduce(1);
            ending.push(worker);
        }
        shared.deferred.bins.empty();
        ending.extend(crew.threads.take_leaving());
        crew.threads.reap(&mut ending);
        shared.follow_outside();
        crew.say_if_deaf();
        crew.say_if_nothing_in_common();
        if signal_is_ours && !os::signal::is_ours(crew.preemption.signal) {
            signal_is_ours = false;
            eprintln!(
                "runyard: other code handles signal {} now: long polls are no longer preempted",
                crew.preemption.signal
            );
        }
        unsaid.retain(|&(later, what)| {
            let was_refused = later.was_refused();
            if was_refused {
                eprintln!("runyard: {what}");
            }
            !was_refused
        });
        shared.scheduler.teller().into_iter().for_each(Teller::say_if_it_loses);
        shared.scheduler.driver().say_if_tasks_escape();
        let mut after = retry.after(refused.as_ref());
        if maker.nr_in_lobby() > 0 {
            // A task that left the lobby may have needed no spare.
            after = after.min(FIRST_RETRY);
        } else if refused.is_none() && crew.keeper.rests() {
            after = IDLE_INTERVAL;
        }
        let until = os::thread::now() + after;
        crew.keeper.maker_works(false);
        os::futex::wait(&maker.orders, orders, Some(until));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_burst_needed_is_given_back_within_seconds_after_it() {
        let mut surplus = Surplus::new(Time::ZERO);
        let second = |nth: u64| Time(nth * 1_000_000_000);
        // All but ten threads are in use until the 100th second.
        for nth in 0..100 {
            assert!(surplus.note(second(nth), 10) <= 10);
        }
        let at = (100..).find(|&nth| surplus.note(second(nth), 500) > 10).unwrap();
        assert!((104..=107).contains(&at), "{at} s");
        assert_eq!(surplus.note(second(at), 500), 500);
        surplus.reduce(490);
        assert_eq!(surplus.note(second(at), 10), 10);
    }

    #[test]
    fn refusals_are_tried_again_ever_more_seldom() {
        let mut retry = Retry { after: FIRST_RETRY, said: true };
        let refused = Some(&Refusal::Ceiling);
        let waits: Vec<_> = (0..9).map(|_| retry.after(refused).0 / 1_000_000).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 100, 100]);
        assert_eq!(retry.after(None), INTERVAL);
        assert_eq!(retry.after(refused), FIRST_RETRY);
    }
}
