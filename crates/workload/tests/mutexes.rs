//! The kinds of mutexes.

use runyard_workload::scenario::MutexKind::{self, Barge, HandOver, Inherit};
use runyard_workload::{Overrides, Parsed, parse};

/// Returns a scenario with three mutexes and these further sections.
fn parsed(sections: &str) -> Parsed {
    let tasks = "'tasks': {'t': {'loop': 1, 'lock': 'a', 'lock1': 'b', 'wait': {'mutex': 'c'}}}";
    parse("f", &format!("{{{tasks}, {sections}}}"), &Overrides::default()).unwrap()
}

fn kinds(sections: &str) -> Vec<MutexKind> {
    let parsed = parsed(sections);
    assert_eq!(parsed.warnings, []);
    parsed.scenario.objects.mutexes.iter().map(|&(_, kind)| kind).collect()
}

#[test]
fn a_mutex_is_as_in_rt_app_unless_it_is_listed() {
    assert_eq!(kinds(""), [Barge, Barge, Barge]);
    assert_eq!(kinds("'global': {'pi_enabled': false}"), [Barge, Barge, Barge]);
    assert_eq!(kinds("'global': {'pi_enabled': true}"), [Inherit, Inherit, Inherit]);
    let listed = "'mutexes': {'b': 'hand_over', 'c': 'barge'}, 'global': {'pi_enabled': true}";
    assert_eq!(kinds(listed), [Inherit, HandOver, Barge]);
    assert_eq!(kinds("'mutexes': {'a': 'inherit'}"), [Inherit, Barge, Barge]);
}

#[test]
fn a_listed_mutex_that_no_task_has_is_warned_about() {
    let said: Vec<_> = parsed("'mutexes': {'d': 'barge'}").warnings;
    let said: Vec<_> = said.iter().map(ToString::to_string).collect();
    assert_eq!(said, [r#"f:1:94: no task has a mutex called "d""#]);
}
