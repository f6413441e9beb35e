//! The fair class: the shares of tasks, wake-up preemption, and the spread over CPUs.

use crate::rig::{Run, World, ms, on, us, world};
use runyard_engine::time::Nanos;

const LONG: Nanos = Nanos::from_secs(10);

/// Runs `tasks`, which never end, for 10 s.
fn long(world: World, text: &str) -> Run {
    let world = world.millis(10_000);
    if text.contains("'tasks'") { world.run_text(text) } else { world.run(text) }
}

/// Asserts that the share of a task, in per cent of one CPU, is close to the expected one.
fn near(run: &Run, name: &str, percent: f64) {
    let share = run.share(name, LONG);
    run.holds((share - percent).abs() < 1.0, &format!("{name} has {share} %, not {percent} %"));
}

#[test]
fn shares_follow_weights() {
    let run = long(world(), "'a': {'run': 1000}, 'b': {'priority': 5, 'run': 1000}");
    near(&run, "a", 100.0 * 1024.0 / (1024.0 + 335.0));
    near(&run, "b", 100.0 * 335.0 / (1024.0 + 335.0));
    let run = long(
        world(),
        "'a': {'priority': -5, 'run': 700}, 'b': {'policy': 'SCHED_BATCH', 'run': 1000},
         'c': {'instance': 2, 'priority': 1, 'run': 300}",
    );
    let all = f64::from(3121 + 1024 + 2 * 820);
    near(&run, "a", 312_100.0 / all);
    near(&run, "b", 102_400.0 / all);
    near(&run, "c-0", 82_000.0 / all);
    near(&run, "c-1", 82_000.0 / all);
}

#[test]
fn who_sleeps_little_gets_no_more_than_its_share() {
    let run = long(world(), "'a': {'run': 9000, 'sleep': 10}, 'b': {'run': 1000}");
    near(&run, "a", 50.0);
    near(&run, "b", 50.0);
}

#[test]
fn sched_idle_gets_next_to_nothing_beside_others() {
    let run = long(world(), "'idle': {'policy': 'SCHED_IDLE', 'run': 1000}, 'a': {'run': 1000}");
    let share = run.share("idle", LONG);
    run.holds((0.1..0.6).contains(&share), &format!("3 of 1027 is 0.29 %, not {share} %"));
    let run = long(world(), "'idle': {'policy': 'SCHED_IDLE', 'run': 1000}");
    near(&run, "idle", 100.0);
}

#[test]
fn groups_share_by_their_weights_not_by_their_tasks() {
    let run = long(
        world(),
        "{'groups': {'/a': {'weight': 2048}, '/b': {}, '/b/c': {}, '/b/d': {}}, 'tasks': {
            'alone': {'group': '/a', 'run': 1000},
            'many': {'group': '/b/c', 'instance': 3, 'run': 1000},
            'other': {'group': '/b/d', 'run': 1000},
        }}",
    );
    near(&run, "alone", 200.0 / 3.0);
    near(&run, "many-1", 100.0 / 18.0);
    near(&run, "other", 100.0 / 6.0);
}

/// On each CPU, a group's weight is its total weight times the part of its load on that CPU.
#[test]
fn a_groups_weight_is_divided_among_its_cpus() {
    let run = long(
        world().cpus(2),
        "{'groups': {'/a': {}, '/b': {}}, 'tasks': {
            'a': {'group': '/a', 'cpus': [0], 'run': 1000},
            'b0': {'group': '/b', 'cpus': [0], 'run': 1000},
            'b1': {'group': '/b', 'cpus': [1], 'run': 1000},
        }}",
    );
    near(&run, "a", 200.0 / 3.0);
    near(&run, "b0", 100.0 / 3.0);
    near(&run, "b1", 100.0);
    let run = long(
        world().cpus(2),
        "{'groups': {'/a': {'weight': 3072}, '/b': {}}, 'tasks': {
            'a0': {'group': '/a', 'cpus': [0], 'run': 1000},
            'a1': {'group': '/a', 'cpus': [1], 'run': 1000},
            'b0': {'group': '/b', 'cpus': [0], 'instance': 2, 'run': 1000},
            'b1': {'group': '/b', 'cpus': [1], 'instance': 2, 'run': 1000},
        }}",
    );
    for (name, percent) in [("a0", 75.0), ("a1", 75.0), ("b0-0", 12.5), ("b1-1", 12.5)] {
        near(&run, name, percent);
    }
}

/// Returns the wake-up latency of a task that mostly sleeps, on a CPU that another task keeps busy.
fn latency(features: &str, policy: &str) -> Nanos {
    let run = world().millis(3_000).features(features).run(&format!(
        "'hog': {{'run': 1000}},
         'a': {{'policy': '{policy}', 'delay': 1000, 'timer_slack': 0, 'run': 50, 'sleep': 10000}}"
    ));
    run.account("a").wakeup_latency.quantile(500_000).unwrap()
}

#[test]
fn a_woken_task_preempts_unless_it_is_batch_or_told_not_to() {
    assert_eq!(latency("", "SCHED_OTHER"), Nanos::ZERO, "at once");
    let tick = Nanos::from_micros(500);
    assert!(latency("", "SCHED_BATCH") > tick);
    assert!(latency("", "SCHED_IDLE") > tick);
    assert!(latency("NO_WAKEUP_PREEMPTION", "SCHED_OTHER") > tick);
}

#[test]
fn everybody_preempts_sched_idle() {
    for features in ["", "NO_WAKEUP_PREEMPTION"] {
        for policy in ["SCHED_OTHER", "SCHED_BATCH"] {
            let run = world().features(features).run(&format!(
                "'idle': {{'policy': 'SCHED_IDLE', 'delay': 10, 'loop': 1, 'run': 5000}},
                 'a': {{'policy': '{policy}', 'timer_slack': 0, 'loop': 1, 'sleep': 1300, 'run': 100}}"
            ));
            run.is(policy, run.at_step("a", 1), [us(1_300)]);
        }
    }
}

/// An idle group with a normal child group, the opposite, and a group with the weight of an idle one.
const GROUPS: &str = "'groups': {'/i': {'idle': true}, '/i/n': {}, '/n': {},
    '/n/i': {'idle': true}, '/light': {'weight': 2}}";

#[test]
fn an_idle_group_has_the_share_of_one_sched_idle_task() {
    let beside = |other: &str| {
        let text = format!(
            "{{{GROUPS}, 'tasks': {{{other}
                'heavy': {{'group': '/i', 'priority': -5, 'run': 1000}},
                'light': {{'group': '/i', 'run': 1000}},
                'below': {{'group': '/i/n', 'run': 1000}},
            }}}}"
        );
        long(world(), &text)
    };
    let run = beside("'a': {'run': 1000},");
    let share = |name| run.share(name, LONG);
    let all = share("heavy") + share("light") + share("below");
    run.holds((0.1..0.6).contains(&all), &format!("3 of 1027 is 0.29 %, not {all} %"));
    // A third of a per cent allows for few turns, which last some milliseconds.
    let heavy = share("heavy") / all;
    run.holds((0.4..0.8).contains(&heavy), &format!("3121 of 5169 is 0.60, not {heavy}"));
    let alone = beside("");
    for (name, weight) in [("heavy", 3121.0), ("light", 1024.0), ("below", 1024.0)] {
        near(&alone, name, weight / 51.69);
    }
}

#[test]
fn an_idle_group_is_idle_to_its_siblings_only() {
    let run = long(
        world(),
        &format!(
            "{{{GROUPS}, 'tasks': {{
                'a': {{'run': 1000}},
                'idle': {{'group': '/n/i', 'run': 1000}},
            }}}}"
        ),
    );
    near(&run, "a", 50.0);
    near(&run, "idle", 50.0);
    let run = long(
        world(),
        &format!(
            "{{{GROUPS}, 'tasks': {{
                'a': {{'run': 1000}},
                'beside': {{'group': '/n', 'run': 1000}},
                'idle': {{'group': '/n/i', 'run': 1000}},
            }}}}"
        ),
    );
    near(&run, "a", 50.0);
    near(&run, "beside", 50.0);
    near(&run, "idle", 0.15);
}

/// Returns whether a task of `woken` preempts one of `running` at once. The woken task has nice 19, so that its sleeper
/// credit never suffices for that (without `LATENCY_NICE`, which caps the credit needed). It sleeps for longer than its
/// initial lead.
fn preempts(features: &str, policy: &str, running: &str, woken: &str) -> bool {
    let run = world().features(features).features("NO_LATENCY_NICE").run_text(&format!(
        "{{{GROUPS}, 'tasks': {{
            'hog': {{'group': '{running}', 'delay': 10, 'loop': 1, 'run': 600000}},
            'a': {{'group': '{woken}', 'policy': '{policy}', 'priority': 19, 'timer_slack': 0,
                   'loop': 1, 'sleep': 500300, 'run': 100}},
        }}}}"
    ));
    run.at_step("a", 1) == [us(500_300)]
}

#[test]
fn a_woken_task_preempts_an_idle_group_at_once() {
    let other = |running, woken| preempts("", "SCHED_OTHER", running, woken);
    for (running, woken) in
        [("/i", "/"), ("/i", "/n"), ("/i", "/n/i"), ("/i/n", "/"), ("/n/i", "/n"), ("/i", "/light")]
    {
        assert!(other(running, woken), "{woken} preempts {running}");
    }
    for (running, woken) in
        [("/", "/"), ("/n/i", "/"), ("/light", "/"), ("/i/n", "/i"), ("/i", "/i"), ("/", "/i")]
    {
        assert!(!other(running, woken), "{woken} does not preempt {running}");
    }
    assert!(!preempts("", "SCHED_BATCH", "/i", "/"), "as in 6.1");
    assert!(!preempts("NO_WAKEUP_PREEMPTION", "SCHED_OTHER", "/i", "/"), "as in 6.1");
}

#[test]
fn a_task_of_an_idle_group_preempts_nobody_outside() {
    // A hog with a low weight soon has such a lead over the woken task that virtual times alone would preempt it. The
    // other hog keeps the clock from following it.
    let latency = |idle: &str, millionths| {
        let run = world().millis(10_000).run_text(&format!(
            "{{'machine': {{'cpus': 1, 'tick_hz': 100}},
              'groups': {{'/a': {{'weight': 2}}, '/b': {{'weight': 2}}, '/c': {{{idle}}}}},
              'tasks': {{
                'a': {{'group': '/a', 'run': 1000}},
                'b': {{'group': '/b', 'run': 1000}},
                'woken': {{'group': '/c', 'delay': 1000, 'timer_slack': 0, 'run': 50,
                           'sleep': {{'uniform': [20000, 60000]}}}},
              }}}}"
        ));
        run.account("woken").wakeup_latency.quantile(millionths).unwrap()
    };
    assert_eq!(
        latency("'weight': 3", 200_000),
        Nanos::ZERO,
        "so light a group that is not idle may"
    );
    assert!(latency("'idle': true", 1_000) > Nanos::ZERO);
}

#[test]
fn an_idle_group_is_credited_as_a_sched_idle_task() {
    let waits = |groups: &str, how: &str| {
        let run = world().millis(10_000).features("NO_LATENCY_NICE").run_text(&format!(
            "{{'groups': {{{groups}}}, 'tasks': {{
                'hog': {{'instance': 2, 'run': 1000}},
                'a': {{{how}, 'delay': 10000, 'timer_slack': 0, 'run': 10, 'sleep': 100300}},
            }}}}"
        ));
        let waits = run.account("a").wakeup_latency.quantile(500_000).unwrap();
        run.holds(waits > Nanos::ZERO, "it does not preempt");
        waits
    };
    let idle = waits("'/i': {'idle': true}", "'group': '/i'");
    assert_eq!(idle, waits("", "'policy': 'SCHED_IDLE'"));
    assert!(
        idle > waits("'/i': {'weight': 3}", "'group': '/i'"),
        "a task that is not idle gets more"
    );
}

#[test]
fn a_sleeper_is_credited_half_a_period_or_a_whole_one() {
    let sleeper = |features| {
        let run = world().features(features).run(
            "'hog': {'loop': 1, 'run': 300000},
             'sleeper': {'timer_slack': 0, 'loop': 1, 'sleep': 100000, 'run': 30000}",
        );
        let first = run.stretches("sleeper")[0];
        run.is("it preempts", first.from, ms(100));
        first.to.since(first.from)
    };
    // With one CPU the period is 6 ms; a turn ends at a tick after half of it.
    let (gentle, full) = (sleeper(""), sleeper("NO_GENTLE_FAIR_SLEEPERS"));
    assert_eq!((gentle, full), (Nanos::from_millis(4), Nanos::from_millis(8)));
}

/// Four tasks begin on CPU 0; then they may run anywhere.
const STACKED: &str = "'a': {'instance': 4, 'cpus': [0], 'phases': {
    'there': {'run': 1000}, 'wide': {'loop': -1, 'cpus': [0, 1, 2, 3], 'run': 1000}}}";

#[test]
fn idle_cpus_fill_up() {
    let run = world().cpus(4).millis(1_000).run(STACKED);
    for nth in 0..4 {
        let ran = run.ran(&format!("a-{nth}"));
        run.holds(ran > Nanos::from_millis(950), &format!("a-{nth} has a CPU of its own"));
    }
    let run = world().cpus(4).millis(1_000).features("NO_LOAD_BALANCE").run(STACKED);
    for nth in 0..4 {
        let name = format!("a-{nth}");
        run.is(&name, run.cpus_of(&name), [0]);
    }
}

#[test]
fn cpus_with_unequal_loads_even_out() {
    let tasks = "'stacked': {'instance': 5, 'cpus': [0], 'phases': {
                     'there': {'run': 1000}, 'wide': {'loop': -1, 'cpus': [0, 1], 'run': 1000}}},
                 'pinned': {'cpus': [1], 'run': 1000}";
    let run = world().cpus(2).millis(4_000).run(tasks);
    // Six tasks on two CPUs have a third each.
    for name in ["stacked-0", "stacked-1", "stacked-2", "stacked-3", "stacked-4", "pinned"] {
        let share = run.share(name, Nanos::from_secs(4));
        run.holds((24.0..43.0).contains(&share), &format!("{name} has {share} %"));
    }
    let run = world().cpus(2).millis(1_000).features("NO_LOAD_BALANCE").run(tasks);
    for nth in 0..5 {
        let name = format!("stacked-{nth}");
        run.is(&name, run.cpus_of(&name), [0]);
    }
}

#[test]
fn tasks_begin_and_wake_up_on_idle_cpus() {
    for features in ["", "NO_LOAD_BALANCE"] {
        let run =
            world().cpus(4).features(features).run("'a': {'instance': 4, 'loop': 1, 'run': 9}");
        run.is("end", run.end(), us(9));
        let run = world().cpus(2).features(features).run(
            "'a': {'cpus': [0], 'loop': 1, 'phases': {
                'p': {'run': 10}, 'q': {'cpus': [0, 1], 'timer_slack': 0, 'sleep': 90, 'run': 10}}},
             'hog': {'cpus': [0], 'delay': 20, 'loop': 1, 'run': 1000}",
        );
        run.is("its CPU is busy", run.stretches("a")[1], on(1, 100, 110));
    }
}
