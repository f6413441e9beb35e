//! Pages as texts: a user's text stays text, and no page grows without bound. The tests of the command open pages in a
//! browser.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::DeflateDecoder;
use runyard_engine::attr::{GroupId, Nice, Policy};
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, What};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::topology::Topology;
use runyard_report::html::{self, Run};
use runyard_report::{
    Changes, Collector, GroupInfo, Report, RunInfo, Stretches, TaskInfo, Timed, Violation,
};
use serde_json::Value;
use std::io::Read as _;

/// More than the size of the library, the style and the script.
const FIXED: usize = 1_200_000;

fn page(report: &Report, stretches: &Option<Stretches>) -> String {
    html::page(Run { report, stretches: stretches.as_ref() })
}

/// A run of `tasks` on so many CPUs: they execute one after the other, `rounds` times.
fn run(tasks: &[String], cpus: u16, rounds: u64) -> (Report, Option<Stretches>) {
    let mut collector = Collector::with_timeline();
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
        missed: None,
        slack: Nanos::ZERO,
    }
}

fn names(number: usize) -> Vec<String> {
    (0..number).map(|at| format!("task{at}")).collect()
}

/// The spans of a page's timeline, by their lanes: the occupant and the end of each; and the names of the tasks.
#[derive(Debug, Default)]
struct Unpacked {
    lanes: Vec<Vec<(String, u64)>>,
    folded: usize,
    names: Vec<String>,
}

/// Unpacks a timeline as the page's script does.
fn unpack(timeline: &Value) -> Unpacked {
    let deflated = STANDARD.decode(timeline["data"].as_str().unwrap()).unwrap();
    let mut bytes = Vec::new();
    DeflateDecoder::new(&deflated[..]).read_to_end(&mut bytes).unwrap();
    let mut rest = &bytes[..];
    let mut column = |at: usize| {
        let size = timeline["columns"][at].as_u64().unwrap() as usize;
        let (column, after) = rest.split_at(size);
        rest = after;
        column
    };
    let names: Value = serde_json::from_slice(column(0)).unwrap();
    let names = names["tasks"].as_array().unwrap().iter();
    let names: Vec<_> = names.map(|it| it[0].as_str().unwrap().to_owned()).collect();
    let [mut who, mut idle, mut scheduler, mut tasks] = [1, 2, 3, 4].map(column);
    let mut unpacked = Unpacked::default();
    for count in timeline["spans"].as_array().unwrap() {
        let (mut lane, mut now) = (Vec::new(), 0);
        for _ in 0..count.as_u64().unwrap() {
            let code = number(&mut who);
            unpacked.folded += (code % 2) as usize;
            let name = |at: u64| names[at as usize - 3].clone();
            let (who, long) = match code / 2 {
                0 => ("idle".to_owned(), number(&mut idle)),
                1 => ("forced".to_owned(), number(&mut idle)),
                2 => ("scheduler".to_owned(), number(&mut scheduler)),
                task => (name(task), number(&mut tasks)),
            };
            now += long * timeline["quantum_ns"].as_u64().unwrap();
            lane.push((who, now));
        }
        unpacked.lanes.push(lane);
    }
    unpacked.names = names;
    unpacked
}

fn number(from: &mut &[u8]) -> u64 {
    let mut number = 0;
    for at in 0.. {
        let (&byte, rest) = from.split_first().unwrap();
        *from = rest;
        number |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
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
    let changes = Changes::new(&report, &other);
    let second = Run { report: &other, stretches: None };
    for page in [html::page(run), html::comparison(run, second, &changes)] {
        assert!(!page.contains("alert(1)</script"));
        for tag in ["<script", "</script", "<!--", "<img", "<b>"] {
            let own = plain.matches(tag).count() + if tag == "<b>" { 5 } else { 0 };
            assert!(page.matches(tag).count() <= own, "{tag}");
        }
        let drawn = data(&page);
        let names = unpack(&drawn["runs"][0]["timeline"]).names;
        assert_eq!((&*names[0], &*names[5]), (odd[0], odd[5]), "the script has the names");
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
    let changes = Changes::new(&report, &nothing);
    let page = html::comparison(run, Run { report: &nothing, stretches: None }, &changes);
    assert_eq!(data(&page)["runs"].as_array().unwrap().len(), 2);
}

#[test]
fn many_tasks_and_cpus_make_no_long_page() {
    let (report, stretches) = run(&names(1_000), 2_000, 30);
    let page = page(&report, &stretches);
    assert!(page.len() < FIXED + 1_500_000, "{} bytes", page.len());
    assert!(page.contains("and 800 less busy names"));
    assert!(page.contains("first 1024 of 2000 CPUs"));
    let drawn = &data(&page)["runs"][0];
    assert_eq!(drawn["history"]["cpus"].as_array().unwrap().len(), 1_024);
    assert_eq!(drawn["latencies"].as_array().unwrap().len(), 12);
    let both = Run { report: &report, stretches: None };
    let page = html::comparison(both, both, &Changes::new(&report, &report));
    assert!(page.len() < FIXED + 2_500_000, "{} bytes", page.len());
    assert!(page.contains("and 800 less busy"));
}

#[test]
fn a_timeline_has_all_there_was() {
    let (report, stretches) = run(&names(4), 2, 10);
    let page = page(&report, &stretches);
    assert!(page.contains("All of the run, switch for switch."));
    let timeline = &data(&page)["runs"][0]["timeline"];
    assert_eq!((&timeline["end_ns"], &timeline["quantum_ns"]), (&40_000.into(), &1.into()));
    let unpacked = unpack(timeline);
    assert_eq!(unpacked.lanes.iter().map(Vec::len).collect::<Vec<_>>(), [61, 60]);
    let first: Vec<_> = unpacked.lanes[1][..4].iter().map(|(who, end)| (&**who, *end)).collect();
    let expected = [("idle", 1_010), ("task1", 1_900), ("scheduler", 2_000), ("idle", 3_010)];
    assert_eq!(first, expected);
    assert!(unpacked.lanes.iter().all(|lane| lane.last().unwrap().1 == 40_000), "to the end");
}

#[test]
fn what_goes_on_at_the_end_is_shown_up_to_there() {
    let policy = Policy::Normal(Nice::default());
    let mut collector = Collector::with_timeline();
    collector.event(&Event {
        at: Time(5),
        cpu: CpuId(1),
        what: What::Exec { task: TaskId(7), policy },
    });
    let totals = collector.finish(Time(1_000_000));
    let drawn = serde_json::to_value(Stretches::new(&totals, &[], 2).unwrap()).unwrap();
    let unpacked = unpack(&drawn);
    assert_eq!(unpacked.lanes[1], [("idle".to_owned(), 5), (TaskId(7).to_string(), 1_000_000)]);
    assert_eq!(unpacked.names, [TaskId(7).to_string()], "nobody named it");
}

/// Random spans take many bits. Even those of two million switches fit into a page.
#[test]
fn a_page_has_an_end_and_says_what_it_leaves_out() {
    let mut collector = Collector::with_timeline();
    let mut random = 1_u64;
    let mut at = 0;
    for turn in 0..2_400_000_u64 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        at += 20_000 + (random >> 44);
        let policy = Policy::Normal(Nice::default());
        let mut tell = |at, what| collector.event(&Event { at: Time(at), cpu: CpuId(0), what });
        tell(at - 900 - (random >> 60), What::Overhead);
        tell(at, What::Exec { task: TaskId(turn % 7), policy });
    }
    let totals = collector.finish(Time(at));
    let info = RunInfo { cpus: 1, ..RunInfo::default() };
    let stretches = Stretches::new(&totals, &info.tasks, info.cpus);
    let report = Report::new(info, &totals);
    let page = page(&report, &stretches);
    assert!(page.len() < 5_000_000, "{} bytes", page.len());
    assert!(page.contains("are merged, and striped"));
    let unpacked = unpack(&data(&page)["runs"][0]["timeline"]);
    assert!(
        unpacked.folded > 0 && unpacked.lanes[0].len() > 500_000,
        "{}",
        unpacked.lanes[0].len()
    );
    let end = unpacked.lanes[0].last().unwrap().1;
    assert!(end.abs_diff(at) <= 1_024, "to the end");
}

#[test]
fn nodes_are_told() {
    let (mut report, stretches) = run(&names(2), 8, 2);
    report.machine.topology = Some(Topology::new(2, 2, 2).unwrap().to_string());
    assert_eq!(data(&page(&report, &stretches))["runs"][0]["cpus_per_node"], 4);
    report.machine.topology = Some("nonsense".to_owned());
    assert_eq!(data(&page(&report, &stretches))["runs"][0]["cpus_per_node"], 8);
}

#[test]
fn only_a_run_with_changes_has_marks() {
    let (mut report, stretches) = run(&names(2), 2, 2);
    let without = page(&report, &stretches);
    assert!(data(&without)["runs"][0]["changes"].is_null());
    assert!(!without.contains("class=changes") && !without.contains("\"marks\""));
    let timed = |at: u64| Timed { at: Time(at), change: format!("start <{at}>") };
    report.timeline = (0..201).map(timed).collect();
    let with = page(&report, &stretches);
    assert_eq!(data(&with)["runs"][0]["changes"].as_array().unwrap().len(), 200);
    assert_eq!(data(&with)["runs"][0]["changes"][7]["change"], "start <7>");
    assert!(with.contains("<li>0.000000007 s start &lt;7&gt;</li>") && with.contains("\"marks\""));
    assert!(with.contains("<li>and 1 change later</li>"));
}
