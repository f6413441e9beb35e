//! The real-time class: order, slices, throttling, and the migration of tasks to the right CPUs.

use crate::rig::{Run, World, ms, on, us, world};
use runyard_engine::event::What;
use runyard_engine::time::{Nanos, Time};

const STUCK_HEAD: &str = include_str!("../../../../scenarios/stuck-head.json");

/// Returns the time at which "behind" runs on CPU 2, where it should be from 21 ms on.
fn behind_starts(features: &str) -> (Run, Time) {
    let run = world().costs_of_the_text().features(features).run_text(STUCK_HEAD);
    let there = run.stretches("behind").into_iter().find(|stretch| stretch.cpu == 2);
    let start = there.map_or(Time::MAX, |stretch| stretch.from);
    (run, start)
}

/// The time to notice, to migrate, to kick and to switch.
const AT_ONCE: Nanos = Nanos::from_micros(20);

#[test]
fn behind_a_stuck_head_a_task_is_pulled() {
    for features in ["", "NO_RT_PUSH_PAST_STUCK"] {
        let (run, start) = behind_starts(features);
        let due = run.exit("guard");
        run.holds((us(21_000)..us(21_100)).contains(&due), "guard ends at 21 ms");
        run.holds((due..due + AT_ONCE).contains(&start), "behind is pulled at once");
    }
}

#[test]
fn behind_a_stuck_head_a_task_is_pushed() {
    let (run, start) = behind_starts("NO_RT_PULL");
    let due = run.start("kick");
    run.holds((ms(40)..ms(40) + AT_ONCE).contains(&due), "kick begins at 40 ms");
    run.holds((due..due + AT_ONCE).contains(&start), "behind is pushed past the head");
}

#[test]
fn behind_a_stuck_head_a_task_waits_for_the_head_otherwise() {
    let (run, start) = behind_starts("NO_RT_PULL NO_RT_PUSH_PAST_STUCK");
    let due = run.exit("above");
    run.holds((ms(65)..ms(66)).contains(&due), "above ends at 65 ms");
    run.holds((due..due + AT_ONCE).contains(&start), "behind is the head now");
    let (run, start) = behind_starts("NO_RT_PULL NO_RT_PUSH NO_RT_PUSH_PAST_STUCK");
    run.is("without push and pull it never comes to CPU 2", start, Time::MAX);
}

fn fifo(name: &str, prio: u8, rest: &str) -> String {
    format!("'{name}': {{'policy': 'SCHED_FIFO', 'priority': {prio}, 'loop': 1, {rest}}},")
}

#[test]
fn fifo_tasks_run_in_order_of_importance_then_arrival() {
    let run = world().run(
        &[
            fifo("first", 5, "'delay': 10, 'run': 1000"),
            fifo("second", 5, "'delay': 20, 'run': 1000"),
            fifo("third", 5, "'delay': 30, 'run': 1000"),
            fifo("more", 6, "'delay': 500, 'run': 1000"),
            fifo("less", 4, "'delay': 0, 'run': 1000"),
        ]
        .concat(),
    );
    run.is("less", run.stretches("less"), [on(0, 0, 10), on(0, 4_010, 5_000)]);
    run.is("preempted, it keeps its place", run.stretches("first"), {
        [on(0, 10, 500), on(0, 1_500, 2_010)]
    });
    run.is("second", run.stretches("second"), [on(0, 2_010, 3_010)]);
    run.is("third", run.stretches("third"), [on(0, 3_010, 4_010)]);
}

#[test]
fn a_woken_task_goes_behind_its_equals_and_a_demoted_one_before_them() {
    let run = world().run(
        &[
            fifo("sleeper", 5, "'run': 100, 'sleep': 100, 'run1': 100"),
            fifo("a", 5, "'delay': 10, 'run': 1000"),
            fifo("b", 5, "'delay': 20, 'run': 1000"),
        ]
        .concat(),
    );
    run.is("the tail", run.stretches("sleeper")[1], on(0, 2_100, 2_200));
    let run = world().run(
        &[
            fifo("demoted", 9, "'phases': {'p': {'run': 100}, 'q': {'priority': 5, 'run': 100}}"),
            fifo("a", 5, "'delay': 10, 'run': 1000"),
            fifo("b", 5, "'delay': 20, 'run': 1000"),
        ]
        .concat(),
    );
    run.is("the head", run.stretches("demoted"), [on(0, 0, 200)]);
}

const RR: &str = "'policy': 'SCHED_RR', 'loop': 1";

#[test]
fn round_robin_tasks_share_in_slices_of_100_ms() {
    let run = world().run(&format!(
        "'a': {{{RR}, 'run': 250000}}, 'b': {{{RR}, 'delay': 10, 'run': 250000}},
         'less': {{{RR}, 'priority': 9, 'delay': 20, 'run': 1000}}"
    ));
    let slice = |n: u64| on(0, n * 100_000, (n + 1) * 100_000);
    run.is("a", run.stretches("a"), [slice(0), slice(2), on(0, 400_000, 450_000)]);
    run.is("b", run.stretches("b"), [slice(1), slice(3), on(0, 450_000, 500_000)]);
    run.is("less", run.start("less"), us(500_000));
    let run = world().run(&format!("'a': {{{RR}, 'run': 250000}}"));
    run.is("alone", run.stretches("a"), [on(0, 0, 250_000)]);
}

#[test]
fn a_preempted_slice_goes_on_and_a_fifo_equal_has_none() {
    let run = world().run(&format!(
        "'a': {{{RR}, 'run': 150000}}, 'b': {{{RR}, 'delay': 10, 'run': 10000}},
         'high': {{'policy': 'SCHED_FIFO', 'priority': 50, 'delay': 40000, 'loop': 1, 'run': 10000}}"
    ));
    run.is("a", run.stretches("a"), {
        [on(0, 0, 40_000), on(0, 50_000, 110_000), on(0, 120_000, 170_000)]
    });
    let run = world().run(&format!(
        "'a': {{{RR}, 'run': 150000}},
         'b': {{'policy': 'SCHED_FIFO', 'delay': 10, 'loop': 1, 'run': 300000}}"
    ));
    run.is("b has no slice", run.stretches("b"), [on(0, 100_000, 400_000)]);
}

#[test]
fn real_time_tasks_leave_a_twentieth_to_the_others() {
    let run = world().millis(10_000).run(
        "'hog': {'policy': 'SCHED_FIFO', 'run': 1000},
         'fair': {'run': 1000}",
    );
    let share = run.share("fair", Nanos::from_secs(10));
    run.holds((4.8..5.2).contains(&share), &format!("fair has {share} %"));
    let hog = run.ran("hog");
    let budget = Nanos::from_millis(9_500);
    let within = budget..=budget + Nanos::from_millis(1);
    run.holds(within.contains(&hog), &format!("the delay of a tick is made up for: {hog}"));
    let longest = run.stretches("fair").into_iter().map(|one| one.to.since(one.from)).max();
    run.holds(longest >= Some(Nanos::from_millis(48)), "all of it at the end of each period");
    let used_up = run.times(|event| matches!(event.what, What::Throttled { .. }));
    let there_again = run.times(|event| matches!(event.what, What::Unthrottled { .. }));
    run.is("the first period is reported", (used_up[0], there_again[0]), (ms(951), ms(1_000)));
    run.is("each is reported once", (used_up.len(), there_again.len()), (10, 10));
    let run = world().millis(10_000).run("'hog': {'policy': 'SCHED_RR', 'run': 1000}");
    let share = run.share("hog", Nanos::from_secs(10));
    run.holds((94.8..95.2).contains(&share), &format!("alone it has {share} %"));
    let run = world().millis(3_000).run(
        "'hog': {'policy': 'SCHED_FIFO', 'run': 900000, 'sleep': 100000}, 'fair': {'run': 1000}",
    );
    run.is("within the budget no task is throttled", run.stretches("hog").len(), 3);
}

#[test]
fn a_cpu_whose_real_time_tasks_are_out_of_budget_takes_others() {
    let run = world().cpus(2).millis(2_000).run(
        "'hog': {'policy': 'SCHED_FIFO', 'cpus': [1], 'run': 1000},
         'fair': {'instance': 3, 'run': 300}",
    );
    let shares = ["fair-0", "fair-1", "fair-2"].map(|name| run.share(name, Nanos::from_secs(2)));
    let sum: f64 = shares.into_iter().sum();
    run.holds(sum > 104.0, &format!("one CPU and a twentieth of the other, not {sum} %"));
}

#[test]
fn a_pinned_task_waits_though_others_idle() {
    let run = world().cpus(3).run(
        &[
            fifo("wall", 9, "'cpus': [1], 'run': 5000"),
            fifo("pinned", 5, "'cpus': [1], 'run': 1000"),
            fifo("wide", 5, "'cpus': [1, 2], 'delay': 100, 'run': 1000"),
        ]
        .concat(),
    );
    run.is("pinned", run.stretches("pinned"), [on(1, 5_000, 6_000)]);
    run.is("wide", run.stretches("wide"), [on(2, 100, 1_100)]);
}

#[test]
fn a_woken_task_preempts_a_normal_one_where_it_was_rather_than_use_an_idle_cpu() {
    let tasks = "'rt': {'policy': 'SCHED_FIFO', 'cpus': [0], 'loop': 1, 'phases': {
                     'there': {'run': 100}, 'wide': {'cpus': [0, 1], 'sleep': 1000, 'run': 100}}},
                 'hog': {'cpus': [0], 'delay': 200, 'loop': 1, 'run': 5000}";
    let run = world().cpus(2).run(tasks);
    run.is("where it was", run.stretches("rt"), [on(0, 0, 100), on(0, 1_100, 1_200)]);
    let run = world().cpus(2).features("NO_RT_PUSH").run(tasks);
    run.is("without", run.stretches("rt"), [on(0, 0, 100), on(1, 1_100, 1_200)]);
}

/// "low" has CPU 0 when "high", which may run nowhere else, wakes there.
const PUSHED: &str = "
    'low': {'policy': 'SCHED_FIFO', 'priority': 5, 'cpus': [0], 'loop': 1, 'phases': {
        'alone': {'run': 100}, 'wide': {'cpus': [0, 1], 'run': 5000}}},
    'high': {'policy': 'SCHED_FIFO', 'priority': 9, 'cpus': [0], 'delay': 1000, 'loop': 1,
             'run': 3000},
    'normal': {'cpus': [1], 'loop': 1, 'run': 10000}";

#[test]
fn a_preempted_task_is_pushed_to_the_least_important_cpu() {
    let run = world().cpus(2).run(PUSHED);
    run.is("low", run.stretches("low"), [on(0, 0, 1_000), on(1, 1_000, 5_100)]);
    run.is("normal makes room", run.stretches("normal")[1].from, us(5_100));
    let run = world().cpus(2).features("NO_RT_PUSH NO_RT_PULL").run(PUSHED);
    run.is("without", run.stretches("low"), [on(0, 0, 1_000), on(0, 4_000, 8_100)]);
}

#[test]
fn a_cpu_that_becomes_less_important_pulls() {
    let tasks = [
        fifo("wall", 9, "'cpus': [1], 'run': 2000"),
        fifo("high", 8, "'cpus': [0], 'delay': 1000, 'run': 4000"),
        fifo("low", 5, "'run': 5000"),
    ]
    .concat();
    let run = world().cpus(2).run(&tasks);
    run.is("low", run.stretches("low"), [on(0, 0, 1_000), on(1, 2_000, 6_000)]);
    let run = world().cpus(2).features("NO_RT_PULL").run(&tasks);
    run.is("without", run.stretches("low"), [on(0, 0, 1_000), on(0, 5_000, 9_000)]);
}

fn eight_on_four(world: World) -> Run {
    let mut tasks = fifo("gun", 99, "'delay': 1000, 'resume': 't', 'run': 1");
    let runner = "'loop': 1, 'lock': 'm', 'wait': {'ref': 'c', 'mutex': 'm'}, 'unlock': 'm'";
    for prio in 1..=8 {
        let policy = "'policy': 'SCHED_FIFO'";
        tasks += &format!("'t{prio}': {{{policy}, 'priority': {prio}, {runner}, 'run': 10000}},");
    }
    tasks = tasks.replace("'resume': 't'", "'broad': 'c'");
    world.cpus(4).hand_over().run(&tasks)
}

#[test]
fn the_most_important_tasks_run_whoever_wakes_up_where() {
    for delay in [0, 20_000] {
        let run = eight_on_four(world().costs_of_the_text().hint_delay(Nanos(delay)));
        let start = |prio: u8| run.at_step(&format!("t{prio}"), 3)[0];
        for prio in 5..=8 {
            run.holds(start(prio) < us(1_100), &format!("{prio} starts at once"));
        }
        for prio in 1..=4 {
            run.holds(start(prio) > us(10_900), &format!("{prio} waits for a CPU"));
        }
        run.holds(run.end() < us(21_200), "four at a time");
    }
}

#[test]
fn a_real_time_task_preempts_any_other_at_once() {
    for policy in ["SCHED_OTHER", "SCHED_BATCH", "SCHED_IDLE"] {
        let run = world().run(&format!(
            "'other': {{'policy': '{policy}', 'loop': 1, 'run': 1000}},
             'rt': {{'policy': 'SCHED_RR', 'priority': 1, 'delay': 500, 'loop': 1, 'run': 100}}"
        ));
        run.is(policy, run.stretches("rt"), [on(0, 500, 600)]);
    }
}

#[test]
fn a_fair_task_behind_a_real_time_one_moves_to_an_idle_cpu() {
    let run = world().cpus(2).run(
        "'fair': {'cpus': [0], 'loop': 1, 'phases': {
            'there': {'run': 500}, 'wide': {'cpus': [0, 1], 'run': 20000}}},
         'hog': {'policy': 'SCHED_FIFO', 'cpus': [0], 'delay': 1000, 'loop': 1, 'run': 100000}",
    );
    run.holds(run.exit("fair") < ms(40), "fair is fetched by the idle CPU");
}

/// Runs "low", which "high" preempts on CPU 0 at 1.5 ms for 500 ms, while CPU 1 runs a normal task for `normal` us.
fn left_behind(features: &str, normal: u64) -> Run {
    world().cpus(2).millis(600).features(features).run(&format!(
        "'low': {{'policy': 'SCHED_FIFO', 'priority': 5, 'cpus': [0], 'loop': 1, 'phases': {{
             'alone': {{'run': 100}}, 'wide': {{'cpus': [0, 1], 'run': 5000}}}}}},
         'high': {{'policy': 'SCHED_FIFO', 'priority': 9, 'cpus': [0], 'delay': 1500, 'loop': 1,
                   'run': 500000}},
         'normal': {{'cpus': [1], 'loop': 1, 'run': {normal}}}"
    ))
}

#[test]
fn before_push_and_pull_a_cpu_that_balances_takes_real_time_tasks() {
    let passive = "NO_RT_PUSH NO_RT_PULL RT_BALANCE";
    let run = left_behind(passive, 10_000);
    run.is("a CPU goes idle", run.stretches("low"), [on(0, 0, 1_500), on(1, 10_000, 13_600)]);
    let after = |normal| left_behind(passive, normal).stretches("low")[1].from;
    let (idle, busy) = (after(100), after(550_000));
    assert!((us(1_501)..ms(10)).contains(&idle), "an idle CPU at the other's tick: {idle}");
    assert!((ms(10)..ms(300)).contains(&busy), "a busy CPU after its interval: {busy}");
    for off in ["NO_RT_PUSH NO_RT_PULL", "NO_RT_PUSH NO_RT_PULL RT_BALANCE NO_LOAD_BALANCE"] {
        let run = left_behind(off, 10_000);
        run.is(off, run.stretches("low"), [on(0, 0, 1_500), on(0, 501_500, 505_100)]);
    }
}

/// "hot" runs on CPU 0, where "woken" slept.
#[test]
fn a_more_important_woken_task_may_spare_the_cache_of_the_running_one() {
    let tasks = "'woken': {'policy': 'SCHED_FIFO', 'priority': 9, 'cpus': [0], 'loop': 1,
                     'phases': {'there': {'run': 100},
                                'wide': {'cpus': [0, 1], 'sleep': 2000, 'run': 1000}}},
                 'hot': {'policy': 'SCHED_FIFO', 'priority': 5, 'cpus': [0], 'delay': 200,
                         'loop': 1, 'phases': {
                     'there': {'run': 100}, 'wide': {'cpus': [0, 1], 'run': 5000}}}";
    let run = world().cpus(2).features("RT_WAKE_ELSEWHERE").run(tasks);
    run.is("hot stays", run.stretches("hot"), [on(0, 200, 5_300)]);
    run.is("woken goes", run.stretches("woken")[1], on(1, 2_100, 3_100));
    let run = world().cpus(2).run(tasks);
    run.is("woken stays", run.stretches("woken")[1], on(0, 2_100, 3_100));
    run.is("hot goes", run.stretches("hot"), [on(0, 200, 2_100), on(1, 2_100, 5_300)]);
    // Where no CPU is less important than the running task, the woken one preempts it.
    let wall = format!("{tasks}, {}", fifo("wall", 8, "'cpus': [1], 'run': 9000"));
    let run = world().cpus(2).features("RT_WAKE_ELSEWHERE").run(&wall);
    run.is("woken preempts", run.stretches("woken")[1], on(0, 2_100, 3_100));
}
