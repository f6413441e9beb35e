//! tokio's own benchmarks of its multi-thread runtime (`benches/rt_multi_threaded.rs`), with its parameters except for
//! the number of workers, and a token that two tasks pass to and fro.
//!
//! Each function returns the number of completed operations, from the values that the tasks send, count down or return,
//! and never from the requested number.

use super::executor;
use super::host::Host;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// Time for which a background task of `spawn_many_remote_busy` keeps a worker busy at once.
const STALL: Duration = Duration::from_micros(10);

/// A workload that is the same on every runtime. Its cost is measured for each operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bench {
    /// Tasks that yield again and again. An operation is a yield.
    YieldMany,
    /// Tasks that each start another and receive an answer from it. An operation is such a pair.
    PingPong,
    /// Each task starts the next. An operation is a task.
    ChainedSpawn,
    /// Tasks started within `block_on`. An operation is a task.
    SpawnManyLocal,
    /// Tasks started from outside on idle workers, and awaited. An operation is a task.
    SpawnManyRemoteIdle,
    /// The same beside tasks that keep the workers busy and yield.
    SpawnManyRemoteBusy1,
    /// The same beside tasks that keep the workers busy and start their successors.
    SpawnManyRemoteBusy2,
    /// Two tasks that pass a token through two channels. An operation is a round trip.
    Pair,
    /// A task that locks an uncontended mutex. An operation is a lock and unlock.
    LockAlone,
    /// Tasks that lock one mutex, and each yield while they hold it. An operation is a lock and unlock.
    LockCrowd,
    /// A task started within `block_on` and awaited. An operation is such a `block_on`.
    SpawnOne,
    /// Tasks that are ready at once, started by a task and awaited. An operation is a task.
    SpawnManyLight,
    /// Tasks that each start another and await it. An operation is a task.
    SpawnRecursively,
    /// Tasks that yield again and again, and are awaited. An operation is a yield.
    YieldNow,
    /// Tasks in a ring of channels. An operation is a message that a task passes on.
    Channels,
}

/// The numbers of tasks and steps in an iteration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) workers: usize,
    pub(crate) spawns: usize,
    pub(crate) spawns_beside_chains: usize,
    pub(crate) pings: usize,
    pub(crate) chain: usize,
    pub(crate) yielders: usize,
    pub(crate) yields: usize,
    pub(crate) round_trips: usize,
    pub(crate) crowd: usize,
    pub(crate) locks: usize,
    pub(crate) ones: usize,
    pub(crate) light_tasks: usize,
    pub(crate) executor_tasks: usize,
    pub(crate) executor_steps: usize,
}

impl Sizes {
    /// The parameters of tokio and `async-executor`. The number of workers is the number of CPUs of the measured
    /// machines. The numbers of round trips and locks are so large that starting the tasks is negligible. One iteration
    /// starts one task a thousand times; otherwise clock reads would count.
    pub(crate) const FULL: Sizes = Sizes {
        workers: 2,
        spawns: 10_000,
        spawns_beside_chains: 1_000,
        pings: 1_000,
        chain: 1_000,
        yielders: 200,
        yields: 1_000,
        round_trips: 10_000,
        crowd: 8,
        locks: 1_000,
        ones: 1_000,
        light_tasks: 25_000,
        executor_tasks: 300,
        executor_steps: 300,
    };
}

/// A workload on a new runtime, with its background tasks.
pub(crate) struct Prepared<H: Host> {
    host: H,
    bench: Bench,
    sizes: Sizes,
    stop: Arc<AtomicBool>,
    background: Vec<H::Join<()>>,
}

impl<H: Host> Prepared<H> {
    pub(crate) fn new(bench: Bench, sizes: Sizes) -> Prepared<H> {
        let (host, stop) = (H::start(sizes.workers), Arc::new(AtomicBool::new(false)));
        let background = match bench {
            Bench::SpawnManyRemoteBusy1 => {
                let tasks = (0..2 * sizes.workers).map(|_| stalling::<H>(stop.clone()));
                tasks.map(|task| host.spawn_from_outside(task)).collect()
            }
            Bench::SpawnManyRemoteBusy2 => {
                let chains = (0..sizes.workers).map(|_| stop.clone());
                let chain = |stop| async move { stall_and_succeed::<H>(stop) };
                chains.map(|stop| host.spawn_from_outside(chain(stop))).collect()
            }
            _ => Vec::new(),
        };
        Prepared { host, bench, sizes, stop, background }
    }

    /// Runs one iteration and returns the number of completed operations.
    pub(crate) fn iterate(&self) -> usize {
        let (host, sizes) = (&self.host, self.sizes);
        match self.bench {
            Bench::YieldMany => yield_many(host, sizes.yielders, sizes.yields),
            Bench::PingPong => ping_pong(host, sizes.pings),
            Bench::ChainedSpawn => chained_spawn(host, sizes.chain),
            Bench::SpawnManyLocal => spawn_many_local(host, sizes.spawns),
            Bench::SpawnManyRemoteIdle | Bench::SpawnManyRemoteBusy1 => {
                spawn_many_remote(host, sizes.spawns)
            }
            Bench::SpawnManyRemoteBusy2 => spawn_many_remote(host, sizes.spawns_beside_chains),
            Bench::Pair => round_trips(host, sizes.round_trips),
            Bench::LockAlone => lock_alone(host, sizes.crowd * sizes.locks),
            Bench::LockCrowd => lock_crowd(host, sizes.crowd, sizes.locks),
            Bench::SpawnOne => executor::spawn_one(host, sizes.ones),
            Bench::SpawnManyLight => executor::spawn_many_light(host, sizes.light_tasks),
            Bench::SpawnRecursively => {
                executor::spawn_recursively(host, sizes.executor_tasks, sizes.executor_steps)
            }
            Bench::YieldNow => {
                executor::yield_now(host, sizes.executor_tasks, sizes.executor_steps)
            }
            Bench::Channels => executor::channels(host, sizes.executor_tasks, sizes.executor_steps),
        }
    }

    /// Stops the background tasks and the runtime.
    pub(crate) fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.host.block_on(async {
            for task in self.background {
                task.await.expect("nothing in the background panics");
            }
        });
    }
}

fn yield_many<H: Host>(host: &H, tasks: usize, yields: usize) -> usize {
    let (done, all_done) = sync_channel(tasks);
    for _ in 0..tasks {
        let done = done.clone();
        drop(host.spawn_from_outside(async move {
            for _ in 0..yields {
                H::yield_now().await;
            }
            done.send(yields).expect("the receiver waits");
        }));
    }
    (0..tasks).map(|_| all_done.recv().expect("every task sends")).sum()
}

/// A countdown of tasks that reports the end of the last one.
#[derive(Clone)]
pub(super) struct Countdown {
    left: Arc<AtomicUsize>,
    done: SyncSender<()>,
}

impl Countdown {
    pub(super) fn new(tasks: usize, done: SyncSender<()>) -> Countdown {
        Countdown { left: Arc::new(AtomicUsize::new(tasks)), done }
    }

    fn one_done(&self) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.done.send(()).expect("the receiver waits");
        }
    }
}

fn ping_pong<H: Host>(host: &H, pings: usize) -> usize {
    let (done, all_done) = sync_channel(1);
    let countdown = Countdown::new(pings, done);
    let left = countdown.left.clone();
    host.block_on(async {
        drop(H::spawn(async move {
            for _ in 0..pings {
                drop(H::spawn(ping::<H>(countdown.clone())));
            }
        }));
        // Like tokio's benchmark, this blocks the thread, which is not a worker.
        all_done.recv().expect("the last task sends");
    });
    pings - left.load(Ordering::Relaxed)
}

pub(super) async fn ping<H: Host>(countdown: Countdown) {
    let (ping, pinged) = oneshot::channel();
    let (pong, ponged) = oneshot::channel();
    drop(H::spawn(async move {
        pinged.await.expect("it is pinged");
        pong.send(()).expect("the receiver waits");
    }));
    ping.send(()).expect("the receiver waits");
    ponged.await.expect("it is answered");
    countdown.one_done();
}

fn chained_spawn<H: Host>(host: &H, length: usize) -> usize {
    let (done, all_done) = sync_channel(1);
    host.block_on(async {
        drop(H::spawn(async move { link::<H>(done, 0, length) }));
        all_done.recv().expect("the last task sends")
    })
}

/// Starts the successor of task `nth` of `length`.
pub(super) fn link<H: Host>(done: SyncSender<usize>, nth: usize, length: usize) {
    if nth == length {
        done.send(nth).expect("the receiver waits");
    } else {
        drop(H::spawn(async move { link::<H>(done, nth + 1, length) }));
    }
}

fn spawn_many_local<H: Host>(host: &H, tasks: usize) -> usize {
    let (done, all_done) = sync_channel(1);
    let countdown = Countdown::new(tasks, done);
    host.block_on(async {
        for _ in 0..tasks {
            let countdown = countdown.clone();
            drop(H::spawn(async move { countdown.one_done() }));
        }
        all_done.recv().expect("the last task sends");
    });
    tasks - countdown.left.load(Ordering::Relaxed)
}

fn spawn_many_remote<H: Host>(host: &H, tasks: usize) -> usize {
    let handles: Vec<_> = (0..tasks).map(|_| host.spawn_from_outside(async {})).collect();
    host.block_on(async {
        let mut done = 0;
        for handle in handles {
            handle.await.expect("an empty task does not panic");
            done += 1;
        }
        done
    })
}

fn stall() {
    let started = Instant::now();
    while started.elapsed() < STALL {
        std::thread::yield_now();
    }
}

async fn stalling<H: Host>(stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        H::yield_now().await;
        stall();
    }
}

/// Keeps its worker busy, then starts its successor.
fn stall_and_succeed<H: Host>(stop: Arc<AtomicBool>) {
    stall();
    if !stop.load(Ordering::Relaxed) {
        drop(H::spawn(async move { stall_and_succeed::<H>(stop) }));
    }
}

fn round_trips<H: Host>(host: &H, times: usize) -> usize {
    let (ping, mut pinged) = mpsc::channel(1);
    let (pong, mut ponged) = mpsc::channel(1);
    let answering = host.spawn_from_outside(async move {
        while let Some(()) = pinged.recv().await {
            pong.send(()).await.expect("the receiver waits");
        }
    });
    let asking = host.spawn_from_outside(async move {
        for nth in 0..times {
            ping.send(()).await.expect("the other task receives");
            if ponged.recv().await.is_none() {
                return nth;
            }
        }
        times
    });
    host.block_on(async {
        let done = asking.await.expect("nothing panics");
        answering.await.expect("nothing panics");
        done
    })
}

/// Locks the mutex, increments the counter, awaits `holding` and unlocks. Returns the count.
async fn count<H: Host>(mutex: &H::Mutex, holding: impl Future<Output = ()> + Send) -> usize {
    let mut counted = H::lock(mutex).await;
    holding.await;
    *counted += 1;
    *counted
}

fn lock_alone<H: Host>(host: &H, times: usize) -> usize {
    let task = host.spawn_from_outside(async move {
        let mutex = H::Mutex::default();
        let mut counted = 0;
        for _ in 0..times {
            counted = count::<H>(&mutex, async {}).await;
        }
        counted
    });
    host.block_on(task).expect("nothing panics")
}

fn lock_crowd<H: Host>(host: &H, tasks: usize, times: usize) -> usize {
    let mutex = Arc::new(H::Mutex::default());
    let tasks = (0..tasks).map(|_| {
        let mutex = mutex.clone();
        host.spawn_from_outside(async move {
            let mut counted = 0;
            for _ in 0..times {
                counted = count::<H>(&mutex, H::yield_now()).await;
            }
            counted
        })
    });
    let tasks: Vec<_> = tasks.collect();
    host.block_on(async {
        let mut most = 0;
        for task in tasks {
            most = most.max(task.await.expect("nothing panics"));
        }
        most
    })
}

#[cfg(test)]
mod tests {
    use super::super::host::{Runyard, Tokio};
    use super::super::within_time;
    use super::*;

    /// The sizes all differ, so that a wrong count shows its origin.
    const TINY: Sizes = Sizes {
        workers: 2,
        spawns: 37,
        spawns_beside_chains: 31,
        pings: 29,
        chain: 23,
        yielders: 7,
        yields: 19,
        round_trips: 17,
        crowd: 5,
        locks: 13,
        ones: 43,
        light_tasks: 41,
        executor_tasks: 11,
        executor_steps: 47,
    };

    fn counts(bench: Bench, expected: usize) {
        fn twice<H: Host>(bench: Bench) -> [usize; 2] {
            let prepared = Prepared::<H>::new(bench, TINY);
            let counted = [(); 2].map(|()| prepared.iterate());
            prepared.end();
            counted
        }
        assert_eq!(within_time(move || twice::<Tokio>(bench)), [expected; 2], "tokio");
        assert_eq!(within_time(move || twice::<Runyard>(bench)), [expected; 2], "runyard");
    }

    #[test]
    fn yield_many_yields_for_every_task() {
        counts(Bench::YieldMany, TINY.yielders * TINY.yields);
    }

    #[test]
    fn ping_pong_has_every_answer() {
        counts(Bench::PingPong, TINY.pings);
    }

    #[test]
    fn chained_spawn_reaches_the_end_of_the_chain() {
        counts(Bench::ChainedSpawn, TINY.chain);
    }

    #[test]
    fn spawn_many_local_runs_every_task() {
        counts(Bench::SpawnManyLocal, TINY.spawns);
    }

    #[test]
    fn spawn_many_remote_idle_runs_every_task() {
        counts(Bench::SpawnManyRemoteIdle, TINY.spawns);
    }

    #[test]
    fn spawn_many_remote_busy1_runs_every_task_and_ends() {
        counts(Bench::SpawnManyRemoteBusy1, TINY.spawns);
    }

    #[test]
    fn spawn_many_remote_busy2_runs_every_task_and_ends() {
        counts(Bench::SpawnManyRemoteBusy2, TINY.spawns_beside_chains);
    }

    #[test]
    fn the_pair_makes_every_round_trip() {
        counts(Bench::Pair, TINY.round_trips);
    }

    #[test]
    fn every_lock_is_counted() {
        counts(Bench::LockAlone, TINY.crowd * TINY.locks);
        counts(Bench::LockCrowd, TINY.crowd * TINY.locks);
    }
    #[test]
    fn spawn_one_awaits_each() {
        counts(Bench::SpawnOne, TINY.ones);
    }

    #[test]
    fn spawn_many_light_awaits_every_task() {
        counts(Bench::SpawnManyLight, TINY.light_tasks);
    }

    #[test]
    fn spawn_recursively_reaches_the_depth_of_each_chain() {
        counts(Bench::SpawnRecursively, TINY.executor_tasks * (TINY.executor_steps + 1));
    }

    #[test]
    fn yield_now_yields_for_every_task() {
        counts(Bench::YieldNow, TINY.executor_tasks * TINY.executor_steps);
    }

    #[test]
    fn channels_pass_every_message_on() {
        counts(Bench::Channels, TINY.executor_tasks * TINY.executor_steps);
    }
}
