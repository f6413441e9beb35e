//! Cookies: their names and numbers, and how they are inherited, changed and cleared.

use runyard_engine::attr::{Attr, Cookie, GroupId};
use runyard_engine::cpu::CpuSet;
use runyard_workload::cpusets::Cpusets;
use runyard_workload::scenario::{TaskAttr, TaskSpec};
use runyard_workload::{Overrides, Parsed, parse};

fn parsed(text: &str) -> Parsed {
    let text = text.replace("'tasks'", "'global': {'duration': 1}, 'tasks'");
    parse("-", &text, &Overrides::default()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn cookies_are_numbered_as_they_are_named_and_hold_until_a_phase_says_otherwise() {
    let text = "{'machine': {'topology': '1x1x2'}, \
        'tasks': {'a': {'loop': 1, 'cookie': 'web', 'phases': {'p': {'run': 1}, \
            'q': {'cookie': 'db ü', 'run': 1}, 'r': {'run': 1}, 's': {'cookie': '', 'run': 1}, \
            't': {'run': 1}, 'u': {'cookie': 'web', 'run': 1}}}}, \
        'groups': {'/x': {'cookie': ''}, '/y': {'cookie': 'db ü'}}}";
    let parsed = parsed(text);
    assert!(parsed.warnings.is_empty(), "{:?}", parsed.warnings);
    let scenario = parsed.scenario;
    assert_eq!(scenario.cookies, ["db ü", "web"], "groups are read first");
    let groups = scenario.groups.iter().map(|group| group.spec.cookie.map(Cookie::get));
    assert_eq!(groups.collect::<Vec<_>>(), [None, None, Some(1)]);

    let (task, cpusets) = (&scenario.tasks[0], Cpusets::all_of(CpuSet::first(2)));
    let mut attr = task.first_attr(&cpusets);
    assert_eq!(attr.cookie, Cookie::new(2));
    let had = task.phases.iter().map(|phase| {
        attr = task.attr_in(phase, &attr, None, &cpusets);
        attr.cookie.map(|cookie| scenario.cookie_name(cookie))
    });
    let (web, db) = (Some("web"), Some("db ü"));
    assert_eq!(had.collect::<Vec<_>>(), [web, db, db, None, None, web]);
}

#[test]
fn a_forked_task_has_its_parents_cookie_unless_its_thread_says_otherwise() {
    let text = "{'tasks': {'parent': {'cookie': 'first', 'run': 1}, 'plain': {'run': 1}, \
         'resets': {'reset_on_fork': true, 'run': 1}, 'own': {'cookie': 'own', 'run': 1}, \
         'none': {'cookie': '', 'run': 1}, 'late': {'phases': {\
             'p': {'cookie': 'late', 'run': 1}, 'q': {'cookie': 'own', 'run': 1}}}}}";
    let scenario = parsed(text).scenario;
    let [parent, plain, resets, own, none, late] = &scenario.tasks[..] else { panic!() };
    let all = CpuSet::first(8);
    let cpusets = Cpusets::all_of(all.clone());
    let attr = Attr { cookie: Cookie::new(3), ..Attr::normal(all.clone()) };
    let asked = TaskAttr { attr, ..TaskAttr::normal(all.clone()) };
    let forked = |task: &TaskSpec, by: &TaskSpec| {
        let cookie = task.forked_attr(&cpusets, by, &asked).cookie;
        cookie.map(|cookie| scenario.cookie_name(cookie))
    };
    assert_eq!(scenario.cookies, ["first", "own", "late"]);
    assert_eq!(forked(plain, parent), Some("late"), "the parent's last attributes");
    assert_eq!(forked(plain, resets), Some("late"), "whatever else is reset");
    assert_eq!(forked(own, parent), Some("own"));
    assert_eq!(forked(late, plain), Some("late"));
    assert_eq!((forked(none, parent), forked(none, resets)), (None, None));
}

#[test]
fn a_task_without_a_cookie_has_that_of_the_nearest_group_that_has_one() {
    let text = "{'tasks': {'a': {'loop': 1, 'taskgroup': '/a/none/made', 'run': 1}}, \
        'groups': {'/a/b': {'cookie': 'b'}, '/a': {'cookie': 'a'}, '/a/none': {'cookie': ''}, '/c': {}}}";
    let scenario = parsed(text).scenario;
    let of = |own: Option<u32>, path: &str| {
        let group = scenario.groups.iter().position(|group| group.path == path).unwrap();
        let cookie = scenario.cookie_of(own.and_then(Cookie::new), GroupId(group as u32));
        cookie.map(|cookie| scenario.cookie_name(cookie))
    };
    for (path, cookie) in [("/a", Some("a")), ("/a/b", Some("b")), ("/a/none/made", Some("a"))] {
        assert_eq!((of(None, path), of(Some(1), path)), (cookie, Some("b")), "{path}");
    }
    assert_eq!((of(None, "/"), of(None, "/c"), of(Some(2), "/c")), (None, None, Some("a")));
}

#[test]
fn cookies_are_warned_about_where_no_core_has_two_threads() {
    let warnings = |machine: &str, asked: &str, real_cores| {
        let text = format!(
            r#"{{"machine": {{{machine}}}, "tasks": {{"a": {{"loop": 1, {asked}"run": 1}}}}}}"#
        );
        let parsed = parse("-", &text, &Overrides { real_cores, ..Overrides::default() }).unwrap();
        parsed.warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let (flat, asked) = (r#""cpus": 2"#, r#""cookie": "a", "#);
    let what = "-:1:63: no core has two threads, so cookies have no effect";
    assert_eq!(warnings(flat, asked, false), [what]);
    assert_eq!(warnings(r#""topology": "1x2x2""#, asked, false), [""; 0]);
    assert_eq!(warnings(flat, r#""cookie": "", "#, false), [""; 0], "none is asked for");
    assert_eq!(warnings(flat, asked, true), [""; 0], "the real cores are not known");
}
