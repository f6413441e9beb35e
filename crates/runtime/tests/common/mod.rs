//! Helpers that the tests on real CPUs share.

use nix::sys::signal::Signal;
use runyard::experiments::{Experiments, Feature, Features};
use runyard::{Runtime, yield_now};
use rustix::time::{ClockId, clock_gettime};
use std::env;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::task::Wake;
use std::thread;
use std::time::{Duration, Instant};

/// Returns a runtime with `count` workers. With `RUNYARD_UNBATCHED` in the environment it makes a decision for each
/// poll.
pub fn workers(count: usize) -> Runtime {
    let features = Features::of_runtime();
    let features = match env::var_os("RUNYARD_UNBATCHED") {
        Some(_) => features.without(Feature::BatchDispatch),
        None => features,
    };
    Runtime::builder().workers(count).features(features).build()
}

/// Returns how many CPUs a runtime with two workers has here: one, if the process may run on no more. Not for a task
/// with an affinity, because its thread is bound.
pub fn cpus_of_two() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(2)
}

/// Rings every worker's bell again and again, without reason, while `body` runs.
pub fn under_a_storm<T>(body: impl FnOnce() -> T) -> T {
    let over = Arc::new(AtomicBool::new(false));
    let stop = over.clone();
    let storm = thread::spawn(move || {
        let mut rung = 0;
        while !stop.load(Ordering::Relaxed) {
            // A signal costs the disturbed thread some microseconds. This limits the cost to a fifth of its time.
            let started = Instant::now();
            rung += signal_everybody(Signal::SIGURG);
            thread::sleep(started.elapsed() * 4 + Duration::from_micros(100));
        }
        rung
    });
    let result = body();
    over.store(true, Ordering::Relaxed);
    assert!(storm.join().unwrap() > 0, "a thread was disturbed");
    result
}

/// Sends a signal to each thread of this process whose name begins with `runyard-`. Returns their number.
pub fn signal_everybody(signal: Signal) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let ours = |path: &std::path::Path| {
        std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name.starts_with("runyard-"))
    };
    let ours = tasks.filter(|task| ours(&task.path()));
    let tids = ours.filter_map(|task| task.file_name().to_str()?.parse().ok());
    tids.map(|tid| runyard::trial::ring(tid, signal as i32)).count()
}

/// Fails if `body` does not end, as after a lost wake-up.
pub fn ends(body: impl FnOnce() + Send + 'static) {
    let (send, receive) = channel();
    thread::spawn(move || {
        body();
        send.send(())
    });
    receive.recv_timeout(ms(60_000)).expect("it ends");
}

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Keeps the CPU without an await for `span` of wall-clock time.
pub fn spin(span: Duration) {
    let end = Instant::now() + span;
    while Instant::now() < end {
        black_box(0);
    }
}

/// Polls until the condition holds.
pub fn until(happened: impl Fn() -> bool) {
    let started = Instant::now();
    while !happened() {
        assert!(started.elapsed() < ms(60_000), "it does not happen");
        thread::sleep(ms(1));
    }
}

/// A flag that one task or thread sets and others wait for.
#[derive(Clone, Default)]
pub struct Flag(Arc<AtomicBool>);

impl Flag {
    pub fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Waits on the calling thread, which runs no task.
    pub fn wait(&self) {
        until(|| self.is_set());
    }

    /// Returns a guard that sets the flag when it is dropped.
    pub fn at_drop(&self) -> AtDrop {
        AtDrop(self.clone())
    }
}

pub struct AtDrop(Flag);

impl Drop for AtDrop {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// A waker that counts its calls.
#[derive(Default)]
pub struct Woken(AtomicUsize);

impl Woken {
    pub fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// The CPU time that several tasks or threads have used together, and a flag that stops them. They take as much as they
/// get.
#[derive(Clone, Default)]
pub struct Work {
    used: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Work {
    /// Computes for `span` of CPU time in one poll, or until it is stopped. Calls the C library only to read the CPU
    /// time.
    pub fn compute(&self, span: Duration) {
        let began = cpu_time();
        let mut before = began;
        while before - began < span && !self.is_over() {
            for step in 0..1_000 {
                black_box(step);
            }
            let now = cpu_time();
            self.used.fetch_add((now - before).as_nanos() as u64, Ordering::Relaxed);
            before = now;
        }
    }

    /// Runs polls of `span` each until it is stopped.
    pub async fn go_on(self, span: Duration) {
        while !self.is_over() {
            self.compute(span);
            yield_now().await;
        }
    }

    /// Returns a counter of its own, which stops together with this one.
    pub fn apart(&self) -> Work {
        Work { stop: self.stop.clone(), ..Work::default() }
    }

    pub fn used(&self) -> Duration {
        Duration::from_nanos(self.used.load(Ordering::Relaxed))
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Returns lines of /proc for each kernel thread of this process whose name begins with `runyard-`.
pub fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let read = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.unwrap().path().join("status")).unwrap_or_default()
    };
    tasks.map(read).filter(|status| status.starts_with("Name:\trunyard-")).collect()
}

/// Returns the CPU time that the calling thread has used.
pub fn cpu_time() -> Duration {
    let spec = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(spec.tv_sec as u64, spec.tv_nsec as u32)
}
