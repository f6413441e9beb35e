//! Scenarios without progress, which still end.

use crate::rig::{FREE, Run, ms, us, world};
use runyard_engine::event::Event;
use runyard_engine::time::{Nanos, Time};
use runyard_sim::{Options, Outcome, Sim};
use runyard_workload::{Overrides, parse};
use std::sync::mpsc;
use std::time::Duration;

/// A time limit that only a run without an end exceeds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `text` for a second of virtual time on another thread, so that a run without an end fails.
fn ends(text: &'static str) -> Outcome {
    let (done, outcome) = mpsc::channel();
    std::thread::spawn(move || {
        let over = Overrides { duration: Some(Nanos::from_secs(1)), ..Overrides::default() };
        let mut scenario = parse("test.json", text, &over).unwrap().scenario;
        scenario.machine.costs = FREE;
        let options = Options { seed: 1, ..Options::default() };
        let sim = Sim::new(&scenario, options, |_: &Event| {}).unwrap();
        let _ = done.send(sim.run());
    });
    outcome.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("this never ends: {text}"))
}

/// Asserts that the run ends with one violation.
#[track_caller]
fn stops(text: &'static str, invariant: &str) {
    let Outcome { end, violations, .. } = ends(text);
    let found: Vec<_> = violations.iter().map(|found| found.invariant).collect();
    assert_eq!(found, [invariant], "{text}");
    assert!(end < Time(1_000_000_000), "it stops there: {end}");
}

#[test]
fn a_task_that_takes_steps_for_ever_at_one_instant_is_stopped() {
    stops("{'tasks': {'a': {'lock': 'm', 'unlock': 'm'}}}", "progress");
    stops("{'tasks': {'a': {'lock': 'm', 'unlock': 'm', 'yield': ''}}}", "progress");
    stops("{'tasks': {'a': {'sem_post': 's', 'sem_wait': 's'}}}", "progress");
    stops(
        "{'tasks': {'a': {'send': {'ref': 'p', 'bytes': 1}, 'recv': {'ref': 'p', 'bytes': 1}}}}",
        "progress",
    );
    stops(
        "{'tasks': {'a': {'policy': 'SCHED_FIFO', 'lock': 'm', 'unlock': 'm', 'sleep': 0}}}",
        "progress",
    );
}

#[test]
fn tasks_that_wake_each_other_for_ever_at_one_instant_are_stopped() {
    stops(
        "{'tasks': {'a': {'sem_post': 'x', 'sem_wait': 'y'}, 'b': {'sem_wait': 'x', 'sem_post': 'y'}}}",
        "progress",
    );
    stops(
        "{'tasks': {'a': {'instance': 3, 'lock': 'm', 'yield': '', 'unlock': 'm', 'yield1': ''}}}",
        "progress",
    );
    stops("{'tasks': {'a': {'instance': 4, 'barrier': 'b'}}}", "progress");
}

#[test]
fn a_flood_of_forks_is_stopped() {
    stops(
        "{'machine': {'cpus': 2}, 'tasks': {'a': {'loop': 1, 'fork': 'a', 'fork1': 'a', 'run': 1}}}",
        "task-limit",
    );
}

#[test]
fn slow_forks_end_with_the_duration() {
    let run = world().millis(5).run("'a': {'loop': 1, 'run': 50, 'fork': 'a', 'sleep': 10}");
    run.is("end", run.end(), ms(5));
    run.is("tasks", run.outcome.tasks.len(), 101);
}

const DEADLOCK: &str = "
    'a': {'policy': 'SCHED_FIFO', 'priority': 3, 'loop': 1,
          'lock': 'x', 'run': 100, 'sleep': 300, 'lock1': 'y', 'run1': 100},
    'b': {'policy': 'SCHED_FIFO', 'priority': 2, 'delay': 10, 'loop': 1,
          'lock': 'y', 'run': 100, 'sleep': 300, 'lock1': 'z', 'run1': 100},
    'c': {'policy': 'SCHED_FIFO', 'priority': 1, 'delay': 20, 'loop': 1,
          'lock': 'z', 'run': 100, 'sleep': 300, 'lock1': 'x', 'run1': 100},
    'late': {'policy': 'SCHED_FIFO', 'priority': 9, 'delay': 1000, 'loop': 1, 'lock': 'y'},
    'other': {'loop': 1, 'run': 2000}";

#[track_caller]
fn deadlocked(run: &Run) {
    for name in ["a", "b", "c"] {
        run.is(name, run.at_step(name, 4), []);
    }
    run.holds(run.exit("other") < ms(3), "the others go on");
}

#[test]
fn a_circle_of_mutexes_is_a_deadlock_and_nothing_worse() {
    deadlocked(&world().cpus(2).run(DEADLOCK));
    deadlocked(&world().cpus(2).run_inheriting(DEADLOCK));
    deadlocked(&world().run_inheriting(DEADLOCK));
    let own = "'a': {'policy': 'SCHED_FIFO', 'loop': 1, 'lock': 'm', 'lock1': 'm', 'run': 1},
               'b': {'policy': 'SCHED_FIFO', 'delay': 9, 'loop': 1, 'lock': 'm', 'run': 1}";
    for run in [world().run(own), world().run_inheriting(own)] {
        run.is("a waits for itself", run.at_step("a", 2), []);
    }
}

#[test]
fn a_run_without_hope_ends() {
    let run = world().cpus(2).run(
        "'a': {'loop': 1, 'run': 100, 'suspend': ''}, 'b': {'loop': 1, 'sem_wait': 's'},
         'c': {'loop': 1, 'recv': {'ref': 'p', 'bytes': 1}}, 'd': {'loop': 1, 'barrier': 'b'},
         'e': {'loop': 1, 'delay': 50, 'exit': '', 'barrier': 'b'},
         'f': {'loop': 1, 'send': {'ref': 'q', 'bytes': 11, 'capacity': 10}}",
    );
    run.holds(run.end() < ms(1), "when no task can go on");
    let run = world().millis(7).run("'a': {'loop': 1, 'suspend': ''}");
    run.is("or with its duration", run.end(), ms(7));
}

#[test]
fn who_begins_after_the_end_never_runs() {
    let run = world().millis(7).run("'a': {'delay': 7001, 'loop': 1, 'run': 1}");
    run.is("a", run.ran("a"), Nanos::ZERO);
    run.is("a slept", run.account("a").sleep, Nanos::from_millis(7));
    run.is("wake-ups", run.account("a").wakeups, 0);
}

#[test]
fn a_signal_before_the_wait_leaves_the_waiter() {
    let run = world().run(
        "'a': {'policy': 'SCHED_FIFO', 'loop': 1, 'resume': 'b', 'signal': 'c', 'sem_post': 's'},
         'b': {'loop': 1, 'run': 10, 'sem_wait': 's', 'run1': 10, 'suspend': '', 'run2': 10}",
    );
    run.is("a semaphore remembers, a suspension does not", run.ran("b"), Nanos(20_000));
    run.is("b is left at", run.at_step("b", 3), [us(20)]);
}

/// Returns the waits of a run that never end.
fn left(millis: u64, tasks: &str) -> Vec<String> {
    world().cpus(4).millis(millis).run(tasks).outcome.left.lines
}

#[test]
fn a_deadlock_is_told_of_once() {
    let told = [
        "deadlock: a waits for the mutex y, which b holds; b waits for the mutex z, which c holds; \
         c waits for the mutex x, which a holds",
        "late waits for the mutex y, which b holds, in vain",
    ];
    for run in [world().cpus(2).run(DEADLOCK), world().run_inheriting(DEADLOCK)] {
        run.is("left", run.outcome.left.lines.as_slice(), told.map(str::to_owned));
    }
    let own = left(9, "'a': {'loop': 1, 'lock': 'm', 'lock1': 'm', 'run': 1}");
    assert_eq!(own, ["deadlock: a waits for the mutex m, which a holds"]);
}

#[test]
fn each_wait_is_told_of_that_no_task_is_left_to_end() {
    let told = left(
        50,
        "'goes on': {'run': 100, 'sleep': 100},
         'kept': {'loop': 1, 'lock': 'm', 'run': 1},
         'locks': {'delay': 500, 'loop': 1, 'lock': 'm'},
         'raises': {'loop': 1, 'sem_wait': 'other', 'sem_post': 's'},
         'waits': {'loop': 1, 'sem_wait': 's'},
         'signals': {'loop': 1, 'wait': {'ref': 'c', 'mutex': 'x'}, 'signal': 'c'},
         'here': {'loop': 1, 'barrier': 'b'},
         'gone': {'loop': 1, 'exit': '', 'barrier': 'b'},
         'takes': {'loop': 1, 'recv': {'ref': 'p', 'bytes': 1}},
         'puts': {'loop': 1, 'send': {'ref': 'q', 'bytes': 11, 'capacity': 10}},
         'sleeps': {'loop': 1, 'suspend': ''}",
    );
    let expected = [
        "locks waits for the mutex m, which kept held when it ended, in vain",
        "raises waits for the semaphore other in vain",
        "waits waits for the semaphore s in vain",
        "signals waits for the condition c in vain",
        "here waits for the others at the barrier b in vain",
        "takes waits for bytes of the pipe p in vain",
        "puts waits for room in the pipe q in vain",
        "sleeps waits to be resumed in vain",
    ];
    assert_eq!(told, expected);
}

/// The run ends in the middle of all these waits.
#[test]
fn a_wait_that_a_task_could_end_is_not_told_of() {
    let told = left(
        50,
        "'holds': {'lock': 'm', 'run': 100000, 'unlock': 'm'},
         'locks': {'delay': 500, 'lock': 'm', 'run': 1, 'unlock': 'm'},
         'clock': {'sleep': 60000, 'sem_post': 's', 'barrier': 'b', 'resume': 'suspended', 'fork': 'child'},
         'chain': {'loop': 1, 'sem_wait': 's', 'signal': 'c', 'send': {'ref': 'p', 'bytes': 1}},
         'waits': {'loop': 1, 'wait': {'ref': 'c', 'mutex': 'x'}},
         'takes': {'loop': 1, 'recv': {'ref': 'p', 'bytes': 1}},
         'puts': {'loop': 1, 'send': {'ref': 'q', 'bytes': 99, 'capacity': 9}},
         'child': {'instance': 0, 'loop': 1, 'recv': {'ref': 'q', 'bytes': 99, 'capacity': 9}},
         'here': {'loop': 1, 'barrier': 'b'},
         'suspended': {'loop': 1, 'suspend': ''}",
    );
    assert_eq!(told, [""; 0]);
}

#[test]
fn a_resume_that_found_nobody_is_counted() {
    let told = left(
        50,
        "'a': {'loop': 3, 'resume': 'b', 'sleep': 1000}, 'b': {'loop': 1, 'delay': 1500, 'suspend': ''}",
    );
    assert_eq!(told, ["2 of the `resume` events for b found it not suspended"]);
}

#[test]
fn of_very_many_waits_the_first_are_told_of() {
    let told = left(50, "'a': {'instance': 100, 'loop': 1, 'sem_wait': 's'}");
    assert_eq!((told.len(), told[16].as_str()), (17, "84 more waits are in vain"));
}
