//! Threads that lost their slot because they block, and are not yet picked again.
//!
//! Such a thread runs when the kernel lets it: at the end of its system call, or all the time if the call that was said
//! to block computes. The runtime learns of that too late: the kernel checks a timer on the thread's CPU clock only at
//! its ticks. So the keeper reads the CPU clocks of these threads. It rings the bell of a thread that ran since the
//! last check and is not about to wait again. The thread is then stopped and waits for a slot, as any other task does.
//!
//! | thread | checked | rung if it used |
//! |---|---|---|
//! | in the middle of a poll | each 100 us while a real-time task runs; otherwise after a 32nd of the time that it has waited, 0.1 to 1 ms | more CPU time than a few signals cost |
//! | in a [section that blocks](crate::blocking) | each millisecond | a tenth of that, or less if many such threads together use half a CPU or its group has no budget left |
//!
//! All CPU time that they use is charged to their groups: at each check, and when they are picked.
//!
//! The keeper checks while any slot is in use. If no slot is, only a group's limit can be exceeded, and the timer on
//! the CPU clock is soon enough for that.
//!
//! Rejected:
//!
//! * To check each 100 us whatever runs: that took 16 % of a CPU on a virtual machine.
//! * To check sections as often: there may be thousands of them.
//! * A timer on the wall's clock for each thread: it ends the thread's wait with `EINTR`.
//! * To detect a thread's return by its area for restartable sequences: newer kernels do not visit it at the end of a
//!   system call.

use crate::crew::threads::Threads;
use crate::os;
use crate::os::sync::{AtomicU32, AtomicU64, Ordering};
use crate::protocol::handoff::WorkerId;
use crate::shared::Scheduler;
use crate::worker::Worker;
use runyard_engine::time::{Nanos, Time};

/// The shortest time between two checks of threads in the middle of a poll.
const INTERVAL: Nanos = Nanos::from_micros(100);

/// The inverse of the part of its wait for which a thread may run unseen while no real-time task runs. So a long wait
/// has as many checks as one of 20 ms.
const PART_OF_WAIT: u64 = 32;

/// The time between two checks of threads in sections that block.
const INTERVAL_OF_SECTIONS: Nanos = Nanos::from_millis(1);

/// The most threads that are checked at a time: some 20 us.
const LOOKS: usize = 64;

/// The CPU time that a thread may use between two checks without being rung: a few signals, or a wait that begins
/// again.
const NEXT_TO_NOTHING: Nanos = Nanos::from_micros(10);

/// The CPU time that a thread in a section that blocks may use between two checks: most calls that block use less.
pub(crate) const A_WAIT: Nanos = Nanos::from_micros(100);

/// The CPU time that all such threads together may use between two checks.
const MANY_WAITS: Nanos = Nanos::from_micros(500);

/// The workers that have lost their slot because they block, and own none yet.
#[derive(Debug)]
pub(crate) struct Slotless {
    in_polls: Set,
    in_sections: Set,
    /// The time at which a worker in a poll last lost its slot.
    last: AtomicU64,
}

impl Slotless {
    /// Makes the set of at most this many workers.
    pub(crate) fn new(workers: usize) -> Slotless {
        let last = AtomicU64::new(0);
        Slotless { in_polls: Set::new(workers), in_sections: Set::new(workers), last }
    }

    /// Adds a worker that has lost its slot. Called before its task can be queued again.
    pub(crate) fn add(&self, worker: WorkerId, in_section: bool) {
        if in_section {
            return self.in_sections.add(worker);
        }
        self.last.store(os::thread::now().0, Ordering::Relaxed);
        self.in_polls.add(worker);
    }

    /// Removes a worker that is about to own a slot. Returns whether it had lost one.
    pub(crate) fn remove(&self, worker: WorkerId) -> bool {
        self.in_polls.remove(worker) || self.in_sections.remove(worker)
    }

    /// Returns the time until the next check of workers in the middle of a poll; the maximum, if there are none.
    pub(crate) fn next_look(&self, now: Time, runs_rt: impl FnOnce() -> bool) -> Nanos {
        if self.in_polls.len.load(Ordering::Relaxed) == 0 {
            return Nanos::MAX;
        }
        let waited = now.since(Time(self.last.load(Ordering::Relaxed)));
        let next = INTERVAL.max(Nanos(waited.0 / PART_OF_WAIT));
        if next > INTERVAL && runs_rt() { INTERVAL } else { next }
    }
}

/// A set of workers, with a bit for each.
#[derive(Debug)]
struct Set {
    words: Box<[AtomicU64]>,
    len: AtomicU32,
}

impl Set {
    fn new(workers: usize) -> Set {
        let words = (0..workers.div_ceil(64)).map(|_| AtomicU64::new(0));
        Set { words: words.collect(), len: AtomicU32::new(0) }
    }

    fn add(&self, worker: WorkerId) {
        let (word, bit) = self.place(worker);
        if word.fetch_or(bit, Ordering::SeqCst) & bit == 0 {
            self.len.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn remove(&self, worker: WorkerId) -> bool {
        let (word, bit) = self.place(worker);
        let is_in = word.load(Ordering::SeqCst) & bit != 0;
        let removed = is_in && word.fetch_and(!bit, Ordering::SeqCst) & bit != 0;
        if removed {
            self.len.fetch_sub(1, Ordering::SeqCst);
        }
        removed
    }

    fn contains(&self, worker: WorkerId) -> bool {
        let (word, bit) = self.place(worker);
        word.load(Ordering::SeqCst) & bit != 0
    }

    fn place(&self, worker: WorkerId) -> (&AtomicU64, u64) {
        let nth = worker.0 as usize;
        (&self.words[nth / 64], 1 << (nth % 64))
    }

    /// Returns the workers from a number on.
    fn from(&self, first: u32) -> impl Iterator<Item = WorkerId> {
        let (begin, skipped) = (first / 64, (1_u64 << (first % 64)) - 1);
        let is_empty = self.len.load(Ordering::SeqCst) == 0;
        let end = if is_empty { begin } else { self.words.len() as u32 };
        (begin..end).flat_map(move |at| {
            let mask = if at == begin { !skipped } else { u64::MAX };
            let mut word = self.words[at as usize].load(Ordering::SeqCst) & mask;
            std::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros())?;
                word &= word - 1;
                Some(WorkerId(at * 64 + bit))
            })
        })
    }
}

/// The observations of the keeper.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    in_polls: Round,
    in_sections: Round,
    looked_at_sections: Time,
    /// The CPU time that all workers in sections used since the check before.
    used_in_sections: Nanos,
}

impl Looks {
    /// Checks the workers whose check is due.
    pub(crate) fn look(&mut self, scheduler: &Scheduler, now: Time) {
        let (threads, slotless) = (&*scheduler.crew().threads, &scheduler.crew().slotless);
        let charge =
            |worker: &Worker| worker.without_slot.charge(&worker.thread, scheduler.machine(), now);
        self.in_polls.look(threads, &slotless.in_polls, |worker| {
            let used = charge(worker);
            if used.ran > NEXT_TO_NOTHING {
                worker.stop_if_it_runs(used.all);
            }
        });
        if now.since(self.looked_at_sections) < INTERVAL_OF_SECTIONS {
            return;
        }
        self.looked_at_sections = now;
        let many = std::mem::take(&mut self.used_in_sections) > MANY_WAITS;
        self.in_sections.look(threads, &slotless.in_sections, |worker| {
            let used = charge(worker);
            self.used_in_sections += used.ran;
            let allowed = if many || used.is_exhausted { NEXT_TO_NOTHING } else { A_WAIT };
            if used.ran > allowed {
                worker.stop_if_it_runs(used.all);
            }
        });
    }
}

/// The worker at which an unfinished check goes on.
#[derive(Debug, Default)]
struct Round(u32);

impl Round {
    fn look(&mut self, threads: &Threads, set: &Set, mut at: impl FnMut(&Worker)) {
        let begin = std::mem::take(&mut self.0);
        for (nth, id) in set.from(begin).enumerate() {
            if nth == LOOKS {
                self.0 = id.0;
                return;
            }
            // The worker may have got a slot since the set was read.
            let worker = threads.worker(id).filter(|_| set.contains(id));
            worker.iter().for_each(|worker| at(worker));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_from_its_number_on_and_once() {
        let set = Set::new(200);
        let ids = [0, 1, 63, 64, 127, 130, 199];
        for id in ids {
            set.add(WorkerId(id));
            set.add(WorkerId(id));
        }
        for first in 0..200 {
            let found: Vec<_> = set.from(first).map(|id| id.0).collect();
            assert_eq!(found, ids.into_iter().filter(|&id| id >= first).collect::<Vec<_>>());
        }
        assert!(ids.into_iter().all(|id| set.remove(WorkerId(id))));
        assert!(!set.remove(WorkerId(0)), "the worker is in no set");
        assert_eq!(set.len.load(Ordering::SeqCst), 0);
    }
}
