//! The actions of one task: time, timers, phases and loops, forks, and the properties of a phase.

use crate::rig::{Run, ms, on, us, world};
use runyard_engine::attr::{GroupId, Policy, RtPrio};
use runyard_engine::event::What;
use runyard_engine::time::{Nanos, Time};

#[test]
fn a_run_is_cpu_time_and_a_runtime_is_time() {
    let run = world().run(
        "'hog': {'policy': 'SCHED_FIFO', 'delay': 1000, 'loop': 1, 'run': 5000},
         'work': {'loop': 1, 'run': 3000}",
    );
    run.is("work", run.stretches("work"), [on(0, 0, 1_000), on(0, 6_000, 8_000)]);
    let run = world().run(
        "'hog': {'policy': 'SCHED_FIFO', 'delay': 1000, 'loop': 1, 'run': 5000},
         'spin': {'loop': 1, 'runtime': 3000, 'run': 100}",
    );
    run.is("spin", run.stretches("spin"), [on(0, 0, 1_000), on(0, 6_000, 6_100)]);
    run.is("it saw that its time was over", run.at_step("spin", 1), [us(6_000)]);
    let run = world().run("'spin': {'loop': 1, 'runtime': 3000, 'run': 100}");
    run.is("alone", run.exit("spin"), us(3_100));
}

#[test]
fn bytes_are_cpu_time() {
    let run = world().run(
        "'hog': {'policy': 'SCHED_FIFO', 'delay': 100, 'loop': 1, 'run': 500},
         'work': {'loop': 1, 'mem': 4000000, 'iorun': 400000}",
    );
    run.is("work", run.stretches("work"), [on(0, 0, 100), on(0, 600, 800)]);
}

#[test]
fn a_deadline_task_goes_before_all_others() {
    let run = world().deadline_as_fifo().run(
        "'fifo': {'policy': 'SCHED_FIFO', 'priority': 98, 'loop': 1, 'run': 500},
         'deadline': {'policy': 'SCHED_DEADLINE', 'dl-runtime': 100, 'dl-period': 200,
                      'delay': 100, 'loop': 1, 'phases': {'p': {'run': 300}}}",
    );
    run.is("it has no budget to run out of", run.stretches("deadline"), [on(0, 100, 400)]);
}

#[test]
fn a_sleep_ends_with_its_slack_unless_an_interrupt_comes_before() {
    let alone = |tasks: &str| world().run(tasks).at_step("a", 1);
    assert_eq!(alone("'a': {'loop': 1, 'sleep': 5000, 'run': 1}"), [us(5_050)]);
    assert_eq!(alone("'a': {'timer_slack': 0, 'loop': 1, 'sleep': 5000, 'run': 1}"), [us(5_000)]);
    assert_eq!(alone("'a': {'timer_slack': 700, 'loop': 1, 'sleep': 50, 'run': 1}"), [us(750)]);
    let real_time = "'policy': 'SCHED_FIFO', 'timer_slack': 700, 'loop': 1";
    assert_eq!(alone(&format!("'a': {{{real_time}, 'sleep': 5000, 'run': 1}}")), [us(5_000)]);
    // The timer's window is open when the CPU is about to go idle.
    assert_eq!(alone("'a': {'loop': 1, 'sleep': 0, 'run': 1}"), [us(0)]);
    // Another timer of the CPU interrupts within the window. On a busy CPU the tick does so.
    let run = world().run(
        "'other': {'policy': 'SCHED_FIFO', 'loop': 1, 'sleep': 5020, 'run': 10},
         'a': {'timer_slack': 100, 'loop': 1, 'sleep': 5000, 'run': 1}",
    );
    run.is("woken with the other", run.at_step("a", 1), [us(5_030)]);
    run.is("since its soft expiry", run.account("a").wakeup_latency.max(), Some(Nanos(30_000)));
    let run = world().cpus(1).run(
        "'hog': {'policy': 'SCHED_IDLE', 'loop': 1, 'run': 9000},
         'a': {'timer_slack': 300, 'loop': 1, 'sleep': 4800, 'run': 1}",
    );
    run.is("woken with the tick", run.at_step("a", 1), [us(5_000)]);
}

#[test]
fn a_timer_between_soft_and_the_next_interrupt_waits() {
    let run = world().run(
        "'early': {'policy': 'SCHED_FIFO', 'loop': 1, 'sleep': 4990, 'run': 1},
         'a': {'timer_slack': 100, 'loop': 1, 'sleep': 5000, 'run': 1}",
    );
    run.is("the interrupt before the window runs it not", run.at_step("a", 1), [us(5_100)]);
    run.is("interrupts", run.interrupts(0), 2);
}

const PERIODIC: &str = "'policy': 'SCHED_FIFO', 'loop': 1, 'phases': {
    'long': {'timer': TIMER, 'run': 2500},
    'short': {'loop': 4, 'timer': TIMER, 'run': 300},
}";

#[test]
fn a_missed_period_shifts_a_relative_timer() {
    let timer = "{'ref': 'unique', 'period': 1000}";
    let run = world().run(&format!("'a': {{{}}}", PERIODIC.replace("TIMER", timer)));
    run.is("the first period", run.at_step_of("a", 0, 1), [us(1_000)]);
    let starts = [3_500, 4_500, 5_500, 6_500].map(us);
    run.is("the next begins when it is missed", run.at_step_of("a", 1, 1), starts);
}

#[test]
fn a_missed_period_is_made_up_for_by_an_absolute_timer() {
    let timer = "{'ref': 'unique', 'period': 1000, 'mode': 'absolute'}";
    let run = world().run(&format!("'a': {{{}}}", PERIODIC.replace("TIMER", timer)));
    run.is("the first period", run.at_step_of("a", 0, 1), [us(1_000)]);
    let starts = [3_500, 3_800, 4_100, 5_000].map(us);
    run.is("those that were missed follow at once", run.at_step_of("a", 1, 1), starts);
}

#[test]
fn a_timer_counts_from_the_tasks_begin_and_belongs_to_whom_it_is_named_for() {
    let timed = |name: &str| {
        let timer = format!("{{'ref': '{name}', 'period': 1000}}");
        let tasks = format!(
            "'a': {{'policy': 'SCHED_FIFO', 'instance': 2, 'delay': 300, 'loop': 2,
                    'timer': {timer}, 'run': 1}}"
        );
        let run = world().cpus(2).run(&tasks);
        let mut starts = run.at_step("a-0", 1);
        starts.extend(run.at_step("a-1", 1));
        starts.sort_unstable();
        starts
    };
    assert_eq!(timed("unique_of_mine"), [1_300, 1_300, 2_300, 2_300].map(us));
    assert_eq!(timed("ours"), [1_300, 2_300, 3_300, 4_300].map(us), "each use is one period on");
    let run = world().run(
        "'a': {'policy': 'SCHED_FIFO', 'loop': 3,
               'timer': {'ref': 't', 'period': 0}, 'run': 10}",
    );
    run.is("a period of nothing is missed", run.exit("a"), us(30));
}

#[test]
fn phases_and_loops_are_counted() {
    let run = world().run(
        "'a': {'loop': 2, 'phases': {
            'p': {'loop': 3, 'run': 100, 'yield': ''},
            'q': {'run': 1000},
        }}",
    );
    let p = [0, 100, 200, 1_300, 1_400, 1_500].map(us);
    run.is("p", run.at_step_of("a", 0, 0), p);
    run.is("q", run.at_step_of("a", 1, 0), [us(300), us(1_600)]);
    run.is("end", run.exit("a"), us(2_600));
    let run = world().millis(1).run("'a': {'loop': 0, 'run': 100}");
    run.is("a phase of 0 rounds is for ever", run.at_step("a", 0).len(), 10);
    let run = world().millis(1).run("'a': {'phases': {'p': {'run': 50}, 'q': {'run': 50}}}");
    run.is("a thread without loop is for ever", run.at_step_of("a", 1, 0).len(), 10);
}

#[test]
fn a_thread_that_is_gone_through_no_time_does_nothing() {
    let run =
        world().run("'a': {'loop': 0, 'phases': {'p': {'run': 100}}}, 'b': {'loop': 1, 'run': 1}");
    run.is("steps", run.at_step("a", 0), []);
    run.is("runtime", run.ran("a"), Nanos::ZERO);
}

#[test]
fn a_delay_is_a_sleep_before_the_first_phase() {
    let run = world().run("'a': {'delay': 1500, 'loop': 1, 'run': 100}");
    run.is("start", run.stretches("a"), [on(0, 1_500, 1_600)]);
    run.is("sleep", run.account("a").sleep, Nanos(1_500_000));
    let run = world()
        .run("'a': {'instance': 20, 'delay': {'uniform': [1000, 2000]}, 'loop': 1, 'run': 0}");
    let mut starts: Vec<_> = (0..20).map(|nth| run.at_step(&format!("a-{nth}"), 0)[0]).collect();
    run.holds(starts.iter().all(|start| (ms(1)..=ms(2)).contains(start)), "delays are in range");
    starts.dedup();
    run.is("each is drawn", starts.len(), 20);
}

#[test]
fn yielding_lets_the_others_run() {
    for policy in ["SCHED_FIFO", "SCHED_RR"] {
        let task = format!("'policy': '{policy}', 'loop': 3, 'run': 100, 'yield': ''");
        let run = world().run(&format!("'a': {{{task}}}, 'b': {{{task}}}, 'c': {{{task}}}"));
        let order = turns(&run, &["a", "b", "c"]);
        run.is("turns", order.len(), 9);
        let rounds = order.chunks(3).all(|round| *round == order[..3]);
        run.holds(rounds, &format!("{policy}: round and round: {order:?}"));
    }
    let run = world().run("'a': {'loop': 3, 'run': 100, 'yield': ''}");
    run.is("alone it goes on", run.stretches("a"), [on(0, 0, 300)]);
    let run = world().run(
        "'a': {'policy': 'SCHED_FIFO', 'priority': 2, 'loop': 2, 'run': 100, 'yield': ''},
         'b': {'policy': 'SCHED_FIFO', 'priority': 1, 'loop': 1, 'run': 100}",
    );
    run.is("not for the less important", run.stretches("a"), [on(0, 0, 200)]);
}

/// The exception is an unfair wake-up, which waits until the other task is behind again.
#[test]
fn fair_tasks_that_yield_take_turns() {
    let task = "'loop': 100, 'run': 100, 'yield': ''";
    let run = world().run(&format!("'a': {{{task}}}, 'b': {{{task}}}"));
    let order = turns(&run, &["a", "b"]);
    run.holds(order.len() > 100, "mostly one round each, in turn");
}

/// Returns the executing tasks, one stretch after another.
fn turns<'n>(run: &Run, names: &[&'n str]) -> Vec<&'n str> {
    let turns = |&name| run.stretches(name).into_iter().map(move |turn| (turn.from, name));
    let mut turns: Vec<_> = names.iter().flat_map(turns).collect();
    turns.sort_unstable();
    turns.into_iter().map(|(_, name)| name).collect()
}

#[test]
fn a_fork_begins_a_task_near_and_its_parent_goes_on() {
    let run = world().cpus(2).run(
        "'parent': {'cpus': [0], 'loop': 2, 'run': 1000, 'fork': 'child', 'run1': 500},
         'child': {'instance': 0, 'loop': 1, 'run': 200, 'sleep': 100, 'run1': 100}",
    );
    let names: Vec<_> = run.outcome.tasks.iter().map(|task| task.name.as_str()).collect();
    run.is("tasks", names, ["parent", "child-0000", "child-0001"]);
    run.is("parent", run.stretches("parent"), [on(0, 0, 3_000)]);
    run.is("first", run.stretches("child-0000"), [on(1, 1_000, 1_200), on(1, 1_350, 1_450)]);
    run.is("second", run.start("child-0001"), us(2_500));
}

#[test]
fn a_forked_tasks_delay_and_timers_count_from_the_begin_of_the_run() {
    let run = |delay: u64| {
        world().run(&format!(
            "'parent': {{'loop': 1, 'run': 1000, 'fork': 'child'}},
             'child': {{'instance': 0, 'delay': {delay}, 'policy': 'SCHED_FIFO', 'loop': 1,
                        'timer': {{'ref': 'unique', 'period': 1000}}, 'run': 10}}"
        ))
    };
    let late = run(1_700);
    late.is("begin", late.at_step("child-0000", 0), [us(1_700)]);
    late.is("its timer", late.at_step("child-0000", 1), [us(2_700)]);
    let early = run(300);
    early.is("its delay is over when it is forked", early.at_step("child-0000", 0), [us(1_000)]);
    early.is("its timer", early.at_step("child-0000", 1), [us(1_300)]);
}

/// Returns the latency nice with which each task began, by name.
fn latency_nice(run: &Run) -> Vec<(&str, i8)> {
    run.outcome.tasks.iter().map(|task| (&*task.name, task.latency_nice.get())).collect()
}

#[test]
fn a_fork_hands_on_the_latency_nice_that_its_parent_has_by_then() {
    let run = world().run(
        "'parent': {'latency_nice': 5, 'loop': 1, 'phases': {
            'p': {'run': 100, 'fork': 'middle'},
            'q': {'latency_nice': -20, 'run': 100, 'fork': 'child', 'fork': 'own', 'fork': 'late'}}},
         'middle': {'instance': 0, 'loop': 1, 'run': 100, 'fork': 'below'},
         'below': {'instance': 0, 'loop': 1, 'run': 100},
         'child': {'instance': 0, 'loop': 1, 'run': 100},
         'own': {'instance': 0, 'latency_nice': 0, 'loop': 1, 'run': 100},
         'late': {'instance': 0, 'delay': 5000, 'loop': 1, 'run': 100}",
    );
    let mut began = latency_nice(&run);
    began.sort_unstable();
    let expected = [
        ("below-0000", 5),
        ("child-0000", -20),
        ("late-0000", -20),
        ("middle-0000", 5),
        ("own-0000", 0),
        ("parent", 5),
    ];
    run.is("latency nice", began, expected);
}

#[test]
fn a_task_that_resets_on_fork_hands_on_nothing() {
    let run = world().run(
        "'parent': {'latency_nice': -20, 'slice': 100, 'reset_on_fork': true, 'loop': 1,
                    'run': 100, 'fork': 'child', 'fork': 'own'},
         'child': {'instance': 0, 'loop': 1, 'run': 100},
         'own': {'instance': 0, 'latency_nice': 3, 'loop': 1, 'run': 100, 'fork': 'grandchild'},
         'grandchild': {'instance': 0, 'loop': 1, 'run': 100}",
    );
    let expected = [("parent", -20), ("child-0000", 0), ("own-0000", 3), ("grandchild-0000", 3)];
    run.is("its children reset nothing", latency_nice(&run), expected);
}

#[test]
fn a_task_begins_with_its_own_cookie_or_its_parents_or_that_of_its_group() {
    let run = world().run_text(
        "{'groups': {'/x': {'cookie': 'group'}, '/x/y': {}}, 'machine': {'topology': '1x1x2'}, 'tasks': {
            'parent': {'cookie': 'mine', 'group': '/x', 'loop': 1, 'reset_on_fork': true, 'phases': {
                'p': {'run': 100, 'fork': 'first'},
                'q': {'cookie': 'later', 'run': 100, 'fork': 'second', 'fork': 'own'},
                'r': {'cookie': '', 'run': 100, 'fork': 'third', 'fork': 'grouped'}}},
            'first': {'instance': 0, 'loop': 1, 'run': 100},
            'second': {'instance': 0, 'group': '/x', 'loop': 1, 'run': 100},
            'own': {'instance': 0, 'cookie': '', 'loop': 1, 'run': 100},
            'third': {'instance': 0, 'loop': 1, 'run': 100},
            'grouped': {'instance': 0, 'group': '/x/y', 'loop': 1, 'run': 100}}}",
    );
    let name = |task: &runyard_sim::Simulated| {
        let cookie = task.cookie.map(|cookie| run.scenario.cookie_name(cookie));
        (task.name.clone(), cookie)
    };
    let began = run.outcome.tasks.iter().map(name).collect::<Vec<_>>();
    let expected = [
        ("parent", Some("mine")),
        ("first-0000", Some("mine")),
        ("second-0000", Some("later")),
        ("own-0000", None),
        ("third-0000", None),
        ("grouped-0000", Some("group")),
    ];
    run.is("cookies", began, expected.map(|(name, cookie)| (name.to_owned(), cookie)));
}

#[test]
fn an_exit_ends_the_task_there() {
    let run = world().run("'a': {'loop': 9, 'run': 100, 'exit': '', 'run1': 1000}");
    run.is("end", (run.exit("a"), run.end()), (us(100), us(100)));
}

#[test]
fn a_phase_changes_the_policy_and_what_it_does_not_say_stays() {
    let run = world().run(
        "'a': {'policy': 'SCHED_FIFO', 'priority': 20, 'loop': 1, 'phases': {
            'important': {'run': 1000},
            'less': {'priority': 5, 'run': 1000},
            'same': {'run': 1000},
            'fair': {'policy': 'SCHED_OTHER', 'run': 1000},
        }},
         'b': {'policy': 'SCHED_FIFO', 'priority': 10, 'delay': 100, 'loop': 1, 'run': 1000},
         'c': {'policy': 'SCHED_FIFO', 'priority': 1, 'delay': 100, 'loop': 1, 'run': 1000}",
    );
    let a = [on(0, 0, 1_000), on(0, 2_000, 4_000), on(0, 5_000, 6_000)];
    run.is("a", run.stretches("a"), a);
    run.is("b when a is less important", run.stretches("b"), [on(0, 1_000, 2_000)]);
    run.is("c when a is fair", run.stretches("c"), [on(0, 4_000, 5_000)]);
    let policies = run.events.iter().filter_map(|event| match event.what {
        What::Changed { policy, .. } => Some(policy),
        _ => None,
    });
    let less = Policy::Fifo(RtPrio::new(5).unwrap());
    let fair = Policy::Normal(Default::default());
    run.is("changes reported", policies.collect::<Vec<_>>(), [less, fair]);
}

#[test]
fn a_phase_changes_the_latency_nice_which_is_told() {
    let run = world().run(
        "'a': {'latency_nice': 7, 'loop': 1, 'phases': {
            'p': {'run': 100}, 'q': {'latency_nice': -20, 'run': 100}, 'r': {'run': 100},
            's': {'policy': 'SCHED_FIFO', 'run': 100}, 't': {'slice': 100, 'run': 100},
            'u': {'policy': 'SCHED_OTHER', 'latency_nice': 0, 'run': 100}}}",
    );
    run.is("at the beginning", latency_nice(&run), [("a", 7)]);
    let told = run.events.iter().filter_map(|event| match event.what {
        What::Changed { latency_nice, .. } => Some((event.at, latency_nice.get())),
        _ => None,
    });
    let expected = [(us(100), -20), (us(300), -20), (us(400), -20), (us(500), 0)];
    run.is("later", told.collect::<Vec<_>>(), expected);
}

#[test]
fn a_phase_that_becomes_important_preempts() {
    let run = world().cpus(2).run(
        "'a': {'loop': 1, 'phases': {
            'fair': {'run': 1000},
            'urgent': {'policy': 'SCHED_RR', 'priority': 9, 'cpus': [1], 'run': 1000},
        }},
         'b': {'policy': 'SCHED_FIFO', 'priority': 8, 'cpus': [1], 'loop': 1, 'run': 5000}",
    );
    run.is("a", run.stretches("a"), [on(0, 0, 1_000), on(1, 1_000, 2_000)]);
}

#[test]
fn affinity_is_the_phases_else_the_threads_else_every_cpu() {
    let run = world().cpus(4).run(
        "'a': {'cpus': [1], 'loop': 1, 'phases': {
            'p': {'run': 1000},
            'q': {'cpus': [2, 3], 'run': 1000},
            'r': {'run': 1000},
        }}",
    );
    let a = run.stretches("a");
    run.is("p", a[0], on(1, 0, 1_000));
    run.holds([2, 3].contains(&a[1].cpu), "q is on one of its CPUs");
    run.is("r", a[2], on(1, 2_000, 3_000));
    let run = world().cpus(4).run(
        "'a': {'policy': 'SCHED_FIFO', 'priority': 5, 'loop': 1, 'phases': {
            'p': {'cpus': [3], 'run': 1000},
            'q': {'run': 5000},
        }},
         'wall': {'policy': 'SCHED_FIFO', 'priority': 9, 'cpus': [3], 'delay': 1500, 'loop': 1, 'run': 9000}",
    );
    run.is("q may be pushed anywhere", run.exit("a"), us(6_000));
}

#[test]
fn a_phase_changes_the_group() {
    let run = world().run_text(
        "{'groups': {'/x': {}, '/y': {}}, 'tasks': {
            'a': {'group': '/x', 'loop': 1, 'phases': {
                'p': {'run': 1000}, 'q': {'group': '/y', 'run': 3000}, 'r': {'run': 500}}},
        }}",
    );
    let told = |event: &runyard_engine::event::Event| {
        matches!(event.what, What::Changed { group: GroupId(2), .. })
    };
    run.is("the change is reported once, when it happens", run.times(told), [us(1_000)]);
    run.is("the group with which it began", run.outcome.tasks[0].group, GroupId(1));
    let groups = run.totals().group_runtimes(3, [(run.task("a"), GroupId(1))]);
    run.is("groups", groups, [0, 1_000_000, 3_500_000].map(Nanos));
}

#[test]
fn a_run_ends_with_the_last_task_or_with_its_duration() {
    let run = world().run("'a': {'loop': 1, 'run': 70}, 'b': {'loop': 1, 'sleep': 10}");
    run.is("the last", run.end(), us(70));
    let run = world().millis(5).run("'a': {'loop': 1, 'run': 70}");
    run.is("the duration", run.end(), ms(5));
    let run = world().millis(5).run("'a': {'run': 70}");
    run.is("in the middle of something", (run.end(), run.ran("a")), (ms(5), Nanos(5_000_000)));
    let run = world().run("'a': {'loop': 1, 'run': 0}");
    run.is("no time at all", run.end(), Time::ZERO);
}
