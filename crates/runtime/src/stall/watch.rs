//! The thread that detects stalls, and calls the program.
//!
//! It checks the clocks of all polls four times in the time after which a poll is a stall. It also checks them at the
//! very moment when the next poll would become one. If no poll has run for a second, it rests until one begins.
//!
//! The callback is foreign code: it may wait for the lock of a stopped task, or take long. So this thread calls it,
//! which holds no lock of the runtime, no slot, and has no other duty. Its own waits have the mark of runtimes
//! ([`crate::crew::foreign`]). It checks no poll during a call, so a stall that begins and ends meanwhile is not
//! reported.
//!
//! The thread of the poll takes the backtrace in its signal handler, which only copies the stack and the registers.
//! This thread reads the copy.
//!
//! Rejected: the keeper as the detector. It observes only the owners of slots, does not exist without preemption, and
//! neither allocates nor waits.
//!
//! Invariants: a poll is reported at most once; when the runtime is over, no callback runs, except one that ends the
//! runtime.

use super::clock::Seen;
use super::{NoBacktrace, OnStall, StallBacktrace, StallReport};
use crate::crew::members::Crew;
use crate::deferred::rubbish::{Rubbish, discard};
use crate::os;
use crate::os::harmless::harmless;
use crate::os::stack::{Answer, Copied};
use crate::os::sync::{Arc, AtomicBool, AtomicU32, Ordering, lock};
use crate::task::Cell;
use crate::worker::Worker;
use runyard_engine::time::{Nanos, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Number of checks in the time after which a poll is a stall. The CPU time that a poll used before the first check is
/// unknown.
const LOOKS: u64 = 4;

/// Time without a poll after which the thread rests.
const REST_AFTER: Nanos = Nanos::from_millis(1_000);

/// Time that the thread of a poll may take to answer. It is longer than the kernel keeps a thread waiting on a busy
/// machine.
const PATIENCE: Nanos = Nanos::from_millis(1_000);

/// Interval of the checks, during that time, whether the poll is over.
const PATIENCE_STEP: Nanos = Nanos::from_millis(2);

/// The state of the thread that detects stalls.
#[derive(Debug)]
pub(crate) struct Stalls {
    on_stall: OnStall,
    /// Futex on which the thread waits. It changes when the thread is called.
    calls: AtomicU32,
    /// Set while the thread waits until it is called.
    rests: AtomicBool,
    /// The copy of one stack.
    pub(crate) copied: Copied,
}

impl Stalls {
    pub(crate) fn new(on_stall: OnStall) -> Stalls {
        let (calls, rests) = (AtomicU32::new(0), AtomicBool::new(false));
        Stalls { on_stall, calls, rests, copied: Copied::new() }
    }

    /// Calls the thread if it rests, because the clock of a poll starts or resumes. May be called in a signal handler.
    pub(crate) fn somebody_runs(&self) {
        if self.rests.load(Ordering::SeqCst) && self.rests.swap(false, Ordering::SeqCst) {
            self.call();
        }
    }

    /// Makes the thread check at once. May be called in a signal handler.
    pub(crate) fn call(&self) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        os::futex::wake(&self.calls);
    }

    /// Runs the thread.
    pub(crate) fn live(&self, crew: &Crew) {
        let mut looks = Looks { polls: BTreeMap::new(), active: os::thread::now() };
        while !crew.is_over() {
            let calls = self.calls.load(Ordering::SeqCst);
            let next = looks.look(self, crew);
            let idles = os::thread::now().since(looks.active) >= REST_AFTER;
            // A thread that begins a poll after this check sees that the detector rests, or the next check finds its
            // poll.
            let was_resting = self.rests.swap(idles, Ordering::SeqCst);
            let until = if idles && was_resting { None } else { Some(os::thread::now() + next) };
            os::futex::wait(&self.calls, calls, until);
        }
    }

    /// Reports a poll that has lasted for long, unless it is over by now.
    fn report(&self, crew: &Crew, worker: &Worker, seen: Seen, used: Option<Nanos>) {
        let Some(cell) = worker.poll.cell(&worker.shared.registry) else { return };
        if worker.poll.clock().time().poll() == seen.began {
            let backtrace = self.backtrace(crew, worker, seen.began);
            self.tell(&cell, (seen.lasted, used), backtrace);
        }
        discard(Rubbish::Cell(cell));
    }

    /// Reports a poll that is over, if it has lasted for long. Called by the thread that has polled the task.
    pub(crate) fn look_back(&self, cell: &Arc<Cell>, lasted: Nanos) {
        if lasted >= self.on_stall.after {
            self.tell(cell, (lasted, None), Err(NoBacktrace::Cooperative));
        }
    }

    fn tell(
        &self,
        cell: &Arc<Cell>,
        (lasted, used): (Nanos, Option<Nanos>),
        backtrace: Result<StallBacktrace, NoBacktrace>,
    ) {
        let report = StallReport {
            task: cell.id,
            name: cell.name().map(str::to_owned),
            policy: lock(&cell.asked).policy,
            group: cell.group().map(|group| group.path()),
            lasted: Duration::from_nanos(lasted.0),
            used: used.map(|used| Duration::from_nanos(used.0)),
            quota: cell.shared.bounds.quota_now(),
            backtrace,
        };
        harmless(|| (self.on_stall.call)(&report));
    }

    fn backtrace(
        &self,
        crew: &Crew,
        worker: &Worker,
        poll: u64,
    ) -> Result<StallBacktrace, NoBacktrace> {
        if !crew.preemption().is_on {
            return Err(NoBacktrace::Cooperative);
        }
        self.copied.ask(worker.thread.id().0);
        os::signal::ring(worker.thread.tid(), crew.preemption().signal);
        let until = os::thread::now() + PATIENCE;
        loop {
            let step = os::thread::now() + PATIENCE_STEP;
            if self.copied.wait(step) {
                break;
            }
            let is_over = worker.poll.clock().time().poll() != poll;
            if (is_over || step >= until || crew.is_over()) && self.copied.give_up() {
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

/// The results of earlier checks.
struct Looks {
    /// The last known poll of each worker.
    polls: BTreeMap<u32, Known>,
    /// Time at which a poll with a running clock was last seen.
    active: Time,
}

/// The last known poll of a worker.
struct Known {
    began: u64,
    /// CPU time that its thread had used at the first check.
    used: Option<Nanos>,
    reported: bool,
}

impl Looks {
    /// Checks all polls, and reports those that have lasted for long. Returns the time until the next check is due.
    fn look(&mut self, stalls: &Stalls, crew: &Crew) -> Nanos {
        let after = stalls.on_stall.after;
        let interval = Nanos(after.0 / LOOKS);
        let mut next = interval;
        for worker in crew.threads().workers() {
            let now = os::thread::now();
            let Some(seen) = worker.poll.clock().time().read(now) else { continue };
            if seen.goes {
                self.active = now;
            }
            let used = || os::thread::cpu_time(worker.thread.tid());
            let new = || Known { began: seen.began, used: used(), reported: false };
            let known = self.polls.entry(worker.thread.id().0).or_insert_with(new);
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
            stalls.report(crew, &worker, seen, used);
        }
        next
    }
}
