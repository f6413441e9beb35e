//! Beside an allocator with a lock of its own nothing hangs, wherever its holder is stopped.

#[path = "trust/child.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod child;
#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use child::within;
use common::{ms, workers};
use runyard::{Runtime, Task, spawn, time};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: runyard::trial::OneLock = runyard::trial::OneLock::new();

/// Seen failing: no end, as a worker freed what was over while a stopped task had the lock.
#[test]
fn an_allocator_with_a_lock_hangs_nobody() {
    // Who frees in the runtime's own code waits for a millisecond or two each time.
    within(ms(120_000), "an_allocator_with_a_lock_hangs_nobody", || {
        let runtime = workers(1);
        let ticker = runtime.block_on(async {
            let ticks = async {
                let mut interval = time::interval(Duration::from_micros(170));
                loop {
                    interval.tick().await;
                }
            };
            Task::builder().fifo(99).spawn(ticks).task().clone()
        });
        runtime.block_on(async {
            let end = Instant::now() + ms(5_000);
            while Instant::now() < end {
                // More than there are boxes kept for, so that ends free.
                let tasks = (0..1_400_usize).map(|nth| {
                    spawn(async move {
                        let many: Vec<_> = (0..8).map(|at| vec![at; nth % 7]).collect();
                        many.iter().map(Vec::len).sum::<usize>()
                    })
                });
                for (nth, task) in tasks.collect::<Vec<_>>().into_iter().enumerate() {
                    assert_eq!(task.await.unwrap(), nth % 7 * 8);
                }
            }
        });
        ticker.abort();
    });
}

/// Runs a program on a runtime, and on one under siege, in which a worker that takes memory in own code ends
/// the process.
fn takes_no_memory_in_own_code(name: &str, program: fn(Runtime)) {
    within(ms(240_000), name, || {
        for builder in [Runtime::builder(), Runtime::builder().siege(5)] {
            let runtime = builder.workers(2).build();
            ALLOCATOR.refuse_own_code(true);
            program(runtime);
            ALLOCATOR.refuse_own_code(false);
        }
    });
}

/// The cell of a new task was made in a section, and what knows live tasks grew there.
#[test]
fn a_spawn_takes_no_memory_in_own_code() {
    takes_no_memory_in_own_code("a_spawn_takes_no_memory_in_own_code", |runtime| {
        let some = |nth: usize| async move { vec![nth; nth % 7].len() };
        let spawner = async move {
            for many in [10, 1_000, 6_000, 300, 300, 300] {
                let tasks: Vec<_> = (0..many).map(|nth| spawn(some(nth))).collect();
                for (nth, task) in tasks.into_iter().enumerate() {
                    assert_eq!(task.await.unwrap(), nth % 7);
                }
            }
        };
        runtime.block_on(async { spawn(spawner).await.unwrap() });
        for nth in 0..1_000 {
            drop(runtime.spawn(some(nth)));
        }
    });
}

/// The table of those that wait for timers, and the queue of timers, grew in a section.
#[test]
fn a_timer_takes_no_memory_in_own_code() {
    takes_no_memory_in_own_code("a_timer_takes_no_memory_in_own_code", |runtime| {
        let tick = |nth: u64| async move {
            let mut interval = time::interval(Duration::from_micros(300 + nth));
            for _ in 0..50 {
                interval.tick().await;
            }
        };
        let sleep = |nth: u64| async move {
            time::sleep(Duration::from_micros(nth % 40_000)).await;
            let never = std::future::pending::<()>();
            assert!(time::timeout(Duration::from_micros(100), never).await.is_err());
        };
        let slack = |nth: u64| {
            let task = Task::builder().slack(Duration::from_nanos(1 << (nth % 30)));
            task.spawn(async move { time::sleep(Duration::from_micros(nth)).await })
        };
        let all = async move {
            let mut all: Vec<_> = (0..20).map(|nth| spawn(tick(nth))).collect();
            all.extend((0..4_000).map(|nth| spawn(sleep(nth))));
            all.extend((0..100).map(slack));
            for task in all {
                task.await.unwrap();
            }
        };
        runtime.block_on(async { spawn(all).await.unwrap() });
    });
}
