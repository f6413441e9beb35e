//! Patches 1 and 8 by themselves: each is a scenario of a few tasks on one CPU, run without latency nice and with it.
//!
//! The document gives no figures for them, only what each repairs. So each row has a bound for both runs: what is to be
//! repaired must be seen before.

use super::cyclictest::{Told, took};
use crate::setting::{Part, Setting};
use crate::took::{Requests, Took};
use runyard_engine::kernel::Experiment;
use runyard_engine::time::{Nanos, Time};

/// The period of all tasks that timers wake, and the time within which a round of the third scenario is done, if only the
/// real-time task keeps it waiting.
const PERIOD: Nanos = Nanos::from_millis(20);
const WITHIN: Nanos = Nanos::from_micros(1_600);

/// All patches.
pub(super) fn parts() -> Vec<Part> {
    let median: Told = |took| took.quantile(500);
    vec![
        // A sleeper is owed 3 ms at most. A granularity of 1 ms, divided by a small weight, is more than that.
        part(
            "patch 1: a sleeper of nice 19 beside a task that never sleeps",
            ("median wait", "us", median),
            r#""it": {"priority": 19, "timer_slack": 0, TIMER, "run": 50}, "hog": {"run": 1000}"#,
            [500.0, 10.0],
        ),
        part(
            "patch 1: a sleeper of nice 10 beside a task that never sleeps",
            ("median wait", "us", median),
            r#""it": {"priority": 10, "timer_slack": 0, TIMER, "run": 50}, "hog": {"run": 1000}"#,
            [500.0, 10.0],
        ),
        // Another sleeper wakes up meanwhile, which is as far behind.
        part(
            "patch 8: a real-time task preempts a sensitive one",
            ("turns that another task delays", "%", Took::late_percent),
            r#""it": {"latency_nice": -20, "timer_slack": 0, TIMER, "run": 500},
               "rt": {"policy": "SCHED_FIFO", "timer_slack": 0, "delay": 200, TIMER, "run": 1000},
               "other": {"timer_slack": 0, "delay": 700, TIMER, "run": 3000},
               "hog": {"run": 1000}"#,
            [90.0, 0.0],
        ),
        part(
            "patch 8: a sensitive task wakes up beside a real-time one, for 0.8 ms",
            ("mean wait", "us", Took::mean),
            r#""it": {"latency_nice": -20, "timer_slack": 0, TIMER, "run": 6000},
               "rt": {"policy": "SCHED_FIFO", "timer_slack": 0, "delay": 19800, TIMER, "run": 1000},
               "other": {"timer_slack": 0, "delay": 19900, TIMER, "run": 3000},
               "hog": {"run": 1000}"#,
            [1_500.0, 820.0],
        ),
    ]
}

/// The tasks of a scenario, what is measured of the first, and its bounds: the least figure before, the largest after.
fn part(
    name: &str,
    (what, unit, of): (&str, &'static str, Told),
    tasks: &str,
    [least, most]: [f64; 2],
) -> Part {
    let timer = r#""timer": {"ref": "unique", "period": 20000, "mode": "absolute"}"#;
    let text = format!(
        r#"{{"machine": {{"cpus": 1, "kernel": "6.1 + founding", "costs": {{"jitter_ns": 0}}}},
             "global": {{"duration": 5}}, "tasks": {{{}}}}}"#,
        tasks.replace("TIMER", timer)
    );
    let rounds = Requests::new(PERIOD, WITHIN, Time::ZERO);
    let setting = Setting::of("patches.json", &text).requests(0, 1, rounds);
    let row = took(what, unit, of).holds(move |before, after| before >= least && after <= most);
    Part::new(name, setting.pair(Experiment::LatencyNice), vec![row])
}
