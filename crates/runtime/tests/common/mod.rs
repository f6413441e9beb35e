//! What the tests on real CPUs share.

use nix::sys::signal::Signal;
use runyard::Runtime;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// A runtime with so many workers.
pub fn workers(count: usize) -> Runtime {
    Runtime::builder().workers(count).build()
}

/// How many CPUs a runtime with two workers has here: one, if the process may run on no more. Not for a task
/// with an affinity, of which the thread is bound.
pub fn cpus_of_two() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(2)
}

/// Rings every worker's bell again and again, for no reason, while `body` runs.
pub fn under_a_storm<T>(body: impl FnOnce() -> T) -> T {
    let over = Arc::new(AtomicBool::new(false));
    let stop = over.clone();
    let storm = thread::spawn(move || {
        let mut rung = 0;
        while !stop.load(Ordering::Relaxed) {
            // Signals cost the disturbed some microseconds each: a fifth of their time at most.
            let started = Instant::now();
            rung += signal_everybody(Signal::SIGURG);
            thread::sleep(started.elapsed() * 4 + Duration::from_micros(100));
        }
        rung
    });
    let result = body();
    over.store(true, Ordering::Relaxed);
    assert!(storm.join().unwrap() > 0, "somebody was disturbed");
    result
}

/// Sends a signal to each thread of this process whose name begins with `runyard-`. How many there were.
pub fn signal_everybody(signal: Signal) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let ours = |path: &std::path::Path| {
        std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name.starts_with("runyard-"))
    };
    let ours = tasks.filter(|task| ours(&task.path()));
    let tids = ours.filter_map(|task| task.file_name().to_str()?.parse().ok());
    tids.map(|tid| runyard::trial::ring(tid, signal as i32)).count()
}

/// Fails if `body` does not end, which is what a lost wake-up looks like.
pub fn ends(body: impl FnOnce() + Send + 'static) {
    let (send, receive) = channel();
    thread::spawn(move || {
        body();
        send.send(())
    });
    receive.recv_timeout(ms(60_000)).expect("it ends");
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

/// Looks until what is to happen has happened.
pub fn until(happened: impl Fn() -> bool) {
    let started = Instant::now();
    while !happened() {
        assert!(started.elapsed() < ms(60_000), "it does not happen");
        thread::sleep(ms(1));
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
