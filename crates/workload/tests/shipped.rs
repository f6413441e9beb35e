//! The shipped scenarios are read without a warning, and have the properties that they claim.

use runyard_engine::attr::{Nice, Policy};
use runyard_engine::time::Nanos;
use runyard_workload::draw::Draw;
use runyard_workload::scenario::Step;
use runyard_workload::{Overrides, Scenario, parse};
use std::fs;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

fn shipped(name: &str) -> Scenario {
    let text = fs::read_to_string(folder().join(name)).unwrap();
    let parsed =
        parse(name, &text, &Overrides::default()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(parsed.warnings, []);
    parsed.scenario
}

#[test]
fn all_are_read_without_a_warning() {
    for file in fs::read_dir(folder()).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".json") {
            shipped(&name);
        }
    }
}

#[test]
fn rt_migrate_is_a_parent_and_five_threads_on_four_cpus() {
    let scenario = shipped("rt-migrate.json");
    assert_eq!((scenario.machine.topology.cpus(), scenario.duration), (4, None));
    let tasks: Vec<_> = scenario
        .tasks
        .iter()
        .map(|task| match task.properties.policy {
            Some(Policy::Fifo(prio)) => (&*task.name, prio.get(), task.phases[0].loops),
            _ => panic!("{task:?}"),
        })
        .collect();
    let priorities = [("parent", 7), ("t0", 2), ("t1", 3), ("t2", 4), ("t3", 5), ("t4", 6)];
    assert_eq!(tasks, priorities.map(|(name, prio)| (name, prio, Some(50))));
    let barriers = [("start".to_owned(), 6), ("end".to_owned(), 6)];
    assert_eq!(scenario.objects.barriers, barriers);
}

#[test]
fn idle_balance_is_a_soaker_for_each_cpu_and_a_normal_task_that_comes_later() {
    let scenario = shipped("idle-balance.json");
    let topology = scenario.machine.topology;
    assert_eq!((topology.to_string(), topology.cpus()), ("4x4".to_owned(), 16));
    let tasks: Vec<_> = scenario
        .tasks
        .iter()
        .map(|task| (&*task.name, task.properties.policy.unwrap(), task.instances, task.delay))
        .collect();
    let (none, later) = (Draw::Fixed(Nanos::ZERO), [500, 1_000].map(Nanos::from_millis));
    let normal = Policy::Normal(Nice::default());
    let expected = [
        ("soaker", Policy::Idle, 16, none),
        ("normal", normal, 1, Draw::Uniform(later[0], later[1])),
    ];
    assert_eq!(tasks, expected);
    for task in &scenario.tasks {
        let steps = &task.phases[0].steps;
        assert!(steps.iter().all(|step| matches!(step, Step::Run(_))), "none ever blocks");
        assert_eq!(task.loops, None, "nor ends: {task:?}");
    }
}

#[test]
fn touch_latency_is_a_way_of_eight_tasks_and_eight_that_are_in_its_way() {
    let scenario = shipped("touch-latency.json");
    assert_eq!(scenario.machine.topology.cpus(), 8);
    let groups = scenario.groups.iter().map(|group| (&*group.path, group.spec.latency_nice.get()));
    assert_eq!(groups.collect::<Vec<_>>(), [("/", 0), ("/frames", -20)]);
    let (way, others) = scenario.tasks.split_at(8);
    for (at, task) in way.iter().enumerate() {
        assert_eq!(task.properties.group.unwrap().index(), 1, "{}", task.name);
        let steps = &task.phases[0].steps;
        let hands_on =
            matches!(steps.iter().last(), Some(Step::Send { pipe, .. }) if pipe.0 == at as u32);
        let waits = match steps.get(0).unwrap() {
            Step::Timer { .. } => at == 0,
            Step::Recv { pipe, .. } => at == pipe.0 as usize + 1,
            _ => false,
        };
        assert!(waits && hands_on == (at < 7), "{task:?}");
    }
    assert_eq!((others.len(), others[0].instances), (1, 8));
}

#[test]
fn stuck_head_has_its_tasks_where_they_must_be() {
    let scenario = shipped("stuck-head.json");
    let last_cpus = |name: &str| {
        let task = scenario.tasks.iter().find(|task| task.name == name).unwrap();
        let phase = task.phases.last().unwrap();
        phase.properties.cpus.as_ref().or(task.properties.cpus.as_ref()).unwrap().to_string()
    };
    assert_eq!(scenario.machine.topology.cpus(), 3);
    let places = ["above", "head", "wall", "behind", "guard", "normal"].map(last_cpus);
    assert_eq!(places, ["0", "0-1", "1", "0,2", "2", "2"]);
}
