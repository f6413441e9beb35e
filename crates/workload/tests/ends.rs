//! The scenarios that end, and those in which time passes. `tests/bad` has the cases that must be refused, and this
//! file the cases that must be accepted.

use runyard_engine::time::Nanos;
use runyard_workload::{Overrides, parse};

#[test]
fn a_resume_of_what_is_never_suspended_is_told_with_its_place() {
    let said = |tasks: &str| {
        let parsed =
            parse("f", &format!("{{'tasks': {{{tasks}}}}}"), &Overrides::default()).unwrap();
        parsed.warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let told = said("'a': {'loop': 1, 'resume': 'b', 'resume1': 'c'}, 'b': {'loop': 1, 'run': 1}");
    let expected = [
        r#"f:1:39: no task called "b" is ever suspended"#,
        r#"f:1:55: no task called "c" is ever suspended"#,
    ];
    assert_eq!(told, expected);
    assert_eq!(said("'a': {'loop': 1, 'resume': 'b'}, 'b': {'loop': 1, 'suspend': ''}"), [""; 0]);
}

fn accept(text: &str, over: &Overrides) {
    if let Err(error) = parse("-", text, over) {
        panic!("{error}\n{text}");
    }
}

#[test]
fn a_loop_for_ever_may_have_any_step_that_may_take_time() {
    for step in [
        "'run': 1",
        "'runtime': {'exponential': 1}",
        "'sleep': {'uniform': [0, 1]}",
        "'run': {'normal': [0, 1]}",
        "'timer': {'ref': 't', 'period': 1}",
        "'mem': 1",
        "'iorun': 1",
        "'memrun': {'type': 'chase', 'size': 1, 'count': 1}",
        "'lock': 'm', 'unlock': 'm'",
        "'wait': {'ref': 'c', 'mutex': 'm'}",
        "'sync': {'ref': 'c', 'mutex': 'm'}",
        "'sem_wait': 's'",
        "'suspend': ''",
        "'send': {'ref': 'p', 'bytes': 1}",
        "'recv': {'ref': 'p', 'bytes': 1}",
        "'yield': '', 'exit': ''",
    ] {
        let text = format!("{{'tasks': {{'a': {{{step}}}}}, 'global': {{'duration': 1}}}}");
        accept(&text, &Overrides::default());
    }
    let barrier = "{'tasks': {'a': {'instance': 2, 'barrier': 'b'}}, 'global': {'duration': 1}}";
    accept(barrier, &Overrides::default());
}

#[test]
fn a_loop_for_ever_may_have_phases_that_take_no_time() {
    let phases = "'phases': {'p': {'loop': 9, 'yield': ''}, 'q': {'run': 1}}";
    let text = format!("{{'tasks': {{'a': {{{phases}}}}}, 'global': {{'duration': 1}}}}");
    accept(&text, &Overrides::default());
}

#[test]
fn a_duration_of_the_command_line_ends_what_does_not_end() {
    let over = Overrides { duration: Some(Nanos::from_millis(1)), ..Overrides::default() };
    let text = "{'tasks': {'a': {'run': 1}}, 'global': {'duration': 5}}";
    let parsed = parse("-", text, &over).unwrap();
    assert_eq!(parsed.scenario.duration, over.duration);
    accept("{'tasks': {'a': {'run': 1}}}", &over);
}

#[test]
fn a_scenario_that_ends_needs_no_duration() {
    for tasks in [
        "'a': {'loop': 5, 'run': 1}",
        "'a': {'run': 1, 'exit': ''}",
        "'a': {'phases': {'p': {'run': 1}, 'q': {'loop': -1, 'sleep': 1, 'exit': ''}}}",
        "'a': {'loop': 0, 'phases': {'p': {'loop': -1, 'run': 1}}}",
        // A task that is never forked does not matter, and neither do steps after an exit.
        "'a': {'loop': 1, 'run': 1}, 'b': {'instance': 0, 'run': 1}",
        "'a': {'loop': 1, 'run': 1, 'exit': '', 'fork': 'b'}, 'b': {'instance': 0, 'run': 1}",
        // Forks in a circle that never runs.
        "'a': {'loop': 1, 'fork': 'b', 'fork': 'b', 'fork': 'c'}, \
         'b': {'instance': 0, 'loop': 1, 'fork': 'c'}, 'c': {'instance': 0, 'loop': 1, 'run': 1}",
    ] {
        accept(&format!("{{'tasks': {{{tasks}}}}}"), &Overrides::default());
    }
}

#[test]
fn forks_for_ever_need_time_and_a_duration() {
    for members in ["'sleep': 1, 'fork': 'a'", "'fork': 'a', 'run': 1", "'delay': 1, 'fork': 'a'"] {
        let text =
            format!("{{'tasks': {{'a': {{'loop': 1, {members}}}}}, 'global': {{'duration': 1}}}}");
        accept(&text, &Overrides::default());
    }
}

#[test]
fn a_duration_may_be_a_text_with_a_unit() {
    let text = "{'global': {'duration': '250us'}, 'tasks': {'a': {'run': 1}}}";
    let parsed = parse("-", text, &Overrides::default()).unwrap();
    assert_eq!(parsed.scenario.duration, Some(Nanos::from_micros(250)));
}
