//! The differences between kernels, by name.

use crate::rig::{Run, ms, world};
use runyard_engine::time::{Nanos, Time};

/// Runs the tasks on one CPU of a kernel with a tick of one millisecond.
fn on_kernel(kernel: &str, millis: u64, tasks: &str) -> Run {
    let text = format!("{{'machine': {{'cpus': 1, 'kernel': '{kernel}'}}, 'tasks': {{{tasks}}}}}");
    world().millis(millis).run_text(&text)
}

/// Returns the longest wait of a task after a wake-up, in microseconds.
fn worst(run: &Run, name: &str) -> u64 {
    run.account(name).wakeup_latency.max().unwrap_or(Nanos::ZERO).0 / 1_000
}

/// A woken task with a short slice waits only as long as the kernel's own rule allows, beside a hog with a slice of 100
/// ms and a hog with a short one. In 6.6 all tasks have the base slice. In 6.12 the long hog gives way at the first
/// tick at which it is not eligible. But the short hog first receives its share for the long hog's 7 ms. In 6.18 the
/// turns of both hogs are short.
#[test]
fn a_woken_task_with_a_short_slice_waits_for_ticks_and_not_for_a_long_slice() {
    let tasks = "'long': {'slice': 100000, 'run': 1000000},
                 'short': {'slice': 500, 'run': 1000000},
                 'woken': {'slice': 200, 'timer': {'ref': 't', 'period': 7000}, 'timer_slack': 0, 'run': 300}";
    for (kernel, most) in [("6.6", 2_000), ("6.12", 5_000), ("6.18", 1_000)] {
        let run = on_kernel(kernel, 4_000, tasks);
        let waited = worst(&run, "woken");
        run.holds(waited <= most, &format!("{kernel}: waits {waited} us, of {most}"));
    }
}

/// A lone hog gives way at once to a woken task with a shorter slice. With equal slices the woken task waits for at
/// most the hog's slice.
#[test]
fn a_hog_that_is_alone_makes_way_for_a_shorter_slice() {
    let tasks = |slice: u32| {
        format!(
            "'hog': {{'slice': 20000, 'run': 1000000}}, 'woken': {{'slice': {slice}, 'timer': {{'ref': 't', \
             'period': 7000}}, 'timer_slack': 0, 'run': 300}}"
        )
    };
    for kernel in ["6.12", "6.18.15", "6.18"] {
        let run = on_kernel(kernel, 4_000, &tasks(200));
        run.is(kernel, worst(&run, "woken"), 0);
        let run = on_kernel(kernel, 4_000, &tasks(20_000));
        let waited = worst(&run, "woken");
        run.holds(waited <= 21_000, &format!("{kernel}: waits {waited} us"));
    }
}

/// A task goes to sleep with negative lag against the hog beside it. In 6.12 the lag has decayed long before the task
/// wakes. In 6.6, and without the feature, the task still has it.
#[test]
fn what_a_sleeper_owes_is_worked_off_in_its_place() {
    let waits = |features: &str| {
        let text = format!(
            "{{'machine': {{'cpus': 1, 'kernel': '6.12'}}, 'features': [{features}], 'tasks': {{
             'hog': {{'run': 1000000}},
             'sleeper': {{'slice': 20000, 'run': 20000, 'sleep': 200000, 'timer_slack': 0}}}}}}"
        );
        let run = world().millis(4_000).run_text(&text);
        worst(&run, "sleeper")
    };
    let (with, without) = (waits(""), waits("'NO_DELAY_DEQUEUE'"));
    assert!(with <= 3_000 && without > 8_000, "{with} us with ghosts, {without} us without");
}

/// A task that sleeps for a moment with negative lag wakes in its old place, even if another CPU is idle
/// (`ttwu_runnable`).
#[test]
fn who_owes_something_wakes_up_where_it_is() {
    for (feature, migrations) in [("DELAY_DEQUEUE", 0), ("NO_DELAY_DEQUEUE", 1)] {
        let text = format!(
            "{{'machine': {{'cpus': 2, 'kernel': '6.18'}}, 'features': ['NO_LOAD_BALANCE', '{feature}'], 'tasks': {{
             'hog': {{'cpus': [0], 'run': 1000000}},
             'napper': {{'loop': 1, 'phases': {{
                'there': {{'loop': 1, 'cpus': [0], 'run': 100}},
                'naps': {{'loop': 1, 'cpus': [0, 1], 'run': 3600, 'sleep': 100, 'run': 5000}}}}}}}}}}"
        );
        let run = world().millis(100).run_text(&text);
        run.is(feature, run.account("napper").migrations, migrations);
    }
}

/// A task of the scenario has slept before it begins, so it preempts as any sleeper does. A forked task owes a slice
/// (`START_DEBIT`).
#[test]
fn a_task_that_begins_is_woken_and_a_forked_one_is_new() {
    let run = on_kernel(
        "6.1",
        200,
        "'hog': {'run': 1000},
         'woken': {'delay': 30500, 'loop': 1, 'run': 100},
         'forks': {'policy': 'SCHED_FIFO', 'delay': 60500, 'loop': 1, 'fork': 'new'},
         'new': {'instance': 0, 'loop': 1, 'run': 100}",
    );
    let waited = |name: &str, since: u64| run.start(name).since(Time(since * 1_000)).0 / 1_000;
    let (woken, new) = (waited("woken", 30_500), waited("new-0000", 60_500));
    run.holds(woken < 100 && new > 1_000, &format!("{woken} us, forked {new} us"));
}

/// Short sleeps gain nothing, for any treatment of the negative lag.
#[test]
fn who_naps_has_no_more_than_its_share() {
    for kernel in ["6.6", "6.12", "6.18.15", "6.18"] {
        let tasks =
            "'hog': {'run': 1000000}, 'napper': {'run': 2500, 'sleep': 50, 'timer_slack': 0}";
        let run = on_kernel(kernel, 4_000, tasks);
        let had = run.account("napper").runtime.0 / 1_000_000;
        run.holds(had <= 2_050, &format!("{kernel}: {had} ms of 4000"));
    }
}

/// Runs a real-time hog and a fair one on one CPU of such a machine for ten seconds.
fn famine(machine: &str, features: &str) -> Run {
    let text = format!(
        "{{'machine': {{'cpus': 1, {machine}}}, 'features': [{features}], 'tasks': {{
         'hog': {{'policy': 'SCHED_FIFO', 'run': 1000000}}, 'fair': {{'run': 1000000}}}}}}"
    );
    world().millis(10_000).run_text(&text)
}

/// Fair tasks get their time from the throttling of real-time tasks or from the fair server, in one piece each second.
#[test]
fn a_real_time_hog_leaves_a_twentieth() {
    let groups = "'rt_group_sched': true";
    let cases = [
        ("'kernel': '6.1'", "", 5),
        ("'kernel': '6.1 + founding'", "", 5),
        ("'kernel': '6.6'", "'NO_FAIR_SERVER'", 5),
        ("'kernel': '6.12'", "", 5),
        ("'kernel': '6.18'", "", 5),
        ("'kernel': '6.18 + founding'", "", 5),
        ("'kernel': '6.12'", "'NO_FAIR_SERVER'", 0),
        ("'kernel': '6.18'", "'NO_FAIR_SERVER'", 0),
        ("'kernel': '6.18 + founding'", "'NO_FAIR_SERVER'", 0),
        (&format!("'kernel': '6.12', {groups}"), "'NO_FAIR_SERVER'", 5),
        (&format!("'kernel': '6.18', {groups}"), "'NO_FAIR_SERVER'", 5),
        (&format!("'kernel': '6.18 + founding', {groups}"), "'NO_FAIR_SERVER'", 5),
        (&format!("'kernel': '6.18', {groups}"), "", 5),
        (&format!("'kernel': '6.1', {groups}"), "'FAIR_SERVER'", 5),
    ];
    for (machine, features, percent) in cases {
        let run = famine(machine, features);
        let what = format!("{machine} {features}");
        let share = run.share("fair", Nanos::from_secs(10));
        run.holds((share - f64::from(percent)).abs() < 0.2, &format!("{what}: {share} %"));
        let pieces = run.stretches("fair");
        run.is(&what, pieces.len(), if percent == 0 { 0 } else { 10 });
        for (second, piece) in (0..).zip(pieces) {
            let begins = ms(1_000 * second + 950);
            let late = piece.from.since(begins).max(begins.since(piece.from));
            run.holds(late <= Nanos::from_millis(2), &format!("{what}: {piece:?}"));
        }
    }
}

/// Once they have starved, fair tasks that come and go need not wait for the rest of that second. In the next second
/// they starve again.
#[test]
fn who_was_served_is_served_at_once_for_a_period() {
    let tasks = "'hog': {'policy': 'SCHED_FIFO', 'run': 1000000},
                 'fair': {'timer': {'ref': 't', 'period': 100000}, 'timer_slack': 0, 'run': 1000}";
    let run = on_kernel("6.18", 6_000, tasks);
    let waits: Vec<_> =
        run.stretches("fair").iter().map(|piece| piece.from.0 / 1_000_000).collect();
    run.is("starves, is served, starves again", &waits[..3], [950, 1_050, 1_150]);
    let longest = waits.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    run.holds(
        (900..1_100).contains(&longest),
        &format!("{longest} ms between two turns: {waits:?}"),
    );
}

/// A CPU that serves fair tasks does not give away the real-time tasks that it makes wait. The kernel's own balance
/// finds nothing to push or pull there.
#[test]
fn a_real_time_task_waits_where_fair_tasks_are_served() {
    let tasks = "'low': {'instance': 2, 'policy': 'SCHED_FIFO', 'priority': 1, 'run': 1000000},
                 'high': {'policy': 'SCHED_FIFO', 'priority': 99, 'timer': {'ref': 't', 'period': 10000}, 'timer_slack': 0,
                          'run': 500},
                 'fair': {'instance': 2, 'run': 1000000}";
    let longest = |features: &str| {
        let text = format!(
            "{{'machine': {{'cpus': 2, 'kernel': '6.18'}}, 'features': [{features}], 'tasks': {{{tasks}}}}}"
        );
        let run = world().millis(5_000).run_text(&text);
        worst(&run, "high")
    };
    let (with, without) = (longest("'RT_PUSH_PAST_STUCK'"), longest("'NO_FAIR_SERVER'"));
    assert!((30_000..=51_000).contains(&with) && without < 100, "{with} us, else {without} us");
}

/// This includes tasks that only have negative lag left, tasks of the idle class, and tasks of a group without budget.
#[test]
fn whoever_is_fair_is_served() {
    let text = "{'machine': {'cpus': 1, 'kernel': '6.18'}, 'groups': {'/g': {'runtime': 10000, 'period': 500000}},
        'tasks': {
            'hog': {'policy': 'SCHED_FIFO', 'run': 1000000},
            'idle': {'policy': 'SCHED_IDLE', 'run': 1000000},
            'naps': {'slice': 20000, 'run': 7000, 'sleep': 3000, 'timer_slack': 0},
            'held': {'group': '/g', 'run': 1000000}}}";
    let run = world().millis(10_000).run_text(text);
    let share = |name| run.share(name, Nanos::from_secs(10));
    let all = share("idle") + share("naps") + share("held");
    run.holds((all - 5.0).abs() < 0.2, &format!("{all} %"));
    run.holds(share("held") <= 2.1 && share("held") > 0.8, &format!("{} %", share("held")));
}

/// Returns the number of CPU changes of a task that computes for 40 us each 4 ms, while a pinned one computes for
/// `busy` us. Their CPU is busy when the task wakes, and the other CPU idles.
fn moves(machine: &str, busy: u32) -> u64 {
    let text = format!(
        "{{'machine': {{'cpus': 2, 'kernel': '6.18'{machine}}}, 'features': ['NO_LOAD_BALANCE'], 'tasks': {{
         'pinned': {{'cpus': [0], 'timer_slack': 0, 'timer': {{'ref': 'a', 'period': 4000}}, 'run': {busy}}},
         'probe': {{'delay': 500, 'timer_slack': 0, 'loop': 1, 'phases': {{
            'settle': {{'cpus': [0], 'loop': 50, 'timer': {{'ref': 'b', 'period': 4000}}, 'run': 40}},
            'go': {{'cpus': [0, 1], 'loop': 200, 'timer': {{'ref': 'b', 'period': 4000}}, 'run': 40}}}}}}}}}}"
    );
    let run = world().millis(800).run_text(&text);
    run.account("probe").migrations
}

/// A guest's kernel with `sched_vcpu_pack` wakes no virtual CPU while the busy one has room.
#[test]
fn a_guest_packs_tasks_on_a_cpu_with_room() {
    let packs = ", 'packs_below': 68";
    for busy in [2_000, 2_400] {
        assert_eq!((moves(packs, busy), moves("", busy)), (0, 1), "{busy} us");
    }
    assert_eq!(moves(packs, 3_000), 1);
}

/// A wake-up examines fewer CPUs the more they are used. With two CPUs that are more than 60 % used it examines none.
#[test]
fn a_woken_task_looks_at_fewer_cpus_the_more_they_are_used() {
    let migrations = |features: &str, run: u32| {
        let text = format!(
            "{{'machine': {{'cpus': 2, 'kernel': '6.18'}}, 'features': [{features}], 'tasks': {{
             'a': {{'instance': 3, 'run': {run}, 'sleep': {{'exponential': 1000}}}}}}}}"
        );
        let run = world().millis(4_000).run_text(&text);
        ["a-0", "a-1", "a-2"].map(|task| run.account(task).migrations).iter().sum::<u64>()
    };
    let (few, many) = (migrations("", 1_000), migrations("'NO_SIS_UTIL'", 1_000));
    assert!(2 * few < many, "{few} and {many} where the CPUs are used for 75 %");
    let (with, without) = (migrations("", 250), migrations("'NO_SIS_UTIL'", 250));
    assert!(2 * with > without, "{with} and {without} where they are used for 30 %");
}

/// A running task leaves a CPU where a pinned task waits for an idle CPU.
#[test]
fn a_running_task_makes_room_for_a_pinned_one() {
    let tasks = "'heavy': {'priority': -11, 'run': 5000},
                 'pinned': {'delay': 1000, 'priority': 11, 'cpus': [0], 'run': 1000}";
    for kernel in ["6.1", "6.6", "6.12", "6.18.15", "6.18"] {
        let text =
            format!("{{'machine': {{'cpus': 2, 'kernel': '{kernel}'}}, 'tasks': {{{tasks}}}}}");
        let run = world().millis(1_000).run_text(&text);
        let share = run.share("pinned", Nanos::from_secs(1));
        run.holds(share > 90.0, &format!("{kernel}: {share} %"));
    }
}
