//! The placement of tasks that wake, and of new tasks.

use super::*;

#[test]
fn who_is_woken_by_one_that_is_about_to_block_stays_near_it() {
    let mut stage = Stage::new(2, &[]);
    let sleeper = stage.spawn_on_first(normal(), &[1, 0]);
    stage.leave(1, How::Blocks);
    stage.spawn(normal(), &[0]);
    let now = stage.world.now;
    stage.world.wake(now, sleeper, By::Blocking(CpuId(0)));
    assert_eq!(stage.place(sleeper), Some(0), "though CPU 1 is idle and it was there");
    stage.world.settle();

    let mut stage = Stage::new(2, &[]);
    let sleeper = stage.spawn_on_first(normal(), &[1, 0]);
    stage.leave(1, How::Blocks);
    stage.spawn(normal(), &[0]);
    stage.spawn(normal(), &[0]);
    stage.world.wake(now, sleeper, By::Blocking(CpuId(0)));
    assert_eq!(stage.place(sleeper), Some(1), "not where a task waits already");
}

#[test]
fn who_is_woken_by_a_cpu_that_looks_for_work_stays_there() {
    let mut stage = Stage::new(2, &[]);
    let [one, other] = [0; 2].map(|_| {
        let sleeper = stage.spawn_on_first(normal(), &[1, 0]);
        stage.leave(1, How::Blocks);
        sleeper
    });
    let now = stage.world.now;
    stage.world.wake(now, one, By::Idle(CpuId(0)));
    assert_eq!(stage.place(one), Some(0), "though CPU 1 is idle and it was there");
    stage.world.wake(now, other, By::Idle(CpuId(0)));
    assert_eq!(stage.place(other), Some(1), "not where a task waits already");
    stage.world.settle();
}

/// Wakes a task from CPU 0 that was last on CPU 1, with these numbers of hogs on CPUs 0 and 1. Returns its CPU.
fn woken_between(hogs: [usize; 2], by: By) -> Option<u16> {
    let mut stage = Stage::without_balance("1x2");
    let sleeper = stage.sleeper(normal(), &[1, 0]);
    for (cpu, count) in [(0, hogs[0]), (1, hogs[1])] {
        stage.hogs(&vec![cpu; count]);
    }
    stage.wake_by(sleeper, by)
}

#[test]
fn a_woken_task_goes_to_its_waker_if_that_has_less_to_do() {
    let waker = By::Cpu(CpuId(0));
    assert_eq!(woken_between([1, 2], waker), Some(0));
    assert_eq!(woken_between([1, 1], waker), Some(1), "with it there would be more there");
    assert_eq!(woken_between([9, 9], waker), Some(0), "10 are less than 112 % of 9");
    assert_eq!(woken_between([8, 8], waker), Some(1), "9 are more than 112 % of 8");
    assert_eq!(woken_between([1, 2], By::Nobody), Some(1), "without a waker no CPU is near");
    assert_eq!(woken_between([1, 0], waker), Some(1), "it is idle");
}

/// Both tasks wake others by turns, the waker three times as often. Three is the number of CPUs.
#[test]
fn a_waker_of_many_attracts_no_waker_of_some() {
    for (kernel, wakeups, goes_to) in [(false, 9, 0), (true, 8, 0), (true, 9, 1)] {
        let mut config = Config::new("1x3".parse().unwrap());
        config.features = config.features.without(Feature::LoadBalance);
        config.rules.wake_wide = kernel;
        let mut stage = Stage::with(config);
        let others = [0; 2].map(|_| stage.sleeper(normal(), &[2]));
        let wake = |stage: &mut Stage, by: u16, times: usize| {
            for nth in 0..times {
                assert_eq!(stage.wake_by(others[nth % 2], By::Cpu(CpuId(by))), Some(2));
                stage.world.settle();
                stage.leave(2, How::Blocks);
            }
        };
        let sleeper = stage.spawn_on_first(normal(), &[1, 0]);
        wake(&mut stage, 1, 3);
        stage.leave(1, How::Blocks);
        stage.hogs(&[0, 1, 1]);
        wake(&mut stage, 0, wakeups - 1);
        // The sleeper is one more wakee.
        let waker = By::Cpu(CpuId(0));
        assert_eq!(stage.wake_by(sleeper, waker), Some(goes_to), "{kernel}, {wakeups}");
    }
}

#[test]
fn a_waker_attracts_nobody_who_may_not_run_there() {
    let mut stage = Stage::without_balance("2x2");
    let sleeper = stage.sleeper(normal(), &[2, 1]);
    stage.hogs(&[0, 2, 2]);
    assert_eq!(stage.wake_by(sleeper, By::Cpu(CpuId(0))), Some(2), "nor near it, on CPU 1");
}

#[test]
fn an_idle_cpu_that_is_interrupted_keeps_whom_it_wakes() {
    let mut stage = Stage::without_balance("1x3");
    let sleeper = stage.sleeper(normal(), &[1, 0, 2]);
    stage.hogs(&[1]);
    assert_eq!(stage.wake_by(sleeper, By::Cpu(CpuId(0))), Some(0), "CPU 2 is the next idle one");
}

#[test]
fn a_woken_task_finds_an_idle_cpu_near_its_waker() {
    let mut stage = Stage::without_balance("2x2");
    let sleeper = stage.sleeper(normal(), &[2, 0, 1, 3]);
    stage.hogs(&[0, 2, 2]);
    assert_eq!(stage.wake_by(sleeper, By::Cpu(CpuId(0))), Some(1));

    let mut stage = Stage::without_balance("2x2");
    let sleeper = stage.sleeper(normal(), &[2, 0, 1, 3]);
    stage.hogs(&[0, 2]);
    assert_eq!(stage.wake_by(sleeper, By::Cpu(CpuId(0))), Some(3), "there is as much to do");
}

#[test]
fn a_woken_task_would_rather_have_a_core_for_itself() {
    let mut stage = Stage::without_balance("1x3x2");
    let sleeper = stage.sleeper(normal(), &[0, 1, 2, 3, 4, 5]);
    stage.hogs(&[0, 2]);
    assert_eq!(stage.wake_by(sleeper, By::Nobody), Some(4));

    let mut stage = Stage::without_balance("1x3x2");
    let sleeper = stage.sleeper(normal(), &[0, 1, 2, 3, 4, 5]);
    stage.hogs(&[0, 2, 5]);
    assert_eq!(stage.wake_by(sleeper, By::Nobody), Some(1));
}

/// Wakes a task that was last on CPU 0. CPU 0 has a normal task, CPU 1 a SCHED_IDLE one, and CPU 2 this many hogs.
fn woken_beside_sched_idle(
    (group, policy): (u32, Policy),
    hogs: usize,
    without: &[Feature],
) -> Option<u16> {
    let without: Vec<_> = without.iter().copied().chain([Feature::LoadBalance]).collect();
    let mut stage = Stage::new(3, &without);
    let sleeper = stage.sleeper_in(GroupId(group), policy, &[0, 1, 2]);
    stage.hogs(&[0]);
    stage.spawn(Policy::Idle, &[1]);
    stage.hogs(&vec![2; hogs]);
    stage.wake_by(sleeper, By::Nobody)
}

#[test]
fn a_cpu_with_sched_idle_tasks_only_is_free_to_normal_ones() {
    assert_eq!(woken_beside_sched_idle((0, normal()), 1, &[]), Some(1));
    assert_eq!(woken_beside_sched_idle((0, normal()), 0, &[]), Some(2), "better an idle one");
    let without = [Feature::IdleLoadBalance];
    assert_eq!(woken_beside_sched_idle((0, normal()), 1, &without), Some(0));
}

#[test]
fn a_cpu_with_sched_idle_tasks_only_is_not_free_to_another_one() {
    for who in [(0, Policy::Idle), (3, normal()), (2, normal())] {
        assert_eq!(woken_beside_sched_idle(who, 1, &[]), Some(0), "{who:?}");
        assert_eq!(woken_beside_sched_idle(who, 0, &[]), Some(2), "{who:?}");
    }
}

/// Wakes a task from CPU 0, which is busy, after a sleep on CPU 1. CPU 1 and CPU 2 have been idle for a while, and CPU
/// 3 for a moment unless `no_other`.
fn woken_among_sleepers(policy: Policy, by: By, no_other: bool) -> Option<u16> {
    let mut config = Config::new("1x4".parse().unwrap());
    config.features = config.features.without(Feature::LoadBalance);
    config.features.set("POWER_SAVINGS".parse().unwrap());
    let mut stage = Stage::with(config);
    let sleeper = stage.sleeper(policy, &[1, 0, 2, 3]);
    stage.hogs(&[0, 3]);
    stage.world.live_for(Nanos::from_millis(1));
    if !no_other {
        stage.leave(3, How::Exits);
    }
    stage.wake_by(sleeper, by)
}

#[test]
fn no_cpu_in_a_deep_sleep_is_woken_for_a_sched_idle_task() {
    let waker = By::Cpu(CpuId(0));
    assert_eq!(woken_among_sleepers(Policy::Idle, waker, false), Some(3));
    assert_eq!(woken_among_sleepers(Policy::Idle, waker, true), Some(0));
    assert_eq!(woken_among_sleepers(Policy::Idle, By::Nobody, false), Some(3));
    let timer = By::Cpu(CpuId(1));
    assert_eq!(woken_among_sleepers(Policy::Idle, timer, false), Some(1), "it is awake");
    assert_eq!(woken_among_sleepers(normal(), waker, false), Some(1));
}

/// Forks this many tasks on CPU 0 that may run on all four CPUs, and returns their CPUs.
fn forked(stage: &mut Stage, policy: Policy, count: usize) -> Vec<Option<u16>> {
    let tasks: Vec<_> = (0..count).map(|_| stage.spawn(policy, &[0, 1, 2, 3])).collect();
    tasks.into_iter().map(|task| stage.place(task)).collect()
}

#[test]
fn new_tasks_spread_over_nodes_first() {
    let mut stage = Stage::without_balance("2x2");
    assert_eq!(forked(&mut stage, normal(), 4), [0, 2, 1, 3].map(Some));
    let more = forked(&mut stage, normal(), 4);
    assert_eq!(more, [1, 2, 0, 3].map(Some), "where least is to do, near if it is as little");
}

#[test]
fn a_new_task_takes_a_whole_core_while_there_is_one() {
    let mut stage = Stage::without_balance("1x2x2");
    assert_eq!(forked(&mut stage, normal(), 4), [0, 2, 1, 3].map(Some));
}

#[test]
fn a_new_normal_task_goes_to_a_cpu_with_sched_idle_tasks_which_need_not_be_woken() {
    let on = |policy, without: &[Feature]| {
        let mut stage = Stage::new(4, &[without, &[Feature::LoadBalance]].concat());
        stage.hogs(&[0]);
        stage.spawn(Policy::Idle, &[2]);
        forked(&mut stage, policy, 1)[0]
    };
    assert_eq!(on(normal(), &[]), Some(2));
    assert_eq!(on(Policy::Idle, &[]), Some(1));
    assert_eq!(on(normal(), &[Feature::IdleLoadBalance]), Some(1));
}

#[test]
fn a_new_task_weighs_loads_where_nothing_is_free() {
    let mut stage = Stage::without_balance("1x4");
    stage.hogs(&[0, 1, 2, 3]);
    for cpu in [1, 2] {
        stage.spawn(Policy::Normal(Nice::new(-5).unwrap()), &[cpu]);
    }
    for _ in 0..2 {
        stage.spawn(Policy::Normal(Nice::new(5).unwrap()), &[3]);
    }
    assert_eq!(forked(&mut stage, normal(), 2), [Some(0), Some(3)]);
}
