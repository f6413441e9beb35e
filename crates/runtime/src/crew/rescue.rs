//! Rescue: stopped threads go on while another thread waits for a lock.
//!
//! A worker that waits in the kernel may wait for a lock that a stopped thread holds. The runtime cannot see which lock
//! that is. So stopped threads go on without a slot, in rounds, whatever code they were stopped in.
//!
//! A round comes at the checks 1, 2, 4, 8, .. of one wait. The first round lets those threads go that were stopped
//! last, since the lock was free not long ago. Each later round lets twice as many go, for twice as long. So each
//! stopped thread uses at most twice the CPU time that the holder needs, beyond all policies and limits.

use crate::protocol::handoff::WorkerId;
use crate::shared::Scheduler;
use runyard_engine::time::{Nanos, Time};

/// The number of threads that the first round lets go.
const FIRST: usize = 8;

/// The CPU time that each of them may use: long compared with most critical sections.
const FIRST_GRACE: Nanos = Nanos::from_micros(50);

/// The round from which on all rounds have the same grace, 12.8 ms: a section that needs as long is not short.
const LAST_DOUBLING: u32 = 8;

/// A rescue's list of stopped threads: when each was stopped, and its place in the table.
#[derive(Debug)]
pub(crate) struct Rescue {
    /// There is room for all threads: the keeper allocates nothing.
    stopped: Vec<(Time, WorkerId)>,
}

impl Rescue {
    /// Makes a rescue with room for this many threads.
    pub(crate) fn new(threads: usize) -> Rescue {
        Rescue { stopped: Vec::with_capacity(threads) }
    }

    /// Starts a round at a check of a thread that waits, if a round is due.
    pub(crate) fn at_look(&mut self, scheduler: &Scheduler, look: u32) {
        if look.is_power_of_two() {
            self.round(scheduler, look.ilog2());
        }
    }

    /// Lets stopped threads go at each check of a slot that stands still, since its owner waits and there is no spare: the
    /// CPU time that the slot does not use is theirs. Each that gets the lock may be stopped with it in its turn.
    pub(crate) fn at_idle_slot(&mut self, scheduler: &Scheduler, look: u32) {
        self.round(scheduler, if look.is_power_of_two() { look.ilog2() } else { 0 });
    }

    /// Lets stopped threads go, in the round of this number.
    pub(crate) fn round(&mut self, scheduler: &Scheduler, nth: u32) {
        let stopped = scheduler
            .crew()
            .threads
            .workers()
            .filter_map(|it| Some((Time(it.thread.baton().stopped_since()?), it.thread.id())));
        let room = self.stopped.capacity();
        self.stopped.clear();
        self.stopped.extend(stopped.take(room));
        let last_first = |(since, _): &(Time, WorkerId)| std::cmp::Reverse(*since);
        let (many, grace) = size_of_round(nth);
        if many < self.stopped.len() {
            self.stopped.select_nth_unstable_by_key(many, last_first);
            self.stopped.truncate(many);
        }
        for &(_, id) in &self.stopped {
            scheduler.crew().threads.worker(id).iter().for_each(|worker| {
                worker.thread.baton().let_go(grace.0);
            });
        }
    }

    /// Returns the most CPU time that this round would use.
    pub(crate) fn cost(&self, scheduler: &Scheduler, nth: u32) -> Nanos {
        let (many, grace) = size_of_round(nth);
        let stopped = scheduler.crew().keeper.nr_stopped();
        Nanos(grace.0.saturating_mul(many.min(stopped) as u64))
    }
}

/// Returns how many threads a round lets go, and for how long.
fn size_of_round(nth: u32) -> (usize, Nanos) {
    let many = FIRST.checked_shl(nth).unwrap_or(usize::MAX);
    (many, Nanos(FIRST_GRACE.0 << nth.min(LAST_DOUBLING)))
}
