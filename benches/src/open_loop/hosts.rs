//! The sides that answer requests on real CPUs. The parent module describes the arrival of requests.

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

/// Number of kernel threads in a pool. It exceeds the number of requests in progress at a load of 0.9 under processor
/// sharing, so that no request waits for a thread.
const POOL: usize = 256;
/// Stack size of a pool thread, which only computes.
const STACK: usize = 64 * 1024;

/// Answers every request on tokio and returns the end of each.
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

/// Answers every request on the runtime with the attributes `ask` and returns the end of each.
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
                // Without `wake_at_once` a fair request would queue near the accepting task, not on a CPU with room.
                drop(wake_at_once(|| ask.task(class).spawn(answer)));
            }
        }));
    });
    service.ends()
}

/// Answers every request on kernel threads and returns the end of each. There is one pool for all requests or, if the
/// short class is `real_time`, one for each class. Returns `None` if this machine does not permit real-time threads.
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

/// A pool of kernel threads and its requests. Neither the threads nor the accepting thread takes a lock: they would
/// wait for a lock holder that has no CPU.
struct Pool {
    /// The requests of this pool in order of arrival.
    requests: Vec<usize>,
    /// Number of requests that have arrived; the futex on which threads wait.
    arrived: AtomicU32,
    /// Number of requests that threads have taken.
    taken: AtomicU32,
}

impl Pool {
    fn new(requests: Vec<usize>) -> Pool {
        Pool { requests, arrived: AtomicU32::new(0), taken: AtomicU32::new(0) }
    }

    /// Hands over the next request.
    fn hand_over(&self) {
        self.arrived.fetch_add(1, Ordering::Release);
        self.wake(1);
    }

    /// Answers requests on the calling thread until all are taken.
    fn answer(&self, service: &Service) {
        loop {
            let arrived = self.arrived.load(Ordering::Acquire);
            let taken = self.taken.load(Ordering::Relaxed);
            let Some(&request) = self.requests.get(taken as usize) else { return };
            // If other threads took requests meanwhile, `arrived` is out of date and the wait returns at once.
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

    /// Ends the waiting threads, once all requests are taken.
    fn close(&self) {
        self.wake(u32::MAX >> 1);
    }

    fn wake(&self, threads: u32) {
        futex::wake(&self.arrived, futex::Flags::PRIVATE, threads).expect("it is a futex");
    }
}

/// Gives the calling thread, which accepts requests, the highest priority on its CPU, if permitted.
fn accept_first() {
    if !become_fifo(ACCEPTS) {
        eprintln!("SCHED_FIFO is not permitted: requests are accepted late beside others");
    }
}
