//! The sides that answer requests on real CPUs. Where requests come from is told in the module
//! above.

use super::CPUS;
use super::ask::{ACCEPTS, Ask, SHORT};
use super::mix::Class;
use super::service::Service;
use crate::live::host::{Host, Tokio, builder};
use crate::live::probe::become_fifo;
use runyard::{Task, time, wake_at_once};
use runyard_engine::time::Nanos;
use rustix::thread::futex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// How many kernel threads answer requests of a pool: more than ever compute at once at a load of
/// 0.9 if all take turns, so that nobody waits for a thread.
const POOL: usize = 256;
/// They compute, and no more.
const STACK: usize = 64 * 1024;

/// Answers every request on tokio: when each ended.
pub(crate) fn tokio(service: &Arc<Service>) -> Vec<Nanos> {
    let host = Tokio::start(CPUS);
    thread::scope(|scope| {
        scope.spawn(|| {
            accept_first();
            service.accept(|nth| {
                let service = service.clone();
                drop(host.spawn_from_outside(async move { service.answer(nth) }));
            });
        });
        service.ends()
    })
}

/// Answers every request on the runtime, as `ask` says.
pub(crate) fn runyard(service: &Arc<Service>, ask: Ask) -> Vec<Nanos> {
    let runtime = builder(CPUS).build();
    let accepts = service.clone();
    runtime.block_on(async {
        drop(Task::builder().fifo(ACCEPTS).spawn(async move {
            for nth in 0..accepts.trace().requests.len() {
                time::sleep(accepts.until(nth)).slack(Duration::ZERO).await;
                let class = accepts.trace().class(accepts.trace().requests[nth]);
                let service = accepts.clone();
                let answer = async move { service.answer(nth) };
                // A fair request would else wait near whoever accepts it, not where there is room.
                drop(wake_at_once(|| ask.task(class).spawn(answer)));
            }
        }));
    });
    service.ends()
}

/// Answers every request on threads of the kernel, one pool for all or, if the short class is
/// `real_time`, one for each class. `None` if this machine does not permit real-time threads.
pub(crate) fn threads(service: &Service, real_time: bool) -> Option<Vec<Nanos>> {
    let short = |class| real_time && class == Class::Short;
    let [short_pool, other_pool] = [true, false].map(|of_short| {
        let requests = service.trace().requests.iter().enumerate();
        let own = requests.filter(|(_, r)| short(service.trace().class(**r)) == of_short);
        Pool::new(own.map(|(nth, _)| nth).collect())
    });
    let refused = &AtomicBool::new(false);
    thread::scope(|scope| {
        for (pool, fifo) in [(&short_pool, true), (&other_pool, false)] {
            for _ in 0..POOL {
                let thread = thread::Builder::new().stack_size(STACK);
                let answers = move || {
                    if fifo && !become_fifo(SHORT) {
                        refused.store(true, Ordering::Relaxed);
                    }
                    pool.answer(service);
                };
                thread.spawn_scoped(scope, answers).expect("threads can be made");
            }
        }
        scope.spawn(|| {
            accept_first();
            service.accept(|nth| {
                let class = service.trace().class(service.trace().requests[nth]);
                if short(class) { &short_pool } else { &other_pool }.hand_over();
            });
        });
        let ends = service.ends();
        [&short_pool, &other_pool].into_iter().for_each(Pool::close);
        (!refused.load(Ordering::Relaxed)).then_some(ends)
    })
}

/// Kernel threads that wait for requests, and which requests those are. Neither they nor whoever
/// hands requests over take a lock: one that is held by a thread without a CPU would be waited for.
struct Pool {
    /// The requests of this pool, in the order in which they come.
    requests: Vec<usize>,
    /// How many of them have come. Threads wait for it to change.
    arrived: AtomicU32,
    /// How many of them a thread has taken.
    taken: AtomicU32,
}

impl Pool {
    fn new(requests: Vec<usize>) -> Pool {
        Pool { requests, arrived: AtomicU32::new(0), taken: AtomicU32::new(0) }
    }

    /// The next request has come.
    fn hand_over(&self) {
        self.arrived.fetch_add(1, Ordering::Release);
        self.wake(1);
    }

    /// Answers requests, on the calling thread, until all are taken.
    fn answer(&self, service: &Service) {
        loop {
            let arrived = self.arrived.load(Ordering::Acquire);
            let taken = self.taken.load(Ordering::Relaxed);
            let Some(&request) = self.requests.get(taken as usize) else { return };
            // More are taken than had arrived a moment ago if others were quick; then this wait is
            // over at once.
            if taken >= arrived {
                let _ = futex::wait(&self.arrived, futex::Flags::PRIVATE, arrived, None);
                continue;
            }
            let take =
                self.taken.compare_exchange(taken, taken + 1, Ordering::Relaxed, Ordering::Relaxed);
            if take.is_ok() {
                service.answer(request);
            }
        }
    }

    /// All requests are taken: threads that wait for one end.
    fn close(&self) {
        self.wake(u32::MAX >> 1);
    }

    fn wake(&self, threads: u32) {
        futex::wake(&self.arrived, futex::Flags::PRIVATE, threads).expect("it is a futex");
    }
}

/// Makes the calling thread, which accepts requests, the first on its CPU, if that is permitted.
fn accept_first() {
    if !become_fifo(ACCEPTS) {
        eprintln!("SCHED_FIFO is not permitted: requests are accepted late beside others");
    }
}
