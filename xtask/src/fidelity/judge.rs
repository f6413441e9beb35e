//! The distance between two runs of one scenario: the simulator beside the kernel, and the kernel beside itself.
//!
//! A task has a share, and latencies if it woke up often enough. A run has migrations, switches and preemptions. The
//! kernel ran twice, A and B. *Itself* is A beside B. *Simulated* is the simulator beside A and beside B. Scenarios about
//! limits have measures of their own.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::workspace::Outcome;

/// The least number of wake-ups for which a percentile has a meaning.
pub(super) const ENOUGH_WAKEUPS: u64 = 50;

/// A latency below this counts as this, so that no ratio is of zero.
const LEAST_NS: f64 = 1.0;

/// A compared measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Measure {
    /// The difference of a task's CPU time, in points of one CPU.
    Share,
    /// The ratio of the medians of a task's wake-up latency, at least 1.
    P50,
    /// The ratio of its ninety-ninth percentiles.
    P99,
    /// The ratio of the migrations of all tasks, at least 1, with one added on either side. The same holds for the next
    /// two.
    Migrations,
    /// The ratio of switches.
    Switches,
    /// The ratio of preemptions, unless a task yields: then the kernel does not count them.
    Preemptions,
    /// The difference of a limited group's throttled periods, in parts of what may be apart: 10 % of the larger number,
    /// or 2.
    Throttled,
    /// The ratio of such a group's throttled time, summed over CPUs, at least 1, with a millisecond added on either side.
    ThrottledTime,
    /// The ratio of the medians of a task's wake-up latency in a scenario about limits.
    Wake50,
    /// The ratio of its ninetieth percentiles.
    Wake90,
    /// The ratio of its ninety-ninth percentiles.
    Wake99,
    /// The ratio of a task's time runnable and not running, at least 1, with a millisecond added on either side.
    Waits,
}

/// What has a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Task,
    Group,
    Run,
}

impl Measure {
    pub(super) const ALL: [Measure; 6] = [
        Measure::Share,
        Measure::P50,
        Measure::P99,
        Measure::Migrations,
        Measure::Switches,
        Measure::Preemptions,
    ];

    /// The measures of scenarios about limits.
    pub(super) const OF_LIMITS: [Measure; 6] = [
        Measure::Throttled,
        Measure::ThrottledTime,
        Measure::Wake50,
        Measure::Wake90,
        Measure::Wake99,
        Measure::Waits,
    ];

    /// The field of the JSON.
    pub(super) fn field(self) -> &'static str {
        match self {
            Measure::Share => "share_points",
            Measure::P50 => "p50_ratio",
            Measure::P99 => "p99_ratio",
            Measure::Migrations => "migrations_ratio",
            Measure::Switches => "switches_ratio",
            Measure::Preemptions => "preemptions_ratio",
            Measure::Throttled => "throttled_apart",
            Measure::ThrottledTime => "throttled_time_ratio",
            Measure::Wake50 => "wakeup_p50_ratio",
            Measure::Wake90 => "wakeup_p90_ratio",
            Measure::Wake99 => "wakeup_p99_ratio",
            Measure::Waits => "waits_ratio",
        }
    }

    /// The largest distance at which two runs count as the same.
    pub(super) fn goal(self) -> f64 {
        match self {
            Measure::Share => 3.0,
            Measure::Throttled => 1.0,
            Measure::Wake50 | Measure::Wake90 | Measure::Wake99 => 1.5,
            Measure::ThrottledTime | Measure::Waits => 1.25,
            _ => 2.0,
        }
    }

    pub(super) fn of(self) -> Of {
        match self {
            Measure::Migrations | Measure::Switches | Measure::Preemptions => Of::Run,
            Measure::Throttled | Measure::ThrottledTime => Of::Group,
            _ => Of::Task,
        }
    }
}

/// The figures of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Seen {
    tasks: BTreeMap<String, Task>,
    /// The groups whose limits count throttled periods.
    throttled: BTreeMap<String, Throttled>,
    migrations: Option<f64>,
    switches: Option<f64>,
    preemptions: Option<f64>,
}

/// The figures of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Task {
    /// Per cent of one CPU.
    share: f64,
    wakeups: u64,
    p50: f64,
    p90: f64,
    p99: f64,
    /// The time runnable and not running, if it is known.
    wait: Option<f64>,
}

/// The figures of a group with a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Throttled {
    /// The periods in which it was throttled on a CPU.
    pub(super) periods: f64,
    /// The time that it was throttled, summed over CPUs.
    pub(super) time_ns: f64,
}

/// What is added to a wait and to a throttled time, so that no ratio is of zero.
pub(super) const WAIT_NS: f64 = 1e6;

impl Seen {
    /// Reads a report. Each task has a name of its own.
    pub(super) fn read(report: &Value) -> Outcome<Seen> {
        let duration = report["duration_ns"].as_f64().filter(|&some| some > 0.0);
        let duration = duration.ok_or("a run takes time")?;
        let tasks = report["tasks"].as_array().ok_or("a report has tasks")?.iter().map(|task| {
            let latency = &task["wakeup_latency"];
            let seen = Task {
                share: task["runtime_ns"].as_f64().unwrap_or(0.0) / duration * 100.0,
                wakeups: task["wakeups"].as_u64().unwrap_or(0),
                p50: latency["p50_ns"].as_f64().unwrap_or(0.0),
                p90: latency["p90_ns"].as_f64().unwrap_or(0.0),
                p99: latency["p99_ns"].as_f64().unwrap_or(0.0),
                wait: task["wait_ns"].as_f64(),
            };
            (task["name"].as_str().unwrap_or_default().to_owned(), seen)
        });
        let of = |field: &str| report["machine"][field].as_f64();
        let groups = report["groups"].as_array().map(Vec::as_slice).unwrap_or_default();
        let throttled = groups.iter().filter(|group| group["limit"].is_object());
        let throttled = throttled.filter_map(|group| {
            let periods = group["nr_throttled"].as_f64()?;
            let time_ns = group["throttled_ns"].as_f64().unwrap_or(0.0);
            Some((group["path"].as_str()?.to_owned(), Throttled { periods, time_ns }))
        });
        Ok(Seen {
            throttled: throttled.collect(),
            tasks: tasks.collect(),
            migrations: of("migrations"),
            switches: of("switches"),
            preemptions: of("preemptions"),
        })
    }

    /// The simulated run with waits as the kernel counts them (`run_delay`): from the moment at which a wake-up has queued the
    /// task to the decision to switch to it. If the task is to preempt at once, the kernel reads its clock for both only once
    /// (`rq_clock_skip_update`). The simulator's waits begin with the wake-up's work and end with the switch.
    pub(super) fn with_run_delays(mut self, machine: &Value) -> Seen {
        let cost = |key: &str| machine["costs"][key].as_f64().unwrap_or(0.0);
        let each = ["wakeup_ns", "wakeup_fair_ns", "context_switch_ns", "jitter_ns"]
            .map(cost)
            .iter()
            .sum::<f64>();
        for task in self.tasks.values_mut() {
            task.wait = task.wait.map(|wait| (wait - each * task.wakeups as f64).max(0.0));
        }
        self
    }

    /// The names of the tasks, and the paths of the groups with throttled periods.
    pub(super) fn names(&self, of: Of) -> Vec<String> {
        match of {
            Of::Task => self.tasks.keys().cloned().collect(),
            Of::Group => self.throttled.keys().cloned().collect(),
            Of::Run => vec![String::new()],
        }
    }

    /// The throttling of a group.
    pub(super) fn throttled(&self, path: &str) -> Option<Throttled> {
        self.throttled.get(path).copied()
    }

    /// The distance between this run and another, of a task, a group, or the run. `None` if neither has the figure,
    /// infinite if only one has it.
    pub(super) fn apart(&self, other: &Seen, measure: Measure, name: &str) -> Option<f64> {
        let (ours, theirs) = (self.task(name), other.task(name));
        let plus_one =
            |ours: Option<f64>, theirs: Option<f64>| Some(ratio(ours? + 1.0, theirs? + 1.0));
        match measure {
            Measure::Share => Some((ours.share - theirs.share).abs()),
            Measure::P50 => latency(ours, theirs, |task| task.p50),
            Measure::P99 => latency(ours, theirs, |task| task.p99),
            Measure::Migrations => plus_one(self.migrations, other.migrations),
            Measure::Switches => plus_one(self.switches, other.switches),
            Measure::Preemptions => plus_one(self.preemptions, other.preemptions),
            Measure::Throttled => throttled(self.throttled(name), other.throttled(name)),
            Measure::ThrottledTime => {
                let time = |seen: &Seen| Some(seen.throttled(name)?.time_ns + WAIT_NS);
                Some(ratio(time(self)?, time(other)?))
            }
            Measure::Wake50 => latency(ours, theirs, |task| task.p50),
            Measure::Wake90 => latency(ours, theirs, |task| task.p90),
            Measure::Wake99 => latency(ours, theirs, |task| task.p99),
            Measure::Waits => Some(ratio(ours.wait? + WAIT_NS, theirs.wait? + WAIT_NS)),
        }
    }

    fn task(&self, name: &str) -> Task {
        self.tasks.get(name).copied().unwrap_or_default()
    }
}

/// The part of what the throttled periods of a group may be apart that they are.
fn throttled(ours: Option<Throttled>, theirs: Option<Throttled>) -> Option<f64> {
    match (ours.map(|it| it.periods), theirs.map(|it| it.periods)) {
        (None, None) => None,
        (Some(ours), Some(theirs)) => {
            Some((ours - theirs).abs() / (ours.max(theirs) * 0.1).max(2.0))
        }
        _ => Some(f64::INFINITY),
    }
}

fn latency(ours: Task, theirs: Task, figure: fn(Task) -> f64) -> Option<f64> {
    match (ours.wakeups >= ENOUGH_WAKEUPS, theirs.wakeups >= ENOUGH_WAKEUPS) {
        (false, false) => None,
        (true, true) => Some(ratio(figure(ours).max(LEAST_NS), figure(theirs).max(LEAST_NS))),
        _ => Some(f64::INFINITY),
    }
}

/// The ratio of two values, at least 1.
pub(super) fn ratio(a: f64, b: f64) -> f64 {
    (a / b).max(b / a)
}

/// The distances in one measure, of one task or of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sample {
    /// The distance between A and B.
    pub(super) itself: Option<f64>,
    /// The distances of the simulator from A and from B.
    pub(super) simulated: [Option<f64>; 2],
}

impl Sample {
    /// The mean of these two.
    pub(super) fn mean(&self) -> Option<f64> {
        let both: Vec<_> = self.simulated.iter().flatten().collect();
        (!both.is_empty()).then(|| both.iter().copied().sum::<f64>() / both.len() as f64)
    }
}

/// The three runs of one scenario.
pub(super) struct Runs {
    pub(super) a: Seen,
    pub(super) simulated: Seen,
    pub(super) b: Seen,
}

impl Runs {
    /// The distances in `measure` of a task or a group, or of the whole run.
    pub(super) fn sample(&self, measure: Measure, name: &str) -> Sample {
        let Runs { a, simulated, b } = self;
        let apart = |ours: &Seen, theirs| ours.apart(theirs, measure, name);
        Sample { itself: apart(a, b), simulated: [apart(simulated, a), apart(simulated, b)] }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    /// A run of two seconds with these tasks: name, milliseconds, wake-ups, p50 and p99 in microseconds.
    fn seen(tasks: &[(&str, u64, u64, u64, u64)], counts: [Option<u64>; 3]) -> Seen {
        let tasks = tasks.iter().map(|&(name, ms, wakeups, p50, p99)| {
            let latency = json!({"p50_ns": p50 * 1_000, "p99_ns": p99 * 1_000});
            json!({"name": name, "runtime_ns": ms * 1_000_000, "wakeups": wakeups, "wakeup_latency": latency})
        });
        let tasks: Vec<_> = tasks.collect();
        let [migrations, switches, preemptions] = counts;
        let machine =
            json!({"migrations": migrations, "switches": switches, "preemptions": preemptions});
        let report = json!({"duration_ns": 2_000_000_000_u64, "tasks": tasks, "machine": machine});
        Seen::read(&report).expect("it has all fields")
    }

    fn runs() -> Runs {
        Runs {
            a: seen(&[("a", 500, 100, 40, 900), ("b", 20, 50, 8, 9)], [Some(9), Some(99), Some(0)]),
            simulated: seen(
                &[("a", 600, 100, 10, 1_800), ("b", 40, 49, 8, 9)],
                [Some(0), Some(199), None],
            ),
            b: seen(
                &[("a", 520, 100, 50, 300), ("b", 20, 49, 8, 9)],
                [Some(19), Some(99), Some(0)],
            ),
        }
    }

    fn near(sample: &Sample, itself: Option<f64>, simulated: [Option<f64>; 2]) {
        let same = |ours: Option<f64>, theirs: Option<f64>| match (ours, theirs) {
            (Some(ours), Some(theirs)) => ours == theirs || (ours - theirs).abs() < 1e-9,
            (ours, theirs) => ours == theirs,
        };
        let fits = same(sample.itself, itself)
            && (0..2).all(|at| same(sample.simulated[at], simulated[at]));
        assert!(fits, "{sample:?} is not {itself:?}, {simulated:?}");
    }

    #[test]
    fn shares_are_apart_by_points_and_latencies_by_ratios() {
        let runs = runs();
        // Shares of 25 % and 26 % of a CPU, simulated 30 %.
        near(&runs.sample(Measure::Share, "a"), Some(1.0), [Some(5.0), Some(4.0)]);
        near(&runs.sample(Measure::P50, "a"), Some(1.25), [Some(4.0), Some(5.0)]);
        near(&runs.sample(Measure::P99, "a"), Some(3.0), [Some(2.0), Some(6.0)]);
        assert_eq!(runs.sample(Measure::P99, "a").mean(), Some(4.0));
    }

    #[test]
    fn who_woke_up_often_on_one_side_only_is_a_miss_and_on_neither_no_entry() {
        let miss = Some(f64::INFINITY);
        near(&runs().sample(Measure::P50, "b"), miss, [miss, None]);
        assert_eq!(runs().sample(Measure::P50, "b").mean(), miss);
        near(&runs().sample(Measure::P50, "nobody"), None, [None, None]);
    }

    #[test]
    fn limits_have_measures_of_their_own() {
        let run = |throttled: u64, wait_ms: u64, p90: u64| {
            let latency = json!({"p50_ns": 10, "p90_ns": p90, "p99_ns": 10});
            Seen::read(&json!({"duration_ns": 1e9, "machine": {},
                "tasks": [{"name": "a", "wakeups": 99, "wait_ns": wait_ms * 1_000_000, "wakeup_latency": latency}],
                "groups": [{"path": "/", "limit": null, "nr_throttled": 0},
                    {"path": "/g", "limit": {"runtime_ns": 1}, "nr_throttled": throttled,
                     "throttled_ns": throttled * 1_000_000}]}))
            .expect("it has all fields")
        };
        let (few, many) = (run(3, 0, 100), run(40, 249, 100));
        let apart = |ours: &Seen, theirs: &Seen, measure, name| ours.apart(theirs, measure, name);
        assert_eq!(few.names(Of::Group), ["/g"]);
        assert_eq!(apart(&few, &run(5, 0, 0), Measure::Throttled, "/g"), Some(1.0));
        assert_eq!(apart(&few, &run(6, 0, 0), Measure::Throttled, "/g"), Some(1.5));
        assert_eq!(apart(&many, &run(36, 0, 0), Measure::Throttled, "/g"), Some(1.0));
        assert_eq!(apart(&many, &run(30, 0, 0), Measure::Throttled, "/g"), Some(2.5));
        assert_eq!(apart(&few, &many, Measure::Throttled, "/none"), None);
        assert_eq!(apart(&few, &run(4, 0, 0), Measure::ThrottledTime, "/g"), Some(1.25));
        assert_eq!(apart(&few, &run(6, 0, 0), Measure::ThrottledTime, "/g"), Some(1.75));
        assert_eq!(apart(&few, &many, Measure::ThrottledTime, "/none"), None);
        assert_eq!(apart(&many, &run(0, 199, 0), Measure::Waits, "a"), Some(1.25));
        assert_eq!(apart(&few, &run(0, 0, 150), Measure::Wake90, "a"), Some(1.5));
        assert_eq!(apart(&few, &run(0, 0, 150), Measure::Wake99, "a"), Some(1.0));
    }

    #[test]
    fn the_kernel_does_not_count_the_work_of_a_wake_up_as_waiting() {
        let seen = |wait_ns: u64| {
            let task =
                json!({"name": "a", "wakeups": 100, "wait_ns": wait_ns, "wakeup_latency": {}});
            Seen::read(&json!({"duration_ns": 1e9, "machine": {}, "tasks": [task]})).unwrap()
        };
        let costs = json!({"wakeup_ns": 9_000, "wakeup_fair_ns": 500, "context_switch_ns": 300, "jitter_ns": 200});
        let machine = json!({"costs": costs});
        assert_eq!(seen(3_000_000).with_run_delays(&machine), seen(2_000_000));
        assert_eq!(seen(999_999).with_run_delays(&machine), seen(0));
    }

    #[test]
    fn counts_are_compared_with_one_more_on_either_side() {
        let runs = runs();
        near(&runs.sample(Measure::Migrations, ""), Some(2.0), [Some(10.0), Some(20.0)]);
        near(&runs.sample(Measure::Switches, ""), Some(1.0), [Some(2.0), Some(2.0)]);
        // Two zeros are the same. A figure that one side does not have is no entry.
        near(&runs.sample(Measure::Preemptions, ""), Some(1.0), [None, None]);
    }
}
