//! Questions without a specification: why a task was late, and the differences between two scenarios.

use runyard_outcome::Failure;
use runyard_report::Verdict;
use runyard_sweep::{Asking, Comparison, Question, Side, Text, compare, explain};
use runyard_workload::{Overrides, Scenario, parse};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A scenario with few events, so that a run ends before it calls `stop`.
const SHORT: &str = r#"{
    "machine": {"cpus": 1}, "global": {"duration": 1},
    "tasks": {
        "boss": {"policy": "SCHED_FIFO", "priority": 9, "run": 3000, "sem_post": "s", "sleep": {"exponential": 7000}},
        "web": {"instance": 2, "run": {"exponential": 3000}, "sleep": 7000},
        "end": {"sem_wait": "s", "run": 100}
    },
    "chains": {"both": ["boss", "end"]}
}"#;

fn scenario(text: &str) -> Scenario {
    parse("-", text, &Overrides::default()).unwrap().scenario
}

fn side(setting: &str) -> Side {
    let scenario = Text { file: "short.json".to_owned(), text: SHORT.to_owned() };
    let over = Overrides { settings: vec![setting.parse().unwrap()], ..Overrides::default() };
    Side::new(scenario, vec![setting.to_owned()], &over).unwrap()
}

fn sides() -> [Side; 2] {
    ["tasks.boss.run=3000", "tasks.boss.run=5000"].map(side)
}

fn asking(seeds: u64, jobs: usize) -> Asking {
    Asking { seeds, jobs, ..Asking::default() }
}

/// A closure that returns `true` at the call of this number.
fn at_call(number: usize) -> impl Fn() -> bool + Sync {
    let calls = AtomicUsize::new(0);
    move || calls.fetch_add(1, Ordering::Relaxed) + 1 >= number
}

#[test]
fn a_story_is_a_text_and_a_document_of_the_same_wake_up() {
    let scenario = scenario(SHORT);
    let at = Some(runyard_workload::moment("0.5s").unwrap());
    let web = |at| Question::Task { name: "web".to_owned(), at };
    for question in [web(None), web(at), Question::Chain("both".to_owned())] {
        let story = explain(&scenario, 3, &question, &|| false).unwrap().unwrap();
        let document: serde_json::Value = serde_json::from_str(&story.to_json()).unwrap();
        assert_eq!(document, serde_json::to_value(&story).unwrap());
        assert_eq!(document["task"], story.task());
        assert_eq!(document["worst"]["latency_ns"], story.explanation().worst.latency_ns);
        let began = ["was", "left"].map(|did| format!("{} {did} ", story.task()));
        let tells = |line: &str| began.iter().any(|began| line.starts_with(began));
        assert!(story.text().lines().any(tells), "{}", story.text());
        assert_eq!(document.get("chain").is_some(), matches!(question, Question::Chain(_)));
    }
}

#[test]
fn an_explanation_is_stopped_or_refused() {
    let long = scenario(&SHORT.replace("\"duration\": 1", "\"duration\": 20"));
    for question in
        [Question::Task { name: "web".to_owned(), at: None }, Question::Chain("both".to_owned())]
    {
        let calls = AtomicUsize::new(0);
        let count = || calls.fetch_add(1, Ordering::Relaxed) == usize::MAX;
        assert!(explain(&long, 1, &question, &count).unwrap().is_some());
        let calls = calls.into_inner();
        assert!(calls > 3, "each of the runs asks: {calls}");
        for call in 1..=calls {
            let stopped = explain(&long, 1, &question, &at_call(call));
            assert!(matches!(stopped, Ok(None)), "{call} of {calls}: {stopped:?}");
        }
    }
    let refused = |question: &Question| {
        let Err(Failure::Input(what)) = explain(&scenario(SHORT), 1, question, &|| false) else {
            panic!("{question:?} is refused")
        };
        what
    };
    let near = refused(&Question::Task { name: "bos".to_owned(), at: None });
    assert_eq!(near, "explain: no task is called \"bos\"; did you mean \"boss\"?");
    let near = refused(&Question::Chain("bothe".to_owned()));
    assert_eq!(near, "explain: no chain is called \"bothe\"; did you mean \"both\"?");
}

#[test]
fn any_number_of_threads_compares_alike_and_tells_each_run() {
    let compared = |jobs| {
        let mut told = Vec::new();
        let compared =
            compare(&sides(), &asking(8, jobs), &|| false, |done| told.push(done)).unwrap();
        assert_eq!(told, (1..=16).collect::<Vec<_>>());
        assert_eq!(compared.pairs, 8);
        compared.comparison.unwrap()
    };
    let (one, three) = (compared(1), compared(3));
    assert_eq!((one.text(), one.html()), (three.text(), three.html()));
    assert_eq!(one.reports().map(|report| report.seed), [1, 1]);
    let boss = one.text();
    assert!(boss.contains("differs: tasks.boss.run=3000 -> tasks.boss.run=5000\n8 seeds a side"));
}

#[test]
fn of_a_comparison_that_is_stopped_the_complete_pairs_count() {
    // `stop` is called before each run.
    for (call, pairs) in [(1, 0), (2, 0), (4, 1), (7, 3)] {
        let stopped = compare(&sides(), &asking(8, 1), &at_call(call), |_| {}).unwrap();
        assert_eq!(stopped.pairs, pairs, "{call}");
        let seeds = stopped.comparison.map(|it| it.text().contains(&format!("\n{pairs} seeds")));
        assert_eq!(seeds, (pairs > 0).then_some(pairs > 1), "{call}");
    }
}

#[test]
fn scenarios_and_reports_are_not_taken_for_each_other() {
    let [one, two] = compare(&sides(), &asking(1, 1), &|| false, |_| {})
        .unwrap()
        .comparison
        .map(|it| it.reports().map(Clone::clone))
        .unwrap();
    let saved = |report: &runyard_report::Report, file: &str| {
        let mut json = Vec::new();
        report.write_json(&mut json).unwrap();
        Text { file: file.to_owned(), text: String::from_utf8(json).unwrap() }
    };
    let (one, two) = (saved(&one, "one.json"), saved(&two, "two.json"));
    assert!(Comparison::of_reports(&one, &two).unwrap().text().contains("One run each"));
    let said = |result: Result<(), Failure>| match result {
        Err(Failure::Input(what)) => what,
        other => panic!("{other:?}"),
    };
    let scenario = Text { file: "short.json".to_owned(), text: SHORT.to_owned() };
    let what = said(Comparison::of_reports(&one, &scenario).map(drop));
    assert!(what.starts_with("short.json:1:1: no report but a scenario"), "{what}");
    let what = said(Side::new(one, Vec::new(), &Overrides::default()).map(drop));
    assert!(what.starts_with("one.json:1:1: a report"), "{what}");
}

#[test]
fn what_is_asked_for_is_judged_and_nothing_else() {
    let judged = |metrics: &[&str]| {
        let metrics = metrics.iter().map(|it| it.parse().unwrap()).collect();
        let asking = Asking { metrics, ..asking(8, 2) };
        compare(&sides(), &asking, &|| false, |_| {}).unwrap().comparison.unwrap()
    };
    let usual = judged(&[]);
    let names: Vec<&str> = usual.changes().judged().iter().map(|it| &*it.metric).collect();
    let shares = ["share(tasks.boss)", "share(tasks.web)", "share(tasks.end)"];
    assert_eq!(names, [&["p99(chains.both.latency)"], &shares[..]].concat());
    assert!(usual.text().contains("\nmachine "), "all figures follow");
    let one = judged(&["share(tasks.boss)"]);
    let [boss] = one.changes().judged() else { panic!("one is asked for") };
    assert_eq!((boss.verdict, boss.p), (Some(Verdict::Change), Some(1.0 / 128.0)), "uncorrected");
    assert!(!one.text().contains("\nmachine "), "it is the only one");
    let document: serde_json::Value = serde_json::from_str(&one.to_json()).unwrap();
    assert_eq!(document["judged"][0]["verdict"], "change");
    assert_eq!(document["judged"][0]["unit"], "percent");
    assert_eq!((&document["schema"], &document["seeds"]), (&"runyard.compare/1".into(), &8.into()));
    let metrics = vec!["share(tasks.bos)".parse().unwrap()];
    let wrong = compare(&sides(), &Asking { metrics, ..asking(8, 2) }, &|| false, |_| {});
    let Err(Failure::Input(what)) = wrong else { panic!("there is no such task") };
    assert_eq!(
        what,
        "share(tasks.bos): the scenario's tasks have no \"bos\"; did you mean \"boss\"?"
    );
}
