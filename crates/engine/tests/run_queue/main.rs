//! Random lives of one run queue. After every step it is compared with its invariants and with a
//! naive model of the choice.

mod batch;
mod least_turn;
mod metered;
mod newcomers;
mod server;
mod world;

use proptest::prelude::*;
use runyard_engine::attr::{Attr, GroupId, Nice, Policy, RtPrio};
use runyard_engine::balance::Measure;
use runyard_engine::config::Config;
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::features::{Feature, Switched};
use runyard_engine::rules::FairRules;
use runyard_engine::run_queue::FairPull;
use runyard_engine::run_queue::{Enqueue, Expired, Prev, Resched, RunQueue};
use runyard_engine::task::{Task, TaskId};
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::Walk;
use runyard_engine::topology::Topology;
use std::sync::Arc;
use world::{Action, Tree, World, action, cpus};

/// The rules of the runtime and of the kernels.
const RULES: &[FairRules] = &[
    FairRules::RUNYARD,
    FairRules::V6_1,
    FairRules::V6_6,
    FairRules::V6_12,
    FairRules::V6_18_15,
    FairRules::V6_18,
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn any_life_keeps_the_invariants(
        throttle in any::<bool>(),
        tickless in any::<bool>(),
        idle in any::<[bool; 3]>(),
        latency_nice in any::<[u8; 3]>(),
        rules in prop::sample::select(RULES),
        switches in prop::collection::vec(any::<bool>(), Feature::ALL.len()),
        actions in prop::collection::vec(action(), 1..120),
    ) {
        let mut config = Config {
            rt_runtime: throttle.then_some(Nanos::from_millis(5)),
            server_runtime: Nanos::from_millis(2),
            server_period: Nanos::from_millis(10),
            tickless,
            rules,
            ..Config::new(Topology::flat(2).unwrap())
        };
        for (feature, on) in Feature::ALL.into_iter().zip(switches) {
            config.features.set(Switched { feature, on });
        }
        let mut world = World::with(config, Tree::with(idle, latency_nice));
        for action in actions {
            world.act(&action);
            world.check();
        }
    }
}

fn normal(nice: i64) -> Policy {
    Policy::Normal(Nice::new(nice).unwrap())
}

fn fifo(prio: i64) -> Policy {
    Policy::Fifo(RtPrio::new(prio).unwrap())
}

/// Returns a world with one task for each policy, numbered in order, offered at once.
fn with(tasks: &[(Policy, u32)]) -> World {
    let mut world = World::new(None);
    for &(policy, group) in tasks {
        world.act(&Action::New { policy, cpus: 3, group });
    }
    world
}

/// Runs hogs for `span`; returns the CPU time of each task.
fn run(world: &mut World, span: Nanos) -> Vec<Nanos> {
    let end = world.now + span;
    while world.now < end {
        if world.rq.resched().is_due() {
            world.schedule(7);
        }
        let next = world.rq.next_expiry().unwrap_or(end).min(end);
        world.sleep(next.since(world.now));
    }
    let mut runtimes: Vec<_> = world.rq.tasks().iter().map(|(_, t)| (t.id, t.runtime())).collect();
    runtimes.sort_unstable();
    runtimes.into_iter().map(|(_, runtime)| runtime).collect()
}

fn assert_shares(runtimes: &[Nanos], weights: &[u64]) {
    let total: u64 = runtimes.iter().map(|r| r.0).sum();
    let sum: u64 = weights.iter().sum();
    for (got, weight) in runtimes.iter().zip(weights) {
        let want = total * weight / sum;
        assert!(got.0.abs_diff(want) * 50 <= total, "{runtimes:?} are not as {weights:?}");
    }
}

#[test]
fn fair_shares_follow_weights() {
    let mut world = with(&[(normal(0), 0), (normal(5), 0), (normal(-5), 0), (Policy::Idle, 0)]);
    assert_shares(&run(&mut world, Nanos::from_secs(10)), &[1024, 335, 3121, 3]);
}

/// The usage includes the children; fair and real-time tasks count alike.
#[test]
fn a_group_used_what_its_tasks_were_charged() {
    let mut world = with(&[(normal(0), 0), (normal(0), 1), (normal(5), 3), (normal(0), 2)]);
    run(&mut world, Nanos::from_secs(1));
    world.act(&Action::New { policy: fifo(3), cpus: 3, group: 1 });
    run(&mut world, Nanos::from_millis(10));
    let used = [1, 2, 3].map(|group| world.rq.used_in(world.now, GroupId(group)));
    let mut charged: Vec<_> =
        world.rq.tasks().iter().map(|(_, it)| (it.id, it.runtime())).collect();
    charged.sort_unstable();
    let charged: Vec<_> = charged.into_iter().map(|(_, charged)| charged).collect();
    assert!(charged[2..].iter().all(|&charged| charged > Nanos::ZERO), "{charged:?}");
    let first = charged[1] + charged[2] + charged[4];
    assert_eq!(used, [first, charged[3], charged[2]]);
    let at = world.rq.tasks().curr().map(|task| task.id).expect("the real-time task runs");
    assert_eq!(at, TaskId(4));
    let later = world.now + Nanos::from_millis(3);
    let used = world.rq.used_in(later, GroupId(1));
    assert_eq!(used, first + Nanos::from_millis(3), "the time until now counts");
}

#[test]
fn a_group_competes_as_one_whatever_it_holds() {
    // Group 2 has weight 1024. The share of this CPU in it is load / (load + 512).
    let mut world = with(&[(normal(0), 0), (normal(0), 2), (normal(0), 2), (normal(0), 2)]);
    let share = 1024 * 3072 / (3072 + 512);
    let parts = [1024 * 3, share, share, share];
    assert_shares(&run(&mut world, Nanos::from_secs(10)), &parts);
}

#[test]
fn who_counts_as_idle_is_counted_anew_with_each_change() {
    // Group 1 has weight 2 and group 3 is below it; group 2 is idle.
    let config = Config::new(Topology::flat(2).unwrap());
    let mut world = World::with(config, Tree::with([false, true, false], [20; 3]));
    let policies =
        [(normal(0), 0), (Policy::Idle, 0), (normal(0), 1), (normal(0), 3), (normal(0), 2)];
    for (policy, group) in policies {
        world.act(&Action::New { policy, cpus: 3, group });
        if world.running.is_none() {
            world.schedule(7);
        }
    }
    assert_eq!((world.running, world.rq.classes().load().nr_idle), (Some(TaskId(0)), 4));
    let change = |policy, group, boost| Action::Change { nth: 0, policy, cpus: None, group, boost };
    let steps = [
        (change(None, Some(2), None), 5, "into an idle group, running"),
        (change(Some(fifo(1)), None, None), 4, "real-time tasks are of no idle class"),
        (change(Some(Policy::Idle), None, Some(9)), 4, "nor are tasks that inherit a priority"),
        (change(None, Some(0), Some(0)), 5, "SCHED_IDLE"),
        (change(Some(normal(0)), None, None), 4, "as at first"),
    ];
    for (step, idle, why) in steps {
        world.act(&step);
        world.check();
        assert_eq!(world.rq.classes().load().nr_idle, idle, "{why}");
        world.schedule(7);
        world.check();
    }
}

#[test]
fn fifo_order_head_and_tail() {
    let mut world = with(&[(fifo(5), 0), (fifo(5), 0), (fifo(5), 0)]);
    world.schedule(7);
    assert_eq!(world.running, Some(TaskId(0)), "first come");
    world.act(&Action::New { policy: fifo(9), cpus: 3, group: 0 });
    world.schedule(7);
    assert_eq!(world.running, Some(TaskId(3)), "more important");
    world.schedule(1);
    assert_eq!(world.running, Some(TaskId(0)), "the preempted one kept the head");
    world.schedule(0);
    assert_eq!(world.running, Some(TaskId(1)), "the yielding one went to the tail");
}

#[test]
fn round_robin_takes_turns_of_one_slice() {
    let rr = Policy::RoundRobin(RtPrio::new(7).unwrap());
    let mut world = with(&[(rr, 0), (rr, 0)]);
    let switches = |world: &mut World, span| {
        let before = world.running;
        run(world, Nanos::from_millis(span));
        world.running != before
    };
    world.schedule(7);
    assert!(!switches(&mut world, 99) && switches(&mut world, 3), "100 ms and a tick");
    assert!(!switches(&mut world, 96) && switches(&mut world, 6), "100 ms and a tick, again");
}

#[test]
fn throttled_real_time_leaves_five_per_cent() {
    let mut world = World::new(Some(Nanos::from_micros(950_000)));
    world.act(&Action::New { policy: fifo(50), cpus: 3, group: 0 });
    world.act(&Action::New { policy: normal(0), cpus: 3, group: 0 });
    let runtimes = run(&mut world, Nanos::from_secs(10));
    assert_shares(&runtimes, &[95, 5]);
}

#[test]
fn a_boosted_task_is_never_throttled() {
    let mut world = World::new(Some(Nanos::from_micros(100_000)));
    world.act(&Action::New { policy: normal(0), cpus: 3, group: 0 });
    world.act(&Action::New { policy: normal(0), cpus: 3, group: 0 });
    let boost = Some(20);
    world.act(&Action::Change { nth: 0, policy: None, cpus: None, group: None, boost });
    let runtimes = run(&mut world, Nanos::from_secs(2));
    assert_eq!(runtimes[1], Nanos::ZERO, "{runtimes:?}");
}

#[test]
fn equal_priority_makes_way_only_for_one_that_cannot_move() {
    for (pinned, elsewhere, switched) in [(1, true, true), (3, true, false), (1, false, false)] {
        let mut world = with(&[(fifo(5), 0)]);
        world.schedule(7);
        let attr = Attr { policy: fifo(5), ..Attr::normal(cpus(pinned)) };
        let task = Task::new(TaskId(1), attr, TaskId(1));
        world.made += 1;
        let (slot, resched) = world.rq.offer(world.now, task, Enqueue::Woken).unwrap();
        assert_eq!(resched, Resched::No);
        let _ = world.rq.classes_mut().make_way(slot, |_| elsewhere);
        world.schedule(7);
        assert_eq!(world.running == Some(TaskId(1)), switched);
    }
}

#[test]
fn short_sleeps_do_not_pay_for_a_lone_member_of_a_group() {
    // Task 1 naps after each turn. Its group must not be placed anew with a credit each time.
    let mut world = with(&[(normal(0), 0), (normal(0), 2)]);
    for _ in 0..2_000 {
        world.schedule(7);
        world.sleep(Nanos::from_micros(300));
        if world.running == Some(TaskId(1)) {
            world.schedule(1);
            world.sleep(Nanos::from_micros(1));
            world.act(&Action::Wake(0));
        }
    }
    let runtime = |id| world.rq.tasks().iter().find(|(_, t)| t.id == id).unwrap().1.runtime().0;
    let (hog, napper) = (runtime(TaskId(0)), runtime(TaskId(1)));
    assert!(napper <= hog + 12_000_000, "hog {hog}, napper {napper}");
}

/// Balance does not move tasks that ran recently, except for SCHED_IDLE ones.
#[test]
fn a_task_that_ran_a_moment_ago_stays_unless_it_is_sched_idle() {
    for (policy, goes) in [(normal(0), false), (Policy::Idle, true)] {
        let mut world = with(&[(policy, 0), (policy, 0)]);
        run(&mut world, Nanos::from_millis(50));
        let before = world.running;
        while world.running == before {
            run(&mut world, Nanos::from_millis(1));
        }
        let pull = |hot| FairPull {
            to: CpuId(1),
            measure: Measure::All,
            max_load: u64::MAX,
            hot,
            eligible: false,
            runs: None,
        };
        assert_eq!(world.rq.at(world.now).detach_fair(pull(false)).is_ok(), goes, "{policy}");
        let taken = goes || world.rq.at(world.now).detach_fair(pull(true)).is_ok();
        assert!(taken, "{policy} goes if it must");
    }
}

#[test]
fn without_wakeup_preemption_a_sleeper_waits_for_the_tick() {
    let mut config = Config::new(Topology::flat(1).unwrap());
    config.features = config.features.without(Feature::WakeupPreemption);
    let mut rq: RunQueue<TaskId, ()> = RunQueue::new(CpuId(0), Arc::new(config), Arc::new(()));
    let new = |id| Task::new(TaskId(id), Attr::normal(CpuSet::first(1)), TaskId(id));
    let _ = rq.offer(Time(0), new(0), Enqueue::Woken).unwrap();
    let _ = rq.schedule(Time(0), Prev::Idle);
    let late = Time(100_000_000);
    let (_, resched) = rq.offer(late, new(1), Enqueue::Woken).unwrap();
    assert_eq!(resched, Resched::No);
}

#[test]
fn a_tickless_cpu_ticks_from_the_second_task_on() {
    let config = Config { tickless: true, ..Config::new(Topology::flat(1).unwrap()) };
    let tick = config.tick;
    let mut rq: RunQueue<TaskId, ()> = RunQueue::new(CpuId(0), Arc::new(config), Arc::new(()));
    let new = |id| Task::new(TaskId(id), Attr::normal(CpuSet::first(1)), TaskId(id));
    let _ = rq.offer(Time(0), new(0), Enqueue::Woken).unwrap();
    let _ = rq.schedule(Time(0), Prev::Idle);
    assert_eq!(rq.next_expiry(), None);
    let _ = rq.offer(Time(100_000_100), new(1), Enqueue::Woken).unwrap();
    assert_eq!(rq.next_expiry(), Some(Time(100_000_000) + tick), "not one of long ago");
    let _ = rq.schedule(Time(100_000_200), Prev::Exited);
    assert_eq!(rq.next_expiry(), None);
}

/// A CPU that has others to balance with does so now and then.
#[test]
fn a_tickless_cpu_of_several_ticks_rarely() {
    let config = Config { tickless: true, ..Config::new(Topology::flat(2).unwrap()) };
    let mut rq: RunQueue<TaskId, ()> = RunQueue::new(CpuId(0), Arc::new(config), Arc::new(()));
    let task = Task::new(TaskId(0), Attr::normal(CpuSet::first(1)), TaskId(0));
    let _ = rq.offer(Time(0), task, Enqueue::Woken).unwrap();
    let _ = rq.schedule(Time(0), Prev::Idle);
    for round in 1..4 {
        let at = Time(round * 64_000_000);
        assert_eq!(rq.next_expiry(), Some(at));
        assert_eq!(rq.expire(at, Walk::Busy), Some(Expired::Tick));
    }
}
