//! The same scenario, options and seed give the same events. A change of the order of tasks does not change the
//! duration of any task's work.

use crate::rig::{Run, World, world};
use runyard_engine::event::What;
use runyard_engine::time::Nanos;
use runyard_workload::scenario::Costs;
use std::hash::{DefaultHasher, Hash, Hasher};

const MIXED: &str = "{
    'groups': {'/a': {'weight': 300}},
    'global': {'pi_enabled': true},
    'tasks': {
        'rt': {'instance': 3, 'policy': 'SCHED_RR', 'loop': 40, 'run': {'exponential': 300},
               'lock': 'm', 'run1': {'uniform': [10, 90]}, 'unlock': 'm',
               'sleep': {'normal': [700, 200]}},
        'fair': {'instance': 4, 'group': '/a', 'loop': 30, 'run': {'exponential': 900},
                 'lock': 'm', 'run1': 50, 'unlock': 'm', 'sem_post': 's', 'fork': 'child',
                 'timer': {'ref': 'unique', 'period': {'uniform': [500, 1500]}}},
        'taker': {'policy': 'SCHED_BATCH', 'loop': 60, 'sem_wait': 's', 'run': {'uniform': [1, 99]}},
        'child': {'instance': 0, 'loop': 1, 'run': {'normal': [100, 50]}, 'yield': ''},
        'hog': {'instance': 3, 'loop': 30, 'run': 1000, 'yield': ''},
    },
}";

const JITTER: Costs = Costs {
    jitter: Nanos(500),
    context_switch: Costs::CONTEXT_SWITCH,
    migration: Costs::MIGRATION,
    ipi: Costs::IPI,
    wakeup: Costs::WAKEUP,
    timer_interrupt: Costs::TIMER_INTERRUPT,
    ..Costs::FREE
};

fn hash(run: &Run) -> u64 {
    let mut hasher = DefaultHasher::new();
    for event in &run.events {
        format!("{event:?}").hash(&mut hasher);
    }
    hasher.finish()
}

fn mixed(world: World) -> Run {
    world.cpus(4).costs(JITTER).run_text(MIXED)
}

#[test]
fn a_run_repeats_to_the_last_event() {
    let worlds = [
        world(),
        world().hint_delay(Nanos(30_000)),
        world().hotplug(runyard_engine::time::Time(5_000_000), 2, false),
        world().features("NO_RT_PUSH NO_LOAD_BALANCE"),
    ];
    for world in worlds {
        let (first, second) = (mixed(world.clone()), mixed(world));
        assert_eq!(first.events.len(), second.events.len());
        assert_eq!(hash(&first), hash(&second));
        assert_eq!(first.outcome, second.outcome);
    }
}

#[test]
fn another_seed_is_another_run() {
    let hashes: Vec<_> = (0..8).map(|seed| hash(&mixed(world().seed(seed)))).collect();
    for (at, hash) in hashes.iter().enumerate() {
        assert!(!hashes[..at].contains(hash), "seed {at}");
    }
    // Only the costs are drawn here, so they make the difference.
    let fixed = |seed, costs| {
        let tasks = "'a': {'instance': 3, 'loop': 9, 'run': 1000, 'sleep': 1000}";
        hash(&world().cpus(2).costs(costs).seed(seed).run(tasks))
    };
    assert_ne!(fixed(1, JITTER), fixed(2, JITTER));
    let same = |seed| fixed(seed, Costs { jitter: Nanos::ZERO, ..JITTER });
    let one_by_one = |seed| {
        let tasks = "'a': {'loop': 9, 'run': 1000, 'sleep': 1000}";
        hash(&world().seed(seed).run(tasks))
    };
    assert_eq!(same(1), same(1));
    assert_eq!(one_by_one(1), one_by_one(2), "nothing is drawn, and nothing is simultaneous");
}

/// Returns the time that each task executed in each of its steps, by the names of the tasks.
fn work(run: &Run) -> Vec<(String, Vec<(u32, Nanos)>)> {
    let mut work: Vec<_> =
        run.outcome.tasks.iter().map(|task| (task.name.clone(), Vec::new())).collect();
    let mut executing = vec![None; run.scenario.machine.topology.cpus()];
    for event in &run.events {
        let next = match event.what {
            What::Exec { task, .. } => Some((task, event.at)),
            What::Step { task, .. } => Some((task, event.at)),
            What::Overhead | What::Idle => None,
            _ => continue,
        };
        let before: Option<(runyard_engine::task::TaskId, _)> =
            std::mem::replace(&mut executing[event.cpu.index()], next);
        if let Some((task, since)) = before {
            let steps: &mut Vec<(u32, Nanos)> = &mut work[task.index()].1;
            if let Some((_, sum)) = steps.last_mut() {
                *sum += event.at.since(since);
            }
        }
        if let What::Step { task, step, .. } = event.what {
            work[task.index()].1.push((step, Nanos::ZERO));
        }
    }
    work.sort();
    work
}

/// The work includes the system calls of the tasks, whose times are drawn as well.
#[test]
fn who_runs_when_does_not_change_how_long_anybody_works() {
    let want = work(&mixed(world()));
    assert!(want.len() > 100, "with those that were forked");
    let features = ["NO_RT_PUSH", "NO_RT_PULL", "NO_LOAD_BALANCE", "NO_WAKEUP_PREEMPTION"];
    for features in features {
        assert!(work(&mixed(world().features(features))) == want, "{features}");
    }
    let other_costs = Costs { context_switch: Nanos(50_000), ipi: Nanos(9_000), ..JITTER };
    let run = world().cpus(4).costs(other_costs).hint_delay(Nanos(10_000)).run_text(MIXED);
    assert!(work(&run) == want, "other costs");
    let run = world().cpus(2).costs(JITTER).run_text(MIXED);
    assert!(work(&run) == want, "another machine");
    assert!(work(&mixed(world().seed(2))) != want, "another seed draws otherwise");
}
