//! Core scheduling in a report: the forced idle times, with the cookies that caused them.

use runyard_engine::attr::{Cookie, GroupId, Nice, Policy};
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, Left, What};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_report::html::{Run, page};
use runyard_report::{
    Changes, Checks, Collector, CookieReport, GroupInfo, Report, RunInfo, TaskInfo, TaskRows,
    Totals, render,
};

const A: TaskId = TaskId(0);
const B: TaskId = TaskId(1);
const NORMAL: Policy = Policy::Batch(Nice::ZERO);

fn forced(cookie: u32) -> What {
    What::ForcedIdle { cookie: Cookie::new(cookie) }
}

fn exec(task: TaskId) -> What {
    What::Exec { task, policy: NORMAL }
}

/// Two threads of a core for 100 us, with forced idle times because of `a`, `b` and the task without a cookie.
fn totals() -> Totals {
    let switch = |prev, next| What::Switch { prev, next };
    let events = [
        (0, 0, switch(None, Some(A))),
        (0, 0, exec(A)),
        (10, 1, forced(1)),
        (28, 0, switch(Some((A, Left::Preempted)), Some(B))),
        (28, 0, exec(B)),
        (30, 1, forced(2)),
        (40, 1, forced(2)),
        (50, 1, What::Idle),
        (60, 1, forced(0)),
        (70, 1, What::Overhead),
        (70, 1, switch(None, Some(A))),
        (72, 1, exec(A)),
        (80, 0, switch(Some((B, Left::Blocked)), None)),
        (80, 0, forced(1)),
    ];
    let mut collector = Collector::with_history();
    for (us, cpu, what) in events {
        collector.event(&Event { at: Time(us * 1_000), cpu: CpuId(cpu), what });
        collector.check();
    }
    collector.finish(Time(100_000))
}

fn report() -> Report {
    let task = |id, name: &str, cookie| TaskInfo {
        id,
        name: name.to_owned(),
        thread: name.to_owned(),
        policy: NORMAL,
        latency_nice: 0,
        group: GroupId::ROOT,
        cookie: Cookie::new(cookie),
        missed: None,
        slack: Nanos::ZERO,
    };
    let info = RunInfo {
        host: "sim".to_owned(),
        scenario: "tenants".to_owned(),
        kernel: Some("6.18".to_owned()),
        cpus: 2,
        tasks: vec![task(A, "a", 1), task(B, "b", 2), task(TaskId(2), "none", 0)],
        groups: vec![GroupInfo { path: "/".to_owned(), ..GroupInfo::default() }],
        cookies: vec!["a".to_owned(), "b <b>".to_owned()],
        ..RunInfo::default()
    };
    Report::new(info, &totals())
}

#[test]
fn forced_idle_is_a_part_of_idle_and_sums_to_what_cookies_cost() {
    let totals = totals();
    let did = [0, 1].map(|cpu| totals.cpu(CpuId(cpu)));
    assert_eq!(did.map(|cpu| cpu.forced.0), [20_000, 20_000 + 20_000 + 10_000]);
    assert_eq!(did.map(|cpu| (cpu.idle.0, cpu.busy().0)), [(20_000, 80_000), (70_000, 30_000)]);
    let cost = [0, 1, 2, 3].map(|cookie| totals.forced_idle(Cookie::new(cookie)));
    assert_eq!(cost, [10_000, 40_000, 20_000, 0].map(Nanos));
}

#[test]
fn a_report_has_it_by_cpu_and_by_cookie() {
    let report = report();
    let cpus = report.cpus.iter().map(|cpu| cpu.forced_idle_ns);
    assert_eq!(cpus.collect::<Vec<_>>(), [Some(20_000), Some(50_000)]);
    let (a, b) = (Some("a"), Some("b <b>"));
    let tasks = report.tasks.iter().map(|task| task.cookie.as_deref());
    assert_eq!(tasks.collect::<Vec<_>>(), [a, b, None]);
    let row = |name: Option<&str>, runtime_ns, forced_idle_ns| CookieReport {
        name: name.map(str::to_owned),
        runtime_ns: Some(runtime_ns),
        forced_idle_ns: Some(forced_idle_ns),
    };
    let expected = [row(a, 56_000, 40_000), row(b, 52_000, 20_000), row(None, 0, 10_000)];
    assert_eq!(report.cookies, expected);
    let history = report.history.expect("it was kept");
    assert_eq!(history.idle_ns.iter().sum::<u64>(), 90_000);
}

#[test]
fn a_report_without_cookies_has_no_row_of_one() {
    let report = Report::new(
        RunInfo { cpus: 1, ..RunInfo::default() },
        &Collector::default().finish(Time(5)),
    );
    assert_eq!((&report.cookies[..], report.cpus[0].forced_idle_ns), (&[][..], Some(0)));
    assert!(!render(&report, Checks::Done, TaskRows::Names).contains("forced"));
    let shown = Run { report: &report, stretches: None };
    assert!(!page(shown).contains("Cookies") && !page(shown).contains("Forced idle"));
}

#[test]
fn the_text_has_it_where_there_was_any() {
    let text = render(&report(), Checks::NotDone, TaskRows::Names);
    let expected = "\
CPU   %rt  %normal  %idlepol  %ovh  %idle  switches/s  %forced
all  0.00    54.00      0.00  1.00  45.00      30,000    35.00
0    0.00    80.00      0.00  0.00  20.00      20,000    20.00
1    0.00    28.00      0.00  2.00  70.00      10,000    50.00
";
    assert!(text.contains(expected), "{text}");
    let expected = "
cookie  runtime   %cpu  forced idle   %cpu
a       56.0 us  56.00      40.0 us  40.00
b <b>   52.0 us  52.00      20.0 us  20.00
(none)     0 ns   0.00      10.0 us  10.00
";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn a_page_has_it_and_a_comparison_has_a_row_of_it() {
    let report = report();
    let page = page(Run { report: &report, stretches: None });
    let card = "<dt>Forced idle</dt><dd>70.0 us</dd><dd>35.00 % of CPU time</dd>";
    assert!(page.contains(card) && page.contains("<h2>Cookies</h2>"));
    assert!(page.contains("<span>b &lt;b&gt;</span></th><td data-value=52000>52.0 us</td>"));

    let mut without = report.clone();
    without.cpus.iter_mut().for_each(|cpu| cpu.forced_idle_ns = Some(0));
    let text = Changes::new(&without, &report).render();
    let row = text.lines().find(|line| line.contains("forced idle")).expect(&text);
    let words: Vec<_> = row.split_whitespace().collect();
    assert_eq!(words[..6], ["forced", "idle", "0", "ns", "70.0", "us"], "{text}");
    assert!(!Changes::new(&without, &without).render().contains("forced"));
    without.cpus.iter_mut().for_each(|cpu| cpu.forced_idle_ns = None);
    assert!(Changes::new(&without, &report).render().contains("forced idle"), "one is older");
}
