//! No text makes the reader panic or hang. An error has a place in the text, and in an accepted scenario every id is
//! valid.

use proptest::prelude::*;
use runyard_engine::attr::GroupId;
use runyard_workload::arrivals::{ArrivalsSpec, Receiver};
use runyard_workload::scenario::{Properties, Scenario, Step, TimerRef};
use runyard_workload::{Diagnostic, Overrides, Place, parse};

/// A scenario with all elements of the language, which the tests then damage.
const RICH: &str = r#"// All elements.
{
  "machine": {"cpus": 4, "topology": "2x2", "tick_hz": 250, "costs": {"ipi_ns": 5, "jitter_ns": 2}},
  "features": ["NO_RT_PULL", "RT_PUSH"],
  "groups": {"/": {}, "/web": {"weight": 512}, "/web/api": {}},
  "resources": {"m": {"type": "mutex"}},
  "arrivals": {
    "in": {"rates": [{"at": 5, "rate": 2.5}], "sem_post": "s", "bound": 3, "deadline_us": 5},
    "out": {"every": {"pareto": [5, 1.5]}, "fork": "template"},
    "listed": {"times": [1, 2.5], "sem_post": "s"},
  },
  "chains": {"c": {"tasks": ["second", ["second", "second"]], "join": "first"}},
  "global": {"duration": 1, "default_policy": "SCHED_RR", "pi_enabled": true, "logdir": "./"},
  "tasks": {
    "first": {
      "instance": 2, "delay": {"uniform": [1, 5]}, "loop": 3, "cpus": [0, 3], "priority": 4,
      "phases": {
        "p": {"loop": 2, "policy": "SCHED_FIFO", "run": 1, "barrier": "b", "fork": "template"},
        'q': {"loop": -1, "group": "/web/api", "timer": {"ref": "t", "period": 10}, "runtime7": 5},
      },
    },
    "second": {
      "policy": "SCHED_BATCH", "taskgroup": "/db", "timer_slack": 10, /* us */
      "lock": "m", "wait": {"ref": "c", "mutex": "m"}, "unlock": "m", "suspend": "second",
      "sync": {"ref": "c", "mutex": "m"}, "sem_post": "s", "sem_wait": "s", "yield": "",
      "send": {"ref": "pipe", "bytes": 5, "capacity": 3}, "recv": {"ref": "pipe", "bytes": 5},
      "sleep": {"normal": [5, 1]}, "run": {"exponential": 5}, "resume": "second",
      "timer": {"ref": "unique", "period": 5, "mode": "absolute"}, "signal": "c", "broad": "d",
      "run2": {"lognormal": [5, 5]}, "run3": {"weibull": [5, 0.5]}, "run4": {"tail": [5, 5, 1.5]},
      "run5": {"values": [5]}, "mem": 5, "iorun": 5, "memrun": {"type": "chase", "size": 9, "count": 5, "ref": "b"}, "yield",
    },
    "template": {"instance": 0, "loop": 1, "policy": "SCHED_IDLE", "run": 1, "exit": 0},
  },
}
"#;

/// The words that replace a part of the text.
const WORDS: [&str; 24] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "'",
    "\\",
    "//",
    "/*",
    "null",
    "-1",
    "0",
    "1e9",
    "4294967296",
    "9223372036854775808",
    "\"run\": ",
    "\"loop\": ",
    "\"fork\": \"first\", ",
    "\"phases\": {",
    "\"instance\": 1000000, ",
    "\u{e4}\u{1f600}",
    "\n",
];

/// A place in the text, a length there, and the word that replaces it.
type Spoiling = (prop::sample::Index, usize, prop::sample::Index);

/// Returns mostly short cuts, so that the rest of the text is still understood.
fn spoiling() -> impl Strategy<Value = Spoiling> {
    let length = prop_oneof![9 => 0..12_usize, 1 => Just(300)];
    (any::<prop::sample::Index>(), length, any::<prop::sample::Index>())
}

fn spoilt(spoilings: &[Spoiling]) -> String {
    let mut text: Vec<char> = RICH.chars().collect();
    for (at, length, word) in spoilings {
        let at = at.index(text.len() + 1);
        let end = (at + length).min(text.len());
        text.splice(at..end, WORDS[word.index(WORDS.len())].chars());
    }
    text.into_iter().collect()
}

fn check(text: &str) {
    let lines: Vec<_> = text.split('\n').map(|line| line.chars().count()).collect();
    match parse("-", text, &Overrides::default()) {
        Ok(parsed) => {
            parsed.warnings.iter().for_each(|warning| within(&lines, warning));
            sound(&parsed.scenario);
        }
        Err(error) => within(&lines, &error),
    }
}

/// Asserts that the place is a character of one of the lines with these lengths, or the line's end.
fn within(lines: &[usize], found: &Diagnostic) {
    let Place::Text { line, column, .. } = found.place else { panic!("{found}") };
    let length = *lines.get(line - 1).expect("the line is in the text");
    assert!((1..=length + 1).contains(&column), "{found}");
}

fn sound(scenario: &Scenario) {
    let cpus = scenario.machine.topology.cpus();
    let starts = |it: &ArrivalsSpec| matches!(it.to, Receiver::Task(_));
    let begins = scenario.tasks.iter().any(|task| task.instances > 0);
    assert!(begins || scenario.arrivals.iter().any(starts));
    for arrivals in &scenario.arrivals {
        match arrivals.to {
            Receiver::Semaphore(id) => sound_step(&Step::SemPost(id), scenario),
            Receiver::Task(id) => sound_step(&Step::Fork(id), scenario),
        }
    }
    for (at, group) in scenario.groups.iter().enumerate() {
        assert!(
            group.spec.parent.index() < at || at == GroupId::ROOT.index(),
            "parents come first"
        );
    }
    for task in &scenario.tasks {
        assert!(!task.phases.is_empty() && task.properties.policy.is_some());
        sound_properties(&task.properties, scenario, cpus);
        for phase in &task.phases {
            assert!(!phase.steps.is_empty() && phase.loops != Some(0));
            sound_properties(&phase.properties, scenario, cpus);
            phase.steps.iter().for_each(|step| sound_step(&step, scenario));
        }
    }
}

fn sound_properties(properties: &Properties, scenario: &Scenario, cpus: usize) {
    assert!(properties.group.is_none_or(|group| group.index() < scenario.groups.len()));
    if let Some(set) = &properties.cpus {
        assert!(!set.is_empty() && set.iter().all(|cpu| cpu.index() < cpus));
    }
}

fn sound_step(step: &Step, scenario: &Scenario) {
    let objects = &scenario.objects;
    let (id, count) = match step {
        Step::Lock(id) | Step::Unlock(id) => (id.0, objects.mutexes.len()),
        Step::Wait { cond, mutex } | Step::Sync { cond, mutex } => {
            assert!((mutex.0 as usize) < objects.mutexes.len());
            (cond.0, objects.conditions.len())
        }
        Step::Signal(id) | Step::Broadcast(id) => (id.0, objects.conditions.len()),
        Step::Barrier(id) => (id.0, objects.barriers.len()),
        Step::SemPost(id) | Step::SemWait(id) => (id.0, objects.semaphores.len()),
        Step::Suspend(id) | Step::Resume(id) => (id.0, objects.suspends.len()),
        Step::Timer { timer: TimerRef::Shared(id), .. } => (id.0, objects.timers.len()),
        Step::Send { pipe, .. } | Step::Recv { pipe, .. } => (pipe.0, objects.pipes.len()),
        Step::Fork(spec) => (spec.0, scenario.tasks.len()),
        _ => return,
    };
    assert!((id as usize) < count, "{step:?}");
}

#[test]
fn the_rich_scenario_is_sound_until_it_is_spoilt() {
    let parsed = parse("-", RICH, &Overrides::default()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(parsed.warnings, []);
    sound(&parsed.scenario);
}

#[test]
fn every_beginning_of_a_scenario_is_read_without_a_panic() {
    for (end, _) in RICH.char_indices() {
        check(&RICH[..end]);
    }
}

#[test]
fn long_and_deep_texts_take_no_more_stack_than_short_ones() {
    let many = 100_000;
    let path = "/a".repeat(many);
    let chain: String = (0..many)
        .map(|n| format!("'t{n}': {{'loop': 1, 'run': 1, 'fork': 't{}'}},\n", (n + 1) % many))
        .collect();
    let colours: String = (0..many).map(|n| format!("'colour{n}': 1, ")).collect();
    check(&"[".repeat(many));
    check(&"{'tasks':".repeat(many));
    check(&format!("{{'tasks': {{'a': {{'taskgroup': '{path}', 'run': 1}}}}}}"));
    check(&format!("{{'tasks': {{{chain}}}}}"));
    check(&format!("{{'global': {{'duration': 1}}, 'tasks': {{{chain}}}}}"));
    check(&format!("{{{colours}'tasks': {{'a': {{'loop': 1, 'run': 1}}}}}}"));
}

/// Returns a configuration that prints failures with their text, which belongs in a test of its own.
fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        check(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_characters_of_the_language_are_read_without_a_panic(
        text in "[\\[\\]{}:,\"'/*\\\\ \n0-9a-fnrtu.+-]{0,80}"
    ) {
        check(&text);
    }

    #[test]
    fn a_spoilt_scenario_is_read_without_a_panic(spoilings in prop::collection::vec(spoiling(), 1..6)) {
        check(&spoilt(&spoilings));
    }
}
