//! The CPU time that a run queue reserves for fair tasks beside real-time ones.

use crate::world::{Action, Tree, World};
use crate::{fifo, normal, run};
use proptest::prelude::*;
use runyard_engine::attr::Policy;
use runyard_engine::config::Config;
use runyard_engine::features::{Feature, Switched};
use runyard_engine::run_queue::Resched;
use runyard_engine::task::{Task, TaskId};
use runyard_engine::time::{Nanos, Time};
use runyard_engine::topology::Topology;

/// Returns the numbers of the kernel, with the server or without.
fn config(server: bool, rt_runtime: Option<Nanos>) -> Config {
    let mut config = Config { rt_runtime, ..Config::new(Topology::flat(2).unwrap()) };
    config.features.set(Switched { feature: Feature::FairServer, on: server });
    config
}

fn come(world: &mut World, policy: Policy) {
    world.act(&Action::New { policy, cpus: 1, group: 0 });
}

/// Returns a real-time hog, and then fair tasks of these policies.
fn beside_a_hog(config: Config, fair: &[Policy]) -> World {
    let mut world = World::with(config, Tree::default());
    come(&mut world, fifo(50));
    fair.iter().for_each(|&policy| come(&mut world, policy));
    world
}

fn fair_time(world: &World) -> Nanos {
    let tasks =
        world.rq.tasks().iter().map(|(_, task)| task).chain(world.away.iter().map(|it| &**it));
    let fair = tasks.filter(|task| task.class().is_fair());
    fair.map(Task::runtime).fold(Nanos::ZERO, |sum, span| sum + span)
}

/// Returns when fair tasks began to run and when they made way, including other events at these
/// times.
fn fair_stretches(world: &mut World, span: Nanos) -> Vec<(Time, Time)> {
    let end = world.now + span;
    let mut stretches: Vec<(Time, Time)> = Vec::new();
    while world.now < end {
        let from = world.now;
        run(world, Nanos::from_micros(100));
        if world.rq.tasks().curr().is_some_and(|task| task.class().is_fair()) {
            match stretches.last_mut().filter(|(_, to)| *to == from) {
                Some(last) => last.1 = world.now,
                None => stretches.push((from, world.now)),
            }
        }
    }
    stretches
}

#[test]
fn a_fair_hog_has_a_twentieth_beside_a_real_time_one() {
    let throttles = Some(Config::RT_RUNTIME);
    for (server, rt_runtime) in [(true, None), (false, throttles), (true, throttles)] {
        let mut world = beside_a_hog(config(server, rt_runtime), &[normal(0)]);
        run(&mut world, Nanos::from_secs(10));
        let fair = fair_time(&world);
        let twentieth = Nanos::from_millis(495)..=Nanos::from_millis(501);
        assert!(twentieth.contains(&fair), "{server} {rt_runtime:?}: {fair}\n{}", world.rq);
    }
    let mut world = beside_a_hog(config(false, None), &[normal(0)]);
    run(&mut world, Nanos::from_secs(10));
    assert_eq!(fair_time(&world), Nanos::ZERO, "without either it starves");
}

#[test]
fn a_starved_cpu_serves_in_one_piece_each_second() {
    for policy in [normal(0), Policy::Idle] {
        let mut world = beside_a_hog(config(true, None), &[policy, policy]);
        let stretches = fair_stretches(&mut world, Nanos::from_millis(3_500));
        let near = |at: Time, ms: u64| at.0.abs_diff(ms * 1_000_000) <= 2_000_000;
        let expected = [950, 1_950, 2_950];
        assert_eq!(stretches.len(), expected.len(), "{stretches:?}");
        for ((from, to), ms) in stretches.into_iter().zip(expected) {
            assert!(near(from, ms) && near(to, ms + 50), "{from}..{to} is not from {ms} ms");
        }
    }
}

/// Fair tasks are deferred once. In the second that then begins each of them goes first when it
/// comes.
#[test]
fn fair_tasks_that_come_after_a_famine_go_first() {
    let mut world = beside_a_hog(config(true, None), &[normal(0)]);
    run(&mut world, Nanos::from_millis(955));
    assert_eq!(world.running, Some(TaskId(1)), "the fair task is served");
    world.schedule(1);
    assert_eq!(world.running, Some(TaskId(0)), "no other task is to be served");
    run(&mut world, Nanos::from_millis(100));
    world.act(&Action::Wake(0));
    assert_eq!(world.rq.resched(), Resched::Yes);
    world.schedule(7);
    assert_eq!(world.running, Some(TaskId(1)), "the fair task need not wait again");
    world.check();
    world.schedule(1);
    run(&mut world, Nanos::from_secs(1));
    world.act(&Action::Wake(0));
    world.schedule(7);
    assert_eq!(world.running, Some(TaskId(0)), "that second is over");
}

/// A task that comes late in that second has no more than its part of the rest of it.
#[test]
fn who_comes_late_in_a_period_has_a_part_of_its_rest() {
    let mut world = beside_a_hog(config(true, None), &[normal(0)]);
    run(&mut world, Nanos::from_millis(955));
    world.schedule(1);
    run(&mut world, Nanos::from_millis(900));
    let before = fair_time(&world);
    world.act(&Action::Wake(0));
    run(&mut world, Nanos::from_millis(90));
    let had = Nanos(fair_time(&world).0 - before.0);
    // 5 % of 95 ms, up to a tick.
    assert!((4_700_000..=5_800_000).contains(&had.0), "{had}");
}

#[test]
fn a_real_time_task_that_comes_waits_for_the_rest_of_the_budget() {
    let mut world = beside_a_hog(config(true, None), &[normal(0)]);
    run(&mut world, Nanos::from_millis(960));
    come(&mut world, fifo(99));
    assert_eq!(world.rq.resched(), Resched::No);
    run(&mut world, Nanos::from_millis(1));
    assert_eq!(world.running, Some(TaskId(1)));
    assert!(world.rq.classes().is_serving() && world.rq.classes().load().pushable.is_none());
    run(&mut world, Nanos::from_millis(45));
    assert_eq!(world.running, Some(TaskId(2)), "the most important one");
    world.check();
}

/// The interrupt is exact to the nanosecond, whenever the tick comes, and exists only while it
/// would have an effect.
#[test]
fn an_interrupt_begins_to_serve() {
    let mut world = beside_a_hog(config(true, None), &[]);
    run(&mut world, Nanos(300_000));
    let came = world.now;
    assert_eq!(world.rq.next_expiries().timer, Time::MAX, "there is no fair task");
    come(&mut world, normal(0));
    let due = came + Nanos::from_millis(950);
    assert_eq!(world.rq.next_expiries().timer, due);
    let rest = due.since(world.now).0;
    run(&mut world, Nanos(rest - 1));
    assert!(!world.rq.classes().is_serving());
    run(&mut world, Nanos(1));
    assert!(world.rq.classes().is_serving());
    run(&mut world, Nanos::from_millis(10));
    assert_eq!(world.running, Some(TaskId(1)));
    assert_eq!(world.rq.next_expiries().timer, Time::MAX, "no task is kept off");
}

/// A real-time task that makes way for fair ones is stopped by a limit.
#[test]
fn a_famine_that_ends_is_a_limit_of_the_other() {
    let mut world = beside_a_hog(Config { accounts: true, ..config(true, None) }, &[normal(0)]);
    run(&mut world, Nanos::from_secs(3));
    let account = world.rq.time().account();
    let found = (account.preemptions.limit, account.preemptions.turn);
    assert_eq!(found, (3, 0), "{account:?}");
}

/// CPU time that fair tasks get without the server uses its budget.
#[test]
fn fair_time_and_idle_time_pay_the_budget() {
    for (idles, head_start) in [(false, 0), (true, 0), (true, 5)] {
        let mut world = World::with(config(true, None), Tree::default());
        come(&mut world, normal(0));
        run(&mut world, Nanos::from_millis(10));
        assert_eq!(world.rq.next_expiries().timer, Time::MAX, "no task is kept off");
        if idles {
            world.schedule(1);
        }
        run(&mut world, Nanos::from_millis(920));
        come(&mut world, fifo(1));
        run(&mut world, Nanos::from_millis(head_start));
        if idles {
            world.act(&Action::Wake(0));
        }
        run(&mut world, Nanos::from_millis(50));
        let what = format!("930 ms were not its own, idle: {idles}, {head_start} ms later");
        assert_eq!(world.running, Some(TaskId(1)), "{what}");
    }
}

/// Returns the configuration of a CPU with a short period.
fn short(runtime: u64, period: u64) -> Config {
    let server_runtime = Nanos::from_micros(runtime);
    let server_period = Nanos::from_micros(period);
    let config = Config { server_runtime, server_period, ..config(true, None) };
    config.validate().expect("the configuration is valid");
    config
}

/// Blocks the running task if it is one of those that may sleep, or wakes one.
fn comes_or_goes(world: &mut World, wakes: bool, sleeps: impl Fn(&Task<TaskId>) -> bool) {
    if wakes {
        world.act(&Action::Wake(0));
    } else if world.rq.tasks().curr().is_some_and(sleeps) {
        world.schedule(1);
    }
    world.check();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// However real-time tasks come and go, at most a period and the budget lie between two ends of
    /// a budget.
    #[test]
    fn fair_tasks_have_their_part_in_time(
        runtime in 1_500..5_000_u64,
        period in 5_000..30_000_u64,
        steps in prop::collection::vec((10..8_000_u64, any::<bool>()), 1..150),
    ) {
        let config = short(runtime, period);
        let tick = config.tick;
        let mut world = beside_a_hog(config, &[normal(0), normal(5)]);
        (0..3).for_each(|prio| come(&mut world, fifo(60 + prio)));
        let mut seen = vec![(world.now, Nanos::ZERO)];
        for (span, wakes) in steps {
            run(&mut world, Nanos::from_micros(span));
            comes_or_goes(&mut world, wakes, |task| !task.class().is_fair());
            seen.push((world.now, fair_time(&world)));
        }
        let window = Nanos(2 * (period + runtime) * 1_000 + 4 * tick.0);
        for (nth, &(from, had)) in seen.iter().enumerate() {
            let later = seen[nth..].iter().find(|(at, _)| at.since(from) >= window);
            if let Some(&(at, has)) = later {
                let got = Nanos(has.0 - had.0);
                assert!(got.0 + tick.0 >= runtime * 1_000, "{got} in {from}..{at}\n{}", world.rq);
            }
        }
    }

    /// However fair tasks come and go beside real-time ones that never do, they have no more than
    /// their reserve.
    #[test]
    fn real_time_tasks_lose_no_more_than_that_part(
        runtime in 1_500..5_000_u64,
        period in 5_000..30_000_u64,
        steps in prop::collection::vec((10..8_000_u64, any::<bool>()), 1..150),
    ) {
        let config = short(runtime, period);
        let tick = config.tick;
        let mut world = beside_a_hog(config, &[normal(0), normal(5), Policy::Idle]);
        for (span, wakes) in steps {
            run(&mut world, Nanos::from_micros(span));
            comes_or_goes(&mut world, wakes, |task| task.class().is_fair());
        }
        let periods = world.now.0 / (period * 1_000) + 1;
        let most = periods * runtime * 1_000 + tick.0;
        let fair = fair_time(&world);
        assert!(fair.0 <= most, "{fair} of {most} ns in {}\n{}", world.now, world.rq);
    }
}
