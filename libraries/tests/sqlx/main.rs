//! sqlx on tasks of the runtime: its pools, its databases, and the work that each of them does outside the runtime's
//! tasks.

#[path = "../../../crates/runtime/tests/common/mod.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod common;

#[cfg(feature = "postgres")]
mod postgres;
mod sqlite;

use runyard::{Runtime, Task, time};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: runyard::trial::Strict = runyard::trial::Strict;

/// The longest wait for a database or a connection. It bounds a test that fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// The number of heartbeats during which a slow query must wait.
const BEATS: u64 = 20;

fn a_runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).enable_tokio().build()
}

/// Starts a real-time task that counts once a millisecond, until the runtime ends.
fn heartbeat() -> Arc<AtomicU64> {
    let beats = Arc::new(AtomicU64::new(0));
    let counts = beats.clone();
    Task::builder().fifo(1).name("heartbeat").spawn(async move {
        let mut ticks = time::interval(Duration::from_millis(1));
        loop {
            ticks.tick().await;
            counts.fetch_add(1, Ordering::SeqCst);
        }
    });
    beats
}
