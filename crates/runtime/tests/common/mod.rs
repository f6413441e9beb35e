//! What the tests on real CPUs share.

use runyard::Runtime;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// A runtime with so many workers.
pub fn workers(count: usize) -> Runtime {
    Runtime::builder().workers(count).build()
}

pub fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Keeps the CPU without an await for so long, by the clock on the wall.
pub fn spin(span: Duration) {
    let end = Instant::now() + span;
    while Instant::now() < end {
        black_box(0);
    }
}

/// Lines of /proc for each kernel thread of this process whose name begins with `runyard-`.
pub fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let read = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.unwrap().path().join("status")).unwrap_or_default()
    };
    tasks.map(read).filter(|status| status.starts_with("Name:\trunyard-")).collect()
}
