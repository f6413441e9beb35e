//! Beside an allocator with a lock of its own nothing hangs, wherever its holder is stopped.

#[path = "trust/child.rs"]
mod child;
#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use child::within;
use common::{ms, workers};
use runyard::{Task, spawn, time};
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
