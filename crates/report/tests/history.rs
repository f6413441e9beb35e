//! The activity of the CPUs over time, and distributions of several tasks together.

use runyard_engine::attr::{Nice, Policy, RtPrio};
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, What};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_report::{Collector, Histogram, HistoryReport, Report, RunInfo, distributions};

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
    let events: Vec<_> = (0..1_000).map(|cpu| (10, cpu, What::Overhead)).collect();
    let history = history(&events, 1_000, 1_010);
    assert_eq!((history.overhead_ns, history.idle_ns), (vec![1_000_000], vec![10_000]));
    assert_eq!(history.cpus.len(), 64, "the first ones have steps of their own");
    assert!(history.cpus.iter().all(|cpu| cpu.busy_ns == [1_000]));
}

#[test]
fn no_time_has_no_steps() {
    let history = history(&[], 2, 0);
    assert_eq!((history.rt_ns.len(), history.idle_ns.len(), history.cpus.len()), (0, 0, 2));
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
