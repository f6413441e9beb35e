//! Every interleaving of the races between CPUs, one model for each race.
//!
//! Two threads are explored without a bound where that ends within seconds. Otherwise each model states a bound on
//! preemptions: code of this kind hardly ever needs more than two to fail. [`BETWEEN_ALL_LOCKS`] is the bound where a
//! push and a pull cross. The values that a stale read may return are explored without a bound everywhere.
//!
//! A model that returns a value reports how its race went. If its two sides no longer meet, every interleaving returns
//! the same value. The model then fails, instead of passing without a race.
#![cfg(loom)]

mod cores;
#[path = "../host/mod.rs"]
mod host;
mod limits;

use host::{Bench, Cpu, Handle, Part, fifo, normal, on};
use loom::model::Builder;
use runyard_engine::attr::Policy;
use runyard_engine::balance::{Domain, Found};
use runyard_engine::cpu::CpuId;
use runyard_engine::features::{Feature, Features};
use runyard_engine::time::Time;
use runyard_engine::timer::{Token, Window};
use runyard_engine::topology::{Level, Topology};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The bound for races between a push and a pull. Each of them locks three times: to publish a change, to take a task
/// out, and to deliver it. No order of three steps of one and three of the other needs more than five preemptions. Each
/// further preemption would at least triple the interleavings, for the later steps of a refused task.
/// [`a_push_that_came_too_late_goes_elsewhere`] covers those without a bound.
const BETWEEN_ALL_LOCKS: Option<usize> = Some(5);

/// The time of the first tick.
const TICK: Time = Time(1_000_000);

fn machine(cpus: u32, features: Features) -> Bench {
    Bench::new(Topology::flat(cpus).unwrap(), features)
}

/// Returns the features without fair balancing, which would only make the models larger.
fn rt_only() -> Features {
    Features::default().without(Feature::LoadBalance)
}

/// Explores a model, and returns the set of its results.
fn explore<T: Ord + Debug + Send + 'static>(
    preemptions: Option<usize>,
    model: impl Fn() -> T + Send + Sync + 'static,
) -> Vec<T> {
    let ends = Arc::new(Mutex::new(BTreeMap::new()));
    let count = ends.clone();
    let mut builder = Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 10_000;
    builder.check(move || {
        let end = model();
        *count.lock().unwrap().entry(end).or_default() += 1;
    });
    let ends: BTreeMap<T, usize> = std::mem::take(&mut *ends.lock().unwrap());
    println!("{} interleavings: {ends:?}", ends.values().sum::<usize>());
    ends.into_keys().collect()
}

/// Does the same as [`explore`] for a model that reports the result of its race. It fails if every interleaving has the
/// same result, because the race then does not take place.
fn explore_ways<T: Ord + Debug + Send + 'static>(
    preemptions: Option<usize>,
    model: impl Fn() -> T + Send + Sync + 'static,
) {
    let ends = explore(preemptions, model);
    assert!(ends.len() > 1, "the race goes more ways than one: {ends:?}");
}

/// Returns a part in which `cpu` restricts the affinity of `task`.
fn allow(cpu: u16, task: &Handle, on_cpus: &'static [u16]) -> Part {
    let task = task.clone();
    on(cpu, move |cpu| cpu.set_affinity(&task, on_cpus))
}

#[test]
fn a_wake_up_races_the_sleep() {
    explore(None, || {
        let mut bench = machine(2, rt_only());
        let task = bench.spawn(normal(), &[0, 1]);
        let sleeper = task.clone();
        bench.race([on(0, |cpu| cpu.block()), on(1, move |cpu| cpu.wake(&sleeper))]);
        assert!(!task.is_parked() && !task.is_notified(), "it was woken exactly once");
    });
}

#[test]
fn a_push_races_a_cpu_that_goes_idle() {
    explore_ways(BETWEEN_ALL_LOCKS, || {
        let mut bench = machine(2, rt_only());
        bench.spawn(fifo(3), &[0]);
        bench.spawn(fifo(3), &[1]);
        let waiter = bench.spawn(fifo(2), &[0]);
        bench.race([allow(0, &waiter, &[0, 1]), on(1, |cpu| cpu.block())]);
        bench.sender(&waiter, 1)
    });
}

#[test]
fn a_push_races_a_cpu_whose_task_becomes_less_important() {
    explore_ways(None, || {
        let mut bench = machine(2, rt_only());
        bench.spawn(fifo(3), &[0]);
        let lowered = bench.spawn(fifo(3), &[1]);
        let waiter = bench.spawn(fifo(2), &[0]);
        bench.race([
            allow(0, &waiter, &[0, 1]),
            on(1, move |cpu| cpu.set_policy(&lowered, fifo(1))),
        ]);
        bench.sender(&waiter, 1)
    });
}

#[test]
fn a_wake_up_races_a_pull() {
    explore_ways(BETWEEN_ALL_LOCKS, || {
        let mut bench = machine(2, rt_only());
        bench.spawn(fifo(3), &[0]);
        bench.spawn(fifo(3), &[1]);
        let waiter = bench.sleeper(fifo(2), &[0, 1]);
        let woken = waiter.clone();
        bench.race([on(0, move |cpu| cpu.wake(&woken)), on(1, |cpu| cpu.block())]);
        bench.sender(&waiter, 1)
    });
}

#[test]
fn two_cpus_pull_from_one() {
    explore_ways(Some(2), || {
        let mut bench = machine(3, rt_only());
        for cpu in 0..3 {
            bench.spawn(fifo(3), &[cpu]);
        }
        let tasks = [1, 2].map(|prio| bench.spawn(fifo(prio), &[0, 1, 2]));
        bench.race([on(1, |cpu| cpu.block()), on(2, |cpu| cpu.block())]);
        assert!(tasks.iter().all(|task| bench.runs(task)));
        bench.place(&tasks[0]).map(|(cpu, _)| cpu)
    });
}

#[test]
fn two_cpus_push_to_one() {
    explore(Some(3), || {
        let mut bench = machine(3, rt_only());
        let parts = [0, 1].map(|cpu| {
            bench.spawn(fifo(3), &[cpu]);
            let waiter = bench.spawn(fifo(2), &[cpu]);
            on(cpu, move |cpu| cpu.set_affinity(&waiter, &[0, 1, 2]))
        });
        bench.race(parts);
    });
}

#[test]
fn a_push_that_came_too_late_goes_elsewhere() {
    explore(None, || {
        let mut bench = machine(4, rt_only());
        bench.spawn(fifo(1), &[3]);
        let parts = [0, 1].map(|cpu| {
            bench.spawn(fifo(3), &[cpu]);
            let waiter = bench.spawn(fifo(2), &[cpu]);
            on(cpu, move |cpu| cpu.set_affinity(&waiter, &[0, 1, 2, 3]))
        });
        bench.race(parts);
    });
}

#[test]
fn a_push_races_a_cpu_that_rises() {
    explore_ways(None, || {
        let mut bench = machine(3, rt_only());
        bench.spawn(fifo(3), &[0]);
        bench.spawn(fifo(1), &[2]);
        let waiter = bench.spawn(fifo(2), &[0]);
        let rises = bench.sleeper(fifo(3), &[1]);
        bench.race([allow(0, &waiter, &[0, 1, 2]), on(1, move |cpu| cpu.wake(&rises))]);
        bench.sender(&waiter, 1)
    });
}

#[test]
fn an_affinity_races_a_wake_up() {
    explore(None, || {
        let mut bench = machine(2, rt_only());
        let task = bench.sleeper(normal(), &[0, 1]);
        let (woken, moved) = (task.clone(), task.clone());
        bench.race([
            on(0, move |cpu| cpu.wake(&woken)),
            on(1, move |cpu| cpu.set_affinity(&moved, &[1])),
        ]);
        assert_eq!(bench.place(&task), Some((1, normal())));
    });
}

#[test]
fn an_affinity_races_a_switch() {
    explore(None, || {
        let mut bench = machine(2, rt_only());
        let (task, other) = (bench.spawn(normal(), &[0, 1]), bench.spawn(normal(), &[0]));
        let moved = task.clone();
        bench
            .race([on(0, |cpu| cpu.yield_now()), on(1, move |cpu| cpu.set_affinity(&moved, &[1]))]);
        assert_eq!(bench.place(&task), Some((1, normal())));
        assert_eq!(bench.place(&other), Some((0, normal())));
    });
}

#[test]
fn an_affinity_races_a_sleep() {
    explore(None, || {
        let mut bench = machine(2, rt_only());
        let task = bench.spawn(normal(), &[0, 1]);
        let moved = task.clone();
        bench.race([on(0, |cpu| cpu.block()), on(1, move |cpu| cpu.set_affinity(&moved, &[1]))]);
        assert!(task.is_parked());
        bench.act(|cpu| cpu.wake(&task));
        assert_eq!(bench.place(&task), Some((1, normal())));
    });
}

#[test]
fn an_affinity_races_a_pull() {
    explore_ways(None, || {
        let mut bench = machine(2, rt_only());
        bench.spawn(fifo(3), &[0]);
        bench.spawn(fifo(3), &[1]);
        let task = bench.spawn(fifo(2), &[0, 1]);
        let moved = task.clone();
        bench.race([on(1, |cpu| cpu.block()), on(0, move |cpu| cpu.set_affinity(&moved, &[0]))]);
        assert_eq!(bench.place(&task), Some((0, fifo(2))));
        bench.sender(&task, 1)
    });
}

#[test]
fn a_policy_races_a_pull() {
    explore_ways(BETWEEN_ALL_LOCKS, || {
        let mut bench = machine(2, rt_only());
        bench.spawn(fifo(3), &[0]);
        bench.spawn(fifo(3), &[1]);
        let [first, second] = [2, 1].map(|prio| bench.spawn(fifo(prio), &[0, 1]));
        let lowered = first.clone();
        bench
            .race([on(1, |cpu| cpu.block()), on(0, move |cpu| cpu.set_policy(&lowered, normal()))]);
        assert!(bench.runs(&second));
        bench.sender(&first, 1)
    });
}

#[test]
fn a_policy_races_a_wake_up() {
    explore(None, || {
        let mut bench = machine(2, rt_only());
        bench.spawn(fifo(3), &[0]);
        bench.spawn(normal(), &[1]);
        let task = bench.sleeper(normal(), &[0, 1]);
        let (woken, raised) = (task.clone(), task.clone());
        bench.race([
            on(0, move |cpu| cpu.wake(&woken)),
            on(1, move |cpu| cpu.set_policy(&raised, fifo(1))),
        ]);
        assert_eq!(bench.place(&task), Some((1, fifo(1))), "something normal ran there");
    });
}

#[test]
fn a_policy_races_the_choice_of_who_runs() {
    explore(None, || {
        let mut bench = machine(1, rt_only());
        let (first, raised) = (bench.spawn(fifo(2), &[0]), bench.spawn(fifo(1), &[0]));
        let task = raised.clone();
        bench
            .race([on(0, |cpu| cpu.yield_now()), on(1, move |cpu| cpu.set_policy(&task, fifo(3)))]);
        assert!(bench.runs(&raised) && !bench.runs(&first));
    });
}

#[test]
fn two_requests_race() {
    explore(None, || {
        let mut bench = machine(2, rt_only());
        let task = bench.spawn(normal(), &[0, 1]);
        let (moved, raised) = (task.clone(), task.clone());
        bench.race([
            on(0, move |cpu| cpu.set_affinity(&moved, &[1])),
            on(1, move |cpu| cpu.set_policy(&raised, fifo(1))),
        ]);
        assert_eq!(bench.place(&task), Some((1, fifo(1))));
    });
}

#[test]
fn a_request_races_the_end_of_the_task() {
    explore(None, || {
        let mut bench = machine(1, rt_only());
        let (task, other) = (bench.spawn(fifo(2), &[0]), bench.sleeper(fifo(1), &[0]));
        bench.race([
            on(0, move |cpu| {
                cpu.exit();
                cpu.wake(&other);
            }),
            on(1, move |cpu| cpu.set_policy(&task, fifo(3))),
        ]);
    });
}

#[test]
fn going_offline_races_a_wake_up() {
    explore(None, || {
        let mut bench = machine(2, rt_only());
        let task = bench.sleeper(normal(), &[1, 0]);
        let woken = task.clone();
        bench.race([on(0, move |cpu| cpu.wake(&woken)), on(1, |cpu| cpu.offline(1))]);
        assert_eq!(bench.place(&task), Some((0, normal())));
    });
}

#[test]
fn going_offline_races_a_push() {
    explore_ways(None, || {
        let mut bench = machine(2, rt_only());
        bench.spawn(fifo(3), &[0]);
        let task = bench.spawn(fifo(2), &[0]);
        bench.race([allow(0, &task, &[0, 1]), on(1, |cpu| cpu.offline(1))]);
        assert_eq!(bench.place(&task), Some((0, fifo(2))));
        bench.sender(&task, 1)
    });
}

#[test]
fn going_offline_races_a_switch() {
    explore(None, || {
        let mut bench = machine(2, rt_only());
        let tasks = [1, 2].map(|_| bench.spawn(normal(), &[1]));
        bench.race([on(1, |cpu| cpu.yield_now()), on(0, |cpu| cpu.offline(1))]);
        assert!(tasks.iter().all(|task| bench.place(task) == Some((0, normal()))));
    });
}

#[test]
fn coming_online_races_a_wake_up() {
    explore_ways(BETWEEN_ALL_LOCKS, || {
        let mut bench = machine(2, rt_only());
        bench.spawn(fifo(3), &[0]);
        let waiter = bench.sleeper(fifo(2), &[0, 1]);
        bench.act(|cpu| cpu.offline(1));
        let woken = waiter.clone();
        bench.race([on(0, move |cpu| cpu.wake(&woken)), on(1, |cpu| cpu.online(1))]);
        bench.sender(&waiter, 1)
    });
}

#[test]
fn coming_online_races_a_task_that_may_run_nowhere_else() {
    explore(None, || {
        let mut bench = machine(2, rt_only());
        let task = bench.sleeper(normal(), &[1]);
        bench.act(|cpu| cpu.offline(1));
        let woken = task.clone();
        bench.race([on(0, move |cpu| cpu.wake(&woken)), on(1, |cpu| cpu.online(1))]);
        assert!(bench.place(&task).is_some());
    });
}

#[test]
fn coming_online_races_a_pull_and_a_wake_up() {
    explore(Some(2), || {
        let mut bench = machine(3, rt_only());
        bench.spawn(fifo(3), &[0]);
        bench.spawn(fifo(3), &[2]);
        let (first, second) = (bench.spawn(fifo(1), &[0, 1, 2]), bench.sleeper(fifo(2), &[0, 1]));
        bench.act(|cpu| cpu.offline(1));
        bench.race([
            on(0, move |cpu| cpu.wake(&second)),
            on(1, |cpu| cpu.online(1)),
            on(2, |cpu| cpu.block()),
        ]);
        assert!(bench.runs(&first), "three CPUs run the three that are left");
    });
}

#[test]
fn going_offline_races_a_wake_up_and_an_affinity() {
    explore(Some(2), || {
        let mut bench = machine(3, rt_only());
        let task = bench.sleeper(fifo(1), &[1, 2]);
        let (woken, moved) = (task.clone(), task.clone());
        bench.race([
            on(0, move |cpu| cpu.wake(&woken)),
            on(1, |cpu| cpu.offline(1)),
            on(2, move |cpu| cpu.set_affinity(&moved, &[0, 1])),
        ]);
        assert_eq!(bench.place(&task), Some((0, fifo(1))));
    });
}

#[test]
fn two_cpus_change_the_load_of_one_group() {
    explore(None, || {
        let mut bench = machine(2, rt_only());
        let parts = [0, 1].map(|cpu| {
            let task = bench.spawn(normal(), &[cpu]);
            on(cpu, move |cpu| cpu.set_group(&task, host::GROUP))
        });
        bench.race(parts);
    });
}

#[test]
fn a_timer_expires_or_is_cancelled() {
    explore(None, || {
        let mut bench = machine(1, rt_only());
        let timer = bench.machine().cpu(CpuId(0)).arm(Window::exact(Time(5)), Token(0));
        let (won, wins) = (Arc::new(AtomicUsize::new(0)), Ordering::Relaxed);
        let (cancelled, expired) = (won.clone(), won.clone());
        bench.race([
            on(0, move |cpu| {
                expired.fetch_add(cpu.expire(Time(5)), wins);
            }),
            on(1, move |cpu| {
                cancelled.fetch_add(usize::from(cpu.cancel(0, timer)), wins);
            }),
        ]);
        assert_eq!(won.load(wins), 1, "one of them had it");
    });
}

#[test]
fn a_wake_up_races_a_cpu_that_goes_idle() {
    explore_ways(None, || {
        let mut bench = machine(2, Features::default());
        bench.spawn(normal(), &[0, 1]);
        bench.spawn(normal(), &[1]);
        let woken = bench.sleeper(normal(), &[0, 1]);
        bench.race([on(0, move |cpu| cpu.wake(&woken)), on(1, |cpu| cpu.block())]);
        let repaired = !(0..2).all(|cpu| bench.is_busy(cpu));
        bench.act(|cpu| assert_eq!(cpu.expire(TICK), 0));
        assert!((0..2).all(|cpu| bench.is_busy(cpu)), "the next tick repairs it");
        repaired
    });
}

/// Lets a normal task wait on CPU 0 that may also use CPU 1. A task of policy `beside` runs on CPU 1, if given.
fn waits_on_the_first(beside: Option<Policy>) -> (Bench, Handle) {
    let mut bench = machine(2, Features::default());
    bench.spawn(normal(), &[0]);
    let waiter = bench.spawn(normal(), &[0]);
    if let Some(policy) = beside {
        bench.spawn(policy, &[1]);
    }
    bench.act(|cpu| cpu.set_affinity(&waiter, &[0, 1]));
    assert_eq!(bench.place(&waiter), Some((0, normal())));
    (bench, waiter)
}

#[test]
fn an_affinity_races_a_cpu_that_looks_for_work_before_it_goes_idle() {
    explore_ways(Some(3), || {
        let (mut bench, task) = waits_on_the_first(Some(normal()));
        bench.race([on(1, |cpu| cpu.block()), allow(2, &task, &[0])]);
        assert_eq!(bench.place(&task), Some((0, normal())));
        bench.sender(&task, 1).is_some()
    });
}

#[test]
fn an_affinity_and_a_switch_race_a_cpu_that_looks_for_work() {
    explore_ways(Some(2), || {
        let (mut bench, task) = waits_on_the_first(Some(normal()));
        bench.race([on(0, |cpu| cpu.yield_now()), on(1, |cpu| cpu.block()), allow(2, &task, &[0])]);
        assert_eq!(bench.place(&task), Some((0, normal())));
        bench.sender(&task, 1).is_some()
    });
}

#[test]
fn an_affinity_races_a_tick_that_finds_an_idle_cpu() {
    explore_ways(Some(2), || {
        let (mut bench, task) = waits_on_the_first(None);
        bench.race([
            on(0, |cpu| assert_eq!(cpu.expire(TICK), 0)),
            on(1, |cpu| cpu.reschedule_at(TICK)),
            allow(2, &task, &[0]),
        ]);
        assert_eq!(bench.place(&task), Some((0, normal())));
        bench.sender(&task, 1).is_some()
    });
}

#[test]
fn an_affinity_races_a_tick_that_finds_a_cpu_with_sched_idle_tasks_only() {
    explore_ways(Some(3), || {
        let (mut bench, task) = waits_on_the_first(Some(Policy::Idle));
        bench.race([on(0, |cpu| assert_eq!(cpu.expire(TICK), 0)), allow(2, &task, &[0])]);
        assert_eq!(bench.place(&task), Some((0, normal())));
        bench.sender(&task, 1).is_some()
    });
}

#[test]
fn a_tick_that_finds_an_idle_cpu_races_its_end() {
    let ends = explore(Some(3), || {
        let (mut bench, task) = waits_on_the_first(None);
        bench.race([on(0, |cpu| assert_eq!(cpu.expire(TICK), 0)), on(1, |cpu| cpu.offline(1))]);
        assert_eq!(bench.place(&task), Some((0, normal())));
        bench.sender(&task, 0)
    });
    assert_eq!(ends, [None, Some(0), Some(1)], "not sent; refused; come and evicted");
}

#[test]
fn two_cpus_send_what_waits_to_one() {
    explore_ways(Some(2), || {
        let mut bench = machine(3, Features::default());
        let waiters = [0, 1].map(|cpu| {
            bench.spawn(normal(), &[cpu]);
            bench.spawn(normal(), &[cpu])
        });
        let everywhere = waiters.clone();
        bench.act(|cpu| everywhere.iter().for_each(|task| cpu.set_affinity(task, &[0, 1, 2])));
        bench.race([0, 1].map(|cpu| on(cpu, |cpu| assert_eq!(cpu.expire(TICK), 0))));
        assert!(bench.is_busy(2));
        waiters.iter().all(|task| bench.sender(task, 2).is_some())
    });
}

#[test]
fn an_affinity_races_an_idle_cpu_that_was_kicked_to_compare() {
    explore_ways(Some(3), || {
        let mut bench = machine(2, Features::default().without(Feature::IdleLoadBalance));
        bench.spawn(normal(), &[0]);
        let task = bench.spawn(normal(), &[0]);
        bench.act(|cpu| cpu.set_affinity(&task, &[0, 1]));
        bench.play([on(0, |cpu| assert_eq!(cpu.expire(TICK), 0))]);
        assert!(bench.is_kicked(1));
        bench.race([on(1, |cpu| cpu.reschedule_at(TICK)), allow(2, &task, &[0])]);
        assert_eq!(bench.place(&task), Some((0, normal())));
        bench.sender(&task, 1).is_some()
    });
}

#[test]
fn two_cpus_that_go_idle_want_one_task() {
    explore_ways(Some(2), || {
        let mut bench = machine(3, Features::default());
        for cpu in 0..3 {
            bench.spawn(normal(), &[cpu]);
        }
        let task = bench.spawn(normal(), &[0, 1, 2]);
        bench.race([on(1, |cpu| cpu.block()), on(2, |cpu| cpu.block())]);
        assert!(bench.runs(&task));
        bench.sender(&task, 1).is_some()
    });
}

/// Returns a machine of two cores of two threads, and a running task. A task runs on each thread of the first core, and
/// the second core is idle. Its first CPU, CPU 2, is kicked at the ticks of CPU 0 to balance. It has asked for a
/// waiting task without success, and will next ask for the returned running task. The kick for that is pending.
fn crowded() -> (Bench, Handle) {
    let mut bench = Bench::new(CORES.parse().unwrap(), Features::default());
    let task = bench.spawn(normal(), &[0, 1, 2, 3]);
    bench.spawn(normal(), &[1, 0, 2, 3]);
    for nth in 1..=passes() {
        bench.play([on(0, move |cpu| {
            assert_eq!(cpu.expire(time(nth)), 0);
            assert_eq!(cpu.take_kicks(), [CpuId(2)], "one that is idle is to compare");
        })]);
        if nth < passes() {
            bench.play([on(2, move |cpu| cpu.reschedule_at(time(nth)))]);
            assert!(!bench.is_kicked(0), "it was not asked for its running task");
        }
    }
    (bench, task)
}

/// Does the same as [`crowded`]. In addition, CPU 2 has asked for the running task, which it receives with the next
/// switch.
fn asked_for() -> (Bench, Handle) {
    let (mut bench, task) = crowded();
    bench.play([on(2, compare)]);
    assert!(bench.is_kicked(0) && bench.runs(&task));
    (bench, task)
}

const CORES: &str = "1x2x2";

/// Returns the number of passes after which an idle CPU asks for a running task.
fn passes() -> u64 {
    let domain = Domain::of(Level::Node, CORES.parse().unwrap(), Features::default());
    u64::from(domain.cache_nice_tries) + 3
}

/// Returns the time of the nth kick of an idle CPU, which respects the shortest interval.
fn time(nth: u64) -> Time {
    Time(nth * 4 * TICK.0)
}

/// Lets an idle CPU answer the last of the kicks of [`crowded`].
fn compare(cpu: &mut Cpu) {
    cpu.reschedule_at(time(passes()));
}

#[test]
fn asking_for_a_running_task_races_its_sleep() {
    explore_ways(Some(3), || {
        let (mut bench, task) = crowded();
        bench.race([on(0, |cpu| cpu.block()), on(2, compare)]);
        assert!(task.is_parked() && !bench.is_busy(0));
        bench.found(Found::Running)
    });
}

#[test]
fn asking_for_a_running_task_races_its_affinity() {
    explore_ways(Some(3), || {
        let (mut bench, task) = crowded();
        bench.race([on(2, compare), allow(4, &task, &[0])]);
        assert_eq!(bench.place(&task), Some((0, normal())));
        bench.found(Found::Running)
    });
}

#[test]
fn giving_a_running_task_races_its_affinity() {
    explore_ways(Some(3), || {
        let (mut bench, task) = asked_for();
        bench.race([on(0, |cpu| cpu.reschedule()), allow(4, &task, &[0, 3])]);
        assert!(bench.runs(&task));
        assert!([0, 3].map(|cpu| Some((cpu, normal()))).contains(&bench.place(&task)));
        bench.sender(&task, 2).is_some()
    });
}

#[test]
fn giving_a_running_task_races_its_policy() {
    explore_ways(Some(3), || {
        let (mut bench, task) = asked_for();
        let raised = task.clone();
        bench.race([
            on(0, |cpu| cpu.reschedule()),
            on(4, move |cpu| cpu.set_policy(&raised, fifo(1))),
        ]);
        assert!(bench.runs(&task));
        assert!(bench.place(&task).is_some_and(|(_, policy)| policy == fifo(1)));
        bench.sender(&task, 2).is_some()
    });
}

#[test]
fn giving_a_running_task_races_the_end_of_who_asked_for_it() {
    let ends = explore(Some(3), || {
        let (mut bench, task) = asked_for();
        bench.race([on(0, |cpu| cpu.reschedule()), on(2, |cpu| cpu.offline(2))]);
        assert!(bench.runs(&task));
        assert_eq!(bench.sender(&task, 2), Some(0));
        [0, 3].map(|cpu| bench.sender(&task, cpu))
    });
    assert_eq!(ends, [[None, Some(2)], [Some(0), None]], "come and evicted; refused");
}
