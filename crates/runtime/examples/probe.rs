//! What a periodic task feels of four others that never give their CPU away: its latencies, beside
//! hogs that poll for 50 ms each.

use runyard::{Runtime, Task, time};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// One long poll after another.
async fn hog() {
    loop {
        let end = Instant::now() + Duration::from_millis(50);
        while Instant::now() < end {
            black_box(0);
        }
        runyard::yield_now().await;
    }
}

/// The latencies of `count` periods of 2 ms, in order of size.
async fn probe(count: usize) -> Vec<Duration> {
    let mut interval = time::interval(Duration::from_millis(2)).slack(Duration::from_nanos(1));
    let mut latencies = Vec::new();
    for _ in 0..count {
        latencies.push(interval.tick().await);
    }
    latencies.sort_unstable();
    latencies
}

fn main() {
    let runtime = Runtime::builder().workers(2).build();
    runtime.block_on(async {
        for _ in 0..4 {
            runyard::spawn(hog());
        }
        for (name, task) in [("fifo", Task::builder().fifo(50)), ("fair", Task::builder())] {
            let latencies = task.spawn(probe(1_000)).await.unwrap();
            let at =
                |part: usize| latencies[(latencies.len() * part / 1_000).min(latencies.len() - 1)];
            println!(
                "{name}: p50 {:?}, p99 {:?}, p99.9 {:?}, max {:?}",
                at(500),
                at(990),
                at(999),
                latencies[latencies.len() - 1]
            );
        }
    });
    std::process::exit(0);
}
