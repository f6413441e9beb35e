//! Limits of groups under the kernel's control, which every kernel's name and the default model have. The first two tests
//! have the answers of Linux 6.18.44 on two CPUs; the others show the direction of an effect.

use crate::rig::{Run, world};
use runyard_engine::attr::GroupId;
use runyard_engine::event::What;
use runyard_engine::limits::Usage;
use runyard_engine::time::{Nanos, Time};
use runyard_workload::{Overrides, parse};

const KERNELS: [&str; 5] = ["6.1", "6.6", "6.12", "6.18", "6.18 + founding"];

/// Runs tasks for some seconds on two CPUs under the rules of a kernel, with a group `/pod`.
fn run(kernel: &str, seconds: u64, pod: &str, tasks: &str) -> Run {
    let machine = format!("'machine': {{'cpus': 2, 'tick_hz': 250, 'kernel': '{kernel}'}}");
    let groups = format!("'groups': {{'/pod': {{{pod}}}}}");
    let text = format!("{{{machine}, {groups}, 'tasks': {{{tasks}}}}}");
    world().cpus(2).millis(1_000 * seconds).run_text(&text)
}

fn usage(run: &Run) -> Usage {
    run.outcome.limits[&GroupId(1)].usage
}

/// Returns the CPU time in seconds of the tasks with a name.
fn seconds(run: &Run, name: &str) -> f64 {
    let tasks = run.outcome.tasks.iter().filter(|task| task.thread == name);
    tasks.map(|task| run.ran(&task.name).0 as f64 / 1e9).sum()
}

/// A calibration of Linux 6.18.44 on two CPUs, made for other figures (`docs/figures/fidelity.md`, limits of task groups).
/// A sleep costs its task 24 us of CPU time.
const CALIBRATED: &str = "'costs': {'context_switch_ns': 245, 'idle_exit_ns': 40404, 'idle_exit_spread_ns': 24038,
    'ipi_ns': 25778, 'ipi_spread_ns': 3871, 'jitter_ns': 490, 'lock_ns': 2717, 'receive_ns': 214, 'send_ns': 214,
    'sleep_ns': 24065, 'timer_interrupt_ns': 11948, 'timer_latency_ns': 0, 'timer_spread_ns': 6689,
    'wakeup_ns': 9605}, 'packs_below': 68, 'rt_group_sched': true";

/// A CPU keeps 1 ms of what it draws. A probe of 50 us uses that up in some 14 wake-ups, since each costs it CPU time in
/// the kernel, too. Then it waits for the end of the period, as a hog has the rest.
///
/// Linux 6.18.44 woke the probe 725 and 745 times in 10 s. It missed 45 and 48 of its periods, and waited for 2.6 and
/// 2.8 s. The founding pool wakes it some 200 times.
#[test]
fn a_probe_lives_on_the_millisecond_that_its_cpu_kept() {
    for kernel in KERNELS {
        for seed in 1..=10 {
            let machine = format!("'cpus': 2, 'tick_hz': 250, 'kernel': '{kernel}', {CALIBRATED}");
            let tasks = "'hog': {'group': '/pod', 'cpus': [0], 'run': 1000000, 'loop': -1},
                         'probe': {'group': '/pod', 'cpus': [1], 'timer': {'ref': 'unique', 'period': 10000},
                                   'run': 50, 'loop': -1}";
            let groups = "'/pod': {'runtime': 20000, 'period': 100000}";
            let text = format!(
                "{{'machine': {{{machine}}}, 'groups': {{{groups}}}, 'tasks': {{{tasks}}}}}"
            );
            let world = world().cpus(2).costs_of_the_text().millis(10_000).seed(seed);
            let run = world.run_text(&text);
            let probe = run.task("probe");
            let is_woken = |what| matches!(what, What::Wake { task, .. } if task == probe);
            let woken = run.times(|event| is_woken(event.what)).len();
            run.holds(
                (690..=785).contains(&woken),
                &format!("{kernel}, seed {seed}: the probe was woken {woken} times"),
            );
            let throttled = usage(&run).nr_throttled;
            run.holds(throttled >= 99, &format!("{kernel}: throttled in {throttled} of 100"));
        }
    }
}

/// `cpu.max` acts on fair tasks only. Linux 6.18.44 gave 4.09 s of 10, and throttled nothing.
#[test]
fn a_real_time_task_pays_no_fair_limit() {
    for kernel in KERNELS {
        let tasks = "'audio': {'group': '/pod', 'policy': 'SCHED_FIFO', 'priority': 50, 'cpus': [0],
                               'timer': {'ref': 'unique', 'period': 10000}, 'run': 4000, 'loop': -1},
                     'other': {'cpus': [1], 'run': 1000, 'sleep': 1000, 'loop': -1}";
        let run = run(kernel, 10, "'runtime': 20000, 'period': 100000", tasks);
        let has = seconds(&run, "audio");
        run.holds((3.9..4.2).contains(&has), &format!("{kernel}: audio has {has} s"));
        run.is("throttled", usage(&run).nr_throttled, 0);
    }
}

/// One hog with 100 % of one CPU is hardly ever throttled. Linux 6.18.44 did it in 4 periods of 301.
#[test]
fn a_limit_of_one_cpu_hardly_holds_a_hog() {
    for kernel in KERNELS {
        let hog = "'hog': {'group': '/pod', 'cpus': [0], 'run': 1000000, 'loop': -1}";
        let run = run(kernel, 10, "'runtime': 100000, 'period': 100000", hog);
        let throttled = usage(&run).nr_throttled;
        run.holds(throttled <= 5, &format!("{kernel}: throttled in {throttled} of 100 periods"));
    }
}

/// Shares agree with the limit, whatever the size and the depth of the groups.
#[test]
fn shares_are_those_of_the_limits() {
    for kernel in KERNELS {
        for (runtime, period) in [(20_000, 100_000), (5_000, 10_000), (150_000, 100_000)] {
            let hogs = "'hog': {'instance': 3, 'group': '/pod', 'run': 700, 'loop': -1}";
            let run = run(kernel, 4, &format!("'runtime': {runtime}, 'period': {period}"), hogs);
            let (has, want) = (seconds(&run, "hog") / 4.0, f64::from(runtime) / f64::from(period));
            let right = (has - want).abs() < want / 20.0;
            run.holds(right, &format!("{kernel}: {has} of a CPU, not {want}"));
        }
    }
}

/// Two hogs with 98 % of two CPUs are throttled near the end of most periods. Linux did it to other tasks in 113 of 200.
#[test]
fn a_limit_a_little_below_the_machine_holds_in_most_periods() {
    for kernel in KERNELS {
        let hogs = "'hog': {'instance': 2, 'group': '/pod', 'run': 1000000, 'loop': -1}";
        let run = run(kernel, 10, "'runtime': 196000, 'period': 100000", hogs);
        let throttled = usage(&run).nr_throttled;
        run.holds(throttled > 50, &format!("{kernel}: throttled in {throttled} of 100 periods"));
    }
}

/// Thirty threads that need 6.4 of 16 CPUs on average are throttled by a limit of 7, and much less if 4 more may be
/// carried over. A letter to the kernel's list reports that a burst ends such waits.
#[test]
fn a_burst_ends_the_waits_of_a_crowd_that_needs_its_quota_on_average() {
    let run_with = |kernel: &str, burst: u32| {
        let machine = format!("'machine': {{'cpus': 16, 'tick_hz': 250, 'kernel': '{kernel}'}}");
        let pod = format!("'runtime': 700000, 'period': 100000, 'burst': {burst}");
        let tasks = "'t': {'instance': 30, 'group': '/pod', 'run': {'exponential': 5000},
                           'sleep': {'exponential': 18000}, 'loop': -1}";
        let text = format!("{{{machine}, 'groups': {{'/pod': {{{pod}}}}}, 'tasks': {{{tasks}}}}}");
        world().cpus(16).millis(10_000).unlogged().run_text(&text)
    };
    for kernel in ["6.1", "6.18"] {
        let (without, with) = (run_with(kernel, 0), run_with(kernel, 400_000));
        let [without, with] = [without, with].map(|run| usage(&run));
        assert!(without.nr_throttled >= 4, "{kernel}: without a burst {without:?}");
        let fewer = 2 * with.nr_throttled <= without.nr_throttled;
        assert!(fewer && with.nr_bursts > 0, "{kernel}: {with:?} instead of {without:?}");
    }
}

/// A queue whose task used the quota up exactly, and then sleeps, is throttled while it is empty. Through 6.5 that counts
/// as throttled time, and later it does not.
#[test]
fn an_empty_queue_counts_as_throttled_by_the_rule_of_its_release() {
    for (kernel, counts) in [("6.1", true), ("6.6", false), ("6.12", false), ("6.18", false)] {
        let task = "'t': {'group': '/pod', 'cpus': [0], 'run': 18000, 'sleep': 500000, 'loop': 1}";
        let run = run(kernel, 1, "'runtime': 18000, 'period': 100000", task);
        let Usage { nr_throttled, throttled, .. } = usage(&run);
        run.is("throttled", nr_throttled, 1);
        run.holds((throttled.0 > 0) == counts, &format!("{kernel}: for {throttled}"));
    }
}

/// A task in the kernel is throttled at its return to user mode since 6.18, and at once before that.
#[test]
fn a_task_in_the_kernel_is_throttled_on_its_way_to_user_mode() {
    for (kernel, most_of_a_period) in [("6.12", false), ("6.18", true)] {
        let tasks = "'t': {'group': '/pod', 'cpus': [0], 'kernel': 70000, 'loop': -1}";
        let run = run(kernel, 2, "'runtime': 20000, 'period': 100000", tasks);
        let longest = run.stretches("t").iter().map(|it| it.to.since(it.from).0).max().unwrap();
        run.holds(
            (longest > 60_000_000) == most_of_a_period,
            &format!("{kernel}: it ran for {longest} ns without a break"),
        );
    }
}

/// A task that wakes in a throttled group finishes its system call since 6.18, and before that waits for budget at once.
/// What comes after the call waits for budget in both, and so the wake-up is late by that.
///
/// Seen failing: on 6.18 the wake-up was over when the task came to its CPU, after 100 us in place of some 60 ms.
#[test]
fn a_task_that_wakes_in_a_throttled_group_finishes_its_call() {
    for (kernel, finishes) in [("6.12", false), ("6.18", true)] {
        let machine = format!("'cpus': 1, 'kernel': '{kernel}', 'costs': {{'sleep_ns': 200000}}");
        let tasks = "'hog': {'group': '/pod', 'run': 1000000, 'loop': -1},
                     'naps': {'group': '/pod', 'run': 300, 'sleep': 30000, 'loop': -1}";
        let groups = "'/pod': {'runtime': 20000, 'period': 100000}";
        let text =
            format!("{{'machine': {{{machine}}}, 'groups': {{{groups}}}, 'tasks': {{{tasks}}}}}");
        let run = world().costs_of_the_text().millis(1_000).run_text(&text);
        let begins = run.times(|event| matches!(event.what, What::Throttled { .. }));
        let ends = run.times(|event| matches!(event.what, What::Unthrottled { .. }));
        let waits = begins.into_iter().zip(ends);
        let waits: Vec<_> = waits.filter(|(from, to)| to.since(*from).0 > 50_000_000).collect();
        run.holds(waits.len() >= 8, &format!("{kernel}: throttled {} times", waits.len()));
        let naps = run.task("naps");
        let comes = run
            .times(|event| matches!(event.what, What::Switch { next, .. } if next == Some(naps)));
        let within = |at: Time| waits.iter().any(|&(from, to)| from < at && at < to);
        run.is("whether it has a CPU", comes.iter().any(|&at| within(at)), finishes);
        let executes = run.stretches("naps").iter().any(|it| within(it.from));
        run.holds(!executes, &format!("{kernel}: its program goes on in a throttled group"));
        let late = run.account("naps").wakeup_latency.quantile(500_000);
        run.holds(late > Some(Nanos(20_000_000)), &format!("{kernel}: p50 {late:?}"));
    }
}

/// A shorter slice leaves less on other CPUs, and is drawn more often.
#[test]
fn the_slice_is_a_number_of_the_scheduler() {
    let limit = "'runtime': 20000, 'period': 100000";
    let tasks = "'a': {'group': '/pod', 'cpus': [0], 'run': 1000000, 'loop': -1},
                 'b': {'group': '/pod', 'cpus': [1], 'run': 1000000, 'loop': -1}";
    let text = format!(
        "{{'machine': {{'cpus': 2, 'kernel': '6.12'}}, 'groups': {{'/pod': {{{limit}}}}}, 'tasks': {{{tasks}}}}}"
    );
    let apart = |us: u32| {
        let set = format!("scheduler.cfs_bandwidth_slice_us={us}");
        let run = world().cpus(2).millis(1_000).set(&set).run_text(&text);
        (seconds(&run, "a") - seconds(&run, "b")).abs()
    };
    let (short, long) = (apart(100), apart(20_000));
    assert!(
        short < 0.005 && long > 0.01,
        "CPUs differ by {short} s with short slices, {long} s with long ones"
    );
}

/// `RUNTIME_SHARE` belongs to the founding pool.
#[test]
fn runtime_share_is_refused_where_no_group_has_the_founding_pool() {
    let said = |pod: &str, features: &str| {
        let text = format!(
            r#"{{"machine": {{"kernel": "6.12"}}, "features": [{features}], "groups": {{"/pod": {{"runtime": 20000{pod}}}}},
                "tasks": {{"t": {{"group": "/pod", "run": 100, "loop": 1}}}}}}"#
        );
        parse("test.json", &text, &Overrides::default())
            .map(|_| ())
            .map_err(|fault| fault.to_string())
    };
    let refused = said("", r#""RUNTIME_SHARE""#).unwrap_err();
    assert!(refused.contains("RUNTIME_SHARE belongs to the founding pool"), "{refused}");
    assert_eq!(said(r#", "per_cpu": true"#, r#""RUNTIME_SHARE""#), Ok(()));
    assert_eq!(said("", r#""NO_CFS_BANDWIDTH", "RUNTIME_SHARE""#), Ok(()));
}

/// A burst lets a group that slept run on beyond its quota, and counts that.
#[test]
fn a_burst_is_used_and_counted() {
    for kernel in KERNELS {
        let task = "'t': {'group': '/pod', 'cpus': [0], 'run': 30000, 'sleep': 263000, 'loop': -1}";
        let run_with = |burst: u32| {
            run(kernel, 6, &format!("'runtime': 20000, 'period': 100000, 'burst': {burst}"), task)
        };
        let (without, with) = (run_with(0), run_with(20_000));
        let (without, used) = (usage(&without), usage(&with));
        with.holds(without.nr_throttled > 5, &format!("{kernel}: without a burst {without:?}"));
        with.holds(used.nr_throttled <= 1 && used.nr_bursts > 10, &format!("{kernel}: {used:?}"));
        let each = used.burst.0 / used.nr_bursts;
        with.holds((5_000_000..=15_000_000).contains(&each), &format!("{kernel}: {each} ns"));
    }
}

/// A new task draws bandwidth, and so sets the period timer, on a CPU where no switch follows. The CPU is interrupted
/// for it in time, which is checked after each event.
#[test]
fn a_timer_comes_in_time_where_no_switch_follows() {
    let tasks = "'parent': {'policy': 'SCHED_FIFO', 'priority': 50, 'cpus': [0],
                            'run': 1000, 'fork': 'child', 'run': 2900, 'loop': 1},
                 'child': {'instance': 0, 'group': '/pod', 'cpus': [0], 'run': 10, 'loop': 1},
                 'woken': {'cpus': [0], 'suspend': '', 'loop': -1},
                 'waker': {'cpus': [1], 'run': 300, 'resume': 'woken', 'loop': -1}";
    for kernel in KERNELS {
        run(kernel, 1, "'runtime': 1000, 'period': 1000", tasks);
    }
}
