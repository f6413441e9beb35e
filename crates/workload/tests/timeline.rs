//! The meaning of the section `timeline`.

use runyard_workload::scenario::TimedChange;
use runyard_workload::{Overrides, Scenario, parse};

/// Returns the scenario with these changes.
fn scenario(timeline: &str) -> Scenario {
    scenario_set(timeline, &[])
}

fn scenario_set(timeline: &str, settings: &[&str]) -> Scenario {
    let text = format!(
        "{{'timeline': [{timeline}], 'machine': {{'cpus': 2}},
          'groups': {{'/a': {{'runtime': 50000, 'burst': 20000}}, '/b': {{}}}},
          'tasks': {{
              'a': {{'loop': 1, 'run': 1}}, 'two': {{'instance': 2, 'loop': 1, 'run': 1}},
              'rt': {{'policy': 'SCHED_FIFO', 'loop': 1, 'run': 1}},
              'template': {{'instance': 0, 'loop': 1, 'run': 1}}}}}}"
    );
    let settings = settings.iter().map(|setting| setting.parse().unwrap()).collect();
    let over = Overrides { settings, ..Overrides::default() };
    let parsed = parse("-", &text, &over).unwrap_or_else(|error| panic!("{error}"));
    assert!(parsed.warnings.is_empty(), "{:?}", parsed.warnings);
    parsed.scenario
}

/// Returns the times of the changes, and their words.
fn words(timeline: &str) -> Vec<String> {
    let scenario = scenario(timeline);
    let timed = scenario.timeline.iter();
    timed.map(|it| format!("{} {}", it.at.0 / 1_000, scenario.in_words(&it.change))).collect()
}

#[test]
fn changes_are_in_the_order_of_their_times_then_of_the_file() {
    let timeline =
        "{'at': 5, 'stop': 'two'}, {'at': 3, 'cpu': 1, 'online': false}, {'at': 5, 'start': 'two'},
        {'at': 0, 'group': '/b', 'weight': 300}, {'at': 4, 'cpu': 1, 'online': true}";
    let expected =
        ["0 /b: weight 300", "3 CPU 1 offline", "4 CPU 1 online", "5 stop two", "5 start two"];
    assert_eq!(words(timeline), expected);
}

#[test]
fn a_limit_keeps_what_a_change_does_not_say() {
    let timeline = "{'at': 1, 'group': '/a', 'period': 200000}, {'at': 2, 'group': '/a', 'runtime': 30000},
        {'at': 3, 'group': '/a', 'runtime': -1}, {'at': 4, 'group': '/a', 'runtime': 40000, 'weight': 7},
        {'at': 5, 'group': '/b', 'runtime': 3000}";
    assert_eq!(
        words(timeline),
        [
            "1 /a: 50000 us in 200000 us",
            "2 /a: 30000 us in 200000 us",
            "3 /a: no limit",
            "4 /a: weight 7, 40000 us in 200000 us",
            "5 /b: 3000 us in 100000 us",
        ]
    );
    let bursts = scenario(timeline).timeline.into_iter().filter_map(|timed| match timed.change {
        TimedChange::Group { change, .. } => Some(change.limit??.burst().0),
        _ => None,
    });
    assert_eq!(bursts.collect::<Vec<_>>(), [20_000_000, 20_000_000, 20_000_000, 0]);
}

#[test]
fn a_priority_belongs_to_the_policy_before() {
    let timeline =
        "{'at': 1, 'task': 'rt', 'priority': 40}, {'at': 2, 'task': 'a', 'priority': -5},
        {'at': 3, 'task': 'a', 'policy': 'SCHED_RR'}, {'at': 4, 'task': 'a', 'priority': 7},
        {'at': 5, 'task': 'two', 'cpus': [1], 'latency_nice': -9, 'slice': 3000}";
    assert_eq!(
        words(timeline),
        [
            "1 rt: SCHED_FIFO 40",
            "2 a: SCHED_OTHER -5",
            "3 a: SCHED_RR 10",
            "4 a: SCHED_RR 7",
            "5 two: CPUs 1, latency nice -9, slice 3000 us",
        ]
    );
}

#[test]
fn what_starts_first_begins_later() {
    let timeline = "{'at': 1, 'start': 'a'}, {'at': 1, 'stop': 'two'}, {'at': 2, 'start': 'two'},
        {'at': 2, 'stop': 'template'}, {'at': 3, 'stop': 'template'}";
    let scenario = scenario(timeline);
    let ids = (0..).map(runyard_workload::scenario::SpecId).take(scenario.tasks.len());
    let later: Vec<_> = ids.map(|id| scenario.begins_later(id)).collect();
    assert_eq!(later, [true, false, false, false]);
}

#[test]
fn settings_move_and_extend_changes() {
    let timeline = "{'at': 1, 'group': '/a', 'weight': 3}, {'at': 2, 'start': 'two'}";
    let settings = ["timeline.0.at=7", "timeline.0.weight=5", "timeline.0.runtime=60000"];
    let timed = scenario_set(timeline, &settings).timeline;
    assert_eq!(timed.iter().map(|it| it.at.0 / 1_000).collect::<Vec<_>>(), [2, 7]);
    let scenario = scenario_set(timeline, &settings);
    let words = scenario.in_words(&scenario.timeline[1].change);
    assert_eq!(words, "/a: weight 5, 60000 us in 100000 us");
}

#[test]
fn a_host_on_real_cpus_refuses_changes() {
    let text = "{'timeline': [{'at': 1, 'stop': 'a'}], 'tasks': {'a': {'loop': 1, 'run': 1}}}";
    let over = Overrides { real_cores: true, ..Overrides::default() };
    let error = parse("-", text, &over).unwrap_err().to_string();
    assert!(error.starts_with("-:1:15: a `timeline` is for `sim` alone"), "{error}");
}
