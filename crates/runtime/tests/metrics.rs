//! The numbers of a snapshot, as a recorder of the crate `metrics` receives them.

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use runyard::{Runtime, Snapshot, Task, TaskState, yield_now};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the recorded names with their labels, and whether each was described.
fn recorded(snapshot: &Snapshot) -> BTreeMap<String, (Option<String>, f64)> {
    let recorder = DebuggingRecorder::new();
    let heard = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        Snapshot::describe();
        snapshot.record();
    });
    let all = heard.snapshot().into_vec().into_iter().map(|(key, _, what, value)| {
        let key = key.key().to_string();
        let value = match value {
            DebugValue::Counter(value) => value as f64,
            DebugValue::Gauge(value) => value.into_inner(),
            DebugValue::Histogram(_) => unreachable!("there are no histograms"),
        };
        (key, (what.map(|what| what.to_string()), value))
    });
    all.collect()
}

fn a_snapshot() -> Snapshot {
    let runtime = Runtime::builder().workers(1).statistics(true).build();
    let group = runtime.group("web").create().unwrap();
    runtime.block_on(async {
        let yields = || async {
            for _ in 0..10 {
                yield_now().await;
            }
        };
        let tasks = [(); 2].map(|()| Task::builder().group(&group).spawn(yields()));
        for task in tasks {
            task.await.unwrap();
        }
    });
    runtime.snapshot()
}

#[test]
fn what_the_snapshot_says_is_recorded() {
    let snapshot = a_snapshot();
    let recorded = recorded(&snapshot);
    let value = |key: &str| recorded.get(key).unwrap_or_else(|| panic!("{key}: {recorded:#?}")).1;
    let counts = &snapshot.cpus[0].counts;
    assert_eq!(value("Key(runyard_cpu_switches_total, [cpu = 0])"), counts.switches as f64);
    assert_eq!(value("Key(runyard_task_switches_total)"), counts.switches as f64);
    assert_eq!(value("Key(runyard_task_run_seconds_total)"), counts.run.as_secs_f64());
    let turns = "Key(runyard_cpu_preemptions_total, [cpu = 0, cause = turn])";
    assert_eq!(value(turns), counts.preemptions.turn as f64);
    let group = &snapshot.groups[0].counts;
    assert!(group.switches >= 2, "{group:?}");
    assert_eq!(value("Key(runyard_group_switches_total, [group = /web])"), group.switches as f64);
    assert_eq!(value("Key(runyard_threads)"), snapshot.threads as f64);
    let blocked = snapshot.tasks.iter().filter(|task| task.state == TaskState::Blocked).count();
    assert_eq!(value("Key(runyard_tasks, [state = blocked])"), blocked as f64);
}

/// The design page has each name in a line of its table. Seen failing with a missing number.
#[test]
fn the_page_has_all_names_and_no_others() {
    let recorded = recorded(&a_snapshot());
    let name = |key: &str| {
        key.trim_start_matches("Key(").split([',', ')']).next().unwrap_or_default().to_owned()
    };
    let used: BTreeSet<_> = recorded.keys().map(|key| name(key)).collect();
    let page = include_str!("../../../docs/design/watching.md");
    let cells = page.lines().filter_map(|line| line.strip_prefix("| `runyard_")?.split('`').next());
    let told: BTreeSet<_> = cells.map(|rest| format!("runyard_{rest}")).collect();
    assert_eq!(used, told);
    for (key, (what, _)) in &recorded {
        assert!(what.is_some(), "{key} is described");
    }
}
