//! What the tests on real CPUs share.

use nix::sys::signal::{SigEvent, SigevNotify, Signal};
use nix::sys::time::TimeSpec;
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::ClockId;
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

/// Rings every worker's bell again and again, for no reason, while `body` runs.
pub fn under_a_storm<T>(body: impl FnOnce() -> T) -> T {
    let over = Arc::new(AtomicBool::new(false));
    let stop = over.clone();
    let storm = thread::spawn(move || {
        let (mut rung, mut bells) = (0, Vec::new());
        while !stop.load(Ordering::Relaxed) {
            // Signals cost the disturbed some microseconds each: a fifth of their time at most.
            let started = Instant::now();
            bells = ring_everybody();
            rung += bells.len();
            thread::sleep(started.elapsed() * 4 + Duration::from_micros(100));
        }
        drop(bells);
        rung
    });
    let result = body();
    over.store(true, Ordering::Relaxed);
    assert!(storm.join().unwrap() > 0, "somebody was disturbed");
    result
}

/// Rings the bell of every worker, keeper and maker of this process, for no reason: what a stale or
/// foreign signal does. Each thread is sent its signal by a timer that expires at once. A signal on its
/// way is gone when its timer is: the caller keeps the timers until the signals may have arrived.
fn ring_everybody() -> Vec<Timer> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let ours = |path: &std::path::Path| {
        std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name.starts_with("runyard-"))
    };
    let ours = tasks.filter(|task| ours(&task.path()));
    let tids = ours.filter_map(|task| task.file_name().to_str()?.parse().ok());
    // A thread that is gone by now takes no signal.
    tids.filter_map(|tid| ring(tid).ok()).collect()
}

fn ring(thread_id: i32) -> nix::Result<Timer> {
    let notify = SigevNotify::SigevThreadId { signal: Signal::SIGURG, thread_id, si_value: 0 };
    let mut bell = Timer::new(ClockId::CLOCK_MONOTONIC, SigEvent::new(notify))?;
    bell.set(Expiration::OneShot(TimeSpec::new(0, 1)), TimerSetTimeFlags::empty())?;
    Ok(bell)
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
