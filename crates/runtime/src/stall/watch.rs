//! The thread that looks for stalls, and calls the program.
//!
//! It looks at the clocks of all polls four times in the time after which a poll is a stall, and at the very moment
//! at which the next one would be. If nobody was in a poll for a second it rests, until somebody begins one.
//!
//! The callback is foreign code: it may wait for the lock of a stopped task, or last. So it is called by this thread,
//! which has no lock of the runtime, no slot, and no other duty; its own wait has the mark of runtimes
//! ([`crate::crew::foreign`]). Meanwhile nobody looks: a stall that begins and ends during a call is not reported.
//!
//! The backtrace is taken by the thread of the poll, in the signal handler, which copies the stack and the registers
//! and nothing else. This thread reads the copy.
//!
//! Rejected: the keeper. It looks at the owners of slots only, is not there without preemption, and neither
//! allocates nor waits.
//!
//! Invariants: a poll is reported once at the most; when the runtime is over, no callback runs, but one that ends it.

use super::clock::Seen;
use super::{NoBacktrace, OnStall, StallBacktrace, StallReport};
use crate::deferred::rubbish::{Rubbish, discard};
use crate::os;
use crate::os::harmless::harmless;
use crate::os::stack::{Answer, Copied};
use crate::os::sync::{Arc, AtomicBool, AtomicU32, Ordering, lock};
use crate::runtime::Entered;
use crate::shared::Shared;
use crate::worker::Worker;
use runyard_engine::time::{Nanos, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// How often polls are looked at in the time after which they are stalls: what a poll used before the first look is
/// not known.
const LOOKS: u64 = 4;

/// After so long without a poll nobody is looked at.
const REST_AFTER: Nanos = Nanos::from_millis(1_000);

/// How long the thread of a poll may take to answer: more than the kernel keeps a thread waiting on a busy machine.
const PATIENCE: Nanos = Nanos::from_millis(1_000);

/// How often it is looked meanwhile whether the poll is over.
const PATIENCE_STEP: Nanos = Nanos::from_millis(2);

/// Looks for stalls.
#[derive(Debug)]
pub(crate) struct Stalls {
    on_stall: OnStall,
    /// Where the thread waits; changes when it is called.
    calls: AtomicU32,
    /// It waits until it is called.
    rests: AtomicBool,
    /// For one stack at a time.
    pub(crate) copied: Copied,
}

impl Stalls {
    pub(crate) fn new(on_stall: OnStall) -> Stalls {
        let (calls, rests) = (AtomicU32::new(0), AtomicBool::new(false));
        Stalls { on_stall, calls, rests, copied: Copied::new() }
    }

    /// The clock of a poll goes, or goes on. May be called in a signal handler.
    pub(crate) fn somebody_runs(&self) {
        if self.rests.load(Ordering::SeqCst) && self.rests.swap(false, Ordering::SeqCst) {
            self.call();
        }
    }

    /// Has the thread look at once. May be called in a signal handler.
    pub(crate) fn call(&self) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        os::futex::wake(&self.calls);
    }

    fn live(&self, shared: &Shared) {
        let mut looks = Looks { polls: BTreeMap::new(), active: os::thread::now() };
        while !shared.is_over() {
            let calls = self.calls.load(Ordering::SeqCst);
            let next = looks.look(self, shared);
            let idles = os::thread::now().since(looks.active) >= REST_AFTER;
            // Whoever begins a poll after this look sees that nobody looks, or was seen by the next one.
            let was_resting = self.rests.swap(idles, Ordering::SeqCst);
            let until = if idles && was_resting { None } else { Some(os::thread::now() + next) };
            os::futex::wait(&self.calls, calls, until);
        }
    }

    /// Reports a poll that has lasted for long, unless it is over by now.
    fn report(&self, shared: &Shared, worker: &Worker, seen: Seen, used: Option<Nanos>) {
        let Some(cell) = worker.cell_of_poll() else { return };
        if worker.clock.poll() == seen.began {
            let report = StallReport {
                task: cell.id,
                name: cell.name().map(str::to_owned),
                policy: lock(&cell.asked).policy,
                group: cell.group().map(|group| group.path()),
                lasted: Duration::from_nanos(seen.lasted.0),
                used: used.map(|used| Duration::from_nanos(used.0)),
                backtrace: self.backtrace(shared, worker, seen.began),
            };
            harmless(|| (self.on_stall.call)(&report));
        }
        discard(Rubbish::Cell(cell));
    }

    fn backtrace(
        &self,
        shared: &Shared,
        worker: &Worker,
        poll: u64,
    ) -> Result<StallBacktrace, NoBacktrace> {
        if !shared.preempts {
            return Err(NoBacktrace::Cooperative);
        }
        self.copied.ask(worker.id.0);
        os::signal::ring(worker.tid(), shared.signal);
        let until = os::thread::now() + PATIENCE;
        loop {
            let step = os::thread::now() + PATIENCE_STEP;
            if self.copied.wait(step) {
                break;
            }
            let is_over = worker.clock.poll() != poll;
            if (is_over || step >= until || shared.is_over()) && self.copied.give_up() {
                return Err(if is_over { NoBacktrace::PollEnded } else { NoBacktrace::NotHeard });
            }
        }
        match self.copied.take(poll) {
            Answer::Taken(addresses) => Ok(StallBacktrace(addresses)),
            Answer::AnotherPoll => Err(NoBacktrace::PollEnded),
            Answer::AnotherStack => Err(NoBacktrace::OtherStack),
        }
    }
}

/// What is remembered of looks.
struct Looks {
    /// By worker.
    polls: BTreeMap<u32, Known>,
    /// When somebody was last seen in a poll of which the clock goes.
    active: Time,
}

/// What is known of a worker's last poll.
struct Known {
    began: u64,
    /// What its thread had used at the first look.
    used: Option<Nanos>,
    reported: bool,
}

impl Looks {
    /// Looks at all polls, and reports those that have lasted for long. After how long the next look is due.
    fn look(&mut self, stalls: &Stalls, shared: &Shared) -> Nanos {
        let after = stalls.on_stall.after;
        let interval = Nanos(after.0 / LOOKS);
        let mut next = interval;
        for worker in shared.threads.workers() {
            let now = os::thread::now();
            let Some(seen) = worker.clock.read(now) else { continue };
            if seen.goes {
                self.active = now;
            }
            let used = || os::thread::cpu_time(worker.tid());
            let new = || Known { began: seen.began, used: used(), reported: false };
            let known = self.polls.entry(worker.id.0).or_insert_with(new);
            if known.began != seen.began {
                *known = new();
            }
            if !seen.goes || known.reported {
                continue;
            }
            if seen.lasted < after {
                next = next.min(after.saturating_sub(seen.lasted));
                continue;
            }
            known.reported = true;
            let used = used().zip(known.used).map(|(now, before)| now.saturating_sub(before));
            stalls.report(shared, &worker, seen, used);
        }
        next
    }
}

/// The thread.
pub(crate) fn run(shared: &Arc<Shared>) {
    let _context = Entered::enter(shared);
    shared.stalls.as_ref().expect("there is a callback").live(shared);
}
