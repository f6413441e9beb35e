//! The lateness of a periodic task beside tasks that keep their CPUs, counted for each period from its planned moment.
//! No period is skipped: a missed one counts with its full lateness. (Rejected: a restart of the schedule after a late
//! period, as cyclictest does. A probe that misses fifty periods would have one bad figure, not fifty.)
//!
//! So tokio's figures are spread between zero and the longest wait. With restarts nearly all of them would be the
//! longest.

use super::Effort;
use super::host::{Host, Runyard, Tokio, builder, workers};
use runyard::{Task, TaskBuilder};
use rustix::process::nice;
use rustix::thread::{clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::{ClockId, Timespec, clock_gettime};
use serde::Serialize;
use std::hint::black_box;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

/// Computing time of a hog before it yields.
const POLL: Duration = Duration::from_millis(50);
/// Period of the probe.
pub(super) const PERIOD: Duration = Duration::from_millis(2);
/// Timer slack: the least that both hosts with timer slack accept.
pub(super) const SLACK: Duration = Duration::from_nanos(1);
/// Steps that a hog computes between two clock reads. They are so many that it is preempted in its own code, as most
/// code would be, and not in the C library.
const STEPS: u32 = 2_000;
/// Priority of real-time probes; all other tasks are fair.
pub(super) const PRIORITY: u8 = 50;

/// The kind of probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    RunyardFifo,
    /// A FIFO task on workers that are bound to CPUs.
    PinnedFifo,
    RunyardFair,
    Tokio,
    /// A task of tokio beside hogs that its users move out of the way, by `spawn_blocking`.
    TokioBlocking,
    /// A task of tokio beside a pool of threads at nice 19, to which its users hand the hogs.
    TokioPool,
    KernelFair,
    KernelFifo,
}

impl Probe {
    const ALL: [Probe; 8] = [
        Probe::RunyardFifo,
        Probe::PinnedFifo,
        Probe::RunyardFair,
        Probe::Tokio,
        Probe::TokioBlocking,
        Probe::TokioPool,
        Probe::KernelFair,
        Probe::KernelFifo,
    ];

    fn name(self) -> &'static str {
        match self {
            Probe::RunyardFifo => "runyard, FIFO",
            Probe::PinnedFifo => "runyard, FIFO, workers pinned",
            Probe::RunyardFair => "runyard, fair",
            Probe::Tokio => "tokio",
            Probe::TokioBlocking => "tokio, hogs in spawn_blocking",
            Probe::TokioPool => "tokio, hogs in a pool at nice 19",
            Probe::KernelFair => "kernel thread, SCHED_OTHER",
            Probe::KernelFifo => "kernel thread, SCHED_FIFO",
        }
    }

    /// Returns the lateness of each period, or `None` if this machine does not permit the probe.
    fn lateness(self, periods: usize) -> Option<Vec<Duration>> {
        match self {
            Probe::RunyardFifo => Some(on_runyard(false, Task::builder().fifo(PRIORITY), periods)),
            Probe::PinnedFifo => Some(on_runyard(true, Task::builder().fifo(PRIORITY), periods)),
            Probe::RunyardFair => Some(on_runyard(false, Task::builder(), periods)),
            Probe::Tokio => Some(on_tokio(periods)),
            Probe::TokioBlocking => Some(beside_blocking(periods)),
            Probe::TokioPool => Some(beside_threads(NICEST, || alone_on_tokio(periods))),
            Probe::KernelFair => on_kernel_threads(|| true, periods),
            Probe::KernelFifo => on_kernel_threads(|| become_fifo(PRIORITY), periods),
        }
    }
}

/// The lateness of a periodic task.
#[derive(Clone, Debug, Serialize)]
pub struct Lateness {
    /// Name of the probe.
    pub probe: &'static str,
    /// The figures; `null` if this machine does not permit the probe.
    pub figures: Option<Percentiles>,
}

/// Percentiles over all periods.
#[derive(Clone, Copy, Debug, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Percentiles {
    pub periods: usize,
    pub mean_ns: u64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    pub max_ns: u64,
}

/// Measures every probe.
pub(crate) fn measure(effort: &Effort) -> Vec<Lateness> {
    let figures = |probe: Probe| probe.lateness(effort.periods.max(1)).map(percentiles);
    let lateness = |probe: Probe| Lateness { probe: probe.name(), figures: figures(probe) };
    Probe::ALL.into_iter().map(lateness).collect()
}

pub(crate) fn percentiles(mut lateness: Vec<Duration>) -> Percentiles {
    lateness.sort_unstable();
    let nanos: Vec<_> = lateness.iter().map(|late| late.as_nanos() as u64).collect();
    let at = |per_mille: usize| nanos[(nanos.len() * per_mille / 1_000).min(nanos.len() - 1)];
    Percentiles {
        periods: nanos.len(),
        mean_ns: nanos.iter().sum::<u64>() / nanos.len() as u64,
        p50_ns: at(500),
        p99_ns: at(990),
        p999_ns: at(999),
        max_ns: at(1_000),
    }
}

fn compute_for(span: Duration) {
    let started = Instant::now();
    while started.elapsed() < span {
        for step in 0..STEPS {
            black_box(step);
        }
    }
}

/// Tasks that compute as long as the probe runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hogs {
    /// Number of tasks.
    pub(super) tasks: usize,
    /// Computing time of each before it yields.
    pub(super) poll: Duration,
}

/// The hogs of this workload, as tasks: twice as many as CPUs, so that a late probe waits for more than one of them.
pub(super) fn long_polls() -> Hogs {
    Hogs { tasks: 2 * workers(), poll: POLL }
}

async fn hog<H: Host>(poll: Duration, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        compute_for(poll);
        H::yield_now().await;
    }
}

/// Runs `probe` beside the hogs.
pub(super) fn beside_hogs<H: Host, P>(host: &H, hogs: Hogs, probe: P) -> P::Output
where
    P: Future<Output: Send + 'static>,
{
    let stop = Arc::new(AtomicBool::new(false));
    let start = |_| host.spawn_from_outside(hog::<H>(hogs.poll, stop.clone()));
    let hogs: Vec<_> = (0..hogs.tasks).map(start).collect();
    host.block_on(async {
        let result = probe.await;
        stop.store(true, Ordering::Relaxed);
        for hog in hogs {
            hog.await.expect("a hog does not panic");
        }
        result
    })
}

fn on_runyard(pins: bool, task: TaskBuilder, periods: usize) -> Vec<Duration> {
    let runtime = builder(workers()).pin_workers(pins).build();
    let task = task.slack(SLACK);
    let probed = async { task.spawn(probe(periods)).await.expect("the probe does not panic") };
    beside_hogs(&Runyard(runtime), long_polls(), probed)
}

/// Returns the lateness of each period of the calling task.
pub(super) async fn probe(periods: usize) -> Vec<Duration> {
    let mut interval = runyard::time::interval_at(Instant::now() + PERIOD, PERIOD);
    let mut lateness = Vec::with_capacity(periods);
    for _ in 0..periods {
        lateness.push(interval.tick().await.elapsed());
    }
    lateness
}

fn on_tokio(periods: usize) -> Vec<Duration> {
    let probed =
        async { Tokio::spawn(tokio_probe(periods)).await.expect("the probe does not panic") };
    beside_hogs(&Tokio::start(workers()), long_polls(), probed)
}

/// Runs the probe alone on tokio's workers.
fn alone_on_tokio(periods: usize) -> Vec<Duration> {
    Tokio::start(workers()).block_on(async {
        Tokio::spawn(tokio_probe(periods)).await.expect("the probe does not panic")
    })
}

/// Runs the probe beside hogs that hand each piece of their work to tokio's pool of blocking threads.
fn beside_blocking(periods: usize) -> Vec<Duration> {
    Tokio::start(workers()).block_on(async {
        let hog = || async {
            loop {
                let piece = tokio::task::spawn_blocking(|| compute_for(POLL));
                piece.await.expect("a piece does not panic");
            }
        };
        let hogs: Vec<_> = (0..2 * workers()).map(|_| tokio::spawn(hog())).collect();
        let lateness = Tokio::spawn(tokio_probe(periods)).await.expect("the probe does not panic");
        hogs.iter().for_each(tokio::task::JoinHandle::abort);
        lateness
    })
}

/// Returns the lateness of each period of the calling task, which is one of tokio's.
pub(super) async fn tokio_probe(periods: usize) -> Vec<Duration> {
    let first = tokio::time::Instant::now() + PERIOD;
    let mut interval = tokio::time::interval_at(first, PERIOD);
    let mut lateness = Vec::with_capacity(periods);
    for _ in 0..periods {
        lateness.push(interval.tick().await.elapsed());
    }
    lateness
}

/// Runs the same probe and hogs as kernel threads. Returns `None` if `become_it` fails for the probe's thread.
fn on_kernel_threads(become_it: fn() -> bool, periods: usize) -> Option<Vec<Duration>> {
    // The probe runs on a new thread, because its policy would stay with the calling one.
    let probe = || become_it().then(|| kernel_probe(periods));
    beside_threads(0, || {
        thread::scope(|scope| scope.spawn(probe).join().expect("the probe does not panic"))
    })
}

/// The nice value of a pool for work that can wait.
const NICEST: i32 = 19;

/// Runs `probe` beside hogs that are kernel threads, this much nicer than the calling one.
pub(super) fn beside_threads<T>(nicer: i32, probe: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 * workers() {
            scope.spawn(|| {
                nice(nicer).expect("any thread may be nicer");
                while !stop.load(Ordering::Relaxed) {
                    compute_for(POLL);
                    thread::yield_now();
                }
            });
        }
        let result = probe();
        stop.store(true, Ordering::Relaxed);
        result
    })
}

fn kernel_probe(periods: usize) -> Vec<Duration> {
    let slack = NonZeroU64::new(SLACK.as_nanos() as u64);
    set_current_timer_slack(slack).expect("any thread may be exact");
    let now = || clock_gettime(ClockId::Monotonic);
    let period = Timespec::try_from(PERIOD).expect("a period is short");
    let mut due = now();
    let mut lateness = Vec::with_capacity(periods);
    for _ in 0..periods {
        due += period;
        while clock_nanosleep_absolute(ClockId::Monotonic, &due).is_err() {}
        let late = now() - due;
        lateness.push(Duration::try_from(late).expect("a sleep is never short"));
    }
    lateness
}

/// Makes the calling thread SCHED_FIFO with this priority in 1..=99. Returns `false` if that is not permitted.
pub(crate) fn become_fifo(priority: u8) -> bool {
    let priority = ThreadPriorityValue::try_from(priority).expect("a priority is in 1..=99");
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    let priority = ThreadPriority::Crossplatform(priority);
    set_thread_priority_and_policy(thread_native_id(), priority, policy).is_ok()
}

#[cfg(test)]
mod tests {
    use super::super::within_time;
    use super::*;

    /// Number of periods in which every hog runs.
    const FEW: usize = 20;

    #[test]
    fn every_probe_has_every_period() {
        for probe in Probe::ALL {
            let lateness = within_time(move || probe.lateness(FEW));
            match lateness.map(|lateness| lateness.len()) {
                Some(periods) => assert_eq!(periods, FEW, "{probe:?}"),
                None => assert_eq!(probe, Probe::KernelFifo, "only that may be refused"),
            }
        }
    }

    #[test]
    fn a_task_that_cannot_preempt_is_late_by_a_poll() {
        let latest = within_time(|| on_tokio(FEW)).into_iter().max().unwrap();
        assert!(latest >= POLL / 2, "{latest:?}: the hogs did not keep their CPUs");
    }

    #[test]
    fn percentiles_are_of_what_is_sorted() {
        let found = percentiles((1..=1_000).rev().map(Duration::from_nanos).collect());
        assert_eq!((found.periods, found.mean_ns, found.p50_ns), (1_000, 500, 501));
        assert_eq!((found.p99_ns, found.p999_ns, found.max_ns), (991, 1_000, 1_000));
    }
}
