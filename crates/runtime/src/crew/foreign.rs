//! Threads other than workers that wait: those of `block_on`, of a reactor or of a thread pool. Also the worker in
//! tokio's driver, which calls foreign code without a task.
//!
//! Such a thread may wait for a lock that a stopped task holds, and it cannot be replaced. While any thread is stopped,
//! the keeper reads the CPU clock of each such thread every 2 ms. If a thread used no CPU time, the keeper reads its
//! system call once. If that is a futex wait without a timeout, stopped threads get [rounds](crate::crew::rescue).
//!
//! Threads of runtimes, of this one and of others in the process, wait with a mark ([`os::futex::OURS`]) and get no
//! rounds. A thread that idles on a condition variable looks the same as one that waits for a lock. So a wait gets few
//! rounds. If the expected value of the word is not 2, by which the locks of std and glibc say that threads wait, all
//! such waits together get 5 % of a CPU.

use crate::crew::rescue::Rescue;
use crate::driver::Own;
use crate::os;
use crate::os::tasks::{FutexWait, Tasks, futex_wait_of};
use crate::os::thread::Tid;
use crate::shared::Scheduler;
use runyard_engine::time::{Nanos, Time};

/// The time between two checks of all these threads.
const INTERVAL: Nanos = Nanos::from_millis(2);

/// The most threads that are known; if there are more, those that were seen first.
const KNOWN: usize = 1_024;

/// The most threads that are checked at a time: some 20 us.
const LOOKS: usize = 64;

/// The number of rounds for one wait, the last after 64 ms: a lock that is still held then does not guard a short
/// section.
const ROUNDS: u32 = 6;

/// The futex value of a lock for which threads wait, in std and glibc.
const CONTENDED: u32 = 2;

/// The futex value of std's `thread::park` while the thread is parked: this is no lock.
const PARKED: u32 = u32::MAX;

/// The inverse of the part of a CPU for waits that are perhaps not for a lock, and for reading the list of threads.
const PART_OF_CPU: u64 = 20;

/// The time over which that part accumulates.
const SAVED: Nanos = Nanos::from_millis(20);

/// The last observation of a thread.
#[derive(Clone, Copy, Debug)]
struct Seen {
    tid: Tid,
    used: Nanos,
    wait: Wait,
}

/// The kind of a thread's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// It ran since the last check.
    No,
    /// It waits for a lock, or perhaps for one; `looks` is the number of checks that found it so.
    Lock { surely: bool, looks: u32 },
    /// It waits for something else, or has waited too long for a lock.
    Other,
}

/// The threads that are not workers.
#[derive(Debug)]
pub(crate) struct Foreigners {
    /// The list of threads; `None` where `/proc` does not have it.
    tasks: Option<Tasks>,
    links: u64,
    /// The list is not read again before this time: to read it may take milliseconds where there are thousands of
    /// threads.
    renew_at: Time,
    known: Vec<Seen>,
    /// The worker that drives.
    driving: Option<Seen>,
    /// The workers' threads when the list was read, in order.
    workers: Vec<i32>,
    /// The index of the known thread at which the next check begins.
    next: usize,
    looked: Time,
    /// The CPU time that waits that are perhaps not for a lock may cost now.
    saved: Nanos,
}

impl Foreigners {
    /// Makes the observer for at most this many workers. Allocates; no other function here does.
    pub(crate) fn new(workers: usize) -> Foreigners {
        Foreigners {
            tasks: Tasks::open(),
            links: 0,
            renew_at: Time::ZERO,
            known: Vec::with_capacity(KNOWN),
            driving: None,
            workers: Vec::with_capacity(workers),
            next: 0,
            looked: Time::ZERO,
            saved: Nanos::ZERO,
        }
    }

    /// Checks the threads, if any thread is stopped and the interval is over.
    pub(crate) fn look(&mut self, scheduler: &Scheduler, rescue: &mut Rescue) {
        let now = os::thread::now();
        let since = now.since(self.looked);
        if scheduler.crew().keeper.nr_stopped() == 0 || since < INTERVAL {
            return;
        }
        self.looked = now;
        self.saved = Nanos(self.saved.0 + since.0 / PART_OF_CPU).min(SAVED);
        if now >= self.renew_at {
            self.renew_list(scheduler);
            let done = os::thread::now();
            self.renew_at = done + Nanos(done.since(now).0 * PART_OF_CPU);
        }
        for _ in 0..LOOKS.min(self.known.len()) {
            self.next = (self.next + 1) % self.known.len();
            self.known[self.next].attend(&mut self.saved, scheduler, rescue);
        }
        let driving = scheduler.driver().for_workers().and_then(Own::driving_thread);
        let before = self.driving.filter(|seen| driving == Some(seen.tid));
        self.driving = before.or_else(|| driving.map(Seen::new));
        self.driving.iter_mut().for_each(|seen| seen.attend(&mut self.saved, scheduler, rescue));
    }

    /// Reads the list of threads again if it has changed. Observations of threads that still exist stay.
    fn renew_list(&mut self, scheduler: &Scheduler) {
        let Some(tasks) = &mut self.tasks else { return };
        let links = tasks.links();
        if links == self.links {
            return;
        }
        self.links = links;
        self.workers.clear();
        let room = self.workers.capacity();
        self.workers.extend(
            scheduler.crew().threads.workers().map(|worker| worker.thread.tid().0).take(room),
        );
        self.workers.sort_unstable();
        let (known, workers) = (&mut self.known, &self.workers);
        known.retain(|seen| os::thread::cpu_time(seen.tid).is_some());
        let keeper = os::thread::current();
        tasks.each(|tid| {
            let is_ours = tid == keeper || workers.binary_search(&tid.0).is_ok();
            let is_known = is_ours || known.iter().any(|seen| seen.tid == tid);
            if !is_known && known.len() < KNOWN {
                known.push(Seen::new(tid));
            }
        });
        known.retain(|seen| workers.binary_search(&seen.tid.0).is_err());
    }
}

impl Seen {
    fn new(tid: Tid) -> Seen {
        Seen { tid, used: Nanos::ZERO, wait: Wait::No }
    }

    /// Checks the thread, and lets stopped threads go on if a round is due.
    fn attend(&mut self, saved: &mut Nanos, scheduler: &Scheduler, rescue: &mut Rescue) {
        self.look();
        let Some((surely, nth)) = self.is_due() else { return };
        let cost = rescue.cost(scheduler, nth);
        if surely {
            rescue.round(scheduler, nth);
        } else if cost <= *saved {
            *saved = Nanos(saved.0 - cost.0);
            rescue.round(scheduler, nth);
        }
    }

    fn look(&mut self) {
        // A thread that has ended uses no CPU time, and does not wait for a futex.
        let used = os::thread::cpu_time(self.tid).unwrap_or(self.used);
        if used != self.used {
            self.used = used;
            self.wait = Wait::No;
            return;
        }
        self.wait = match self.wait {
            Wait::No => match futex_wait_of(self.tid) {
                None | Some(FutexWait { expected: PARKED }) => Wait::Other,
                Some(wait) => Wait::Lock { surely: wait.expected == CONTENDED, looks: 1 },
            },
            Wait::Lock { looks, .. } if looks >= 1 << (ROUNDS - 1) => Wait::Other,
            Wait::Lock { surely, looks } => Wait::Lock { surely, looks: looks + 1 },
            Wait::Other => Wait::Other,
        };
    }

    /// Returns, if a round is due, as it is at checks 1, 2, 4, ..: whether the wait is surely for a lock, and the
    /// number of the round.
    fn is_due(&self) -> Option<(bool, u32)> {
        match self.wait {
            Wait::Lock { surely, looks } if looks.is_power_of_two() => {
                Some((surely, looks.ilog2()))
            }
            _ => None,
        }
    }
}
