//! The report for users: the JSON as promised, and the text.

use runyard_engine::attr::{GroupId, Nice, Policy, RtPrio};
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, Left, What};
use runyard_engine::features::Feature;
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_report::{
    Checks, Collector, CpuReport, GroupInfo, GroupReport, Report, RunInfo, SCHEMA, TaskInfo,
    TaskReport, TaskRows, TimersReport, Violation, render,
};
use serde_json::Value;

/// The report as promised to users, value for value.
const PROMISED: &str = r#"
{ "schema": "runyard.report/1", "host": "sim", "scenario": "rt-migrate", "seed": 1, "kernel": "rt-migrate", "features": ["RT_PUSH"], "duration_ns": 0,
  "machine": { "cpus": 16, "utilization": 0.9992, "switches": 0, "preemptions": 0, "migrations": 0, "timer_interrupts": 0, "topology": "1x16" , "waits": null, "wasted_ns": null, "wasted": null},
  "cpus":  [ { "cpu": 0, "busy_ns": 0, "idle_ns": 0, "rt_ns": 0, "normal_ns": 0, "idle_policy_ns": 0, "overhead_ns": 0, "switches": 0, "forced_idle_ns": 0, "waits": null } ],
  "tasks": [ { "name": "t0", "policy": "SCHED_FIFO", "priority": 2, "latency_nice": 0, "group": "/", "runtime_ns": 0, "wait_ns": 0, "sleep_ns": 0,
               "wakeups": 0, "switches": 0, "preemptions": 0, "migrations": 0,
               "wakeup_latency": { "count": 0, "min_ns": 0, "mean_ns": 0, "p50_ns": 0, "p90_ns": 0, "p99_ns": 0, "p999_ns": 0, "max_ns": 0 }, "thread": "t0", "cookie": "web", "slack_ns": 0, "slack_wakeups": 0, "missed": 0,
               "worst": [ { "at_ns": 0, "latency_ns": 0, "cpu": 0, "cause": "important", "ran": [ { "task": "t1", "ns": 0 } ], "others_ns": 0 } ] } ],
  "groups": [ { "path": "/web", "runtime_ns": 0, "nr_periods": 0, "nr_throttled": 0, "throttled_ns": 0, "nr_bursts": 0, "burst_ns": 0, "borrowed_ns": 0,
                "limit": { "runtime_us": 20000, "period_us": 100000, "burst_us": 0, "per_cpu": false }, "held_by": "/",
                "cpus": [ { "cpu": 0, "used_ns": 0, "nr_throttled": 0, "throttled_ns": 0, "borrowed_ns": 0 } ] } ],
  "timers": { "armed": 0, "expired": 0, "greedy": 0, "cancelled": 0 },
  "engine": { "decisions": 0, "events": 0, "wall_ns": 0 },
  "violations": [ { "invariant": "rt-weak-affinity", "at_ns": 0, "what": "..." } ],
  "history": { "step_ns": 1024, "rt_ns": [0], "normal_ns": [0], "idle_policy_ns": [0], "overhead_ns": [0], "idle_ns": [16384], "cpus": [ { "cpu": 0, "busy_ns": [0] } ] },
  "latencies": [ { "name": "t0", "tasks": 1,
                   "wakeup_latency": { "count": 0, "min_ns": 0, "mean_ns": 0, "p50_ns": 0, "p90_ns": 0, "p99_ns": 0, "p999_ns": 0, "max_ns": 0 },
                   "points": [ [1000, 2] ] } ],
  "balance": [ { "level": "node", "moment": "newly_idle", "passes": 0, "balanced": 0, "pinned": 0, "failed": 0, "moved": 0, "taken": 0 } ],
  "cookies": [ { "name": null, "runtime_ns": 0, "forced_idle_ns": 0 } ],
  "chains": [ { "name": "frame", "count": 0, "dropped": 0, "missed": 0,
                "latency": { "count": 0, "min_ns": 0, "mean_ns": 0, "p50_ns": 0, "p90_ns": 0, "p99_ns": 0, "p999_ns": 0, "max_ns": 0 },
      "worst": [ { "at_ns": 0, "latency_ns": 0, "hops": [ { "task": "t0", "at_ns": 0 } ] } ] } ],
  "blocked_at_end": [ { "task": "t0", "on": "mutex m", "held_by": "t1" } ] }
"#;

fn json(report: &Report) -> String {
    let mut json = Vec::new();
    report.write_json(&mut json).unwrap();
    String::from_utf8(json).unwrap()
}

/// Two CPUs of three at work for 1 ms: a real-time task is woken up and preempts another task.
fn run() -> Report {
    let (rt, hog, late) = (TaskId(0), TaskId(1), TaskId(2));
    let fifo = Policy::Fifo(RtPrio::new(40).unwrap());
    let normal = Policy::Normal(Nice::new(-5).unwrap());
    let switch = |prev, next| What::Switch { prev, next };
    let events = [
        (0, 0, What::Spawn { task: hog }),
        (0, 0, What::Spawn { task: rt }),
        (0, 0, What::Wake { task: hog, since: Time(0), by: None }),
        (0, 0, What::Overhead),
        (0, 0, switch(None, Some(hog))),
        (2_000, 0, What::Exec { task: hog, policy: normal }),
        (100_000, 0, What::TimerInterrupt),
        (100_000, 0, What::TimerExpired { greedy: false }),
        (100_000, 0, What::Overhead),
        (101_000, 0, What::Wake { task: rt, since: Time(99_000), by: None }),
        (101_000, 0, switch(Some((hog, Left::Preempted)), Some(rt))),
        (103_500, 0, What::Exec { task: rt, policy: fifo }),
        (105_000, 1, What::Overhead),
        (105_000, 1, switch(None, Some(hog))),
        (108_000, 1, What::Exec { task: hog, policy: normal }),
        (603_500, 0, What::TimerArmed),
        (603_500, 0, switch(Some((rt, Left::Blocked)), None)),
        (604_500, 0, What::Idle),
    ];
    let mut collector = Collector::with_history();
    for (at, cpu, what) in events {
        collector.event(&Event { at: Time(at), cpu: CpuId(cpu), what });
    }
    let task = |id, name: &str, policy, group| TaskInfo {
        id,
        name: name.to_owned(),
        thread: name.to_owned(),
        policy,
        latency_nice: 3,
        group: GroupId(group),
        cookie: None,
        missed: None,
        slack: Nanos::ZERO,
    };
    let group =
        |path: &str, parent| GroupInfo { path: path.to_owned(), parent, ..GroupInfo::default() };
    let info = RunInfo {
        host: "sim".to_owned(),
        scenario: "one-preemption".to_owned(),
        seed: 7,
        kernel: Some("6.1 + founding".to_owned()),
        features: Feature::ALL.iter().skip(1).map(|it| it.name().to_owned()).collect(),
        cpus: 3,
        wall: Nanos(40_000),
        tasks: vec![
            task(rt, "rt", fifo, 2),
            task(hog, "hog", normal, 1),
            task(late, "late", Policy::Idle, 0),
        ],
        groups: vec![
            group("/", None),
            group("/web", Some(GroupId::ROOT)),
            group("/web/api", Some(GroupId(1))),
        ],
        ..RunInfo::default()
    };
    Report::new(info, &collector.finish(Time(1_000_000)))
}

#[test]
fn the_json_is_what_was_promised() {
    let report: Report = serde_json::from_str(PROMISED).unwrap();
    assert_eq!(report.schema, SCHEMA);
    let written: Value = serde_json::from_str(&json(&report)).unwrap();
    has_all("", &serde_json::from_str(PROMISED).unwrap(), &written);
}

/// # Panics
/// If a promised value is not written. More fields may be written.
fn has_all(path: &str, promised: &Value, written: &Value) {
    match (promised, written) {
        (Value::Object(promised), Value::Object(written)) => {
            for (key, value) in promised {
                has_all(&format!("{path}.{key}"), value, &written[key]);
            }
        }
        (Value::Array(promised), Value::Array(written)) => {
            assert_eq!(promised.len(), written.len(), "{path}");
            promised.iter().zip(written).for_each(|(one, other)| has_all(path, one, other));
        }
        _ => assert_eq!(promised, written, "{path}"),
    }
}

#[test]
fn the_json_has_a_line_for_each_row() {
    let json = json(&run());
    assert!(json.starts_with("{\n  \"schema\": \"runyard.report/1\",\n  \"host\""), "{json}");
    assert!(
        json.contains(
            "\"wall_ns\": 40000},\n  \"violations\": [],\n  \"history\": {\"step_ns\": 8192, "
        ),
        "{json}"
    );
    let row = "\n    {\"cpu\": 1, \"busy_ns\": 895000, \"idle_ns\": 105000, \"rt_ns\": 0, \
               \"normal_ns\": 892000, \"idle_policy_ns\": 0, \"overhead_ns\": 3000, \
               \"switches\": 1, \"forced_idle_ns\": 0, \"waits\": null},\n";
    assert!(json.contains(row), "{json}");
    let last = "\n    {\"name\": \"late\", \"tasks\": 1, \"wakeup_latency\": {\"count\": 0, \
                \"min_ns\": null, \"mean_ns\": null, \"p50_ns\": null, \"p90_ns\": null, \
                \"p99_ns\": null, \"p999_ns\": null, \"max_ns\": null}, \"points\": []}\n  ],\n  \
                \"from_ns\": 0,\n  \"series\": [],\n  \"balance\": [],\n  \"cookies\": [],\n  \"chains\": [],\n  \
                \"blocked_at_end\": []\n}\n";
    assert!(json.ends_with(last), "{json}");
}

#[test]
fn a_report_that_is_read_is_the_one_that_was_written() {
    let mut report = run();
    let violation = Violation {
        invariant: "conservation".to_owned(),
        at: Time(5),
        what: "lost \"t\"".to_owned(),
    };
    report.violations.push(violation);
    assert_eq!(serde_json::from_str::<Report>(&json(&report)).unwrap(), report);
}

#[test]
fn figures_are_from_the_events() {
    let report = run();
    let machine = &report.machine;
    assert_eq!((report.duration_ns, machine.cpus), (1_000_000, 3));
    assert_eq!((machine.switches, machine.preemptions), (Some(3), Some(1)));
    assert_eq!((machine.migrations, machine.timer_interrupts), (Some(1), Some(1)));
    assert_eq!(machine.utilization, Some(0.499_833), "604.5 us and 895 us of 3 ms");
    assert_eq!((report.timers.armed, report.timers.expired), (Some(1), Some(1)));
    assert_eq!((report.engine.decisions, report.engine.events), (Some(4), Some(18)));

    let [rt, hog, late] = &report.tasks[..] else { panic!("three tasks") };
    assert_eq!(
        (rt.runtime_ns, rt.wait_ns, rt.sleep_ns),
        (Some(500_000), Some(2_500), Some(497_500))
    );
    assert_eq!(
        (rt.policy.as_str(), rt.priority, rt.group.as_str()),
        ("SCHED_FIFO", 40, "/web/api")
    );
    assert_eq!((rt.wakeup_latency.count, rt.wakeup_latency.p999_ns), (Some(1), Some(4_500)));
    assert_eq!((hog.preemptions, hog.migrations, hog.latency_nice), (Some(1), Some(1), Some(3)));
    assert_eq!((late.runtime_ns, late.sleep_ns), (Some(0), Some(0)), "it was never spawned");
}

#[test]
fn utilization_is_rounded_to_six_digits() {
    let utilization = |busy: u16| {
        let mut collector = Collector::default();
        for cpu in 0..busy {
            collector.event(&Event { at: Time::ZERO, cpu: CpuId(cpu), what: What::Overhead });
        }
        let info = RunInfo { cpus: 3, ..RunInfo::default() };
        Report::new(info, &collector.finish(Time(7))).machine.utilization.unwrap()
    };
    assert_eq!([0, 1, 2, 3].map(utilization), [0.0, 0.333_333, 0.666_667, 1.0]);
}

#[test]
fn what_cannot_be_known_is_null() {
    let report = run();
    let json = json(&report);
    let never = "\"wakeup_latency\": {\"count\": 0, \"min_ns\": null, \"mean_ns\": null, \
                 \"p50_ns\": null, \"p90_ns\": null, \"p99_ns\": null, \"p999_ns\": null, \
                 \"max_ns\": null}";
    assert!(json.contains(never), "{json}");
    let nothing = Report::new(RunInfo::default(), &Collector::default().finish(Time::ZERO));
    assert_eq!(nothing.machine.utilization, None);
    assert_eq!(nothing.history, None, "it was not kept");
}

#[test]
fn a_group_runs_what_the_groups_below_it_run() {
    let report = run();
    let runtimes: Vec<_> =
        report.groups.iter().map(|it| (it.path.as_str(), it.runtime_ns)).collect();
    let (rt, hog) = (500_000, 98_000 + 892_000);
    let expected = [("/", Some(rt + hog)), ("/web", Some(rt + hog)), ("/web/api", Some(rt))];
    assert_eq!(runtimes, expected);
}

#[test]
fn the_text_is_for_people() {
    let expected = "\
one-preemption on sim: 3 CPUs, 3 tasks, 1.00 ms, seed 7, kernel 6.1 + founding
NO_RT_PUSH POWER_SAVINGS CFS_BANDWIDTH EEVDF DELAY_DEQUEUE FAIR_SERVER BALANCE_BY_ROOM NI_RANDOM
PELT SIS_UTIL BATCH_DISPATCH RT_BALANCE RT_WAKE_ELSEWHERE

CPU    %rt  %normal  %idlepol  %ovh   %idle  switches/s
all  16.67    33.00      0.00  0.32   50.02       3,000
0    50.00     9.80      0.00  0.65   39.55       2,000
1     0.00    89.20      0.00  0.30   10.50       1,000
2     0.00     0.00      0.00  0.00  100.00           0

                                      wake-    pre-     mi-  wake-up  latency
task  policy  prio  runtime     wait    ups  empted  grated      p50      p99      max
rt    FIFO      40   500 us  2.50 us      1       0       0  4.50 us  4.50 us  4.50 us
hog   OTHER     -5   990 us  10.0 us      1       1       1  2.00 us  2.00 us  2.00 us
late  IDLE       0     0 ns     0 ns      0       0       0        -        -        -

group     runtime    %cpu
/         1.49 ms  149.00
/web      1.49 ms  149.00
/web/api   500 us   50.00

3 switches, 1 preemption, 1 migration, 1 timer interrupt
1 timer armed, 1 expired (0 greedily), 0 cancelled
4 decisions, 18 events in 40.0 us of wall time, 100,000 decisions/s

Invariants: checked, all held.
";
    let text = render(&run(), Checks::Done, TaskRows::Names);
    assert_eq!(text, expected, "\n{text}");
}

#[test]
fn a_host_that_knows_little_has_dashes() {
    let mut report = Report {
        host: "linux".to_owned(),
        scenario: "s".to_owned(),
        duration_ns: 5,
        cpus: vec![CpuReport::default()],
        timers: TimersReport { armed: Some(2), ..TimersReport::default() },
        tasks: vec![TaskReport { name: "t\u{1b}[2J".to_owned(), ..TaskReport::default() }],
        ..Report::default()
    };
    let text = render(&report, Checks::NotDone, TaskRows::Names);
    assert!(text.starts_with("s on linux: 0 CPUs, 1 task, 5 ns, seed 0\n\n  "), "{text}");
    assert!(!text.contains("CPU "), "nothing is known of any: {text}");
    assert!(text.contains("\nt?[2J             0        -     -      -       -"), "{text}");
    let end = "  -\n\n2 timers armed, - expired\n\nInvariants: not checked.\n";
    assert!(text.ends_with(end), "{text}");
    report.cpus[0].busy_ns = Some(1);
    let text = render(&report, Checks::NotDone, TaskRows::Names);
    assert!(text.contains("\nall    -        -         -     -      -           -\n"), "{text}");
}

#[test]
fn long_lists_are_cut_to_their_busiest_rows() {
    let mut report = run();
    let cpu =
        |at: usize| CpuReport { cpu: at, busy_ns: Some(at as u64 % 20), ..CpuReport::default() };
    report.cpus = (0..40).map(cpu).collect();
    let name = |at: usize| format!("{}{at}x", "long-".repeat(5));
    let task = |at| TaskReport { name: name(at), ..TaskReport::default() };
    report.tasks = (0..41).map(task).collect();
    let group = |at: u64| GroupReport {
        path: format!("/{at}"),
        runtime_ns: Some(at),
        nr_periods: Some(3),
        ..GroupReport::default()
    };
    report.groups = (0..22).map(group).collect();
    let violation =
        |at| Violation { invariant: "i".to_owned(), at: Time(at), what: "a\nb\t".to_owned() };
    report.violations = (0..12).map(violation).collect();

    let text = render(&report, Checks::Done, TaskRows::Names);
    let shown: Vec<_> = (0..40).filter(|at| text.contains(&format!("\n{at:<3} "))).collect();
    let busiest: Vec<_> = (12..20).chain(32..40).collect();
    assert_eq!(shown, busiest, "\n{text}");
    assert!(text.contains("\nand 24 less busy CPUs\n"), "{text}");
    assert!(text.contains("\nand 1 less busy name\n"), "{text}");
    assert_eq!(text.matches("\nlong-long-long-lo...").count(), 40, "\n{text}");
    assert!(text.contains("\nand 2 less busy task groups\n") && text.contains("\n/2 "), "{text}");
    assert!(text.contains("\nand 2 less busy limited task groups\n"), "{text}");
    assert!(text.contains("throttled") && !text.contains("\n/1 "), "{text}");
    let each = render(&report, Checks::Done, TaskRows::Tasks);
    assert_eq!(each.matches("\nlong-long-long-lo...").count(), 41, "all of them: \n{each}");
    assert!(
        text.contains("\nInvariants: BROKEN, 12 violations:\n  0.000000000 s  i: a\n  b?\n"),
        "{text}"
    );
    assert!(text.ends_with("\n  and 2 more\n"), "{text}");
}
