//! The limits of task groups in reports.

use runyard_engine::attr::GroupId;
use runyard_engine::cpu::CpuId;
use runyard_engine::limits::{Limit, Usage, UsageOnCpu};
use runyard_engine::time::{Nanos, Time};
use runyard_report::html::{self, Run};
use runyard_report::{
    Changes, Checks, Collector, GroupCpuReport, GroupInfo, GroupReport, LimitReport, Report,
    RunInfo, TaskRows, group_reports, render,
};

const MILLI: u64 = 1_000_000;

fn limit(runtime_ms: u64, period_ms: u64, per_cpu: bool) -> Option<Limit> {
    let [runtime, period] = [runtime_ms, period_ms].map(Nanos::from_millis);
    Some(Limit::new(runtime, period, Nanos::ZERO, per_cpu).expect("a limit"))
}

/// Groups below each other: `/`, `/1`, `/1/2`, ...
fn line(limits: &[Option<Limit>]) -> Vec<GroupInfo> {
    let group = |(at, &limit): (usize, &Option<Limit>)| GroupInfo {
        path: "/".to_owned() + &(1..=at).map(|n| n.to_string()).collect::<Vec<_>>().join("/"),
        parent: (at > 0).then(|| GroupId(at as u32 - 1)),
        limit,
        usage: None,
    };
    limits.iter().enumerate().map(group).collect()
}

fn on(cpu: u16, used_ms: u64, nr_throttled: u64, throttled_ms: u64) -> (CpuId, UsageOnCpu) {
    let [used, throttled] = [used_ms, throttled_ms].map(Nanos::from_millis);
    let borrowed = Nanos(used.0 / 2);
    (CpuId(cpu), UsageOnCpu { used, nr_throttled, throttled, borrowed })
}

/// A second of 4 CPUs in which `/web` was throttled, and `/web/api` below it asked for more.
fn run() -> Report {
    let usage = Usage {
        nr_periods: 10,
        nr_throttled: 9,
        throttled: Nanos::from_millis(1_100),
        nr_bursts: 2,
        burst: Nanos::from_millis(7),
        borrowed: Nanos::from_millis(120),
    };
    let cpus = vec![on(3, 20, 0, 0), on(0, 180, 9, 300), on(1, 0, 9, 800), on(2, 0, 0, 0)];
    let burst = Nanos::from_millis(5);
    let web = Limit::new(Nanos::from_millis(20), Nanos::from_millis(100), burst, false);
    let mut groups = line(&[None, Some(web.expect("a limit")), limit(50, 100, true)]);
    for group in &mut groups {
        group.usage = Some((Usage::default(), Vec::new()));
    }
    groups[1].usage = Some((usage, cpus));
    ["/", "/web", "/web/api"].into_iter().zip(&mut groups).for_each(|(path, group)| {
        path.clone_into(&mut group.path);
    });
    let info = RunInfo { host: "sim".to_owned(), cpus: 4, groups, ..RunInfo::default() };
    Report::new(info, &Collector::default().finish(Time(1_000 * MILLI)))
}

#[test]
fn the_figures_are_what_the_host_hands_over() {
    let report = run();
    let cpu = |cpu, used, nr_throttled, throttled| GroupCpuReport {
        cpu,
        used_ns: used * MILLI,
        nr_throttled,
        throttled_ns: throttled * MILLI,
        borrowed_ns: used * MILLI / 2,
    };
    let expected = GroupReport {
        path: "/web".to_owned(),
        runtime_ns: Some(0),
        nr_periods: Some(10),
        nr_throttled: Some(9),
        throttled_ns: Some(1_100 * MILLI),
        nr_bursts: Some(2),
        burst_ns: Some(7 * MILLI),
        borrowed_ns: Some(120 * MILLI),
        pressure_some_ns: None,
        pressure_full_ns: None,
        waits: None,
        limit: Some(LimitReport {
            runtime_us: 20_000,
            period_us: 100_000,
            burst_us: 5_000,
            per_cpu: false,
        }),
        held_by: None,
        cpus: Some(vec![cpu(0, 180, 9, 300), cpu(1, 0, 9, 800), cpu(3, 20, 0, 0)]),
    };
    assert_eq!(report.groups[1], expected);
    let root = &report.groups[0];
    assert_eq!((root.nr_periods, root.limit, &root.cpus), (Some(0), None, &Some(vec![])));
}

#[test]
fn what_a_host_cannot_know_is_not_zero() {
    let groups = group_reports(&line(&[None, limit(20, 100, false)]), &[Nanos(1), Nanos(2)], 2);
    assert_eq!(groups[0].runtime_ns, Some(3), "what is below it counts for it");
    for group in groups {
        let known = [group.nr_periods, group.nr_throttled, group.throttled_ns, group.nr_bursts];
        assert_eq!((known, group.burst_ns, group.borrowed_ns), ([None; 4], None, None));
        assert_eq!(group.cpus, None);
    }
}

#[test]
fn a_group_is_held_by_the_one_above_it_that_has_least() {
    let held = |limits: &[Option<Limit>]| {
        let groups = line(limits);
        let reports = group_reports(&groups, &vec![Nanos::ZERO; groups.len()], 4);
        reports.last().expect("there are some").held_by.clone()
    };
    let by = |path: &str| Some(path.to_owned());
    let (small, large) = (limit(20, 100, false), limit(50, 100, false));
    assert_eq!(held(&[None, small, large]), by("/1"));
    assert_eq!(held(&[None, large, small]), None);
    assert_eq!(held(&[None, small, None]), None, "it asks for nothing");
    assert_eq!(held(&[None, small, None, large]), by("/1"), "not by its parent");
    assert_eq!(held(&[None, small, large, limit(80, 100, false)]), by("/1"), "it has least");
    assert_eq!(held(&[None, small, small, large]), by("/1/2"), "the nearest of them");
    assert_eq!(held(&[None, small, limit(100, 500, false)]), None, "as much in another period");
    assert_eq!(held(&[None, small, limit(101, 500, false)]), by("/1"));
    assert_eq!(held(&[None, small, limit(5, 100, true)]), None, "5 ms on each of 4 CPUs");
    assert_eq!(held(&[None, small, limit(6, 100, true)]), by("/1"));
    assert_eq!(held(&[None, limit(5, 100, true), large]), by("/1"));
}

#[test]
fn the_text_says_who_was_throttled_where_and_who_drew() {
    let text = render(&run(), Checks::NotDone, TaskRows::Names);
    let expected = "
                                               throttled                    bursts                     drew most
group     limit               %limit  periods         in      for  most on      in       of  borrowed         on
/web      20 ms/100 ms +5 ms  100.00       10          9  1.10 s     CPU 1       2  7.00 ms    120 ms      CPU 0
/web/api  50 ms/100 ms a CPU    0.00        0          0     0 ns        -       0     0 ns      0 ns          -
/web/api asks for more than /web has, and is held by that
";
    assert!(text.contains(expected), "\n{text}");
}

#[test]
fn a_comparison_has_what_the_limits_did() {
    let before = run();
    let mut after = before.clone();
    let web = &mut after.groups[1];
    web.nr_throttled = Some(3);
    web.limit.as_mut().expect("it has one").runtime_us = 250_000;
    let text = Changes::new(&before, &after).render();
    for row in [
        "limit           20.00 %  250.00 %",
        "throttled             9         3",
        "of its periods  90.00 %   30.00 %",
    ] {
        assert!(text.contains(row), "{row}\n{text}");
    }
}

#[test]
fn a_page_shows_the_limits_and_who_drew_them() {
    let mut report = run();
    let page = |report: &Report| html::page(Run { report, stretches: None });
    let shown = page(&report);
    for cell in ["20 ms/100 ms +5 ms", ">CPU 1<", "50 ms/100 ms a CPU", "id=limits"] {
        assert!(shown.contains(cell), "{cell}");
    }
    assert_eq!(shown.matches(">/web<").count(), 5, "a group, a holder and three CPUs");
    report.groups[2].held_by = Some("<blink>".to_owned());
    assert!(!page(&report).contains("<blink>"), "a path is no markup");
    report.groups.iter_mut().for_each(|group| group.cpus = None);
    assert!(!page(&report).contains("id=limits"), "a host may not know");
}

#[test]
fn a_report_of_before_there_were_limits_is_read() {
    let old = r#"{"path": "/", "runtime_ns": 5, "nr_periods": 0, "nr_throttled": 0,
        "throttled_ns": 0, "nr_bursts": 0, "burst_ns": 0, "borrowed_ns": 0}"#;
    let group: GroupReport = serde_json::from_str(old).expect("a group");
    assert_eq!((group.runtime_ns, group.limit, group.cpus), (Some(5), None, None));
}
