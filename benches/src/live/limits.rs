//! The accuracy of task groups' limits: the CPU use of two limited groups on one CPU, whose tasks use all that they
//! get, over ten seconds and in any one second.
//!
//! The runtime's charge includes its own switches, and the time that other processes take from the CPU meanwhile.
//! Beside it is the CPU time by the clocks of the tasks' threads, which the tasks read themselves.

use super::host::builder;
use runyard::{Group, Limit, Runtime, Task, yield_now};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Length of the measurement, and of a window.
const SPAN: Duration = Duration::from_secs(10);
const WINDOW: Duration = Duration::from_secs(1);
/// Interval of the samples, and so of the beginnings of windows.
const LOOK: Duration = Duration::from_millis(50);
/// Time before the measurement, in which the groups use up their initial runtime.
const RUN_IN: Duration = Duration::from_millis(300);

/// Limits of the groups in per cent of one CPU; together they leave a part of it.
const SHARES: [u32; 2] = [30, 60];
const PERIODS: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(100)];
/// Number of tasks of a group.
const TASKS: usize = 2;
/// Computing time of a task between two reads of its clock.
const STEP: Duration = Duration::from_micros(5);

/// The lengths of polls.
const POLLS: [(&str, Duration); 3] = [
    ("10 us", Duration::from_micros(10)),
    ("1 ms", Duration::from_millis(1)),
    ("for ever", Duration::from_secs(3_600)),
];

/// The accuracy of one limit.
#[derive(Clone, Debug, Serialize)]
pub struct Held {
    /// The limit, in per cent of a CPU.
    pub percent: u32,
    /// Period of the limit.
    pub period_ms: u64,
    /// Length of the polls of the group's tasks.
    pub polls: &'static str,
    /// The charge of the group over its limit.
    pub charged: Part,
    /// The CPU time by the tasks' own clocks over the limit.
    pub had: Part,
}

/// A use over the limit.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Part {
    /// The ratio in ten seconds.
    pub all: f64,
    /// The least and the greatest ratio in any second.
    pub seconds: [f64; 2],
}

/// Measures every combination.
pub(crate) fn measure() -> Vec<Held> {
    let cases = PERIODS.into_iter().flat_map(|period| POLLS.map(|polls| (period, polls)));
    cases.flat_map(|(period, polls)| hold(period, polls)).collect()
}

/// The CPU use of a group's tasks, and the flag that stops them.
#[derive(Default)]
struct Meter {
    used: AtomicU64,
    stop: AtomicBool,
}

impl Meter {
    async fn work(&self, poll: Duration) {
        while !self.stop.load(Ordering::Relaxed) {
            let (begin, mut now) = (cpu_time(), cpu_time());
            while now < begin + poll && !self.stop.load(Ordering::Relaxed) {
                let before = now;
                while now < before + STEP.min(poll) {
                    now = cpu_time();
                }
                self.used.fetch_add((now - before).as_nanos() as u64, Ordering::Relaxed);
            }
            yield_now().await;
        }
    }
}

/// Returns the CPU time of the calling thread.
pub(super) fn cpu_time() -> Duration {
    let spec = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(spec.tv_sec as u64, spec.tv_nsec as u32)
}

/// A group with its meter and its limit.
struct Limited {
    percent: u32,
    group: Group,
    meter: Arc<Meter>,
}

impl Limited {
    fn new(runtime: &Runtime, percent: u32, period: Duration, poll: Duration) -> Limited {
        let limit = Limit::new(period * percent / 100, period);
        let group = runtime.group(format!("{percent} %")).limit(limit).create();
        let group = group.expect("there is room for two groups");
        let meter = Arc::new(Meter::default());
        runtime.block_on(async {
            for _ in 0..TASKS {
                let meter = meter.clone();
                drop(Task::builder().group(&group).spawn(async move { meter.work(poll).await }));
            }
        });
        Limited { percent, group, meter }
    }

    fn look(&self) -> Look {
        let had = Duration::from_nanos(self.meter.used.load(Ordering::Relaxed));
        Look { at: Instant::now(), charged: self.group.usage().used, had }
    }

    fn held(&self, period: Duration, polls: &'static str, looks: &[Look]) -> Held {
        let part = |used: fn(&Look) -> Duration| {
            let over = |from: &Look, to: &Look| {
                let may = (to.at - from.at).as_secs_f64() * f64::from(self.percent) / 100.0;
                (used(to) - used(from)).as_secs_f64() / may
            };
            let [first, .., last] = looks else { unreachable!("it was looked at often") };
            Part { all: over(first, last), seconds: extremes(looks, over) }
        };
        let (charged, had) = (part(|look| look.charged), part(|look| look.had));
        Held { percent: self.percent, period_ms: period.as_millis() as u64, polls, charged, had }
    }
}

/// A sample of a group's use.
#[derive(Clone, Copy)]
struct Look {
    at: Instant,
    charged: Duration,
    had: Duration,
}

fn hold(period: Duration, (polls, poll): (&'static str, Duration)) -> [Held; 2] {
    let runtime = builder(1).build();
    let groups = SHARES.map(|percent| Limited::new(&runtime, percent, period, poll));
    thread::sleep(RUN_IN);
    let mut looks = [const { Vec::new() }; 2];
    let begin = Instant::now();
    while begin.elapsed() < SPAN + LOOK {
        for (limited, looks) in groups.iter().zip(&mut looks) {
            looks.push(limited.look());
        }
        thread::sleep(LOOK);
    }
    for limited in &groups {
        limited.meter.stop.store(true, Ordering::Relaxed);
    }
    std::array::from_fn(|nth| groups[nth].held(period, polls, &looks[nth]))
}

/// Returns the least and the greatest ratio of use to limit in a second.
fn extremes(looks: &[Look], over: impl Fn(&Look, &Look) -> f64) -> [f64; 2] {
    let window = |from: &Look| {
        let to = looks.iter().find(|to| to.at >= from.at + WINDOW)?;
        Some(over(from, to))
    };
    let all = || looks.iter().filter_map(window);
    [all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max)]
}
