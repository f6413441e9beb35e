//! The tasks of a report by name. The instances of one thread are one row. Threads whose names differ only in the
//! numbers at their ends are one row too, since a recording has such names for one command (`bash-1311`, `bash-1420`).
//!
//! Threads of one name whose first tasks began with another policy or priority are a row of their own, which says so. A
//! name that no other thread shares keeps its number.

use crate::column::Columns;
use crate::figure::{Figure, LatencyReport};
use crate::report::{Report, TaskReport};
use crate::series::Distribution;
use std::collections::BTreeMap;

/// The tasks of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoldedTask {
    /// The tasks, as indices in the report.
    pub(crate) tasks: Vec<usize>,
    /// The tasks as one: policy, priority and group of the first one, sums of counts and spans, percentiles of all
    /// latencies.
    pub(crate) all: TaskReport,
}

impl FoldedTask {
    /// The number of tasks.
    pub(crate) fn n(&self) -> u64 {
        self.tasks.len() as u64
    }
}

/// The key of a row: a name, a policy and a priority.
type Key<'r> = (&'r str, &'r str, i64);

/// The rows of a report, in the order of their first tasks.
pub(crate) fn folded(report: &Report) -> Vec<FoldedTask> {
    let keys = keys(&report.tasks);
    let mut places = BTreeMap::new();
    let mut rows: Vec<(FoldedTask, Vec<&str>)> = Vec::new();
    for (at, task) in report.tasks.iter().enumerate() {
        let thread = thread(task);
        let key = keys[thread];
        let place = *places.entry(key).or_insert(rows.len());
        if place == rows.len() {
            let all = TaskReport { name: key.0.to_owned(), ..task.clone() };
            rows.push((FoldedTask { tasks: vec![at], all }, vec![thread]));
            continue;
        }
        let (row, threads) = &mut rows[place];
        row.tasks.push(at);
        row.all.add(task);
        if !threads.contains(&thread) {
            threads.push(thread);
        }
    }
    let known: BTreeMap<_, _> = report.latencies.iter().map(|it| (it.name.as_str(), it)).collect();
    for (row, threads) in rows.iter_mut().filter(|(row, _)| row.n() > 1) {
        let all: Option<Vec<_>> = threads.iter().map(|thread| known.get(thread).copied()).collect();
        row.all.wakeup_latency = all.map_or_else(LatencyReport::default, |all| merged(&all));
    }
    rows.into_iter().map(|(row, _)| row).collect()
}

/// The key of each thread's tasks.
fn keys(tasks: &[TaskReport]) -> BTreeMap<&str, Key<'_>> {
    let mut firsts = BTreeMap::new();
    for task in tasks {
        firsts.entry(thread(task)).or_insert((task.policy.as_str(), task.priority));
    }
    let mut threads: BTreeMap<Key, u64> = BTreeMap::new();
    for (thread, &(policy, priority)) in &firsts {
        *threads.entry((stem(thread), policy, priority)).or_default() += 1;
    }
    let key = |(thread, (policy, priority))| {
        let shared = (stem(thread), policy, priority);
        let name = if threads[&shared] > 1 { shared.0 } else { thread };
        (thread, (name, policy, priority))
    };
    firsts.into_iter().map(key).collect()
}

/// The thread of a task. In a report without threads it is the name without an instance's number.
fn thread(task: &TaskReport) -> &str {
    if task.thread.is_empty() { stem(&task.name) } else { &task.thread }
}

/// A name without the numbers at its end.
pub(crate) fn stem(name: &str) -> &str {
    let mut stem = name;
    while let Some((before, number)) = stem.rsplit_once('-') {
        if before.is_empty() || number.is_empty() || !number.bytes().all(|it| it.is_ascii_digit()) {
            break;
        }
        stem = before;
    }
    stem
}

/// The latencies of several threads together. The percentiles are as exact as the points of the distributions.
fn merged(all: &[&Distribution]) -> LatencyReport {
    if let [one] = all {
        return one.wakeup_latency.clone();
    }
    let latencies = || all.iter().map(|it| &it.wakeup_latency).filter(|it| it.count > Some(0));
    let Some(count) = all.iter().map(|it| it.wakeup_latency.count).sum::<Figure>() else {
        return LatencyReport::default();
    };
    let max = latencies().filter_map(|it| it.max_ns).max();
    let mut points: Vec<_> = all.iter().flat_map(|it| it.points.iter().copied()).collect();
    points.sort_unstable();
    let quantile = |thousandths: u64| {
        let wanted = (u128::from(count) * u128::from(thousandths)).div_ceil(1_000);
        let mut below = 0;
        let point = points.iter().find(|&&(_, n)| {
            below += u128::from(n);
            below >= wanted
        });
        point.map(|&(value, _)| value).min(max)
    };
    let sum = latencies().map(|it| Some(u128::from(it.mean_ns?) * u128::from(it.count?)));
    let sum = sum.sum::<Option<u128>>();
    LatencyReport {
        count: Some(count),
        min_ns: latencies().filter_map(|it| it.min_ns).min(),
        mean_ns: sum.and_then(|sum| u64::try_from(sum.checked_div(count.into())?).ok()),
        p50_ns: quantile(500),
        p90_ns: quantile(900),
        p99_ns: quantile(990),
        p999_ns: quantile(999),
        max_ns: max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(name: &str, thread: &str, (policy, priority): (&str, i64)) -> TaskReport {
        let (name, thread, policy) = (name.to_owned(), thread.to_owned(), policy.to_owned());
        let (runtime_ns, missed) = (Some(10), (priority == 9).then_some(2));
        TaskReport { name, thread, policy, priority, runtime_ns, missed, ..TaskReport::default() }
    }

    fn distribution(name: &str, points: &[(u64, u64)]) -> Distribution {
        let count = points.iter().map(|(_, n)| n).sum();
        let sum: u64 = points.iter().map(|(value, n)| value * n).sum();
        let latency = LatencyReport {
            count: Some(count),
            min_ns: points.first().map(|it| it.0),
            mean_ns: Some(sum / count),
            max_ns: points.last().map(|it| it.0),
            ..LatencyReport::default()
        };
        Distribution {
            name: name.to_owned(),
            tasks: 1,
            wakeup_latency: latency,
            points: points.to_vec(),
        }
    }

    #[test]
    fn instances_and_commands_are_a_row_each() {
        let other = ("SCHED_OTHER", 0);
        let tasks = [
            ("a-0", "a", other),
            ("rt", "rt", ("SCHED_FIFO", 9)),
            ("a-1", "a", other),
            ("sh-100", "sh-100", other),
            ("sh-100-2", "sh-100-2", other),
            ("sh-7", "sh-7", ("SCHED_OTHER", 5)),
            ("rt-migrate", "rt-migrate", other),
            ("perf-77", "perf-77", other),
            ("-7", "-7", other),
        ];
        let tasks = tasks.map(|(name, thread, policy)| task(name, thread, policy));
        let report = Report { tasks: tasks.to_vec(), ..Report::default() };
        let rows = folded(&report);
        let shown: Vec<_> =
            rows.iter().map(|row| (&*row.all.name, row.n(), row.all.runtime_ns.unwrap())).collect();
        let expected = [
            ("a", 2, 20),
            ("rt", 1, 10),
            ("sh", 2, 20),
            ("sh-7", 1, 10),
            ("rt-migrate", 1, 10),
            ("perf-77", 1, 10),
            ("-7", 1, 10),
        ];
        assert_eq!(shown, expected);
        assert_eq!(rows[1].all.missed, Some(2));
        assert_eq!(rows[0].all.wakeup_latency.p50_ns, None, "it does not say: not that of one");
    }

    #[test]
    fn latencies_of_a_row_are_those_of_all() {
        let tasks = ["sh-1", "sh-2"].map(|name| task(name, name, ("SCHED_OTHER", 0)));
        let latencies = vec![
            distribution("sh-1", &[(10, 90), (20, 8)]),
            distribution("sh-2", &[(15, 1), (4_000, 1)]),
        ];
        let report = Report { tasks: tasks.to_vec(), latencies, ..Report::default() };
        let latency = folded(&report).remove(0).all.wakeup_latency;
        let LatencyReport { count, min_ns, mean_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns } =
            latency;
        assert_eq!((count, min_ns, mean_ns), (Some(100), Some(10), Some(49)));
        assert_eq!((p50_ns, p90_ns, p99_ns), (Some(10), Some(10), Some(20)));
        assert_eq!((p999_ns, max_ns), (Some(4_000), Some(4_000)));
    }
}
