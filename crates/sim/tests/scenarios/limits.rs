//! The hard limits of task groups: the CPU time of each group and CPU, and the effect on other groups.

use crate::rig::{FREE, Run, World, ms, us, world};
use runyard_engine::attr::GroupId;
use runyard_engine::event::{Event, What};
use runyard_engine::time::{Nanos, Time};
use runyard_sim::{Options, Sim};
use runyard_workload::scenario::Costs;
use runyard_workload::{Overrides, parse};

/// Runs `tasks` in these groups.
#[track_caller]
fn run(world: World, groups: &str, tasks: &str) -> Run {
    world.run_text(&format!("{{'groups': {{{groups}}}, 'tasks': {{{tasks}}}}}"))
}

/// Returns so many hogs of a group.
fn hogs(name: &str, n: usize, group: &str) -> String {
    format!("'{name}': {{'instance': {n}, 'group': '{group}', 'loop': -1, 'run': 700}},")
}

/// Returns the CPU time of the tasks with a name, in hundredths of one CPU.
fn percent(run: &Run, name: &str) -> f64 {
    let tasks = run.outcome.tasks.iter().filter(|task| task.thread == name);
    tasks.map(|task| run.share(&task.name, run.end().since(Time::ZERO))).sum()
}

#[track_caller]
fn near(run: &Run, name: &str, want: f64) {
    let got = percent(run, name);
    run.holds((got - want).abs() <= want / 100.0, &format!("{name} uses {got:.2} %, not {want}"));
}

#[test]
fn a_group_gets_what_it_was_given_on_however_many_cpus() {
    let limit = "'/a': {'runtime': 90000}";
    for (cpus, tasks) in [(1, 1), (1, 3), (8, 7), (8, 40), (64, 64)] {
        let run = run(world().cpus(cpus).millis(2_000), limit, &hogs("h", tasks, "/a"));
        near(&run, "h", 90.0);
    }
}

#[test]
fn one_cpu_has_the_whole_budget() {
    let limit = "'/a': {'runtime': 1000, 'per_cpu': true}";
    let run_on = |features| {
        let world = world().cpus(256).millis(1_000).features(features).unlogged();
        run(world, limit, &hogs("h", 1, "/a"))
    };
    let shared = run_on("");
    near(&shared, "h", 100.0);
    let limited = &shared.outcome.limits[&GroupId(1)];
    let borrowed = limited.usage.borrowed;
    shared.is("borrowed", borrowed, Nanos::from_millis(990));
    let parts = run_on("NO_RUNTIME_SHARE");
    near(&parts, "h", 1.0);
    parts.is("borrowed", parts.outcome.limits[&GroupId(1)].usage.borrowed, Nanos::ZERO);
}

#[test]
fn a_limit_of_each_cpu_is_one_of_all() {
    for features in ["", "NO_RUNTIME_SHARE"] {
        let limit = "'/a': {'runtime': 45000, 'period': 50000, 'per_cpu': true}";
        let world = world().cpus(24).millis(1_000).features(features).unlogged();
        near(&run(world, limit, &hogs("h", 24, "/a")), "h", 90.0 * 24.0);
    }
}

#[test]
fn without_the_feature_nobody_is_held() {
    let limit = "'/a': {'runtime': 20000}";
    let run = run(world().millis(500).features("NO_HARD_LIMITS"), limit, &hogs("h", 1, "/a"));
    near(&run, "h", 100.0);
}

#[test]
fn a_child_has_no_more_than_its_parent() {
    let groups = "'/a': {'runtime': 50000}, '/a/b': {'runtime': 80000}, '/a/c': {'runtime': 20000}";
    let run =
        run(world().cpus(4).millis(2_000), groups, &(hogs("b", 2, "/a/b") + &hogs("c", 2, "/a/c")));
    near(&run, "c", 20.0);
    near(&run, "b", 30.0);
}

#[test]
fn who_is_not_limited_has_the_rest() {
    let run = run(
        world().millis(2_000),
        "'/a': {'runtime': 20000, 'weight': 100000}, '/b': {}",
        &(hogs("a", 3, "/a") + &hogs("b", 1, "/b") + &hogs("root", 1, "/")),
    );
    near(&run, "a", 20.0);
    near(&run, "b", 40.0);
    near(&run, "root", 40.0);
}

/// A group of sleeping tasks below its limit is not throttled, on many CPUs and with short turns. No budget is left
/// unused anywhere.
#[test]
fn a_group_below_its_limit_is_never_throttled() {
    let tasks = "'t': {'instance': 20, 'group': '/a', 'loop': -1,
                       'run': {'exponential': 300}, 'sleep': {'exponential': 9000}}";
    let run = run(world().cpus(16).millis(5_000), "'/a': {'runtime': 100000}", tasks);
    let usage = run.outcome.limits[&GroupId(1)].usage;
    run.is("throttled", usage.nr_throttled, 0);
    run.holds((48..=51).contains(&usage.nr_periods), "its periods are counted");
    run.holds(percent(&run, "t") > 50.0, "it has something to do");
}

#[test]
fn who_wakes_in_a_throttled_group_waits() {
    let run = run(
        world().millis(400),
        "'/a': {'runtime': 10000}",
        &(hogs("h", 1, "/a")
            + "'w': {'group': '/a', 'policy': 'SCHED_FIFO', 'loop': 1, 'delay': 50000, 'run': 100},
               'f': {'group': '/a', 'loop': 1, 'delay': 60000, 'run': 100}"),
    );
    let refill = run.times(|event| event.what == What::Unthrottled { group: GroupId(1) })[0];
    run.holds(refill > ms(100), "the first period is over");
    run.is("a real-time task", run.start("w"), refill);
    run.holds(run.start("f") > refill, "a fair one");
}

/// In any sequence of aligned periods, no more is used than their quotas and the burst.
#[test]
fn no_periods_exceed_their_quotas() {
    let groups = "'/a': {'runtime': 30000, 'burst': 20000}";
    let tasks = "'t': {'instance': 6, 'group': '/a', 'loop': -1,
                       'run': {'exponential': 6000}, 'sleep': {'exponential': 150000}},
                 'late': {'group': '/a', 'delay': 1500000, 'loop': -1, 'run': 5000}";
    let run = run(world().cpus(4).millis(3_000), groups, tasks);
    let limited = &run.outcome.limits[&GroupId(1)];
    run.holds(limited.usage.nr_bursts > 0 && limited.usage.nr_throttled > 0, "both happen");
    let first = run.times(|event| event.what == What::Unthrottled { group: GroupId(1) })[0];
    let phase = first.0 % 100_000_000;
    let mut used = [0; 31];
    for task in &run.outcome.tasks {
        for stretch in run.stretches(&task.name) {
            let (mut from, to) = (stretch.from.0, stretch.to.0);
            while from < to {
                let period = (from + 100_000_000 - phase) / 100_000_000;
                let end = to.min(period * 100_000_000 + phase);
                used[period as usize] += end - from;
                from = end;
            }
        }
    }
    // The first period is longer, and the last is not over.
    for from in 2..30 {
        for to in from + 1..=30 {
            let (k, sum) = ((to - from) as u64, used[from..to].iter().sum::<u64>());
            let most = k * 30_000_000 + 20_000_000;
            run.holds(sum <= most, &format!("{sum} ns in periods {from}..{to}, more than {most}"));
        }
    }
}

#[test]
fn real_time_groups_cannot_starve_the_machine() {
    let run = run(
        world().cpus(2).millis(1_000),
        "'/rt': {'runtime': 60000}",
        "'rt': {'instance': 4, 'group': '/rt', 'policy': 'SCHED_FIFO', 'priority': 50, 'loop': -1, 'run': 500},
         'fair': {'instance': 2, 'loop': -1, 'run': 500}",
    );
    near(&run, "rt", 60.0);
    near(&run, "fair", 140.0);
}

#[test]
fn what_a_cpu_had_is_there_when_it_is_gone() {
    let limit = "'/a': {'runtime': 20000, 'per_cpu': true}";
    let world = world().cpus(4).millis(1_000).hotplug(ms(0), 2, false).hotplug(ms(0), 3, false);
    let run = run(world, limit, &hogs("h", 4, "/a"));
    // The first period was granted to four CPUs.
    let of = percent(&run, "h");
    run.holds((of - 40.0).abs() < 4.5, &format!("two CPUs have 40 %: {of}"));
    let came = crate::rig::world().cpus(2).millis(2_000).hotplug(ms(5), 1, false).hotplug(
        ms(1_000),
        1,
        true,
    );
    let run = self::run(came, "'/a': {'runtime': 50000}", &hogs("h", 2, "/a"));
    near(&run, "h", 50.0);
}

#[test]
fn a_new_limit_counts_from_the_moment_it_is_set() {
    let change = world().cpus(2).millis(3_000).relimit(ms(1_000), 1, Some((10, 100))).relimit(
        ms(2_000),
        1,
        None,
    );
    let run = run(change, "'/a': {'runtime': 50000}", &hogs("h", 2, "/a"));
    let used = |from: u64, to: u64| {
        let names = ["h-0", "h-1"];
        let stretches = names.into_iter().flat_map(|name| run.stretches(name));
        let inside = stretches.map(|it| it.to.min(ms(to)).since(it.from.max(ms(from))).0);
        inside.sum::<u64>() as f64 / 1e6 / (to - from) as f64 * 100.0
    };
    for ((from, to), want) in [((0, 1_000), 50.0), ((1_000, 2_000), 10.0), ((2_000, 3_000), 200.0)]
    {
        let got = used(from, to);
        run.holds(
            (got - want).abs() <= want / 25.0,
            &format!("{from} to {to} ms: {got}, not {want}"),
        );
    }
}

/// A hundred groups with the same period are not refilled at one moment.
#[test]
fn groups_come_back_one_after_the_other() {
    let groups: Vec<_> = (0..100).map(|n| format!("'/g{n}': {{'runtime': 1000}}")).collect();
    let tasks: Vec<_> = (0..100).map(|n| hogs(&format!("h{n}"), 1, &format!("/g{n}"))).collect();
    let run = run(world().cpus(4).millis(1_000).unlogged(), &groups.join(","), &tasks.concat());
    let back = run.times(|event| matches!(event.what, What::Unthrottled { .. }));
    run.holds(back.len() > 800, "they come back each period");
    let together = back.chunk_by(|a, b| a == b).map(<[Time]>::len).max();
    run.is("at one instant", together, Some(1));
}

/// A thousand groups on more CPUs are not either. The other checks are off here, as they would take too long.
#[test]
fn a_thousand_groups_come_back_one_after_the_other() {
    let group = |n| format!("'/g{n}': {{'runtime': 1000}}");
    let groups: Vec<_> = (0..1_000).map(group).collect();
    let hog = |n| hogs(&format!("h{n}"), 1, &format!("/g{n}"));
    let tasks: Vec<_> = (0..1_000).map(hog).collect();
    let text = format!(
        "{{'machine': {{'cpus': 16}}, 'global': {{'duration': 1}}, 'groups': {{{}}}, 'tasks': {{{}}}}}",
        groups.join(","),
        tasks.concat()
    );
    let parsed = parse("thousand", &text.replace('\'', "\""), &Overrides::default()).unwrap();
    let mut back = Vec::new();
    let observer = |event: &Event| {
        if matches!(event.what, What::Unthrottled { .. }) {
            back.push(event.at);
        }
    };
    Sim::new(&parsed.scenario, Options::default(), observer).unwrap().run();
    assert!(back.len() > 8_000, "they come back each period: {}", back.len());
    let together = back.chunk_by(|a, b| a == b).map(<[Time]>::len).max();
    assert_eq!(together, Some(1), "at one instant");
}

/// An owner that is out of budget continues on credit until it has released a mutex that a task outside the group waits
/// for.
#[test]
fn who_keeps_others_waiting_runs_on() {
    let tasks = "'holder': {'group': '/a/b', 'loop': -1, 'lock': 'm', 'run': 15000, 'unlock': 'm', 'run1': 5000},
                 'other': {'group': '/a', 'delay': 5000, 'loop': 1, 'lock': 'm', 'unlock': 'm'},
                 'rival': {'loop': -1, 'run': 1000}";
    let text = |pi: bool| {
        format!(
            "{{'global': {{'pi_enabled': {pi}}}, 'groups': {{'/a': {{}}, '/a/b': {{'runtime': 10000}}}}, 'tasks': {{{tasks}}}}}"
        )
    };
    let without = world().millis(1_000).run_text(&text(false));
    without.holds(without.exit("other") > ms(100), "it waits for the next period");
    let with = world().millis(1_000).run_text(&text(true));
    with.holds(with.exit("other") < ms(40), "it waits for the section");
    near(&with, "holder", 10.0);
}

/// A throttled task returns to its old place in the order, without credit or penalty.
#[test]
fn a_group_that_comes_back_has_no_advantage() {
    let run = run(
        world().millis(2_000),
        "'/a': {'runtime': 30000}",
        &(hogs("a", 1, "/a") + "'probe': {'loop': -1, 'run': 700}"),
    );
    for back in run.times(|event| event.what == What::Unthrottled { group: GroupId(1) }) {
        let used = |name| {
            let inside = run.stretches(name).into_iter();
            inside
                .map(|it| it.to.min(back + Nanos::from_millis(36)).since(it.from.max(back)).0)
                .sum::<u64>()
        };
        let (a, probe) = (used("a"), used("probe"));
        let fair = a <= probe + 6_000_000;
        run.holds(
            fair || back + Nanos::from_millis(36) > run.end(),
            &format!("after {back}: {a} and {probe}"),
        );
    }
}

/// A task that computes for 100 us and sleeps for 400 us, in rounds.
const SLEEPER: &str = "'loop': -1, 'timer_slack': 0, 'run': 100, 'sleep': 400";

/// Returns the end of each round of such a task, and the time for which other tasks delayed it.
fn waits(run: &Run, name: &str) -> Vec<(Time, Nanos)> {
    let done = run.at_step(name, 1);
    done.windows(2).map(|two| (two[1], Nanos(two[1].since(two[0]).0 - 500_000))).collect()
}

/// A woken task that is hardly behind a running task lets it continue for a while. This does not hold against a task of
/// a group that was throttled in this period or the last. Such a group will be throttled again, however often its task
/// is preempted before.
#[test]
fn an_exhausted_group_keeps_nobody_waiting_who_wakes_up() {
    let of = |limit, hog| {
        let groups = format!("'/a': {{'runtime': {limit}}}");
        let tasks = format!("'hog': {{'group': '/a', 'loop': -1, {hog}}}, 'w': {{{SLEEPER}}}");
        run(world().millis(2_000), &groups, &tasks)
    };
    let below = of(20_000, "'run': 10000, 'sleep': 90000");
    below.is("throttled", below.outcome.limits[&GroupId(1)].usage.nr_throttled, 0);
    let waited = waits(&below, "w").into_iter().filter(|&(_, wait)| wait > Nanos::ZERO).count();
    below.holds(waited >= 20, &format!("w waits {waited} times"));
    let beyond = of(10_000, "'run': 10000");
    let first = beyond.times(|event| event.what == What::Throttled { group: GroupId(1) })[0];
    for (at, wait) in waits(&beyond, "w") {
        let fine = at <= first || wait == Nanos::ZERO;
        beyond.holds(fine, &format!("w waits for {wait} at {at}"));
    }
}

/// Tasks inside such a group preempt each other as in any group. Otherwise a group of short tasks would not get its
/// budget.
#[test]
fn an_exhausted_group_of_short_tasks_gets_what_it_was_given() {
    let tasks = hogs("hog", 1, "/") + &format!("'w': {{'group': '/a', {SLEEPER}}}");
    let run = run(world().millis(2_000), "'/a': {'runtime': 15000}", &tasks);
    near(&run, "w", 15.0);
}

/// A real-time task alone on its CPU is throttled from the moment at which its group, or the group above, gets a limit.
#[test]
fn a_running_real_time_task_hears_of_a_new_limit() {
    for group in ["/a", "/a/b"] {
        let tasks = format!(
            "'rt': {{'group': '{group}', 'policy': 'SCHED_FIFO', 'run': 1000}}, 'fair': {{'run': 1000}}"
        );
        let world = world().millis(1_100).relimit(ms(100), 1, Some((10, 100)));
        let run = run(world, "'/a': {}, '/a/b': {}", &tasks);
        let rt = percent(&run, "rt");
        run.holds((17.0..20.0).contains(&rt), &format!("all of 100 ms, a tenth of 1,000: {rt}"));
        let usage = run.outcome.limits[&GroupId(1)].usage;
        run.is("periods", (usage.nr_periods, usage.nr_throttled), (10, 10));
    }
}

/// Another limit changes while the CPU of a group without budget is about to switch. No further interrupt is needed.
#[test]
fn a_group_without_budget_needs_no_second_interrupt_to_leave() {
    let costs = Costs { timer_interrupt: Nanos::from_micros(100), ..FREE };
    let world = world().costs(costs).millis(5).relimit(us(1_050), 2, None);
    let groups = "'/a': {'runtime': 1000, 'period': 1000000}, '/b': {}";
    let tasks = "'rt': {'group': '/a', 'policy': 'SCHED_FIFO', 'run': 10000},
                 'late': {'delay': 1100, 'loop': 1, 'run': 10}";
    let run = run(world, groups, tasks);
    run.is("the end of late", run.exit("late"), us(1_185));
}

/// A throttled task that makes a task outside its group wait continues, also if the wait begins after the throttling.
#[test]
fn what_a_holder_inherits_follows_limits_and_groups() {
    let other = "'other': {'delay': 5000, 'loop': 1, 'lock': 'm', 'unlock': 'm'}";
    let text = |holder: &str| {
        format!(
            "{{'global': {{'pi_enabled': true}}, 'groups': {{'/a': {{}}, '/b': {{'runtime': 1000,
             'period': 1000000}}}}, 'tasks': {{'holder': {{'group': '/a', 'loop': 1, {holder}}}, {other}}}}}"
        )
    };
    let limited = "'lock': 'm', 'run': 60000, 'unlock': 'm'";
    let world = world().millis(2_000).relimit(ms(10), 1, Some((1, 1_000)));
    let run = world.run_text(&text(limited));
    run.is("a limit that comes later", run.exit("other"), ms(60));
    let moves = "'phases': {'one': {'loop': 1, 'lock': 'm', 'run': 10000},
                            'two': {'loop': 1, 'group': '/b', 'run': 50000, 'unlock': 'm'}}";
    let run = crate::rig::world().millis(2_000).run_text(&text(moves));
    run.is("another group", run.exit("other"), ms(60));
}

/// Balance sees the tasks that do not wait for budget, for any number of tasks that do.
#[test]
fn a_throttled_crowd_hides_nobody_from_balance() {
    let run = run(
        world().cpus(2).millis(500).unlogged(),
        "'/a': {'runtime': 1000, 'period': 1000000}",
        "'crowd': {'instance': 2000, 'group': '/a', 'cpus': [0], 'loop': -1, 'run': 1000},
         'pinned': {'cpus': [0], 'loop': -1, 'run': 1000},
         'free': {'cpus': [0, 1], 'delay': 20000, 'loop': -1, 'run': 1000},
         'guest': {'cpus': [1], 'loop': 1, 'run': 200000}",
    );
    let share = percent(&run, "free") + percent(&run, "pinned") + percent(&run, "guest");
    run.holds(share > 195.0, &format!("both CPUs are busy: {share} %"));
}

/// The CPUs of one group look for its budget one after another. Tasks that find none stay where they are.
#[test]
fn the_cpus_of_a_group_come_back_one_after_the_other() {
    let limit = "'/a': {'runtime': 40000}";
    let run = run(world().cpus(64).millis(1_000).unlogged(), limit, &hogs("h", 64, "/a"));
    near(&run, "h", 40.0);
    let back = run.times(|event| matches!(event.what, What::Unthrottled { .. }));
    let together = back.chunk_by(|a, b| a == b).map(<[Time]>::len).max();
    run.is("at one instant", together, Some(1));
}
