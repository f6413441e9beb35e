//! What the kernels do each in their own way, by name.

use crate::rig::{Run, world};
use runyard_engine::time::Nanos;

/// The tasks on one CPU of a kernel, whose ticks are a millisecond apart.
fn on_kernel(kernel: &str, millis: u64, tasks: &str) -> Run {
    let text = format!("{{'machine': {{'cpus': 1, 'kernel': '{kernel}'}}, 'tasks': {{{tasks}}}}}");
    world().millis(millis).run_text(&text)
}

/// How long a task waited at the worst after a wake-up, in microseconds.
fn worst(run: &Run, name: &str) -> u64 {
    run.account(name).wakeup_latency.max().unwrap_or(Nanos::ZERO).0 / 1_000
}

/// A hog that wants 100 ms at a time keeps a task with a short slice no longer waiting than the kernel's own rule lets
/// it. In 6.6 all want the base slice. In 6.12 the hog makes way at the first tick at which it is not eligible; but the
/// other one, which wants little at a time too, has before what it is owed for the hog's 7 ms. In 6.18 the hog's turn is
/// as short as the other one's.
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

/// Where the hog is alone it never keeps the CPU from one whose slice is shorter, and of equal slices it does so for
/// its own.
#[test]
fn a_hog_that_is_alone_makes_way_for_a_shorter_slice() {
    let tasks = |slice: u32| {
        format!(
            "'hog': {{'slice': 20000, 'run': 1000000}}, 'woken': {{'slice': {slice}, 'timer': {{'ref': 't', \
             'period': 7000}}, 'timer_slack': 0, 'run': 300}}"
        )
    };
    for kernel in ["6.12", "6.18"] {
        let run = on_kernel(kernel, 4_000, &tasks(200));
        run.is(kernel, worst(&run, "woken"), 0);
        let run = on_kernel(kernel, 4_000, &tasks(20_000));
        let waited = worst(&run, "woken");
        run.holds(waited <= 21_000, &format!("{kernel}: waits {waited} us"));
    }
}

/// A task owes the hog beside it something when it goes to sleep. In 6.12 it has worked that off long before it wakes up;
/// in 6.6, and without the feature, it owes that still.
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

/// Who sleeps for a moment and owes something wakes up in its place, though another CPU is idle (`ttwu_runnable`).
#[test]
fn who_owes_something_wakes_up_where_it_is() {
    for (feature, migrations) in [("DELAY_DEQUEUE", 0), ("NO_DELAY_DEQUEUE", 1)] {
        let text = format!(
            "{{'machine': {{'cpus': 2, 'kernel': '6.18'}}, 'features': ['NO_LOAD_BALANCE', '{feature}'], 'tasks': {{
             'hog': {{'cpus': [0], 'run': 1000000}},
             'napper': {{'loop': 1, 'phases': {{
                'there': {{'loop': 1, 'cpus': [0], 'run': 100}},
                'naps': {{'loop': 1, 'cpus': [0, 1], 'run': 4600, 'sleep': 100, 'run': 5000}}}}}}}}}}"
        );
        let run = world().millis(100).run_text(&text);
        run.is(feature, run.account("napper").migrations, migrations);
    }
}

/// Naps pay nothing, whatever becomes of what is owed meanwhile.
#[test]
fn who_naps_has_no_more_than_its_share() {
    for kernel in ["6.6", "6.12", "6.18"] {
        let tasks =
            "'hog': {'run': 1000000}, 'napper': {'run': 2500, 'sleep': 50, 'timer_slack': 0}";
        let run = on_kernel(kernel, 4_000, tasks);
        let had = run.account("napper").runtime.0 / 1_000_000;
        run.holds(had <= 2_050, &format!("{kernel}: {had} ms of 4000"));
    }
}
