//! The activity of the CPUs and the waits over time, and distributions of several tasks together.

use runyard_engine::attr::{Attr, GroupId, Nice, Policy, RtPrio};
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::event::{Event, Left, What};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_report::{
    Cause, Collector, Explained, GroupInfo, Histogram, HistoryReport, Report, RunInfo, TaskInfo,
    distributions,
};
use std::collections::BTreeMap;

const TASK: TaskId = TaskId(0);

fn exec(policy: Policy) -> What {
    What::Exec { task: TASK, policy }
}

/// The history of these events of (time, CPU, change).
fn history(events: &[(u64, u16, What)], cpus: usize, end: u64) -> HistoryReport {
    let mut collector = Collector::with_history();
    for &(at, cpu, what) in events {
        collector.event(&Event { at: Time(at), cpu: CpuId(cpu), what });
    }
    let info = RunInfo { cpus, ..RunInfo::default() };
    Report::new(info, &collector.finish(Time(end))).history.unwrap()
}

#[test]
fn each_step_has_what_was_done_in_it() {
    let fifo = exec(Policy::Fifo(RtPrio::MIN));
    let normal = exec(Policy::Normal(Nice::default()));
    let idle_policy = exec(Policy::Idle);
    let events = [
        (24, 0, fifo),
        (1_024, 0, What::Overhead),
        (1_030, 0, normal),
        (2_100, 0, What::Idle),
        (2_200, 1, idle_policy),
    ];
    let history = history(&events, 2, 3_000);
    assert_eq!(history.step_ns, 1_024);
    assert_eq!(history.rt_ns, [1_000, 0, 0]);
    assert_eq!(history.overhead_ns, [0, 6, 0]);
    assert_eq!(history.normal_ns, [0, 1_018, 52]);
    assert_eq!(history.idle_policy_ns, [0, 0, 800]);
    assert_eq!(
        history.idle_ns,
        [1_024 + 24, 1_024, 952 - 52 + 952 - 800],
        "the last step is short"
    );
    assert_eq!(history.cpus[0].busy_ns, [1_000, 1_024, 52]);
    assert_eq!(history.cpus[1].busy_ns, [0, 0, 800]);
}

#[test]
fn a_long_run_has_wide_steps() {
    // A nanosecond of work at the beginning of every microsecond of the first millisecond.
    let busy =
        (0..1_000).flat_map(|us| [(us * 1_000, What::Overhead), (us * 1_000 + 1, What::Idle)]);
    let events: Vec<_> = busy.map(|(at, what)| (at, 3, what)).collect();
    for end in [1_000_000, 204_800, 204_801, 60_000_000_000, 3_600_000_000_000] {
        let end = end.max(999_001);
        let history = history(&events, 4, end);
        let steps = history.overhead_ns.len() as u64;
        assert!((100..=200).contains(&steps), "{steps} steps of {}", history.step_ns);
        assert_eq!(steps, end.div_ceil(history.step_ns));
        assert_eq!(history.overhead_ns.iter().sum::<u64>(), 1_000);
        assert_eq!(history.idle_ns.iter().sum::<u64>(), 4 * end - 1_000);
        assert_eq!(history.cpus[3].busy_ns, history.overhead_ns);
        assert_eq!(history.cpus[0].busy_ns, vec![0; steps as usize], "it was never busy");
    }
}

#[test]
fn a_run_may_last_as_long_as_there_is_time() {
    let history = history(&[(0, 0, What::Overhead)], 1, u64::MAX);
    assert_eq!(history.overhead_ns.iter().sum::<u64>(), u64::MAX);
    assert_eq!(history.idle_ns.iter().sum::<u64>(), 0);
}

#[test]
fn many_cpus_are_one_machine() {
    let events: Vec<_> = (0..2_000).map(|cpu| (10, cpu, What::Overhead)).collect();
    let history = history(&events, 2_000, 1_010);
    assert_eq!((history.overhead_ns, history.idle_ns), (vec![2_000_000], vec![20_000]));
    assert_eq!(history.cpus.len(), 1_024, "the first ones have steps of their own");
    assert!(history.cpus.iter().all(|cpu| cpu.busy_ns == [1_000]));
}

#[test]
fn no_time_has_no_steps() {
    let history = history(&[], 2, 0);
    assert_eq!((history.rt_ns.len(), history.idle_ns.len(), history.cpus.len()), (0, 0, 2));
}

/// Two tasks on one CPU: `a` runs up to 3,000 ns but for an interrupt, `b` waits for it from 500 ns on. The run counts from
/// `from`.
fn waits(end: u64, from: Option<u64>) -> Report {
    let explained = Explained { cpus: 1, threads: 1, parents: vec![None] };
    let mut collector = Collector::with_history().with_waits(explained);
    let (a, b) = (TASK, TaskId(1));
    let policy = Policy::Normal(Nice::default());
    for task in [a, b] {
        collector.asks(task, &Attr::normal(CpuSet::first(1)), Nanos::ZERO, None);
    }
    let wake = |task, since| What::Wake { task, since: Time(since), by: None };
    let events = [
        (0, wake(a, 0)),
        (0, What::Switch { prev: None, next: Some(a) }),
        (10, What::Exec { task: a, policy }),
        (500, wake(b, 500)),
        (1_000, What::Overhead),
        (1_100, What::Exec { task: a, policy }),
        (3_000, What::Switch { prev: Some((a, Left::Blocked)), next: Some(b) }),
        (3_050, What::Exec { task: b, policy }),
    ];
    let mut from = from;
    for (at, what) in events {
        if let Some(from) = from.take_if(|from| *from <= at) {
            collector.count_from(Time(from));
        }
        collector.event(&Event { at: Time(at), cpu: CpuId(0), what });
        collector.check();
    }
    let info = |id| TaskInfo {
        id,
        name: format!("{id}"),
        thread: String::new(),
        policy,
        latency_nice: 0,
        group: GroupId::ROOT,
        cookie: None,
        slack: Nanos::ZERO,
        missed: None,
    };
    let info = RunInfo {
        cpus: 1,
        tasks: vec![info(a), info(b)],
        groups: vec![GroupInfo::default()],
        ..RunInfo::default()
    };
    Report::new(info, &collector.finish(Time(end)))
}

#[test]
fn each_step_has_the_waits_of_its_time() {
    let report = waits(3_500, None);
    let expected = BTreeMap::from([
        (Cause::Cost, vec![10 + 2 * 24, 2 * 76, 50, 0]),
        (Cause::Turn, vec![500, 1_024 - 76, 952, 0]),
    ]);
    assert_eq!(report.history.unwrap().waits, Some(expected));

    // Steps begin where the run begins to count.
    let report = waits(3_500, Some(1_050));
    let expected = BTreeMap::from([
        (Cause::Cost, vec![2 * 50, 50, 0]),
        (Cause::Turn, vec![1_024 - 50, 926, 0]),
    ]);
    assert_eq!(report.history.unwrap().waits, Some(expected));
    assert_eq!(report.machine.waits.map(|waits| waits.total()), Some(2_050));
}

#[test]
fn the_waits_of_a_long_run_have_its_wide_steps() {
    for end in [3_001, 204_800, 204_801, 60_000_000_000, u64::MAX] {
        let report = waits(end, None);
        let (history, all) = (report.history.unwrap(), report.machine.waits.unwrap());
        for (cause, steps) in history.waits.unwrap() {
            assert_eq!(steps.len(), history.idle_ns.len(), "{cause:?} to {end}");
            assert_eq!(steps.iter().sum::<u64>(), all[cause], "{cause:?} to {end}");
        }
    }
}

#[test]
fn a_host_that_knows_no_causes_has_no_steps_of_waits() {
    let history = history(&[(0, 0, What::Overhead)], 1, 1_000);
    assert_eq!(history.waits, None);
    let json = serde_json::to_string(&history).unwrap();
    assert!(!json.contains("waits"), "{json}");
    assert_eq!(serde_json::from_str::<HistoryReport>(&json).unwrap(), history);
}

#[test]
fn instances_are_one_distribution() {
    let of = |values: &[u64]| {
        let mut histogram = Histogram::default();
        values.iter().for_each(|&value| histogram.record(Nanos(value)));
        histogram
    };
    let (fast, slow) = (of(&[10, 20, 20]), of(&[50]));
    let names = ["a", "b", "a", "rt-migrate", "-7", "c-0012"];
    let latencies = [Some(&fast), Some(&slow), Some(&slow), None, Some(&slow), None];
    let pools = distributions(names.into_iter().zip(latencies));
    let shown: Vec<_> = pools.iter().map(|it| (&*it.name, it.tasks, it.points.clone())).collect();
    let expected = [
        ("a", 2, vec![(10, 1), (20, 2), (50, 1)]),
        ("b", 1, vec![(50, 1)]),
        ("rt-migrate", 1, vec![]),
        ("-7", 1, vec![(50, 1)]),
        ("c-0012", 1, vec![]),
    ];
    assert_eq!(shown, expected);
    let a = &pools[0].wakeup_latency;
    assert_eq!((a.count, a.p50_ns, a.max_ns), (Some(4), Some(20), Some(50)));
}
