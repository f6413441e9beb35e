//! Changes of CPUs, task groups and tasks at times of the run.

use crate::rig::{Run, ms, on, us, world};
use runyard_engine::event::What;
use runyard_engine::time::{Nanos, Time};

/// Returns the time that a task executed between two times.
fn ran_in(run: &Run, name: &str, from: Time, to: Time) -> Nanos {
    let stretches = run.stretches(name).into_iter();
    let spans = stretches.map(|it| it.to.min(to).since(it.from.max(from).min(to)));
    spans.fold(Nanos::ZERO, |sum, span| sum + span)
}

/// Returns the same in per cent of the time between them.
fn share_in(run: &Run, name: &str, from: Time, to: Time) -> f64 {
    ran_in(run, name, from, to).0 as f64 * 100.0 / to.since(from).0 as f64
}

#[track_caller]
fn is_near(run: &Run, what: &str, got: f64, want: f64) {
    run.holds((got - want).abs() < 2.0, &format!("{what}: {got} and not {want} %"));
}

#[test]
fn a_limit_falls_and_rises() {
    let run = world().millis(3_000).run_text(
        "{'groups': {'/a': {'runtime': 50000}},
          'timeline': [{'at': 2000000, 'group': '/a', 'runtime': -1},
                       {'at': 1000000, 'group': '/a', 'runtime': 20000}],
          'tasks': {'a': {'group': '/a', 'run': 1000}}}",
    );
    run.is("half", ran_in(&run, "a", ms(0), ms(1_000)), Nanos::from_millis(500));
    // The first period under the new limit begins anew.
    run.is("a fifth", ran_in(&run, "a", ms(1_000), ms(2_000)), Nanos::from_millis(200));
    run.is("all", ran_in(&run, "a", ms(2_000), ms(3_000)), Nanos::from_millis(1_000));
}

#[test]
fn a_budget_survives_the_loss_of_a_cpu() {
    let run = world().cpus(2).millis(3_000).run_text(
        "{'groups': {'/a': {'runtime': 80000}},
          'timeline': [{'at': 1000000, 'cpu': 1, 'online': false}, {'at': 2000000, 'cpu': 1, 'online': true}],
          'machine': {'cpus': 2},
          'tasks': {'a': {'instance': 2, 'group': '/a', 'run': 1000},
                    'pinned': {'cpus': [1], 'group': '/', 'run': 100, 'sleep': 900}}}",
    );
    for second in 0..3 {
        let (from, to) = (ms(second * 1_000), ms(second * 1_000 + 1_000));
        let both = share_in(&run, "a-0", from, to) + share_in(&run, "a-1", from, to);
        is_near(&run, "the budget of both CPUs", both, 80.0);
    }
    let away = run.stretches("pinned").into_iter().filter(|it| it.cpu == 0);
    let within = away.filter(|it| it.from < ms(1_000) || it.from > ms(2_001)).count();
    run.is("stretches of the pinned task elsewhere, while its CPU is there", within, 0);
    let away = run.stretches("pinned").iter().filter(|it| it.cpu == 0).count();
    run.holds(away > 900, "it runs elsewhere while its CPU is away");
}

#[test]
fn a_group_has_three_times_the_weight() {
    let run = world().millis(2_000).run_text(
        "{'groups': {'/a': {'weight': 1000}, '/b': {'weight': 1000}},
          'timeline': [{'at': 1000000, 'group': '/a', 'weight': 3000}],
          'tasks': {'a': {'group': '/a', 'run': 1000}, 'b': {'group': '/b', 'run': 1000}}}",
    );
    is_near(&run, "before", share_in(&run, "a", ms(0), ms(1_000)), 50.0);
    is_near(&run, "after", share_in(&run, "a", ms(1_000), ms(2_000)), 75.0);
}

#[test]
fn a_nice_value_changes_the_share_of_all_instances() {
    let run = world().millis(2_000).run_text(
        "{'timeline': [{'at': 1000000, 'task': 'a', 'priority': -5}],
          'tasks': {'a': {'instance': 2, 'run': 1000}, 'b': {'run': 1000, 'instance': 2}}}",
    );
    for name in ["a-0", "a-1"] {
        is_near(&run, "before", share_in(&run, name, ms(0), ms(1_000)), 25.0);
        // Nice -5 weighs 3121, and nice 0 weighs 1024.
        is_near(&run, "after", share_in(&run, name, ms(1_000), ms(2_000)), 37.6);
    }
}

/// Returns the mean wait of `a` for the CPU before and after 2 s, in nanoseconds, with these changes.
fn waits_around_a_change(changes: &str) -> [u64; 2] {
    let run = world().millis(4_000).run_text(&format!(
        "{{'timeline': [{changes}],
           'tasks': {{'a': {{'latency_nice': 19, 'run': 3000, 'sleep': 3000}}, 'hog': {{'instance': 3, 'run': 1000}}}}}}"
    ));
    let a = run.task("a");
    let wakes = run.times(|event| matches!(event.what, What::Wake { task, .. } if task == a));
    let stretches = run.stretches("a");
    let wait = |at: Time| stretches.iter().find(|it| it.from >= at).map(|it| it.from.since(at).0);
    let mean = |from: Time, to: Time| {
        let some = wakes.iter().filter(|at| (from..to).contains(at)).filter_map(|&at| wait(at));
        let (sum, count) = some.fold((0, 0), |(sum, count), wait| (sum + wait, count + 1));
        sum / count
    };
    [mean(ms(0), ms(2_000)), mean(ms(2_000), ms(4_000))]
}

#[test]
fn a_task_waits_less_with_another_latency_nice() {
    let change = "{'at': 2000000, 'task': 'a', 'latency_nice': -20}";
    let [before, after] = waits_around_a_change(change);
    assert!(after * 4 < before, "waits of {before} ns before, and {after} after");
    let [before, after] = waits_around_a_change("");
    assert!(after * 2 > before, "waits of {before} and {after} ns without a change");
}

#[test]
fn a_policy_changes_while_the_task_runs_waits_and_sleeps() {
    let run = world().run_text(
        "{'timeline': [{'at': 10000, 'task': 'fair', 'policy': 'SCHED_FIFO', 'priority': 5}],
          'tasks': {'fair': {'loop': 1, 'instance': 2, 'run': 20000},
                    'sleeper': {'loop': 1, 'sleep': 15000, 'run': 1000},
                    'other': {'loop': 1, 'run': 20000}}}",
    );
    run.is("both are done first", run.exit("fair-0").max(run.exit("fair-1")) < us(48_000), true);
    run.holds(run.exit("sleeper") > us(40_000), "a fair task waits for them");
    run.is("and the other", ran_in(&run, "other", ms(10), ms(40)) < Nanos::from_millis(8), true);
    let run = world().run_text(
        "{'timeline': [{'at': 10000, 'task': 'sleeper', 'policy': 'SCHED_RR', 'priority': 5}],
          'tasks': {'fair': {'loop': 1, 'run': 20000},
                    'sleeper': {'loop': 1, 'sleep': 15000, 'run': 1000, 'timer_slack': 0}}}",
    );
    run.is(
        "a sleeper",
        run.stretches("sleeper"),
        [on(0, 0, 0), on(0, 15_000, 16_000)][1..].to_vec(),
    );
}

#[test]
fn an_affinity_moves_a_task_and_phases_fall_back_on_it() {
    let run = world().cpus(3).run_text(
        "{'machine': {'cpus': 3},
          'timeline': [{'at': 5000, 'task': 'a', 'cpus': [1]}],
          'tasks': {'a': {'cpus': [0], 'loop': 1, 'phases': {
              'p': {'run': 7000}, 'q': {'run': 1000}, 'r': {'cpus': [2], 'run': 1000}, 's': {'run': 1000}}}}}",
    );
    let stretches =
        [on(0, 0, 5_000), on(1, 5_000, 8_000), on(2, 8_000, 9_000), on(1, 9_000, 10_000)];
    run.is("a", run.stretches("a"), stretches);
}

#[test]
fn a_batch_comes_and_goes() {
    let run = world().millis(3_000).run_text(
        "{'timeline': [{'at': 1000000, 'start': 'batch'}, {'at': 2000000, 'stop': 'batch'}],
          'tasks': {'batch': {'instance': 2, 'delay': 1000, 'run': 1000}, 'hog': {'run': 1000}}}",
    );
    for name in ["batch-0", "batch-1"] {
        run.is("before", ran_in(&run, name, ms(0), us(1_001_000)), Nanos::ZERO);
        is_near(&run, "its part", share_in(&run, name, ms(1_001), ms(2_000)), 33.3);
        run.holds(run.exit(name) >= ms(2_000) && run.exit(name) < ms(2_010), "it ends");
    }
    is_near(&run, "alone", share_in(&run, "hog", ms(0), ms(1_000)), 100.0);
    is_near(&run, "alone again", share_in(&run, "hog", ms(2_010), ms(3_000)), 100.0);
    let names: Vec<_> = run.outcome.tasks.iter().map(|task| task.name.as_str()).collect();
    run.is("tasks in the order of the file", names, ["batch-0", "batch-1", "hog"]);
    let sleep = run.account("batch-0").sleep;
    run.is("it is no task before its start", sleep, Nanos::from_micros(1_000));
}

#[test]
fn a_start_after_a_stop_begins_the_task_anew() {
    let run = world().run_text(
        "{'timeline': [{'at': 10000, 'stop': 'a'}, {'at': 20000, 'start': 'a'}, {'at': 25000, 'stop': 'a'},
                       {'at': 40000, 'start': 'a'}],
          'tasks': {'a': {'loop': 1, 'run': 12000, 'sleep': 1000}}}",
    );
    run.is("first", run.stretches("a"), [on(0, 0, 10_000)]);
    run.is("second", run.stretches("a#2"), [on(0, 20_000, 25_000)]);
    run.is("third", run.stretches("a#3"), [on(0, 40_000, 52_000)]);
    run.is("the run waits for the last start", run.end(), us(53_000 + 50));
}

#[test]
fn whatever_it_waits_for_a_task_ends() {
    for step in [
        "'sleep': 5000000",
        "'timer': {'ref': 'unique', 'period': 5000000}",
        "'lock': 'm', 'unlock': 'm'",
        "'lock': 'h', 'unlock': 'h'",
        "'lock': 'i', 'unlock': 'i'",
        "'lock': 'free', 'wait': {'ref': 'c', 'mutex': 'free'}, 'unlock': 'free'",
        "'barrier': 'b'",
        "'sem_wait': 's'",
        "'suspend'",
        "'recv': {'ref': 'empty', 'bytes': 10}",
        "'send': {'ref': 'full', 'bytes': 10, 'capacity': 5}",
        "'run': 1000000",
        "'runtime': 1000000",
        "'yield', 'run': 1000000",
    ] {
        let run = world().millis(100).run_text(&format!(
            "{{'mutexes': {{'m': 'barge', 'h': 'hand_over', 'i': 'inherit'}},
               'timeline': [{{'at': 20000, 'stop': 'a'}}, {{'at': 10000, 'stop': 'late'}}],
               'tasks': {{'owner': {{'loop': 1, 'lock': 'm', 'lock1': 'h', 'lock2': 'i', 'sleep': 30000, 'unlock': 'm',
                                     'unlock1': 'h', 'unlock2': 'i', 'barrier': 'b'}},
                          'a': {{'instance': 2, 'delay': 1000, 'loop': 1, {step}, 'run1': 7000000}},
                          'late': {{'delay': 50000, 'loop': 1, 'run': 1000}},
                          'after': {{'delay': 25000, 'loop': 1, 'lock': 'm', 'lock1': 'h', 'lock2': 'i', 'run': 1000}}}}}}"
        ));
        for name in ["a-0", "a-1"] {
            let exit = run.exit(name);
            run.holds(exit >= ms(20) && exit < ms(21), &format!("{step}: {name} ends at {exit}"));
        }
        run.is("it never begins its work", run.exit("late"), ms(10));
        run.is(&format!("{step}: the others go on"), run.exit("after"), us(31_050));
    }
}

#[test]
fn a_task_that_is_woken_for_a_mutex_passes_it_on() {
    // The owner wakes `a`, which waits for the CPU behind the owner, and is stopped then.
    let run = world().run_text(
        "{'timeline': [{'at': 3500, 'stop': 'a'}],
          'tasks': {'owner': {'policy': 'SCHED_FIFO', 'priority': 9, 'loop': 1, 'lock': 'm', 'sleep': 3000, 'unlock': 'm', 'run': 2000},
                    'a': {'policy': 'SCHED_FIFO', 'priority': 5, 'delay': 1000, 'loop': 1, 'lock': 'm', 'run': 1000, 'unlock': 'm'},
                    'b': {'policy': 'SCHED_FIFO', 'priority': 4, 'delay': 2000, 'loop': 1, 'lock': 'm', 'run': 1000, 'unlock': 'm'}}}",
    );
    run.is("a ends without work", run.exit("a"), ms(5));
    run.is("b has the mutex", run.exit("b"), ms(6));
}

/// Seen failing in a random scenario: the task was over and still waited for the mutex.
#[test]
fn a_task_that_is_woken_for_a_mutex_that_another_has_taken_since_ends() {
    let run = world().run_text(
        "{'timeline': [{'at': 3500, 'stop': 'a'}],
          'tasks': {'owner': {'policy': 'SCHED_FIFO', 'priority': 9, 'loop': 1, 'lock': 'm', 'sleep': 3000, 'unlock': 'm', 'run': 2000,
                              'lock': 'm', 'sleep': 4000, 'unlock': 'm'},
                    'a': {'policy': 'SCHED_FIFO', 'priority': 5, 'delay': 1000, 'loop': 1, 'lock': 'm', 'run': 1000, 'unlock': 'm'},
                    'b': {'policy': 'SCHED_FIFO', 'priority': 4, 'delay': 2000, 'loop': 1, 'lock': 'm', 'run': 1000, 'unlock': 'm'}}}",
    );
    run.is("a ends without work", run.exit("a"), ms(5));
    run.is("b has the mutex after the owner", run.exit("b"), ms(10));
}

#[test]
fn a_system_call_ends_before_its_task_does() {
    let run = world().run_text(
        "{'timeline': [{'at': 2000, 'stop': 'a'}], 'tasks': {'a': {'loop': 1, 'kernel': 5000, 'run': 5000}}}",
    );
    run.is("a", run.exit("a"), ms(5));
}

#[test]
fn a_heir_of_a_waiter_that_is_stopped_or_changed_knows() {
    let scenario = |change: &str| {
        world().run_text(&format!(
            "{{'timeline': [{{'at': 4000, {change}}}], 'mutexes': {{'m': 'inherit'}},
               'tasks': {{'owner': {{'loop': 1, 'lock': 'm', 'run': 10000, 'unlock': 'm'}},
                          'waiter': {{'policy': 'SCHED_FIFO', 'priority': 50, 'delay': 1000, 'loop': 1, 'lock': 'm', 'unlock': 'm'}},
                          'middle': {{'policy': 'SCHED_FIFO', 'priority': 20, 'delay': 2000, 'loop': 1, 'run': 5000}}}}}}"
        ))
    };
    let run = scenario("'task': 'owner', 'latency_nice': 3");
    run.is("the owner comes before", run.exit("middle"), ms(15));
    let run = scenario("'stop': 'waiter'");
    run.is("it has lost its donor", run.exit("middle"), ms(9));
    let run = scenario("'task': 'waiter', 'priority': 10");
    run.is("its donor is less important", run.exit("middle"), ms(9));
}

#[test]
fn each_change_is_an_event() {
    let run = world().cpus(2).run_text(
        "{'machine': {'cpus': 2}, 'timeline': [{'at': 3000, 'stop': 'a'}, {'at': 1000, 'cpu': 1, 'online': false}],
          'tasks': {'a': {'run': 1000}}, 'global': {'duration': 1}}",
    );
    let events = run.events.iter().filter_map(|event| match event.what {
        What::Timeline { change } => Some((event.at, change)),
        _ => None,
    });
    let words = |nth: u32| run.scenario.in_words(&run.scenario.timeline[nth as usize].change);
    let told: Vec<_> = events.map(|(at, nth)| (at, words(nth))).collect();
    run.is("changes", told, [(ms(1), "CPU 1 offline".to_owned()), (ms(3), "stop a".to_owned())]);
}

/// A change at 0.9 s takes no draw, so events of one time before it come in the same order as without it.
#[test]
fn a_change_does_not_change_what_was_before() {
    let events = |timeline: &str| {
        let run = world().costs_of_the_text().millis(1_000).run_text(&format!(
            "{{'machine': {{'cpus': 3}}, {timeline} 'tasks': {{
                'a': {{'instance': 4, 'run': 700, 'sleep': 300}}, 'b': {{'instance': 3, 'run': 1000}}}}}}"
        ));
        run.events.iter().take_while(|event| event.at < ms(900)).copied().collect::<Vec<_>>()
    };
    let without = events("");
    assert!(without.len() > 5_000, "{}", without.len());
    let change = "'timeline': [{'at': 900000, 'task': 'b', 'priority': 0}],";
    assert!(without == events(change), "the runs differ before the change");
}
