//! Latencies over the time of a run, in bounded memory: for each thing a histogram of the latencies that ended in each of at
//! most [`STEPS`] equal steps.
//!
//! As in the [history](crate::history) of CPUs, a step is a power of two wide, and when the run outgrows the steps, neighbours
//! are merged. A step is twice as wide as one of the history, so both charts have the same edges.
//!
//! Only the first [`MOST`] things of a kind have a course: 400 KiB each in the worst case, and 3 KB of JSON.

use crate::figure::Figure;
use crate::histogram::Histogram;
use runyard_engine::attr::GroupId;
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use serde::{Deserialize, Serialize};
use std::iter::successors;

/// The largest number of steps.
const STEPS: usize = 100;

/// The width of the first steps: 2^20 ns. A percentile of less than a millisecond is of a few latencies.
const FIRST_SHIFT: u32 = 20;

/// The number of things of a kind that have a course.
pub(crate) const MOST: usize = 24;

/// The latencies of one thing over time: of the wake-ups of a task with all its instances, of those of all tasks in a group
/// and in the groups below it, or of a chain. Each list has an entry for each step, of the latencies that ended in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesReport {
    /// `task`, `group` or `chain`.
    pub kind: String,
    /// Its name in the scenario.
    pub name: String,
    /// The width of a step. The first step begins with the report, and the last one ends with it.
    pub step_ns: u64,
    /// The number of latencies.
    pub count: Vec<u64>,
    /// Their medians; `None` for a step without any.
    pub p50_ns: Vec<Figure>,
    /// Their 99th percentiles.
    pub p99_ns: Vec<Figure>,
    /// The longest ones.
    pub max_ns: Vec<Figure>,
}

/// The latencies of one thing, step by step.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    /// The width of a step is 2^shift nanoseconds.
    shift: u32,
    steps: Vec<Histogram>,
}

/// The wake-up latencies of the first threads and task groups, step by step.
#[derive(Clone, Debug)]
pub(crate) struct Courses {
    threads: Vec<(String, Course)>,
    groups: Vec<(String, Course)>,
    parents: Vec<Option<GroupId>>,
    /// The thread and the group of each task.
    tasks: Vec<(usize, GroupId)>,
}

impl Course {
    pub(crate) fn new() -> Course {
        Course { shift: FIRST_SHIFT, steps: Vec::new() }
    }

    /// Counts a latency that ended at `at`, counted from the beginning of the report.
    pub(crate) fn record(&mut self, at: Time, latency: Nanos) {
        while at.0 >> self.shift >= STEPS as u64 {
            self.widen();
        }
        let step = (at.0 >> self.shift) as usize;
        if step >= self.steps.len() {
            self.steps.resize(step + 1, Histogram::default());
        }
        self.steps[step].record(latency);
    }

    /// Makes every step twice as wide.
    fn widen(&mut self) {
        self.shift += 1;
        let pairs = self.steps.chunks_mut(2).map(|pair| {
            let (first, second) = pair.split_at_mut(1);
            let mut both = std::mem::take(&mut first[0]);
            second.iter().for_each(|second| both.merge(second));
            both
        });
        self.steps = pairs.collect();
    }

    /// The report of a thing over the duration of the report; `None` for a thing without latencies.
    pub(crate) fn report(
        &self,
        (kind, name): (&str, &str),
        duration: Nanos,
    ) -> Option<SeriesReport> {
        let mut course = self.clone();
        while duration.0.saturating_sub(1) >> course.shift >= STEPS as u64 {
            course.widen();
        }
        let step_ns = 1 << course.shift;
        let steps = usize::try_from(duration.0.div_ceil(step_ns)).expect("steps are few");
        // What ended with the run belongs to its last step.
        let steps = steps.max(course.steps.len());
        course.steps.resize(steps, Histogram::default());
        let figures = |figure: fn(&Histogram) -> Option<Nanos>| {
            course.steps.iter().map(|step| figure(step).map(|it| it.0)).collect()
        };
        let count: Vec<_> = course.steps.iter().map(Histogram::count).collect();
        let report = SeriesReport {
            kind: kind.to_owned(),
            name: name.to_owned(),
            step_ns,
            p50_ns: figures(|step| step.quantile(500_000)),
            p99_ns: figures(|step| step.quantile(990_000)),
            max_ns: figures(Histogram::max),
            count,
        };
        report.count.iter().any(|&count| count > 0).then_some(report)
    }
}

impl Courses {
    /// The courses of these threads, and of these groups with their parents.
    pub(crate) fn new(threads: Vec<String>, groups: Vec<(String, Option<GroupId>)>) -> Courses {
        let parents = groups.iter().map(|&(_, parent)| parent).collect();
        let courses = |names: &mut dyn Iterator<Item = String>| {
            names.take(MOST).map(|name| (name, Course::new())).collect()
        };
        Courses {
            threads: courses(&mut threads.into_iter()),
            groups: courses(&mut groups.into_iter().map(|(name, _)| name)),
            parents,
            tasks: Vec::new(),
        }
    }

    /// Notes the thread of a task.
    pub(crate) fn runs(&mut self, task: TaskId, thread: usize) {
        self.task(task).0 = thread;
    }

    /// Notes that a task is in a group from now on.
    pub(crate) fn joins(&mut self, task: TaskId, group: GroupId) {
        self.task(task).1 = group;
    }

    /// Counts a latency of a task's wake-up that ended at `at`, counted from the beginning of the report.
    pub(crate) fn record(&mut self, task: TaskId, at: Time, latency: Nanos) {
        let (thread, group) = *self.task(task);
        if let Some((_, course)) = self.threads.get_mut(thread) {
            course.record(at, latency);
        }
        let parent = |group: &GroupId| self.parents.get(group.index()).copied().flatten();
        for group in successors(Some(group), parent) {
            if let Some((_, course)) = self.groups.get_mut(group.index()) {
                course.record(at, latency);
            }
        }
    }

    /// Forgets all latencies so far.
    pub(crate) fn forget(&mut self) {
        let all = self.threads.iter_mut().chain(&mut self.groups);
        all.for_each(|(_, course)| *course = Course::new());
    }

    /// The reports of the things with latencies, over the duration of the report.
    pub(crate) fn reports(&self, duration: Nanos) -> Vec<SeriesReport> {
        let of = |kind, all: &[(String, Course)]| -> Vec<SeriesReport> {
            all.iter().filter_map(|(name, course)| course.report((kind, name), duration)).collect()
        };
        [of("task", &self.threads), of("group", &self.groups)].concat()
    }

    fn task(&mut self, task: TaskId) -> &mut (usize, GroupId) {
        if task.index() >= self.tasks.len() {
            self.tasks.resize(task.index() + 1, (usize::MAX, GroupId::ROOT));
        }
        &mut self.tasks[task.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn steps_are_the_latencies_that_ended_in_them(
            mut ends in prop::collection::vec((0_u64..20_000_000_000, 1_u64..1_000_000), 1..300),
            rest in 1_u64..5_000_000_000,
        ) {
            ends.sort_unstable();
            let mut course = Course::new();
            ends.iter().for_each(|&(at, latency)| course.record(Time(at), Nanos(latency)));
            let duration = Nanos(ends.last().unwrap().0 + rest);
            let report = course.report(("task", "a"), duration).unwrap();
            let steps = report.count.len();
            prop_assert!(steps <= STEPS && (steps as u64 - 1) * report.step_ns < duration.0);
            prop_assert!(duration.0 <= steps as u64 * report.step_ns);
            for step in 0..steps {
                let within = ends.iter().filter(|(at, _)| (at / report.step_ns) as usize == step);
                let mut all = Histogram::default();
                within.for_each(|&(_, latency)| all.record(Nanos(latency)));
                prop_assert_eq!(report.count[step], all.count());
                let told = [report.p50_ns[step], report.p99_ns[step], report.max_ns[step]];
                let spans = [all.quantile(500_000), all.quantile(990_000), all.max()];
                prop_assert_eq!(told, spans.map(|it| it.map(|it| it.0)));
            }
        }
    }
}
