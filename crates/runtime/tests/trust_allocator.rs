//! With an allocator that has its own lock nothing hangs, wherever the holder of the lock is stopped.

#[path = "trust/child.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod child;
#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use child::within;
use common::{ms, workers};
use runyard::sync::Mutex;
use runyard::{Limit, Nice, Policy, RtPrio, Runtime, Task, blocking, spawn, time, yield_now};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: runyard::trial::OneLock = runyard::trial::OneLock::new();

/// Seen failing: the test did not end, because a worker freed a finished task while a stopped task held the lock.
#[test]
fn an_allocator_with_a_lock_hangs_nobody() {
    // A thread that frees memory in the runtime's own code waits for a millisecond or two each time.
    within(ms(120_000), "an_allocator_with_a_lock_hangs_nobody", || {
        let runtime = workers(1);
        let ticker = runtime.block_on(async {
            let ticks = async {
                let mut interval = time::interval(Duration::from_micros(170));
                interval.set_missed_tick_behavior(time::MissedTickBehavior::Skip);
                loop {
                    interval.tick().await;
                }
            };
            Task::builder().fifo(99).spawn(ticks).task().clone()
        });
        runtime.block_on(async {
            let end = Instant::now() + ms(5_000);
            while Instant::now() < end {
                // There are more tasks than kept boxes, so ends free memory.
                let tasks = (0..1_400_usize).map(|nth| {
                    spawn(async move {
                        let many: Vec<_> = (0..8).map(|at| vec![at; nth % 7]).collect();
                        many.iter().map(Vec::len).sum::<usize>()
                    })
                });
                for (nth, task) in tasks.collect::<Vec<_>>().into_iter().enumerate() {
                    assert_eq!(task.await.unwrap(), nth % 7 * 8);
                }
            }
        });
        ticker.abort();
    });
}

/// Runs a program on a runtime, and on one under siege. A worker that allocates or frees memory in the runtime's own
/// code aborts the process.
fn calls_no_allocator_in_own_code(name: &str, program: fn(Runtime)) {
    within(ms(240_000), name, || {
        for builder in [Runtime::builder(), Runtime::builder().siege(5)] {
            let runtime = builder.workers(2).build();
            ALLOCATOR.refuse_own_code(true);
            program(runtime);
            ALLOCATOR.refuse_own_code(false);
        }
    });
}

/// Seen failing: the cell of a new task was made in a section, and the list of live tasks grew there.
#[test]
fn a_spawn_calls_no_allocator_in_own_code() {
    calls_no_allocator_in_own_code("a_spawn_calls_no_allocator_in_own_code", |runtime| {
        let some = |nth: usize| async move { vec![nth; nth % 7].len() };
        let spawner = async move {
            for many in [10, 1_000, 6_000, 300, 300, 300] {
                let tasks: Vec<_> = (0..many).map(|nth| spawn(some(nth))).collect();
                for (nth, task) in tasks.into_iter().enumerate() {
                    assert_eq!(task.await.unwrap(), nth % 7);
                }
            }
        };
        runtime.block_on(async { spawn(spawner).await.unwrap() });
        for nth in 0..1_000 {
            drop(runtime.spawn(some(nth)));
        }
    });
}

/// Seen failing: the table of waiters for timers, and the queue of timers, grew in a section.
#[test]
fn a_timer_calls_no_allocator_in_own_code() {
    calls_no_allocator_in_own_code("a_timer_calls_no_allocator_in_own_code", |runtime| {
        let tick = |nth: u64| async move {
            let mut interval = time::interval(Duration::from_micros(300 + nth));
            interval.set_missed_tick_behavior(time::MissedTickBehavior::Skip);
            for _ in 0..50 {
                interval.tick().await;
            }
        };
        let sleep = |nth: u64| async move {
            time::sleep(Duration::from_micros(nth % 40_000)).await;
            let never = std::future::pending::<()>();
            assert!(time::timeout(Duration::from_micros(100), never).await.is_err());
        };
        let moves = |nth: u64| async move {
            let mut sleep = Box::pin(time::sleep(Duration::from_secs(60)));
            let mut interval = time::interval(Duration::from_secs(60));
            interval.tick().await;
            for _ in 0..20 {
                assert!(time::timeout(Duration::from_micros(nth), &mut sleep).await.is_err());
                sleep.as_mut().reset(Instant::now() + Duration::from_secs(nth));
                assert!(time::timeout(Duration::from_micros(nth), interval.tick()).await.is_err());
                interval.reset();
            }
        };
        let slack = |nth: u64| {
            let task = Task::builder().slack(Duration::from_nanos(1 << (nth % 30)));
            task.spawn(async move { time::sleep(Duration::from_micros(nth)).await })
        };
        let all = async move {
            let mut all: Vec<_> = (0..20).map(|nth| spawn(tick(nth))).collect();
            all.extend((0..4_000).map(|nth| spawn(sleep(nth))));
            all.extend((0..100).map(slack));
            all.extend((1..200).map(|nth| spawn(moves(nth + 100))));
            for task in all {
                task.await.unwrap();
            }
        };
        runtime.block_on(async { spawn(all).await.unwrap() });
    });
}

/// Seen failing: the loans and the waits of a task, and the walk along chains, were in lists of the program's
/// allocator.
#[test]
fn a_mutex_calls_no_allocator_in_own_code() {
    calls_no_allocator_in_own_code("a_mutex_calls_no_allocator_in_own_code", |runtime| {
        let mutexes: Arc<[Mutex<u64>]> = (0..6).map(|_| Mutex::new(0)).collect();
        let group =
            runtime.group("tenant").limit(Limit::percent_of_machine(60.0)).create().unwrap();
        let all = mutexes.clone();
        let work = move |nth: usize, mutexes: Arc<[Mutex<u64>]>| async move {
            for round in 0..60 {
                let (first, second) = ((nth + round) % 5, 5);
                let mut outer = mutexes[first].lock().await;
                if round % 4 == 0 {
                    yield_now().await;
                }
                if round % 7 == 0 {
                    Task::current()
                        .set_policy(Policy::Fifo(RtPrio::new(1 + nth as i64 % 40).unwrap()));
                }
                // The lock is sometimes given up while other tasks wait.
                let inner = time::timeout(Duration::from_micros(200), mutexes[second].lock()).await;
                inner.into_iter().for_each(|mut inner| *inner += 1);
                *outer += 1;
            }
        };
        let driver = async move {
            let tasks = (0..60).map(|nth| {
                let task = Task::builder().group((nth % 3 == 0).then_some(&group));
                task.spawn(work(nth, all.clone()))
            });
            for task in tasks.collect::<Vec<_>>() {
                task.await.unwrap();
            }
            let mut sum = 0;
            for mutex in &all[..5] {
                sum += *mutex.lock().await;
            }
            assert_eq!(sum, 60 * 60);
        };
        runtime.block_on(async { spawn(driver).await.unwrap() });
    });
}

/// Groups, affinities and policies change, and tasks are aborted or stopped.
#[test]
fn a_change_calls_no_allocator_in_own_code() {
    calls_no_allocator_in_own_code("a_change_calls_no_allocator_in_own_code", |runtime| {
        let cpus = common::cpus_of_two();
        let spin = |steps: u64| (0..steps).for_each(|step| _ = black_box(step));
        let groups: Vec<_> =
            (0..4).map(|nth| runtime.group("tenant").weight(100 + nth).create().unwrap()).collect();
        let others = groups.clone();
        let driver = async move {
            let busy = (0..40_u64).map(|nth| {
                spawn(async move {
                    for round in 0..50 {
                        spin(20_000 * (1 + (nth + round) % 5));
                        match round % 3 {
                            0 => yield_now().await,
                            1 => time::sleep(Duration::from_micros(50)).await,
                            _ => blocking(|| std::thread::sleep(Duration::from_micros(30))),
                        }
                    }
                })
            });
            let busy: Vec<_> = busy.collect();
            let mut draws = 1_u64;
            for round in 0..1_500 {
                draws = draws.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let task = busy[(draws >> 33) as usize % busy.len()].task();
                let group = &others[(draws >> 50) as usize % others.len()];
                match draws >> 58 & 7 {
                    0 => task.set_affinity([(draws >> 40) as usize % cpus]),
                    1 => task.set_affinity(0..cpus),
                    2 => task.set_group(group),
                    3 => task.set_policy(Policy::Fifo(RtPrio::new(5).unwrap())),
                    4 => task.set_policy(Policy::Normal(Nice::new(0).unwrap())),
                    5 => group.set_limit(Limit::percent_of_machine(70.0)).unwrap(),
                    6 => group.set_limit(None).unwrap(),
                    _ => drop(group.usage()),
                }
                if round % 10 == 0 {
                    time::sleep(Duration::from_micros(300)).await;
                }
            }
            busy.iter().skip(20).for_each(|task| task.task().abort());
            for task in busy {
                let _ = task.await;
            }
            // The groups are removed one by one, each with its last reference.
            for group in others {
                Task::builder().group(&group).spawn(async {}).await.unwrap();
            }
        };
        runtime.block_on(async { spawn(driver).await.unwrap() });
        drop(groups);
        let again: Vec<_> = (0..4).map(|_| runtime.group("again").create().unwrap()).collect();
        assert_eq!(again.len(), 4);
    });
}
