//! The wake-up rate of a process with 10,000 periodic tasks, and its CPU cost. Each wake-up of a thread wakes an idle
//! CPU, which costs power, a switch and cold caches.
//!
//! The phases of the tasks are random, so that without slack hardly any two tasks expire together. A wake-up is a
//! voluntary context switch of any thread by the kernel's count. Each side has the machine alone for its turn, and the
//! same number of workers.

use super::Effort;
use super::host::{Host, Runyard, Tokio, builder, features, workers};
use super::rates::median;
use runyard::Task;
use runyard::experiments::{Experiments, Feature, Features};
use runyard::time::MissedTickBehavior;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Number of tasks, and their period.
const TASKS: u64 = 10_000;
const PERIOD: Duration = Duration::from_millis(100);
const SLACK: Duration = Duration::from_millis(10);
/// Length of the measurement. It follows a warm-up in which every task has its first period.
const SPAN: Duration = Duration::from_secs(5);
const BEGINS_WITHIN: Duration = Duration::from_secs(1);

/// The runtime that has the tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Exact,
    Default,
    Slack,
    Regular,
    Mixed,
    MixedRegular,
    Tokio,
}

impl Side {
    const ALL: [Side; 7] = [
        Side::Exact,
        Side::Default,
        Side::Slack,
        Side::Regular,
        Side::Mixed,
        Side::MixedRegular,
        Side::Tokio,
    ];

    fn name(self) -> &'static str {
        match self {
            Side::Exact => "runyard, exact",
            Side::Default => "runyard, slack 50 us",
            Side::Slack => "runyard, slack 10 ms",
            Side::Regular => "runyard, slack 10 ms, NO_GREEDY_TIMERS",
            Side::Mixed => "runyard, slack 10 ms, of one in 100 50 us",
            Side::MixedRegular => "runyard, the same, NO_GREEDY_TIMERS",
            Side::Tokio => "tokio, in ms",
        }
    }

    /// Returns the slack of the `nth` task.
    fn slack(self, nth: u64) -> Duration {
        match self {
            Side::Exact | Side::Tokio => Duration::ZERO,
            Side::Default => Duration::from_micros(50),
            Side::Mixed | Side::MixedRegular if nth.is_multiple_of(100) => {
                Duration::from_micros(50)
            }
            Side::Slack | Side::Regular | Side::Mixed | Side::MixedRegular => SLACK,
        }
    }

    fn features(self) -> Features {
        let all = features();
        match self {
            Side::Regular | Side::MixedRegular => all.without(Feature::GreedyTimers),
            _ => all,
        }
    }
}

/// The costs of periodic tasks to their process.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Wakeups {
    pub side: &'static str,
    pub periods_per_s: f64,
    pub wakeups_per_s: f64,
    /// All context switches, including involuntary ones.
    pub switches_per_s: f64,
    /// CPU time in per cent of one CPU.
    pub cpu_percent: f64,
}

/// Measures every side, in turns.
pub(crate) fn measure(effort: &Effort) -> Vec<Wakeups> {
    let mut all = Side::ALL.map(|_| Vec::new());
    for _ in 0..effort.rounds {
        for (side, turns) in Side::ALL.into_iter().zip(&mut all) {
            turns.push(turn(side, TASKS, SPAN));
        }
    }
    let middle = |turns: &[Wakeups], figure: fn(&Wakeups) -> f64| {
        median(&mut turns.iter().map(figure).collect::<Vec<_>>())
    };
    let row = |turns: &Vec<Wakeups>| Wakeups {
        side: turns[0].side,
        periods_per_s: middle(turns, |it| it.periods_per_s),
        wakeups_per_s: middle(turns, |it| it.wakeups_per_s),
        switches_per_s: middle(turns, |it| it.switches_per_s),
        cpu_percent: middle(turns, |it| it.cpu_percent),
    };
    all.iter().map(row).collect()
}

/// The counters of the process.
struct Counts {
    at: Instant,
    cpu_time: Duration,
    /// The switches of each thread, by its name in `/proc`.
    threads: BTreeMap<OsString, Switches>,
}

/// Context switches of a thread.
#[derive(Clone, Copy, Default)]
struct Switches {
    /// Switches at which the thread blocked.
    voluntary: u64,
    /// Switches at which the kernel preempted the thread.
    involuntary: u64,
}

impl Counts {
    fn now() -> Counts {
        let spec = clock_gettime(ClockId::ProcessCPUTime);
        let threads = fs::read_dir("/proc/self/task").expect("a process knows its threads");
        let threads = threads.map(|thread| {
            let thread = thread.expect("a thread has a name");
            // A thread that ends meanwhile has no status any more.
            let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
            let count = |name| {
                let line = status.lines().find_map(|line| line.strip_prefix(name));
                line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
            };
            let voluntary = count("voluntary_ctxt_switches:");
            let involuntary = count("nonvoluntary_ctxt_switches:");
            (thread.file_name(), Switches { voluntary, involuntary })
        });
        let cpu_time = Duration::new(spec.tv_sec as u64, spec.tv_nsec as u32);
        Counts { at: Instant::now(), cpu_time, threads: threads.collect() }
    }

    /// Returns the switches since `before` of the threads that still exist.
    fn switches_since(&self, before: &Counts) -> Switches {
        self.threads.iter().fold(Switches::default(), |sum, (name, now)| {
            let was = before.threads.get(name).copied().unwrap_or_default();
            Switches {
                voluntary: sum.voluntary + now.voluntary.saturating_sub(was.voluntary),
                involuntary: sum.involuntary + now.involuntary.saturating_sub(was.involuntary),
            }
        })
    }
}

/// Runs one side's turn with `tasks` tasks, and counts over `span`.
fn turn(side: Side, tasks: u64, span: Duration) -> Wakeups {
    let periods = Arc::new(AtomicU64::new(0));
    let counted = |periods: &AtomicU64| {
        thread::sleep(PERIOD + BEGINS_WITHIN);
        let (before, began) = (Counts::now(), periods.load(Ordering::Relaxed));
        thread::sleep(span);
        let (after, ended) = (Counts::now(), periods.load(Ordering::Relaxed));
        let seconds = (after.at - before.at).as_secs_f64();
        let Switches { voluntary, involuntary } = after.switches_since(&before);
        Wakeups {
            side: side.name(),
            periods_per_s: (ended - began) as f64 / seconds,
            wakeups_per_s: voluntary as f64 / seconds,
            switches_per_s: (voluntary + involuntary) as f64 / seconds,
            cpu_percent: (after.cpu_time - before.cpu_time).as_secs_f64() / seconds * 100.0,
        }
    };
    if side == Side::Tokio {
        let host = Tokio::start(workers());
        for nth in 0..tasks {
            drop(host.spawn_from_outside(on_tokio(phase(nth), periods.clone())));
        }
        return counted(&periods);
    }
    let host = Runyard(builder(workers()).features(side.features()).build());
    host.block_on(async {
        for nth in 0..tasks {
            let task = Task::builder().slack(side.slack(nth));
            drop(task.spawn(on_runyard(phase(nth), periods.clone())));
        }
    });
    counted(&periods)
}

async fn on_runyard(phase: Duration, periods: Arc<AtomicU64>) {
    runyard::time::sleep(phase).await;
    let first = Instant::now() + PERIOD;
    let mut interval = runyard::time::interval_at(first, PERIOD);
    interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        interval.tick().await;
        periods.fetch_add(1, Ordering::Relaxed);
    }
}

async fn on_tokio(phase: Duration, periods: Arc<AtomicU64>) {
    tokio::time::sleep(phase).await;
    let mut interval = tokio::time::interval_at(tokio::time::Instant::now() + PERIOD, PERIOD);
    loop {
        interval.tick().await;
        periods.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns the phase of the `nth` task within the period, the same on every side (Fibonacci hashing).
fn phase(nth: u64) -> Duration {
    let hash = nth.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // This mixing makes the order of phases differ from the order of creation.
    let hash = (hash ^ hash >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    Duration::from_nanos((hash >> 16) % PERIOD.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::within_time;

    #[test]
    fn every_side_has_its_periods() {
        for side in Side::ALL {
            let found = within_time(move || turn(side, 20, Duration::from_secs(1)));
            assert!((1.0..=300.0).contains(&found.periods_per_s), "{found:?}");
            assert!(found.wakeups_per_s > 0.0 && found.cpu_percent > 0.0, "{found:?}");
        }
    }
}
