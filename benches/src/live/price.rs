//! The operations of a task whose instructions `cargo xtask price` counts, on one worker of either runtime.
//!
//! Each operation is performed a given number of times by a process of its own. So the difference of two numbers is
//! what they cost, without the start and the end of the runtime. No operation counts on the way, beyond what it says.

use super::host::{Host, Runyard, Tokio};
use super::memory::Side;
use super::tasks::{Countdown, link, ping};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// The number of tasks that are alive at once, where an operation has several.
const TASKS: u64 = 64;

/// The number of tasks that one poll spawns, if they are few, and if they are many. A task that only yields goes on
/// before its children, which owe their debit; so it awaits the last one.
const FEW: u64 = 32;
const BURST: u64 = 10_000;

/// The time for which the runtime is idle before each request of [`Price::Idle`].
const REST: Duration = Duration::from_millis(1);

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Price {
    /// A task spawns empty ones, detaches 31 of them, and awaits the next
    Spawn,
    /// The same by a handle
    SpawnByHandle,
    /// The same as `Spawn`, 10,000 in one poll
    SpawnMany,
    /// A thread that is no worker spawns an empty task, 10,000 in a row
    SpawnFromOutside,
    /// A task spawns an empty one and awaits it
    Join,
    /// A task spawns its successor, and ends
    Chain,
    /// 64 tasks yield in turn
    Yield,
    /// A task wakes 64 others, which are polled and block again; an operation is a wake-up
    Wake,
    /// A task spawns one that answers through a channel, and awaits the answer
    Oneshot,
    /// Two spawned tasks send each other one message
    PingPong,
    /// A thread asks a task after a millisecond without work, and waits for the answer
    Idle,
}

impl Price {
    /// Returns the number by which the number of operations has to be divisible.
    #[must_use]
    pub fn step(self) -> u64 {
        match self {
            Price::SpawnMany | Price::SpawnFromOutside => BURST,
            Price::Spawn | Price::SpawnByHandle => FEW,
            Price::Yield | Price::Wake => TASKS,
            Price::Join | Price::Chain | Price::Oneshot | Price::PingPong | Price::Idle => 1,
        }
    }

    /// Performs the operation so many times on a runtime with one worker.
    ///
    /// # Panics
    ///
    /// Panics if a task does.
    pub fn perform(self, side: Side, times: u64) {
        match side {
            Side::Runyard => self.on::<Runyard>(times),
            Side::Tokio => self.on::<Tokio>(times),
        }
    }

    fn on<H: Host>(self, times: u64) {
        let host = H::start(1);
        let rounds = times / self.step();
        match self {
            Price::Spawn | Price::SpawnMany => within(&host, async move {
                for _ in 0..rounds {
                    (1..self.step()).for_each(|_| drop(H::spawn(async {})));
                    H::spawn(async {}).await.expect(FINE);
                }
            }),
            Price::SpawnByHandle => {
                let handle = host.handle();
                within(&host, async move {
                    for _ in 0..rounds {
                        (1..FEW).for_each(|_| drop(H::spawn_by(&handle, async {})));
                        H::spawn_by(&handle, async {}).await.expect(FINE);
                    }
                });
            }
            Price::SpawnFromOutside => {
                for _ in 0..rounds {
                    (1..BURST).for_each(|_| drop(host.spawn_from_outside(async {})));
                    host.block_on(host.spawn_from_outside(async {})).expect(FINE);
                }
            }
            Price::Join => within(&host, async move {
                for _ in 0..times {
                    H::spawn(async {}).await.expect(FINE);
                }
            }),
            Price::Chain => {
                let (done, ended) = sync_channel(1);
                drop(host.spawn_from_outside(async move { link::<H>(done, 0, times as usize) }));
                ended.recv().expect(FINE);
            }
            Price::Yield => {
                let yields = |_| {
                    host.spawn_from_outside(async move {
                        for _ in 0..rounds {
                            H::yield_now().await;
                        }
                    })
                };
                let tasks: Vec<_> = (0..TASKS).map(yields).collect();
                tasks.into_iter().for_each(|task| host.block_on(task).expect(FINE));
            }
            Price::Wake => wake(&host, rounds),
            Price::Oneshot => within(&host, async move {
                for _ in 0..times {
                    let (answer, answered) = oneshot::channel();
                    drop(H::spawn(async move { answer.send(()).expect(FINE) }));
                    answered.await.expect(FINE);
                }
            }),
            Price::PingPong => {
                let (done, ended) = sync_channel(1);
                let countdown = Countdown::new(times as usize, done);
                drop(host.spawn_from_outside(async move {
                    for nth in 0..times {
                        drop(H::spawn(ping::<H>(countdown.clone())));
                        if nth % TASKS == 0 {
                            H::yield_now().await;
                        }
                    }
                }));
                ended.recv().expect(FINE);
            }
            Price::Idle => idle(&host, times),
        }
    }
}

const FINE: &str = "no task panics";

/// Runs a future as a task, while this thread waits.
fn within<H: Host>(host: &H, future: impl Future<Output = ()> + Send + 'static) {
    host.block_on(host.spawn_from_outside(future)).expect(FINE);
}

/// The waker of a task that sleeps, and how often it was polled.
#[derive(Default)]
struct Bed {
    waker: OnceLock<Waker>,
    polls: AtomicU64,
}

/// A future that leaves its waker, and is pending in so many polls.
struct Sleeper {
    bed: Arc<Bed>,
    polls: u64,
}

impl Future for Sleeper {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.polls == 0 {
            return Poll::Ready(());
        }
        if self.bed.waker.get().is_none() {
            self.bed.waker.set(cx.waker().clone()).expect("one task has the bed");
        }
        self.polls -= 1;
        let polls = self.bed.polls.load(Ordering::Relaxed);
        self.bed.polls.store(polls + 1, Ordering::Relaxed);
        Poll::Pending
    }
}

fn wake<H: Host>(host: &H, rounds: u64) {
    let beds: Vec<Arc<Bed>> = (0..TASKS).map(|_| Arc::default()).collect();
    let sleeper = |bed: &Arc<Bed>| Sleeper { bed: bed.clone(), polls: 1 + rounds };
    let tasks: Vec<_> = beds.iter().map(|bed| host.spawn_from_outside(sleeper(bed))).collect();
    within(host, async move {
        for round in 1..=1 + rounds {
            while beds.iter().any(|bed| bed.polls.load(Ordering::Relaxed) < round) {
                H::yield_now().await;
            }
            beds.iter().filter_map(|bed| bed.waker.get()).for_each(Waker::wake_by_ref);
        }
    });
    tasks.into_iter().for_each(|task| host.block_on(task).expect(FINE));
}

fn idle<H: Host>(host: &H, times: u64) {
    let (ask, mut asked) = mpsc::unbounded_channel();
    let (answer, answered) = sync_channel(1);
    let task = host.spawn_from_outside(async move {
        while let Some(()) = asked.recv().await {
            answer.send(()).expect(FINE);
        }
    });
    for _ in 0..times {
        thread::sleep(REST);
        ask.send(()).expect(FINE);
        answered.recv().expect(FINE);
    }
    drop(ask);
    host.block_on(task).expect(FINE);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::within_time;
    use clap::ValueEnum;

    #[test]
    fn each_operation_ends_on_both_runtimes() {
        for &price in Price::value_variants() {
            for &side in Side::value_variants() {
                within_time(move || price.perform(side, 2 * price.step()));
            }
        }
    }
}
