//! The time from the decision to preempt to the first instruction of the preempting task, beside the lower bound. The
//! lower bound is the time that this machine takes to stop one thread of a process and start another on its CPU, by a
//! signal or by the kernel's own priorities, without a scheduler.
//!
//! A task that never waits keeps the runtime's one CPU busy. Another thread, on the other CPU, wakes a FIFO task. So
//! the runtime's figure includes its decision.

use super::Effort;
use super::floor::{Cpus, Way, handoffs};
use super::host::builder;
use super::probe::{Lateness, percentiles};
use runyard::{Runtime, Task, spawn};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::future::poll_fn;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

/// Time between two preemptions. The preempted task runs again in it, and no timer is in step with it.
const PAUSE: Duration = Duration::from_micros(137);

/// Measures the runtime and the lower bound, in turns. Returns nothing on a machine with one CPU.
pub(crate) fn measure(effort: &Effort) -> Vec<Lateness> {
    let allowed = sched_getaffinity(None).expect("a thread has an affinity");
    let cpus: Vec<_> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    let &[here, from, ..] = &cpus[..] else { return Vec::new() };
    let (cpus, count) = (Cpus { here, from }, effort.periods.max(1));
    let mut spans = [const { Some(Vec::new()) }; 3];
    for _ in 0..effort.rounds {
        for (way, spans) in [Way::Signal, Way::Priority].into_iter().zip(&mut spans) {
            let round = on_its_own_thread(move || handoffs(way, cpus, count).ok());
            *spans = spans.take().zip(round).map(|(mut all, round)| {
                all.extend(round);
                all
            });
        }
        let round = on_its_own_thread(move || runyard(from, count));
        spans[2].as_mut().expect("the runtime needs no permission").extend(round);
    }
    let names = ["floor: signal and futex", "floor: SCHED_IDLE and futex", "runyard, FIFO task"];
    let figures = names.into_iter().zip(spans);
    figures.map(|(probe, spans)| Lateness { probe, figures: spans.map(percentiles) }).collect()
}

/// Runs `body` on a new thread, so that a CPU binding does not affect the calling thread.
fn on_its_own_thread<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    thread::spawn(body).join().expect("a measurement does not panic")
}

/// The shared state of the preempting task and the thread that wakes it.
#[derive(Default)]
struct Bell(Mutex<(Option<Waker>, Option<Instant>)>);

impl Bell {
    /// Wakes the task and returns `true`, if it waits.
    fn ring(&self) -> bool {
        let waker = {
            let mut bell = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let waker = bell.0.take();
            bell.1 = waker.is_some().then(Instant::now);
            waker
        };
        waker.map(Waker::wake).is_some()
    }

    /// Waits for a wake-up and returns the time since it was sent.
    async fn heard(&self) -> Duration {
        poll_fn(|cx| {
            let now = Instant::now();
            let mut bell = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(rang) = bell.1.take() {
                return Poll::Ready(now - rang);
            }
            bell.0 = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}

/// Performs `count` preemptions on one CPU, requested from the CPU `from`.
#[expect(clippy::async_yields_async, reason = "the handle is awaited after the others are woken")]
fn runyard(from: usize, count: usize) -> Vec<Duration> {
    let mut own = CpuSet::new();
    own.set(from);
    sched_setaffinity(None, &own).expect("a thread may run on a CPU that it may run on");
    let runtime = runtime_on_one_cpu();
    let (stop, bell) = (Arc::new(AtomicBool::new(false)), Arc::new(Bell::default()));
    let (stops, hears) = (stop.clone(), bell.clone());
    let preempting = runtime.block_on(async move {
        drop(spawn(async move {
            while !stops.load(Ordering::Relaxed) {
                black_box(0);
            }
        }));
        Task::builder().fifo(50).spawn(async move {
            let mut spans = Vec::with_capacity(count);
            while spans.len() < count {
                spans.push(hears.heard().await);
            }
            spans
        })
    });
    while !preempting.is_finished() {
        thread::sleep(PAUSE);
        bell.ring();
    }
    stop.store(true, Ordering::Relaxed);
    runtime.block_on(preempting).expect("it does not panic")
}

/// Returns a runtime on the first CPU that the process may use, with its workers bound to that CPU like the threads of
/// the lower bound. The calling thread is bound elsewhere.
fn runtime_on_one_cpu() -> Runtime {
    thread::spawn(|| {
        let mut every = CpuSet::new();
        (0..CpuSet::MAX_CPU).for_each(|cpu| every.set(cpu));
        sched_setaffinity(None, &every).expect("a thread may run wherever its process may");
        builder(1).pin_workers(true).build()
    })
    .join()
    .expect("a runtime can be made")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::within_time;

    #[test]
    fn every_preemption_is_measured() {
        let effort = Effort {
            rounds: 1,
            iterations: None,
            span: Duration::from_millis(1),
            periods: 20,
            situation: None,
        };
        for row in within_time(move || measure(&effort)) {
            let figures = row.figures.filter(|figures| figures.p50_ns > 0);
            let permitted = !row.probe.contains("SCHED_IDLE");
            assert!(figures.is_some_and(|figures| figures.periods == 20) || !permitted, "{row:?}");
        }
    }
}
