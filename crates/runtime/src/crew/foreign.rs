//! Threads that are no workers, and wait: `block_on`'s, a reactor's, somebody's pool's; and the worker that is in tokio's
//! driver, which calls foreign code without a task.
//!
//! Such a thread may wait for a lock that a stopped task holds, and it cannot be replaced. The keeper reads the
//! CPU clock of each every 2 ms while somebody is stopped. Of one that stands still it reads, once, the system
//! call: if that is a futex wait without a timeout, stopped threads get [rounds](crate::crew::rescue).
//!
//! Threads of runtimes, this one or others of the process, wait with a mark ([`os::futex::OURS`]) and get none.
//! A thread that idles on a condition variable looks the same. So a wait gets few rounds; and unless the word
//! is expected to be 2, by which std's and glibc's locks say that somebody waits, all such waits together get
//! 5 % of a CPU.

use crate::adapters::driver::Own;
use crate::crew::rescue::Rescue;
use crate::os;
use crate::os::tasks::{FutexWait, Tasks, futex_wait_of};
use crate::os::thread::Tid;
use crate::shared::Shared;
use runyard_engine::time::{Nanos, Time};

/// Between two looks at all.
const INTERVAL: Nanos = Nanos::from_millis(2);

/// How many threads are known; of more, those that were seen first.
const KNOWN: usize = 1_024;

/// At how many a look is had at a time: some 20 us.
const LOOKS: usize = 64;

/// A wait gets this many rounds, the last after 64 ms: a lock that nobody gave free by then is no short section.
const ROUNDS: u32 = 6;

/// The value of the futex of a lock while somebody waits for it, in std and glibc.
const CONTENDED: u32 = 2;

/// The value of the futex of std's `thread::park` while the thread is parked, as in `Runtime::block_on`: no lock.
const PARKED: u32 = u32::MAX;

/// Of a CPU, for waits that are perhaps not for a lock, and for the list of threads: one part in so many.
const PART_OF_CPU: u64 = 20;

/// That part is saved up for so long.
const SAVED: Nanos = Nanos::from_millis(20);

/// What is known of a thread.
#[derive(Clone, Copy, Debug)]
struct Seen {
    tid: Tid,
    used: Nanos,
    wait: Wait,
}

/// What it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// It ran since the last look.
    No,
    /// It waits for a lock, or perhaps for one; how many looks that was so.
    Lock { surely: bool, looks: u32 },
    /// It waits for something else, or for so long that it is not a lock.
    Other,
}

/// The threads that are no workers.
#[derive(Debug)]
pub(crate) struct Foreigners {
    /// None where `/proc` does not say.
    tasks: Option<Tasks>,
    links: u64,
    /// Not before this is the list read again: that may take milliseconds where there are thousands of threads.
    renew_at: Time,
    known: Vec<Seen>,
    /// The worker that drives.
    driving: Option<Seen>,
    /// The workers' threads when the list was read, in order.
    workers: Vec<i32>,
    /// At which of the known the next look begins.
    next: usize,
    looked: Time,
    /// How much CPU time waits that are perhaps not for a lock may cost now.
    saved: Nanos,
}

impl Foreigners {
    /// Beside so many workers at the most. Allocates; nothing else here does.
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

    /// Looks at them, if somebody is stopped and it is time.
    pub(crate) fn look(&mut self, shared: &Shared, rescue: &mut Rescue) {
        let now = os::thread::now();
        let since = now.since(self.looked);
        if shared.crew.keeper.nr_stopped() == 0 || since < INTERVAL {
            return;
        }
        self.looked = now;
        self.saved = Nanos(self.saved.0 + since.0 / PART_OF_CPU).min(SAVED);
        if now >= self.renew_at {
            self.renew_list(shared);
            let done = os::thread::now();
            self.renew_at = done + Nanos(done.since(now).0 * PART_OF_CPU);
        }
        for _ in 0..LOOKS.min(self.known.len()) {
            self.next = (self.next + 1) % self.known.len();
            self.known[self.next].attend(&mut self.saved, shared, rescue);
        }
        let driving = shared.driver.for_workers().and_then(Own::driving_thread);
        let before = self.driving.filter(|seen| driving == Some(seen.tid));
        self.driving = before.or_else(|| driving.map(Seen::new));
        self.driving.iter_mut().for_each(|seen| seen.attend(&mut self.saved, shared, rescue));
    }

    /// Reads the list of threads again if it has changed. What is known of a thread that is still there stays.
    fn renew_list(&mut self, shared: &Shared) {
        let Some(tasks) = &mut self.tasks else { return };
        let links = tasks.links();
        if links == self.links {
            return;
        }
        self.links = links;
        self.workers.clear();
        let room = self.workers.capacity();
        self.workers.extend(shared.crew.threads.workers().map(|worker| worker.tid().0).take(room));
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

    /// Looks at it, and lets stopped threads go on if it is time for that.
    fn attend(&mut self, saved: &mut Nanos, shared: &Shared, rescue: &mut Rescue) {
        self.look();
        let Some((surely, nth)) = self.is_due() else { return };
        let cost = rescue.cost(shared, nth);
        if surely {
            rescue.round(shared, nth);
        } else if cost <= *saved {
            *saved = Nanos(saved.0 - cost.0);
            rescue.round(shared, nth);
        }
    }

    fn look(&mut self) {
        // One that is gone stands still, and waits for nothing.
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

    /// Whether it is time for a round, as at looks 1, 2, 4, ..: whether it is surely a lock, and which round.
    fn is_due(&self) -> Option<(bool, u32)> {
        match self.wait {
            Wait::Lock { surely, looks } if looks.is_power_of_two() => {
                Some((surely, looks.ilog2()))
            }
            _ => None,
        }
    }
}
