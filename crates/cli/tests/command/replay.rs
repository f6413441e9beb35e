//! Tests of `runyard replay`: the comparison of a recording with its replay, and of a what-if with both.

use crate::rig::call;
use serde_json::Value;

/// The recording of the guide: half a second of two CPUs that always have more than one task.
const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/notebooks/recorded.txt");

fn compared(options: &[&str]) -> Value {
    let said = call(&[&["replay", RECORDED, "--recorded-on", "6.18", "--json"], options].concat());
    assert_eq!(said.code, Some(0), "{}", said.err);
    serde_json::from_str(&said.out).unwrap()
}

fn tasks(compared: &Value) -> &Vec<Value> {
    compared["tasks"].as_array().unwrap()
}

#[test]
fn a_replay_waits_as_its_recording_and_each_task_has_a_verdict() {
    let compared = compared(&[]);
    assert_eq!(compared["schema"], "runyard.replay/1");
    assert_eq!((&compared["kernel"], &compared["tick_hz"]), (&"6.18".into(), &250.into()));
    let verdict = &compared["verdict"];
    let ratio = verdict["waits_ratio"].as_f64().unwrap();
    assert!((0.85..1.15).contains(&ratio), "{ratio}");
    let count = |verdict: &str| {
        tasks(&compared).iter().filter(|task| task["verdict"] == verdict).count() as u64
    };
    assert_eq!(verdict["within"], count("within"));
    assert_eq!(verdict["judged"], count("within") + count("outside"));
    for task in tasks(&compared) {
        let [recorded, replayed] =
            ["recorded", "replayed"].map(|side| task[side]["wait_ns"].as_f64().unwrap());
        let agrees = recorded.max(replayed) <= 1.5 * recorded.min(replayed);
        assert!(task["verdict"] != "within" || agrees, "{task}");
        assert!(task["verdict"] != "outside" || !agrees, "{task}");
        assert_eq!(task["reason"].is_string(), task["verdict"] == "outside", "{task}");
    }
    let waits = tasks(&compared).iter().map(|task| task["recorded"]["wait_ns"].as_u64());
    assert_eq!(waits.sum::<Option<u64>>(), compared["all"]["recorded"]["wait_ns"].as_u64());
    assert!(compared["all"]["what_if"].is_null());
}

/// The server's session had ninety times the weight of the compilers. With that known, its tasks wait as they did.
#[test]
fn a_snapshot_makes_the_parts_right_too() {
    let snapshot = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/notebooks/snapshot.txt");
    let compared = compared(&["--snapshot", snapshot]);
    let waits = |side: &str| {
        let served = tasks(&compared).iter().filter(|task| {
            ["server", "client"].iter().any(|name| task["name"].as_str().unwrap().starts_with(name))
        });
        served.map(|task| task[side]["wait_ns"].as_f64().unwrap()).sum::<f64>()
    };
    let ratio = waits("replayed") / waits("recorded");
    assert!((0.67..1.5).contains(&ratio), "{ratio}");
}

/// A kernel thread is bound to CPU 1, which the what-if has not.
#[test]
fn a_what_if_stands_beside_both() {
    let plain = compared(&[]);
    let fewer = compared(&["--cpus", "1"]);
    for side in ["recorded", "replayed"] {
        assert_eq!(plain["all"][side], fewer["all"][side], "{side}");
    }
    let ran = |side: &str| fewer["all"][side]["runtime_ns"].as_u64().unwrap();
    assert!(ran("what_if") * 2 <= ran("replayed") + 1_000_000);
    let other = compared(&["--kernel", "6.6", "--set", "tasks.indexer-4290.policy=SCHED_IDLE"]);
    assert_eq!((&other["kernel"], &other["what_if_kernel"]), (&"6.18".into(), &"6.6".into()));
    let indexer = tasks(&other).iter().find(|task| task["name"] == "indexer-4290").unwrap();
    let ran = |side: &str| indexer[side]["runtime_ns"].as_u64().unwrap();
    assert!(ran("what_if") * 10 < ran("replayed"), "{indexer}");
}

#[test]
fn the_text_has_a_line_for_each_side_and_the_reasons() {
    let said = call(&["replay", RECORDED, "--set", "scheduler.base_slice_us=4000"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("does not name its kernel; the replay goes by 6.18"), "{}", said.err);
    for line in ["all           27  recorded", "replayed", "what if", "Within a factor of 1.5: "] {
        assert!(said.out.contains(line), "{line}\n{}", said.out);
    }
}

/// What is known of the machine belongs to the replay as well, what is set only to the what-if.
#[test]
fn what_is_known_is_no_what_if() {
    let pinned = [
        "--known",
        "scheduler.base_slice_us=4000",
        "--known",
        "tasks.indexer-4290.policy=SCHED_IDLE",
    ];
    let known = compared(&pinned);
    assert!(known["all"]["what_if"].is_null());
    let ran = |compared: &Value, side: &str| {
        let indexer = tasks(compared).iter().find(|task| task["name"] == "indexer-4290").unwrap();
        indexer[side]["runtime_ns"].as_u64().unwrap()
    };
    assert!(ran(&known, "replayed") * 10 < ran(&compared(&[]), "replayed"));
    let set =
        compared(&[&pinned[..], &["--set", "tasks.indexer-4290.policy=SCHED_OTHER"]].concat());
    assert_eq!(ran(&set, "replayed"), ran(&known, "replayed"));
    assert!(ran(&set, "what_if") > 10 * ran(&set, "replayed"));
}

/// Two tasks have the name `indexer`.
#[test]
fn a_setting_may_be_for_all_tasks_of_a_name() {
    let both = "tasks.\"indexer-*\".policy=SCHED_IDLE";
    let each = ["tasks.indexer-4289.policy=SCHED_IDLE", "tasks.indexer-4290.policy=SCHED_IDLE"];
    let both = compared(&["--set", both]);
    assert_eq!(both["all"], compared(&["--set", each[0], "--set", each[1]])["all"]);
    let names = both["names"].as_array().unwrap();
    let indexer = names.iter().find(|it| it["name"] == "indexer").unwrap();
    assert_eq!(indexer["tasks"], 2);
    let ran = |side: &str| indexer[side]["runtime_ns"].as_u64().unwrap();
    assert!(ran("what_if") < ran("replayed"), "{indexer}");
    let said = call(&["replay", RECORDED, "--set", "tasks.\"inde*er\".run=1"]);
    assert!(said.code == Some(2) && said.err.contains("inde*er"), "{}", said.err);
    let said = call(&["replay", RECORDED, "--set", "tasks.\"nobody*\".policy=SCHED_IDLE"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains("no task's name begins with \"nobody\""), "{}", said.err);
}

#[test]
fn a_what_if_that_makes_no_sense_is_bad_input() {
    let said = call(&["replay", RECORDED, "--set", "tasks.nobody.run=3"]);
    assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{}", said.err);
    assert!(said.err.contains("nobody"), "{}", said.err);
}
