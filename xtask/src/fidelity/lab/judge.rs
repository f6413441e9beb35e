//! The distance of two runs on one CPU, by their traces. What a group was throttled is in the reports.

use std::collections::BTreeSet;

use runyard_workload::import::{Ran, Tally};

use crate::fidelity::judge::{self, ENOUGH_WAKEUPS, Seen, WAIT_NS, ratio};
use crate::fidelity::verdict;

/// Latencies that differ by so little are the same, in nanoseconds.
const NEAR_NS: f64 = 20_000.0;

/// A measure, and the largest distance at which two runs count as the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Measure {
    /// A task's part of the CPU: 1 point.
    Share,
    /// The median of a task's wake-up latency: a factor of 1.2, or 20 us.
    P50,
    /// The ninety-ninth percentile of it: the same.
    P99,
    /// The switches from a task that could go on, of all tasks: 10 %, with one added on either side.
    Preemptions,
    /// All switches: the same.
    Switches,
    /// In scenarios about limits, the throttled periods of a group: 10 %, or 2.
    Throttled,
    /// There the throttled time of a group: 25 %, with a millisecond added on either side.
    ThrottledTime,
    /// There the median of a task's wake-up latency: a factor of 1.5.
    Wake50,
    /// There the ninetieth percentile: the same.
    Wake90,
    /// There the ninety-ninth percentile: the same.
    Wake99,
    /// There a task's time runnable and not running: 25 %, with a millisecond added on either side.
    Waits,
}

/// One run.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    /// The counts of its trace.
    pub(super) tally: Tally,
    /// The figures of its report.
    pub(super) seen: Seen,
}

impl Measure {
    pub(super) const ALL: [Measure; 5] =
        [Measure::Share, Measure::P50, Measure::P99, Measure::Preemptions, Measure::Switches];

    /// The measures of scenarios about limits.
    pub(super) const OF_LIMITS: [Measure; 6] = [
        Measure::Throttled,
        Measure::ThrottledTime,
        Measure::Wake50,
        Measure::Wake90,
        Measure::Wake99,
        Measure::Waits,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Measure::Share => "share",
            Measure::P50 => "p50",
            Measure::P99 => "p99",
            Measure::Preemptions => "preemptions",
            Measure::Switches => "switches",
            Measure::Throttled => "throttled",
            Measure::ThrottledTime => "for how long",
            Measure::Wake50 => "wake-up p50",
            Measure::Wake90 => "wake-up p90",
            Measure::Wake99 => "wake-up p99",
            Measure::Waits => "waits",
        }
    }

    /// Whether two runs of `seconds` are the same, for each task or for the run as a whole.
    fn compare(self, seconds: f64, ours: &Run, theirs: &Run) -> Vec<(String, bool)> {
        let of_reports = |measure: judge::Measure| {
            let names = ours.seen.names(measure.of()).into_iter();
            let same = |name: String| {
                let apart = ours.seen.apart(&theirs.seen, measure, &name)?;
                Some((name, apart <= measure.goal()))
            };
            names.filter_map(same).collect()
        };
        let (ours, theirs) = match self {
            Measure::Throttled => return of_reports(judge::Measure::Throttled),
            Measure::ThrottledTime => return of_reports(judge::Measure::ThrottledTime),
            _ => (&ours.tally, &theirs.tally),
        };
        let counts = |ours: u64, theirs: u64| {
            vec![(String::new(), ratio(ours as f64 + 1.0, theirs as f64 + 1.0) <= 1.1)]
        };
        match self {
            Measure::Share => of_tasks(ours, theirs, |ours, theirs| {
                let apart = ours.runtime.0.abs_diff(theirs.runtime.0) as f64;
                Some(apart / (seconds * 1e9) <= 0.01)
            }),
            Measure::P50 => of_tasks(ours, theirs, |ours, theirs| latency(ours, theirs, 50)),
            Measure::P99 => of_tasks(ours, theirs, |ours, theirs| latency(ours, theirs, 99)),
            Measure::Preemptions => counts(ours.preemptions, theirs.preemptions),
            Measure::Switches => counts(ours.switches, theirs.switches),
            Measure::Throttled | Measure::ThrottledTime => unreachable!("a report has it"),
            Measure::Waits => of_tasks(ours, theirs, |ours, theirs| {
                let [ours, theirs] = [ours, theirs].map(|ran| ran.waits.0 as f64 + WAIT_NS);
                Some(ratio(ours, theirs) <= 1.25)
            }),
            wake => of_tasks(ours, theirs, |ours, theirs| {
                ratio_of(ours, theirs, wake.percent()).map(|ratio| ratio <= 1.5)
            }),
        }
    }

    /// The percentile of a latency.
    fn percent(self) -> usize {
        match self {
            Measure::P50 | Measure::Wake50 => 50,
            Measure::Wake90 => 90,
            _ => 99,
        }
    }
}

fn of_tasks(
    ours: &Tally,
    theirs: &Tally,
    is_same: impl Fn(&Ran, &Ran) -> Option<bool>,
) -> Vec<(String, bool)> {
    let names: BTreeSet<_> = ours.tasks.keys().chain(theirs.tasks.keys()).collect();
    let of = |tally: &Tally, name: &str| tally.tasks.get(name).cloned().unwrap_or_default();
    let same = |name: &String| Some((name.clone(), is_same(&of(ours, name), &of(theirs, name))?));
    names.into_iter().filter_map(same).collect()
}

/// Whether two latencies are the same; `None` if a task woke up too seldom in both runs for a percentile.
fn latency(ours: &Ran, theirs: &Ran, percent: usize) -> Option<bool> {
    let (ours, theirs) = percentiles(ours, theirs, percent)?;
    Some((ours - theirs).abs() <= NEAR_NS || ratio(ours, theirs) <= 1.2)
}

fn ratio_of(ours: &Ran, theirs: &Ran, percent: usize) -> Option<f64> {
    let (ours, theirs) = percentiles(ours, theirs, percent)?;
    Some(ratio(ours.max(1.0), theirs.max(1.0)))
}

/// The percentiles of both; a miss, infinite, if a task woke up too seldom in one of them.
fn percentiles(ours: &Ran, theirs: &Ran, percent: usize) -> Option<(f64, f64)> {
    let enough = |ran: &Ran| ran.latencies.len() as u64 >= ENOUGH_WAKEUPS;
    let of = |ran: &Ran| ran.percentile(percent).filter(|_| enough(ran)).map(|it| it.0 as f64);
    match (of(ours), of(theirs)) {
        (None, None) => None,
        (Some(ours), Some(theirs)) => Some((ours, theirs)),
        _ => Some((f64::INFINITY, 1.0)),
    }
}

/// One scenario: the kernel's runs, one for each boot, and the simulator's with the costs of that boot.
pub(super) struct Runs {
    pub(super) name: String,
    pub(super) seconds: f64,
    pub(super) kernel: Vec<Run>,
    pub(super) simulated: Vec<Run>,
}

impl Runs {
    /// How many entries of each side are within the measure's bound. `Itself` compares each boot with each later one.
    pub(super) fn tally(&self, measure: Measure) -> verdict::Tally {
        let count = |pairs: &mut dyn Iterator<Item = (&Run, &Run)>| {
            let all: Vec<_> =
                pairs.flat_map(|(a, b)| measure.compare(self.seconds, a, b)).collect();
            (all.iter().filter(|entry| entry.1).count() as u64, all.len() as u64)
        };
        let with_later = |(at, boot)| self.kernel[at + 1..].iter().map(move |later| (boot, later));
        verdict::Tally {
            itself: count(&mut self.kernel.iter().enumerate().flat_map(with_later)),
            simulated: count(&mut self.simulated.iter().zip(&self.kernel)),
        }
    }

    /// The entries in which the simulator misses the kernel of the first boot.
    pub(super) fn misses(&self, measures: &[Measure]) -> Vec<String> {
        let (Some(ours), Some(theirs)) = (self.simulated.first(), self.kernel.first()) else {
            return vec![];
        };
        let missed = |measure: Measure| {
            let entries = measure.compare(self.seconds, ours, theirs);
            entries.into_iter().filter(|entry| !entry.1).map(move |(task, _)| {
                let shown = |run: &Run| shown(measure, &task, run, self.seconds);
                format!(
                    "{} {} {task}: {} for {}",
                    self.name,
                    measure.name(),
                    shown(ours),
                    shown(theirs)
                )
            })
        };
        measures.iter().flat_map(|&measure| missed(measure).collect::<Vec<_>>()).collect()
    }
}

fn shown(measure: Measure, task: &str, run: &Run, seconds: f64) -> String {
    let tally = &run.tally;
    let ran = tally.tasks.get(task).cloned().unwrap_or_default();
    let micros = |percent| {
        ran.percentile(percent).map_or("-".to_owned(), |it| format!("{:.0} us", it.0 as f64 / 1e3))
    };
    match measure {
        Measure::Share => format!("{:.1} %", ran.runtime.0 as f64 / seconds / 1e7),
        Measure::Preemptions => tally.preemptions.to_string(),
        Measure::Switches => tally.switches.to_string(),
        Measure::Throttled => {
            run.seen.throttled(task).map_or("-".to_owned(), |it| format!("{:.0}", it.periods))
        }
        Measure::ThrottledTime => {
            let time = run.seen.throttled(task).map(|it| it.time_ns / 1e6);
            time.map_or("-".to_owned(), |ms| format!("{ms:.1} ms"))
        }
        Measure::Waits => format!("{:.1} ms", ran.waits.0 as f64 / 1e6),
        latency => micros(latency.percent()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runyard_engine::time::Nanos;

    fn run(runtime_ms: u64, latency_us: u64, wakeups: usize, switches: u64) -> Run {
        let ran = Ran {
            runtime: Nanos(runtime_ms * 1_000_000),
            latencies: vec![Nanos(latency_us * 1_000); wakeups],
            preemptions: 0,
            waits: Nanos(latency_us * 1_000 * wakeups as u64),
        };
        let tally = Tally { tasks: [("a".to_owned(), ran)].into(), switches, ..Tally::default() };
        Run { tally, seen: Seen::default() }
    }

    fn same(measure: Measure, ours: &Run, theirs: &Run) -> Option<bool> {
        measure.compare(1.0, ours, theirs).first().map(|entry| entry.1)
    }

    #[test]
    fn each_measure_has_its_bound() {
        let it = run(500, 100, 50, 99);
        assert_eq!(same(Measure::Share, &it, &run(510, 0, 0, 0)), Some(true));
        assert_eq!(same(Measure::Share, &it, &run(511, 0, 0, 0)), Some(false));
        assert_eq!(same(Measure::P50, &it, &run(0, 120, 50, 0)), Some(true));
        assert_eq!(same(Measure::P50, &it, &run(0, 121, 50, 0)), Some(false));
        assert_eq!(same(Measure::P99, &run(0, 10, 50, 0), &run(0, 30, 60, 0)), Some(true));
        assert_eq!(same(Measure::P99, &it, &run(0, 100, 49, 0)), Some(false));
        assert_eq!(same(Measure::P99, &run(0, 1, 49, 0), &run(0, 100, 49, 0)), None);
        assert_eq!(same(Measure::Switches, &it, &run(0, 0, 0, 109)), Some(true));
        assert_eq!(same(Measure::Switches, &it, &run(0, 0, 0, 110)), Some(false));
        assert_eq!(same(Measure::Wake90, &it, &run(0, 150, 50, 0)), Some(true));
        assert_eq!(same(Measure::Wake90, &it, &run(0, 151, 50, 0)), Some(false));
        assert_eq!(same(Measure::Wake90, &it, &run(0, 100, 49, 0)), Some(false));
    }

    #[test]
    fn each_boot_is_beside_the_later_ones_and_its_own_simulation() {
        let runs = Runs {
            name: "x".to_owned(),
            seconds: 1.0,
            kernel: vec![run(500, 0, 0, 1), run(505, 0, 0, 1), run(515, 0, 0, 1)],
            simulated: vec![run(520, 0, 0, 1), run(505, 0, 0, 1), run(525, 0, 0, 1)],
        };
        let tally = runs.tally(Measure::Share);
        assert_eq!((tally.itself, tally.simulated), ((2, 3), (2, 3)));
        assert_eq!(runs.misses(&Measure::ALL), ["x share a: 52.0 % for 50.0 %"]);
    }
}
