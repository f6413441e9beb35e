//! Imported recordings, replayed: a task executes the recorded work on any machine, and no task waits for ever.

use crate::rig::{Run, us, world};
use proptest::collection::vec;
use proptest::prelude::*;
use runyard_engine::time::Nanos;
use runyard_workload::import::{Imported, import};
use std::fmt::Write as _;

/// Two tasks that pass a token on one CPU, and one that a timer wakes on another.
const TOKEN: &str = "\
swapper 0 [000] 1.000000: sched:sched_switch: swapper/0:0 [120] R ==> ping:11 [120]
swapper 0 [001] 1.000000: sched:sched_switch: swapper/1:0 [120] R ==> tick:13 [19]
tick 13 [001] 1.000050: sched:sched_switch: tick:13 [19] S ==> swapper/1:0 [120]
ping 11 [000] 1.000100: sched:sched_waking: pong:12 [120] CPU:000
ping 11 [000] 1.000120: sched:sched_switch: ping:11 [120] S ==> pong:12 [120]
pong 12 [000] 1.000220: sched:sched_waking: ping:11 [120] CPU:000
pong 12 [000] 1.000240: sched:sched_switch: pong:12 [120] S ==> ping:11 [120]
ping 11 [000] 1.000300: sched:sched_waking: pong:12 [120] CPU:000
ping 11 [000] 1.000310: sched:sched_switch: ping:11 [120] X ==> pong:12 [120]
swapper 0 [001] 1.001000: sched:sched_waking: tick:13 [19] CPU:001
swapper 0 [001] 1.001000: sched:sched_switch: swapper/1:0 [120] R ==> tick:13 [19]
tick 13 [001] 1.001050: sched:sched_switch: tick:13 [19] S ==> swapper/1:0 [120]
pong 12 [000] 1.002000: sched:sched_switch: pong:12 [120] X ==> swapper/0:0 [120]
";

fn replayed(imported: &Imported) -> Run {
    world().costs_of_the_text().run_text(&imported.scenario)
}

/// Returns the scenario without its end, so that each task comes to the end of its program.
fn without_an_end(imported: &Imported) -> String {
    let lines = imported.scenario.lines().filter(|line| !line.contains("\"duration\":"));
    lines.fold(String::new(), |text, line| text + line + "\n")
}

/// The recording of the guide: half a second of two CPUs that always have more than one task.
const RECORDED: &str = include_str!("../../../../python/notebooks/recorded.txt");

/// The waits are decisions of the scheduler, and nothing of the recorded ones is in the scenario.
#[test]
fn a_replay_waits_as_the_recording_did() {
    let imported = import("recorded.txt", RECORDED).unwrap();
    assert_eq!(imported.statistics.tick_hz, Some(250));
    let run = replayed(&imported);
    let recorded: u64 = imported.tasks.iter().map(|task| task.wait.0).sum();
    let replayed: u64 = imported.tasks.iter().map(|task| run.account(&task.name).wait.0).sum();
    let apart = recorded.abs_diff(replayed) * 100 / recorded;
    assert!(apart <= 15, "recorded {recorded} ns, replayed {replayed} ns");
}

#[test]
fn a_recording_replays_as_it_was() {
    let imported = import("token", TOKEN).unwrap();
    let run = replayed(&imported);
    for task in &imported.tasks {
        run.is(&task.name, run.account(&task.name).runtime, task.runtime);
    }
    run.is("the end", run.end(), us(2_000));
    let micros: Vec<_> = imported.tasks.iter().map(|task| task.runtime.0 / 1_000).collect();
    assert_eq!(micros, [190, 100, 1_810]);
}

#[test]
fn one_thing_changed_leaves_what_tasks_do() {
    let imported = import("token", TOKEN).unwrap();
    let text = without_an_end(&imported).replace("\"cpus\": 2", "\"cpus\": 1");
    let run = world().costs_of_the_text().run_text(&text);
    for task in &imported.tasks {
        run.is(&task.name, run.account(&task.name).runtime, task.runtime);
    }
    run.is("the end", run.end(), us(2_100));
}

/// Returns an event of a recording that may contradict itself.
fn line() -> impl Strategy<Value = (u64, u8, String)> {
    let tid = 0..6_u8;
    let state = prop_oneof![4 => Just("S"), 2 => Just("D"), 2 => Just("R"), 1 => Just("X")];
    let event = (tid.clone(), tid.clone(), state, 0..8_u8);
    (0..400_u64, 0..3_u8, event).prop_map(|(span, cpu, (who, whom, state, kind))| {
        let event = match kind {
            0..4 => format!("sched_switch: t:{who} [120] {state} ==> t:{whom} [120]"),
            4..7 => format!("sched_waking: t:{whom} [120] CPU:000"),
            _ => format!("sched_wakeup_new: t:{whom} [120] CPU:000"),
        };
        (span, cpu, format!("t {who} [{cpu:03}] TIME: sched:{event}"))
    })
}

fn recording(lines: &[(u64, u8, String)]) -> String {
    let (mut text, mut at) = (String::new(), 0);
    for (span, _, line) in lines {
        at += span;
        let _ = writeln!(text, "{}", line.replace("TIME", &format!("7.{at:06}")));
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Every post that a task waits for is in a program. In no order of events does the task miss it.
    #[test]
    fn nobody_waits_for_ever(lines in vec(line(), 1..60), cpus in 1..4_u8, seed in 0..3_u64) {
        let text = recording(&lines);
        let Ok(imported) = import("random", &text) else { return Ok(()) };
        let machine = format!("\"cpus\": {},", imported.statistics.cpus);
        let scenario = without_an_end(&imported).replace(&machine, &format!("\"cpus\": {cpus},"));
        let run = world().costs_of_the_text().seed(seed).run_text(&scenario);
        for task in &imported.tasks {
            let whole = Nanos::from_micros((task.runtime.0 + 500) / 1_000);
            let more = if task.wants_more { imported.statistics.span } else { Nanos::ZERO };
            let whole = whole + more;
            run.is(&task.name, run.account(&task.name).runtime, whole);
        }
    }
}
