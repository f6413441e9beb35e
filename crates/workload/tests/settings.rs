//! A setting has the meaning of the same edit of the text. An error of a setting is reported with it.

use jsonc_parser::ast::{self, Value};
use jsonc_parser::common::{Range, Ranged};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use proptest::prelude::*;
use runyard_workload::setting::Setting;
use runyard_workload::{Diagnostic, Overrides, Parsed, Place, parse};

/// A scenario with all elements of the language.
const RICH: &str = r#"// All elements.
{
  "machine": {"cpus": 4, "topology": "2x2", "tick_hz": 250, "costs": {"ipi_ns": 5, "jitter_ns": 2}},
  "scheduler": {"latency_us": 3000, "rr_timeslice_ms": 20},
  "features": ["NO_RT_PULL", "RT_PUSH"], "mutexes": {"m": "inherit"},
  "chains": {"frame": {"tasks": ["first.one", "template"], "deadline_us": 9}, "press": ["second"]},
  "groups": {"/": {}, "/web": {"weight": 512, "runtime": 50000}, "/web/api": {}},
  "global": {"duration": 1, "default_policy": "SCHED_RR", "pi_enabled": true, "logdir": "./"},
  "tasks": {
    "first.one": {
      "instance": 2, "delay": {"uniform": [1, 5]}, "loop": 3, "cpus": [0, 3], "priority": 4,
      "phases": {
        "p": {"loop": 2, "policy": "SCHED_FIFO", "run": 1, "run": 2, "barrier": "b", "fork": "template"},
        'q': {"loop": -1, "group": "/web/api", "timer": {"ref": "t", "period": 10}, "runtime7": 5},
      },
    },
    "second": {
      "policy": "SCHED_BATCH", "taskgroup": "/db", "timer_slack": 10, /* us */
      "lock": "m", "wait": {"ref": "c", "mutex": "m"}, "unlock": "m", "suspend": "second",
      "send": {"ref": "pipe", "bytes": 5, "capacity": 3}, "recv": {"ref": "pipe", "bytes": 5},
      "sleep": {"normal": [5, 1]}, "run": {"exponential": 5}, "resume": "second", "run": 7,
      "memrun": {"type": "chase", "size": 9, "count": 5, "ref": "b"}, "yield": "",
    },
    "template": {"instance": 0, "loop": 1, "policy": "SCHED_IDLE", "run": 1, "exit": 0},
  },
}
"#;

fn set(text: &str, settings: &[&str]) -> Result<Parsed, Diagnostic> {
    let settings = settings
        .iter()
        .map(|text| text.parse::<Setting>().unwrap_or_else(|error| panic!("{error}")));
    parse("-", text, &Overrides { settings: settings.collect(), ..Overrides::default() })
}

/// Returns the result of reading a text with settings: the scenario or the error.
fn outcome(text: &str, settings: &[&str]) -> Result<String, String> {
    set(text, settings)
        .map(|parsed| format!("{:?}", parsed.scenario))
        .map_err(|error| error.what.split(" (with --set").next().unwrap().to_owned())
}

fn error(text: &str, settings: &[&str]) -> String {
    set(text, settings).expect_err("it is wrong").to_string()
}

/// Returns every value below the top level, with its path and its range in the text.
fn values(text: &str) -> Vec<(String, Range)> {
    fn below(value: &Value<'_>, path: &str, all: &mut Vec<(String, Range)>) {
        let dot = if path.is_empty() { "" } else { "." };
        match value {
            Value::Object(ast::Object { properties, .. }) => {
                for (at, property) in properties.iter().enumerate() {
                    let key = property.name.as_str();
                    let before = &properties[..at];
                    let nth = 1 + before.iter().filter(|it| it.name.as_str() == key).count();
                    let nth = if nth > 1 { format!("#{nth}") } else { String::new() };
                    below(&property.value, &format!("{path}{dot}{key:?}{nth}"), all);
                }
            }
            Value::Array(ast::Array { elements, .. }) => {
                for (at, element) in elements.iter().enumerate() {
                    below(element, &format!("{path}{dot}{at}"), all);
                }
            }
            _ => {}
        }
        if !path.is_empty() {
            all.push((path.to_owned(), value.range()));
        }
    }
    let ast = parse_to_ast(text, &CollectOptions::default(), &ParseOptions::default()).unwrap();
    let mut all = Vec::new();
    below(&ast.value.unwrap(), "", &mut all);
    all
}

fn edited(text: &str, range: Range, value: &str) -> String {
    [&text[..range.start], value, &text[range.end..]].concat()
}

/// Returns whether the path is one of the two keys with the size of the machine. A setting of one adapts the other.
fn says_the_size(path: &str) -> bool {
    path.contains("\"cpus\"") && path.starts_with("\"machine\"") || path.ends_with("\"topology\"")
}

#[test]
fn a_value_that_is_set_to_itself_changes_nothing() {
    let all = values(RICH);
    assert!(all.len() > 80, "{}", all.len());
    for (path, range) in all {
        let setting = format!("{path}={}", &RICH[range.start..range.end]);
        assert_eq!(outcome(RICH, &[&setting]), outcome(RICH, &[]), "{setting}");
    }
}

/// The values that settings use.
const VALUES: [&str; 16] = [
    "1",
    "0",
    "-1",
    "300",
    "true",
    "null",
    "\"SCHED_FIFO\"",
    "\"/web\"",
    "\"2x2\"",
    "\"6.6\"",
    "[0, 1]",
    "[]",
    "{\"uniform\": [3, 4]}",
    "{}",
    "{\"run\": 5, \"loop\": 1}",
    "\"template\"",
];

fn cases() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_setting_is_an_edit_of_the_text(
        at in any::<prop::sample::Index>(), value in prop::sample::select(&VALUES[..]),
        also in any::<prop::sample::Index>(), other in prop::sample::select(&VALUES[..]),
    ) {
        let all = values(RICH);
        let (path, range) = at.get(&all);
        let setting = format!("{path}={value}");
        let text = edited(RICH, *range, value);
        prop_assume!(!says_the_size(path));
        prop_assert_eq!(outcome(RICH, &[&setting]), outcome(&text, &[]), "{}", setting);
        // A second setting, of a value that exists after the first.
        let all = values(&text);
        let (path, range) = also.get(&all);
        prop_assume!(!says_the_size(path));
        let second = format!("{path}={other}");
        let twice = edited(&text, *range, other);
        prop_assert_eq!(outcome(RICH, &[&setting, &second]), outcome(&twice, &[]), "{} {}", setting, second);
    }

    #[test]
    fn any_path_is_found_or_refused(
        segments in prop::collection::vec(prop::sample::select(&[
            "tasks", "second", "\"first.one\"", "phases", "p", "run", "run#2", "wait", "mutex", "machine", "costs",
            "ipi_ns", "smt", "busy_speed", "scheduler", "base_slice_us", "groups", "/web", "weight", "0", "1", "9",
            "features", "global", "duration", "x", "\"\"", "mutexes", "m", "uniform", "instance",
        ][..]), 1..6),
        value in prop::sample::select(&VALUES[..]),
    ) {
        let setting = format!("{}={value}", segments.join("."));
        if let Err(error) = set(RICH, &[&setting]) {
            prop_assert!(!error.what.is_empty());
            let place = error.place.to_string();
            let is_told = place.starts_with("--set ") || error.what.contains("(with --set ");
            prop_assert!(is_told, "{setting}: {error}");
        }
    }

    #[test]
    fn any_text_is_a_setting_or_none(text in "[a-z.\"#0-9=\\\\ä{}]{0,20}") {
        if let Ok(setting) = text.parse::<Setting>() {
            prop_assert_eq!(setting.to_string().parse(), Ok(setting));
        }
    }
}

const PLAIN: &str = r#"{
  "groups": {"/web": {"runtime": 50000}}, "chains": {"frame": {"tasks": ["web", "render"]}},
  "tasks": {
    "web": {"instance": 2, "timer": {"ref": "t", "period": 900}, "run": 100, "group": "/web", "run": {"uniform": [100, 200]}, "sem_post": "s"},
    "render": {"phases": {"p0": {"run": 5, "sleep": 10, "sem_wait": "s"}, "p1": {"yield", }}, "loop": 1}
  },
  "global": {"duration": 1}
}"#;

/// An index of the file finds the members of large objects. Edits must not mislead it.
#[test]
fn settings_of_many_members_are_edits_too() {
    let task = |nth: usize, run: &str| format!("\"t{nth}\": {{\"loop\": 1, \"run\": {run}}},\n");
    let events: String = (0..150).map(|nth| format!("\"run\": {nth}, ")).collect();
    let many = |runs: &dyn Fn(usize) -> String, events: &str| {
        let tasks: String = (0..200).map(|nth| task(nth, &runs(nth))).collect();
        format!("{{\"tasks\": {{{tasks} \"e\": {{\"loop\": 1, {events}}}}}}}")
    };
    let text = many(&|_| "1".to_owned(), &events);
    let settings = [
        "tasks.t150.run=22222",
        "tasks.t70={\"loop\": 1, \"run\": 333}",
        "machine.cpus=3",
        "tasks.e.run#120=4444",
        "tasks.t199.run=5",
        "tasks.t70.run=7",
        "tasks.e.latency_nice=3",
        "tasks.e.run#150=1",
        "tasks.t3.run=8",
    ];
    let runs = |nth: usize| match nth {
        150 => "22222".to_owned(),
        199 => "5".to_owned(),
        70 => "7".to_owned(),
        3 => "8".to_owned(),
        _ => "1".to_owned(),
    };
    let events =
        events.replace("\"run\": 119,", "\"run\": 4444,").replace("\"run\": 149,", "\"run\": 1,");
    let edited = many(&runs, &format!("\"latency_nice\": 3, {events}"));
    let edited = edited.replacen('{', "{\"machine\": {\"cpus\": 3}, ", 1);
    assert_eq!(outcome(&text, &settings), outcome(&edited, &[]));
    // This setting replaces all of them, so that none is a part of the file.
    let tasks = format!("tasks={}", &edited[edited.find("{\"t0\"").unwrap()..edited.len() - 1]);
    let again = [&tasks, "tasks.t180.run=9", "tasks.t181.run=9"];
    let expected =
        edited.replace(&task(180, "1"), &task(180, "9")).replace(&task(181, "1"), &task(181, "9"));
    assert_eq!(outcome(&edited, &again), outcome(&expected, &[]));
    assert!(
        error(&text, &["tasks.t150.run=2", "tasks.t500.run=5"])
            .contains("no task is called \"t500\"")
    );
}

/// Valid settings, with their effect on the text.
#[test]
fn known_keys_that_are_absent_are_added() {
    for (setting, old, new) in [
        ("tasks.web.latency_nice=-5", "\"instance\": 2", "\"instance\": 2, \"latency_nice\": -5"),
        (
            "tasks.web.timer.mode=absolute",
            "\"ref\": \"t\"",
            "\"ref\": \"t\", \"mode\": \"absolute\"",
        ),
        ("tasks.web.loop=4", "\"instance\": 2", "\"instance\": 2, \"loop\": 4"),
        ("groups./web.period=80000", "50000", "50000, \"period\": 80000"),
        (
            "machine.costs.ipi_ns=7",
            "\"global\"",
            "\"machine\": {\"costs\": {\"ipi_ns\": 7}}, \"global\"",
        ),
        (
            "scheduler.latency_us=5000",
            "\"global\"",
            "\"scheduler\": {\"latency_us\": 5000}, \"global\"",
        ),
        (
            "machine.smt.busy_speed=0.5",
            "\"global\"",
            "\"machine\": {\"smt\": {\"busy_speed\": 0.5}}, \"global\"",
        ),
        ("features=[\"NO_RT_PULL\"]", "\"global\"", "\"features\": [\"NO_RT_PULL\"], \"global\""),
        ("tasks.web.run#2.uniform.1=300", "200]", "300]"),
        (
            "tasks.web.run#2={\"exponential\": 5}",
            "{\"uniform\": [100, 200]}",
            "{\"exponential\": 5}",
        ),
        ("tasks.render.phases.p1.yield=x", "\"yield\"", "\"yield\": \"x\""),
        ("tasks.render.phases.p1={\"run\": 3}", "{\"yield\", }", "{\"run\": 3}"),
        ("global.duration=9", "\"duration\": 1", "\"duration\": 9"),
        ("chains.frame.deadline_us=12000", "\"render\"]", "\"render\"], \"deadline_us\": 12000"),
        ("chains.frame=[\"web\"]", "{\"tasks\": [\"web\", \"render\"]}", "[\"web\"]"),
    ] {
        assert!(PLAIN.contains(old), "{old}");
        let edited = outcome(&PLAIN.replace(old, new), &[]);
        assert!(edited.is_ok(), "{edited:?}");
        assert_eq!(outcome(PLAIN, &[setting]), edited, "{setting}");
    }
}

#[test]
fn wrong_paths_are_refused_with_the_nearest_right_one() {
    for (setting, what) in [
        ("tasks.web.rum=5", "\"rum\" is not known in tasks.web; did you mean tasks.web.run?"),
        ("tasks.wbe.run=5", "no task is called \"wbe\"; did you mean tasks.web.run?"),
        (
            "groups./we.runtime=5",
            "no task group is called \"/we\"; did you mean groups./web.runtime?",
        ),
        ("tasks.web.sleep=5", "\"sleep\" is not known in tasks.web"),
        ("tasks.web.run#3=5", "tasks.web has \"run\" only 2 times, and no number 3"),
        (
            "tasks.render.run=5",
            "\"run\" is not known in tasks.render; did you mean tasks.render.phases.p0.run?",
        ),
        ("tasks.web.phases.p0.run=5", "no phase is called \"p0\""),
        (
            "base_slice_us=5",
            "\"base_slice_us\" is not known in the scenario; did you mean scheduler.base_slice_us?",
        ),
        ("web.run=5", "\"web\" is not known in the scenario; did you mean tasks.web.run?"),
        (
            "machine.costs.ipi=5",
            "\"ipi\" is not known in machine.costs; did you mean machine.costs.ipi_ns?",
        ),
        ("machine.core=5", "\"core\" is not known in machine; known are"),
        (
            "scheduler.slice_us=5",
            "\"slice_us\" is not known in scheduler; did you mean scheduler.base_slice_us?",
        ),
        ("tasks.web.run.uniform=5", "tasks.web.run is 100: it has no \"uniform\""),
        ("tasks.web.run#2.uniform.2=5", "tasks.web.run#2.uniform is a list of 2, counted from 0"),
        (
            "tasks.web.run#2.exponential=5",
            "\"exponential\" is not known in tasks.web.run#2; known are \"uniform\"",
        ),
        ("features.0=RT_PUSH", "\"0\" is not known in features"),
        (
            "chains.fram.deadline_us=5",
            "no chain is called \"fram\"; did you mean chains.frame.deadline_us?",
        ),
        (
            "chain.frame.deadline_us=5",
            "\"chain\" is not known in the scenario; did you mean chains.frame.deadline_us?",
        ),
        (
            "frame.deadline_us=5",
            "\"frame\" is not known in the scenario; did you mean chains.frame.deadline_us?",
        ),
        (
            "chains.frame.deadline=5",
            "\"deadline\" is not known in chains.frame; did you mean chains.frame.deadline_us?",
        ),
    ] {
        let expected = format!("--set {setting}: {what}");
        let error = error(PLAIN, &[setting]);
        assert!(error.starts_with(&expected), "expected {expected}\n     got {error}");
    }
}

#[test]
fn wrong_values_are_told_with_their_setting() {
    for (setting, what) in [
        ("tasks.web.run=x", "expected microseconds, or a distribution as {\"uniform\""),
        (
            "tasks.web.instance=-1",
            "expected a number of instances, an integer of 0 to 2147483647, found -1",
        ),
        (
            "tasks.web.policy=SCHED_FIF",
            "unknown policy \"SCHED_FIF\"; did you mean \"SCHED_FIFO\"?",
        ),
        (
            "tasks.web.group=/wbe",
            "no task group \"/wbe\" is listed in `groups`; did you mean \"/web\"?",
        ),
        ("features=[\"NO_RT_PUL\"]", "unknown feature \"NO_RT_PUL\"; did you mean \"NO_RT_PULL\"?"),
        ("machine.costs={\"ipi\": 5}", "\"ipi\" is not known in `costs`; did you mean \"ipi_ns\"?"),
        ("chains.frame.tasks.0=wbe", "no task is called \"wbe\"; did you mean \"web\"?"),
        (
            "scheduler.base_slice_us=5000",
            "`base_slice_us` has no effect on 6.1 + founding: it is a number of EEVDF",
        ),
        (
            "scheduler.rt_runtime_us=1000001",
            "`rt_runtime_us` is 1000001, and `rt_period_us`, which is 1000000, must",
        ),
    ] {
        let expected = format!("--set {setting}: {what}");
        let error = error(PLAIN, &[setting]);
        assert!(error.starts_with(&expected), "expected {expected}\n     got {error}");
    }
    let long = format!("tasks.web.run=[{}]", "1, ".repeat(1_000));
    assert!(error(PLAIN, &[&long]).len() < 300);
    let deep = format!("tasks.web.run={}{}", "[".repeat(62), "]".repeat(62));
    assert!(error(PLAIN, &[&deep]).contains("nested deeper than 64"));
}

/// The error has the place where the file is now wrong, and names the settings.
#[test]
fn what_settings_make_wrong_elsewhere_names_them() {
    let told = error(PLAIN, &["groups={}"]);
    assert!(told.starts_with("-:4:"), "{told}");
    assert!(told.ends_with("(with --set groups={})"), "{told}");
    let wrong = PLAIN.replace("\"/web\", \"run\"", "\"/none\", \"run\"");
    assert!(!error(&wrong, &["tasks.web.loop=1"]).contains("--set"));
    // The text after a setting keeps its place.
    let late = PLAIN.replace("\"sleep\": 10", "\"sleep\": x");
    let placed = |error: Result<Parsed, Diagnostic>| match error.expect_err("it is wrong").place {
        Place::Text { line, column, .. } => (line, column),
        place => panic!("{place}"),
    };
    assert_eq!(placed(set(&late, &["tasks.web.run=123456789"])), placed(set(&late, &[])));
    let late = PLAIN.replace("\"sleep\": 10", "\"sleep\": -10");
    let settings =
        ["tasks.web.run=123456789", "machine.costs.ipi_ns=5", "groups./web.period=80000"];
    assert_eq!(placed(set(&late, &settings)), placed(set(&late, &[])));
}

#[test]
fn warnings_of_settings_come_last_and_name_them() {
    let text = PLAIN.replace("\"global\"", "\"colour\": 1, \"global\"");
    let warnings = set(&text, &["groups./web.weight=100"]).unwrap().warnings;
    let [of_file, of_setting] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(of_file.to_string().starts_with("-:7:3: \"colour\""), "{of_file}");
    assert!(of_setting.to_string().starts_with("--set groups./web.weight=100: a `weight` of 100"));
}

#[test]
fn the_size_of_the_machine_is_what_was_set_last() {
    let shape = |machine: &str, settings: &[&str], cpus| {
        let text =
            format!("{{'machine': {{{machine}}}, 'tasks': {{'a': {{'run': 1, 'loop': 1}}}}}}");
        let settings = settings.iter().map(|text| text.parse().unwrap()).collect();
        let over = Overrides { settings, cpus, ..Overrides::default() };
        parse("-", &text, &over).map_or_else(
            |error| error.to_string(),
            |parsed| parsed.scenario.machine.topology.to_string(),
        )
    };
    let (topology, cpus) = (&["machine.topology=2x4"][..], &["machine.cpus=6"][..]);
    assert_eq!(shape("'cpus': 16", topology, None), "2x4");
    assert_eq!(shape("", topology, Some(3)), "2x4");
    assert_eq!(shape("'topology': '4x4', 'cpus': 16", cpus, None), "1x6");
    assert_eq!(shape("'topology': '2x3'", cpus, Some(2)), "2x3");
    assert_eq!(shape("", &["machine.topology=2x4", "machine.cpus=4"], None), "1x4");
    assert_eq!(shape("", &["machine.cpus=4", "machine.topology=2x4"], None), "2x4");
    assert_eq!(shape("'cpus': 2", &["machine={\"cpus\": 5}"], Some(3)), "1x5");
    assert_eq!(shape("'cpus': 2", &["machine.tick_hz=100"], Some(3)), "1x3");
    let error = shape("'cpus': 2", &["machine={\"cpus\": 5, \"topology\": \"2x2\"}"], None);
    assert!(error.ends_with(": the topology has 4 CPUs, but `cpus` is 5"), "{error}");
    assert!(
        shape("'cpus': 16", &["machine.topology=axb"], None).starts_with("--set machine.topology=")
    );
}

/// A run on real CPUs uses the machine that it runs on.
#[test]
fn a_real_machine_is_not_set() {
    let settings = ["machine.cpus=2", "machine.kernel=6.6", "scheduler.rr_timeslice_ms=5"];
    let settings = settings.iter().map(|text| text.parse().unwrap()).collect();
    let over = Overrides { settings, cpus: Some(4), real_cores: true, ..Overrides::default() };
    let parsed = parse("-", PLAIN, &over).unwrap();
    assert_eq!(parsed.scenario.machine.topology.cpus(), 4);
    let told: Vec<_> = parsed.warnings.iter().map(|it| it.place.to_string()).collect();
    assert_eq!(told, ["--set machine.cpus=2"]);
}

#[test]
fn a_mark_of_the_encoding_is_no_part_of_the_text() {
    let marked = format!("\u{feff}{PLAIN}");
    assert_eq!(outcome(&marked, &[]), outcome(PLAIN, &[]));
    assert_eq!(outcome(&marked, &["tasks.web.run=5"]), outcome(PLAIN, &["tasks.web.run=5"]));
    assert_eq!(
        parse("-", "\u{feff}x", &Overrides::default()).unwrap_err().to_string().find("-:1:1: "),
        Some(0)
    );
}
