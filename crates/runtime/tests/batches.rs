//! Tasks behave the same with and without batches. Every case of this file is about tasks that wait in a batch.

#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use common::{ends, ms, spin};
use runyard::experiments::{Experiments, Features};
use runyard::{JoinSet, Nice, Policy, RtPrio, Runtime, Task, spawn, yield_now};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::{mpsc, oneshot};

fn batched(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).features(Features::of_runtime()).build()
}

/// Spawns tasks that yield until `over` is set.
async fn yielders(many: usize, over: &Arc<AtomicUsize>) -> JoinSet<u64> {
    let mut set = JoinSet::new();
    for _ in 0..many {
        let over = over.clone();
        set.spawn(async move {
            let mut polls = 0;
            while over.load(Ordering::Relaxed) == 0 {
                yield_now().await;
                polls += 1;
            }
            polls
        });
    }
    set
}

async fn all_of(mut set: JoinSet<u64>) -> Vec<u64> {
    let mut all = Vec::new();
    while let Some(ended) = set.join_next().await {
        all.push(ended.unwrap());
    }
    all
}

#[test]
fn every_poll_of_tasks_that_yield_block_spawn_and_end_is_done_once() {
    for workers in [1, 2] {
        ends(move || {
            let done = Arc::new(AtomicU64::new(0));
            let counted = done.clone();
            batched(workers).block_on(async move {
                let mut set = JoinSet::new();
                for nth in 0..500_u64 {
                    let done = counted.clone();
                    set.spawn(async move {
                        let (send, mut receive) = mpsc::channel(1);
                        let child = spawn(async move {
                            for word in 0..20 {
                                send.send(word).await.unwrap();
                                if (nth + word) % 3 == 0 {
                                    yield_now().await;
                                }
                            }
                        });
                        while let Some(word) = receive.recv().await {
                            done.fetch_add(word, Ordering::Relaxed);
                        }
                        child.await.unwrap();
                    });
                }
                while let Some(ended) = set.join_next().await {
                    ended.unwrap();
                }
            });
            assert_eq!(done.load(Ordering::Relaxed), 500 * 190);
        });
    }
}

#[test]
fn a_chain_of_spawns_comes_to_its_end() {
    ends(|| {
        fn link(left: u32, end: oneshot::Sender<()>) {
            spawn(async move {
                match left {
                    0 => end.send(()).unwrap(),
                    _ => link(left - 1, end),
                }
            });
        }
        batched(1).block_on(async {
            spawn(async {
                let (end, ended) = oneshot::channel();
                link(10_000, end);
                ended.await.unwrap();
            })
            .await
            .unwrap();
        });
    });
}

/// Each task takes its turn while the others of the batch are polled.
#[test]
fn what_is_asked_of_a_task_of_a_batch_is_done() {
    ends(|| {
        batched(1).block_on(async {
            let over = Arc::new(AtomicUsize::new(0));
            let (stop, order) = (over.clone(), Arc::new(Mutex::new(Vec::new())));
            let seen = order.clone();
            let control = spawn(async move {
                let set = yielders(50, &stop).await;
                for (nth, policy) in [
                    Policy::Idle,
                    Policy::Fifo(RtPrio::new(5).unwrap()),
                    Policy::Normal(Nice::new(5).unwrap()),
                ]
                .into_iter()
                .enumerate()
                {
                    let seen = seen.clone();
                    let asked = spawn(async move {
                        for _ in 0..20 {
                            yield_now().await;
                        }
                        seen.lock().unwrap().push(nth);
                    });
                    yield_now().await;
                    asked.task().set_policy(policy);
                    for _ in 0..20 {
                        yield_now().await;
                    }
                    asked.task().set_policy(Policy::Normal(Nice::default()));
                    asked.await.unwrap();
                }
                stop.store(1, Ordering::Relaxed);
                all_of(set).await
            });
            assert_eq!(control.await.unwrap().len(), 50);
            assert_eq!(*order.lock().unwrap(), [0, 1, 2]);
        });
    });
}

/// A long poll of a batch is stopped for a task of the batch, and its thread goes on later.
#[test]
fn a_long_poll_of_a_batch_does_not_keep_the_others_waiting() {
    ends(|| {
        batched(1).block_on(async {
            let over = Arc::new(AtomicUsize::new(0));
            let stop = over.clone();
            let (begins, begun) = oneshot::channel();
            let all = spawn(async move {
                let set = yielders(20, &stop).await;
                let told = stop.clone();
                let long = spawn(async move {
                    yield_now().await;
                    begins.send(()).unwrap();
                    let began = Instant::now();
                    while told.load(Ordering::Relaxed) == 0 {
                        assert!(began.elapsed() < ms(30_000), "another task was polled");
                        spin(ms(1));
                    }
                });
                (set, long)
            });
            let (set, long) = all.await.unwrap();
            begun.await.unwrap();
            spawn(async move { over.store(1, Ordering::Relaxed) }).await.unwrap();
            long.await.unwrap();
            all_of(set).await;
        });
    });
}

#[test]
fn members_are_aborted_and_their_runtime_ends_while_they_wait() {
    ends(|| {
        let runtime = batched(1);
        let never = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = runtime.block_on(async {
            let set = yielders(100, &never).await;
            let one = spawn(async {
                loop {
                    yield_now().await;
                }
            });
            yield_now().await;
            one.abort();
            assert!(one.await.is_err());
            vec![set]
        });
        drop(runtime);
        drop(tasks);
    });
}

/// A real-time task, or a task with its own CPUs, is not polled in a batch, and both make progress beside one.
#[test]
fn those_that_ask_for_something_special_go_on_beside_a_batch() {
    ends(|| {
        batched(2).block_on(async {
            let over = Arc::new(AtomicUsize::new(0));
            let stop = over.clone();
            let control = spawn(async move {
                let set = yielders(50, &stop).await;
                let mut special = JoinSet::new();
                for nth in 0..20 {
                    let builder = match nth % 3 {
                        0 => Task::builder().fifo(1),
                        1 => Task::builder().affinity([nth % 2]),
                        _ => Task::builder().nice(-3),
                    };
                    special.add(builder.spawn(async {
                        for _ in 0..50 {
                            yield_now().await;
                        }
                    }));
                }
                while let Some(ended) = special.join_next().await {
                    ended.unwrap();
                }
                stop.store(1, Ordering::Relaxed);
                all_of(set).await
            });
            assert_eq!(control.await.unwrap().len(), 50);
        });
    });
}
