//! Pages as texts: what a user wrote stays text, and nothing makes a page grow without bound. What
//! a browser shows of a page is a test of the command.

use runyard_engine::attr::{GroupId, Nice, Policy};
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, What};
use runyard_engine::task::TaskId;
use runyard_engine::time::Time;
use runyard_report::html::{self, Run};
use runyard_report::{Collector, GroupInfo, Report, RunInfo, Stretches, TaskInfo, Violation};

/// More than the library, the style and the script are.
const FIXED: usize = 1_200_000;

fn page(report: &Report, stretches: &Option<Stretches>) -> String {
    html::page(Run { report, stretches: stretches.as_ref() })
}

/// A run of `tasks` on so many CPUs: they execute one after the other, `rounds` times.
fn run(tasks: &[String], cpus: u16, rounds: u64) -> (Report, Option<Stretches>) {
    let mut collector = Collector::with_history();
    let mut at = 0;
    for _ in 0..rounds {
        for (id, _) in (0..).map(TaskId).zip(tasks) {
            let cpu = CpuId((id.0 % u64::from(cpus)) as u16);
            let policy = Policy::Normal(Nice::default());
            let mut tell = |at, what| collector.event(&Event { at: Time(at), cpu, what });
            tell(at, What::Wake { task: id, since: Time(at), by: None });
            tell(at + 10, What::Exec { task: id, policy });
            tell(at + 900, What::Overhead);
            tell(at + 1_000, What::Idle);
            at += 1_000;
        }
    }
    let info = RunInfo {
        host: "sim".to_owned(),
        scenario: "scenario".to_owned(),
        cpus: usize::from(cpus),
        tasks: (0..).map(TaskId).zip(tasks).map(task).collect(),
        groups: vec![GroupInfo { path: "/".to_owned(), ..GroupInfo::default() }],
        ..RunInfo::default()
    };
    let totals = collector.finish(Time(at));
    let stretches = Stretches::new(&totals, &info.tasks, info.cpus);
    (Report::new(info, &totals), stretches)
}

fn task((id, name): (TaskId, &String)) -> TaskInfo {
    TaskInfo {
        id,
        name: name.clone(),
        thread: name.clone(),
        policy: Policy::Normal(Nice::default()),
        latency_nice: 0,
        group: GroupId::ROOT,
        cookie: None,
    }
}

fn names(number: usize) -> Vec<String> {
    (0..number).map(|at| format!("task{at}")).collect()
}

/// The figures that the page's script draws.
fn data(page: &str) -> serde_json::Value {
    let (_, rest) = page.split_once("id=\"runs\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn the_same_report_is_the_same_page() {
    let (report, stretches) = run(&names(5), 2, 100);
    assert_eq!(page(&report, &stretches), page(&report, &stretches));
    let page = page(&report, &stretches);
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    for place in ["@title@", "@style@", "@body@", "@data@", "@library@", "@script@"] {
        assert!(!page.contains(place), "{place}");
    }
}

#[test]
fn what_a_user_wrote_stays_text() {
    let odd = [
        "<script>alert(1)</script>",
        "</script><b>",
        "\"><img src=x onerror=alert(1)>",
        "a&amp;'b'",
        "@data@",
        "line\u{2028}\n\u{1b}[31m\u{0}",
        "<!--",
        "\\u003c/script>",
        "\u{202e}emoji \u{1f600}",
    ];
    let tasks: Vec<_> = odd.iter().map(|&name| name.to_owned()).collect();
    let (mut report, stretches) = run(&tasks, 2, 3);
    report.scenario = odd[0].to_owned();
    report.host = odd[1].to_owned();
    report.groups[0].path = odd[2].to_owned();
    let (invariant, what) = (odd[1].to_owned(), odd[0].to_owned());
    report.violations.push(Violation { invariant, at: Time(1), what });
    let other = report.clone();
    let run = Run { report: &report, stretches: stretches.as_ref() };
    let plain = page(&self::run(&names(9), 2, 3).0, &None);
    for page in [html::page(run), html::comparison(run, Run { report: &other, stretches: None })] {
        assert!(!page.contains("alert(1)</script"));
        for tag in ["<script", "</script", "<!--", "<img", "<b>"] {
            let own = plain.matches(tag).count() + if tag == "<b>" { 5 } else { 0 };
            assert!(page.matches(tag).count() <= own, "{tag}");
        }
        let drawn = data(&page);
        let name = |at: usize| drawn["runs"][0]["timeline"]["tasks"][at]["name"].as_str();
        assert_eq!((name(0), name(5)), (Some(odd[0]), Some(odd[5])), "the script has the names");
        assert!(page.contains("a&amp;amp;&#39;b&#39;"));
        assert!(!page.contains('\u{1b}'), "nothing moves a cursor");
    }
}

#[test]
fn an_empty_run_has_a_page() {
    let nothing = Report::default();
    let drawn = data(&page(&nothing, &None));
    assert!(drawn["runs"][0]["history"].is_null() && drawn["runs"][0]["timeline"].is_null());
    let (report, stretches) = run(&[], 3, 0);
    let drawn = data(&page(&report, &stretches));
    assert_eq!(drawn["runs"][0]["timeline"]["end_ns"], 0);
    let run = Run { report: &report, stretches: None };
    let page = html::comparison(run, Run { report: &nothing, stretches: None });
    assert_eq!(data(&page)["runs"].as_array().unwrap().len(), 2);
}

#[test]
fn many_tasks_and_cpus_make_no_long_page() {
    let (report, stretches) = run(&names(1_000), 1_000, 30);
    let page = page(&report, &stretches);
    assert!(page.len() < FIXED + 500_000, "{} bytes", page.len());
    assert!(page.contains("and 800 less busy tasks"));
    assert!(page.contains("first 64 of 1000 CPUs"));
    let drawn = &data(&page)["runs"][0];
    assert_eq!(drawn["history"]["cpus"].as_array().unwrap().len(), 64);
    assert_eq!(drawn["latencies"].as_array().unwrap().len(), 12);
    let both = Run { report: &report, stretches: None };
    let page = html::comparison(both, both);
    assert!(page.len() < FIXED + 500_000, "{} bytes", page.len());
    assert!(page.contains("and 800 less busy"));
}

#[test]
fn a_timeline_is_of_the_first_stretches() {
    let (_, stretches) = run(&names(4), 2, 10);
    let all = serde_json::to_value(stretches.unwrap()).unwrap();
    assert_eq!(all["end_ns"], 40_000);
    let first = &all["stretches"].as_array().unwrap()[..3];
    let expected = [[0, 10, 900, 0], [0, 900, 1_000, -1], [1, 1_010, 1_900, 1]];
    assert_eq!(first, expected.map(|stretch| serde_json::json!(stretch)));

    let (report, stretches) = run(&names(4), 2, 5_000);
    let first = serde_json::to_value(&stretches).unwrap();
    assert_eq!(first["stretches"].as_array().unwrap().len(), 10_000);
    assert_eq!(first["end_ns"], 5_000_000, "two stretches a microsecond");
    assert!(page(&report, &stretches).contains("The first 5.00 ms of 20.0 ms"));
}

#[test]
fn what_goes_on_when_the_timeline_is_full_is_shown_up_to_there() {
    let policy = Policy::Normal(Nice::default());
    let mut collector = Collector::with_history();
    let mut tell = |at, cpu, what| collector.event(&Event { at: Time(at), cpu: CpuId(cpu), what });
    tell(5, 1, What::Exec { task: TaskId(7), policy });
    for at in 0..20_000 {
        tell(10 + 2 * at, 0, What::Overhead);
        tell(11 + 2 * at, 0, What::Idle);
    }
    let totals = collector.finish(Time(1_000_000));
    let stretches = Stretches::new(&totals, &[], 2).unwrap();
    let drawn = serde_json::to_value(&stretches).unwrap();
    assert_eq!(drawn["end_ns"], 11 + 2 * 9_999);
    let last = drawn["stretches"].as_array().unwrap().last().unwrap();
    assert_eq!(*last, serde_json::json!([1, 5, 11 + 2 * 9_999, 0]));
    assert_eq!(drawn["tasks"][0]["name"], TaskId(7).to_string(), "nobody named it");
}
