//! The results of balancing: their counts by level and moment, and their places in outputs.

use proptest::prelude::*;
use runyard_engine::balance::{Balanced, Found, IdleKind, Measure};
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, What};
use runyard_engine::time::Time;
use runyard_engine::topology::Level;
use runyard_report::html::{self, Run};
use runyard_report::{
    BalanceReport, BalanceTotals, Changes, Checks, Collector, Report, RunInfo, TaskRows, Totals,
    render,
};

const LEVELS: [Level; 3] = [Level::Smt, Level::Node, Level::Machine];
const IDLE_KINDS: [IdleKind; 3] = [IdleKind::Busy, IdleKind::Idle, IdleKind::NewlyIdle];
const MEASURES: [Measure; 3] = [Measure::All, Measure::Normal, Measure::Idle];

/// The totals of a run with these passes, one after the other.
fn totals_of(told: &[(Level, IdleKind, Measure, Found)]) -> Totals {
    let mut collector = Collector::default();
    for (at, &(level, idle_kind, measure, found)) in (0..).zip(told) {
        let what = What::Balanced(Balanced { level, idle_kind, measure, found });
        collector.event(&Event { at: Time(at), cpu: CpuId(at as u16 % 4), what });
        collector.check();
    }
    collector.finish(Time(1_000))
}

fn report(told: &[(Level, IdleKind, Measure, Found)]) -> Report {
    let info = RunInfo { scenario: "s".to_owned(), host: "sim".to_owned(), ..RunInfo::default() };
    Report::new(info, &totals_of(told))
}

/// Two levels, three moments, and all results of a pass.
fn some() -> Report {
    let (all, normal, idle) = (Measure::All, Measure::Normal, Measure::Idle);
    report(&[
        (Level::Machine, IdleKind::NewlyIdle, all, Found::Nothing),
        (Level::Machine, IdleKind::Busy, normal, Found::Nothing),
        (Level::Machine, IdleKind::Busy, normal, Found::Running),
        (Level::Node, IdleKind::Busy, normal, Found::Balance),
        (Level::Node, IdleKind::Busy, idle, Found::Tasks(3)),
        (Level::Node, IdleKind::Busy, normal, Found::Tasks(2)),
        (Level::Node, IdleKind::Idle, all, Found::Pinned),
        (Level::Machine, IdleKind::NewlyIdle, all, Found::Tasks(1_000)),
    ])
}

fn json(report: &Report) -> String {
    let mut json = Vec::new();
    report.write_json(&mut json).unwrap();
    String::from_utf8(json).unwrap()
}

#[test]
fn rows_are_by_level_then_moment_and_only_where_somebody_balanced() {
    let json = json(&some());
    let expected = r#"
  "balance": [
    {"level": "node", "moment": "busy", "passes": 3, "balanced": 1, "pinned": 0, "failed": 0, "moved": 5, "taken": 0},
    {"level": "node", "moment": "idle", "passes": 1, "balanced": 0, "pinned": 1, "failed": 0, "moved": 0, "taken": 0},
    {"level": "machine", "moment": "busy", "passes": 1, "balanced": 0, "pinned": 0, "failed": 1, "moved": 0, "taken": 1},
    {"level": "machine", "moment": "newly_idle", "passes": 2, "balanced": 0, "pinned": 0, "failed": 1, "moved": 1000, "taken": 0}
  ],
"#;
    assert!(json.contains(expected), "{json}");
}

#[test]
fn each_level_and_moment_has_its_name() {
    let told: Vec<_> = LEVELS
        .iter()
        .flat_map(|&level| IDLE_KINDS.map(|kind| (level, kind, Measure::All, Found::Balance)))
        .collect();
    let rows = report(&told).balance;
    let named: Vec<_> = rows.iter().map(|it| (it.level.as_str(), it.moment.as_str())).collect();
    let names = ["smt", "node", "machine"]
        .map(|level| ["busy", "idle", "newly_idle"].map(|moment| (level, moment)));
    assert_eq!(named, names.concat());
}

#[test]
fn a_report_that_does_not_tell_is_still_one() {
    let (before, rows) = (some(), some().balance);
    let json = json(&before);
    let old = json.split_once(",\n  \"balance\"").unwrap().0.to_owned() + "\n}\n";
    let read = |json: &str| serde_json::from_str::<Report>(json).unwrap();
    assert_eq!(read(&json).balance, rows);
    assert_eq!(read(&old), Report { balance: Vec::new(), ..before });
}

#[test]
fn the_text_tells_of_it() {
    let expected = "\
balance              passes  balanced  pinned  failed  moved  taken
node     busy             3         1       0       0      5      0
node     idle             1         0       1       0      0      0
machine  busy             1         0       0       1      0      1
machine  newly idle       2         0       0       1  1,000      0

0 switches, ";
    let text = render(&some(), Checks::NotDone, TaskRows::Names);
    assert!(text.contains(expected), "\n{text}");
}

#[test]
fn the_text_is_silent_where_nobody_was_to_be_moved() {
    let shown = |found| {
        let told = [(Level::Node, IdleKind::Busy, Measure::Normal, found)];
        render(&report(&told), Checks::NotDone, TaskRows::Names).contains("\nbalance ")
    };
    let all = [Found::Balance, Found::Pinned, Found::Nothing, Found::Tasks(1)];
    assert_eq!(all.map(shown), [false, true, true, true]);
    assert!(!render(&report(&[]), Checks::NotDone, TaskRows::Names).contains("\nbalance "));
}

#[test]
fn a_page_has_the_same_table() {
    let page = |report: &Report| html::page(Run { report, stretches: None });
    let row = "<tr><th scope=row class=text title=\"machine\"><span>machine</span></th>\
               <td class=text title=\"newly idle\">newly idle</td><td data-value=2>2</td>\
               <td data-value=0>0</td><td data-value=0>0</td><td data-value=1>1</td>\
               <td data-value=1000>1,000</td><td data-value=0>0</td></tr>\n</tbody>";
    let some = page(&some());
    assert!(some.contains("<table id=balance>") && some.contains(row));
    assert!(!page(&report(&[])).contains("<table id=balance>"), "nobody balanced");
}

/// The lines about balance in the output of `compare` for two reports.
fn compared(before: &Report, after: &Report) -> Vec<String> {
    let text = Changes::new(before, after).render();
    let lines = text.lines().filter(|line| line.contains("balance"));
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn compare_tells_how_many_were_moved_if_that_differs() {
    let told = [
        (Level::Node, IdleKind::Busy, Measure::All, Found::Tasks(2)),
        (Level::Machine, IdleKind::Busy, Measure::All, Found::Tasks(1)),
    ];
    let (few, many, none) = (report(&told), some(), report(&[]));
    let expected = ["moved by balance 3 1,005 335", "taken by balance 0 1 -"];
    assert_eq!(compared(&few, &many), expected);
    assert_eq!(compared(&many, &many), [""; 0]);
    assert_eq!(compared(&few, &none), ["moved by balance 3 - -"], "it may be an older report");
    let still = report(&[(Level::Node, IdleKind::Busy, Measure::All, Found::Balance)]);
    assert_eq!(compared(&still, &none), [""; 0], "nobody was moved in either");
}

fn any_found() -> impl Strategy<Value = Found> {
    prop_oneof![
        Just(Found::Balance),
        Just(Found::Pinned),
        Just(Found::Nothing),
        Just(Found::Running),
        (0..40_u32).prop_map(Found::Tasks),
    ]
}

fn any_told() -> impl Strategy<Value = (Level, IdleKind, Measure, Found)> {
    let (level, kind) = (prop::sample::select(&LEVELS[..]), prop::sample::select(&IDLE_KINDS[..]));
    (level, kind, prop::sample::select(&MEASURES[..]), any_found())
}

proptest! {
    #[test]
    fn a_row_counts_what_was_told_of_its_level_and_moment(
        told in prop::collection::vec(any_told(), 0..100),
    ) {
        let (totals, mut rows) = (totals_of(&told), report(&told).balance.into_iter().peekable());
        for level in LEVELS {
            for kind in IDLE_KINDS {
                let of: Vec<_> = told.iter().filter(|it| (it.0, it.1) == (level, kind)).collect();
                let number = |is: fn(Found) -> bool| of.iter().filter(|it| is(it.3)).count() as u64;
                let expected = BalanceTotals {
                    balanced: number(|found| found == Found::Balance),
                    pinned: number(|found| found == Found::Pinned),
                    failed: number(|found| found == Found::Nothing),
                    successful: number(|found| matches!(found, Found::Tasks(_))),
                    moved: of.iter().map(|it| match it.3 {
                        Found::Tasks(tasks) => u64::from(tasks),
                        _ => 0,
                    }).sum(),
                    taken: number(|found| found == Found::Running),
                };
                prop_assert_eq!(totals.balance(level, kind), expected);
                let passes = number(|found| found != Found::Running);
                prop_assert_eq!(expected.passes(), passes);
                if passes > 0 {
                    let BalanceReport { passes, balanced, pinned, failed, moved, taken, .. } =
                        rows.next().unwrap();
                    prop_assert_eq!(passes, balanced + pinned + failed + expected.successful);
                    prop_assert_eq!((balanced, pinned), (expected.balanced, expected.pinned));
                    prop_assert_eq!((failed, taken), (expected.failed, expected.taken));
                    prop_assert_eq!(moved, expected.moved);
                }
            }
        }
        prop_assert_eq!(rows.next(), None);
    }
}
