//! An observer is foreign code, and runs on a thread with no other work: it may wait, take long, and call the runtime.

use crate::child::{run, within};
use crate::common::{ms, spin, until};
use runyard::{
    Builder, Event, Observer, Policy, Runtime, Task, TaskId, Time, What, spawn, time, yield_now,
};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// An observer that calls a function.
struct Does<F>(F);

impl<F> fmt::Debug for Does<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Does")
    }
}

impl<F: Fn(&Event) + Send + Sync> Observer for Does<F> {
    fn event(&self, event: &Event) {
        (self.0)(event);
    }
}

/// Returns a builder of a runtime with `workers` workers and an observer that calls `does`.
fn observed(workers: usize, does: impl Fn(&Event) + Send + Sync + 'static) -> Builder {
    Runtime::builder().workers(workers).observer(Arc::new(Does(does)))
}

/// Spawns tasks that end at once.
fn churn(runtime: &Runtime, tasks: usize) {
    runtime.block_on(async {
        let tasks: Vec<_> = (0..tasks).map(|_| spawn(yield_now())).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

/// Seen failing: 1.1 s in the first try, then no end. The worker waited in the observer until the keeper had resumed
/// the holder, or for ever.
#[test]
fn an_observer_that_waits_for_a_stopped_tasks_lock_delays_no_worker() {
    const NAME: &str =
        "observers::an_observer_that_waits_for_a_stopped_tasks_lock_delays_no_worker";
    within(ms(60_000), NAME, || {
        let lock = Arc::new(Mutex::new(0_u64));
        let (waits, over) = (lock.clone(), Arc::new(AtomicBool::new(false)));
        let runtime = observed(1, move |_| *waits.lock().unwrap() += 1).build();
        let stop = over.clone();
        // The task is stopped while it holds the lock, and it has to wait long for its next turn.
        let holder = runtime.block_on(async {
            [Task::builder().policy(Policy::Idle).spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    let guard = lock.lock().unwrap();
                    spin(ms(300));
                    drop(guard);
                    spin(ms(1));
                }
            })]
        });
        let latest = || {
            let ticks = Task::builder().fifo(9);
            let ticks = runtime.block_on(async {
                [ticks.spawn(async {
                    let mut latest = Duration::ZERO;
                    for _ in 0..100 {
                        let due = Instant::now() + ms(2);
                        time::sleep(ms(2)).slack(Duration::ZERO).await;
                        latest = latest.max(due.elapsed());
                    }
                    latest
                })]
            });
            let [ticks] = ticks;
            until(|| ticks.is_finished());
            runtime.block_on(ticks).unwrap()
        };
        let mut tries = (0..10).map(|_| latest()).inspect(|latest| eprintln!("{latest:?}"));
        assert!(tries.any(|latest| latest < ms(50)), "a worker waits for the observer");
        over.store(true, Ordering::SeqCst);
        let [holder] = holder;
        runtime.block_on(holder).unwrap();
    });
}

/// Seen failing: the tasks never ended, because the workers waited in the observer.
#[test]
fn an_observer_that_blocks_loses_events_and_hangs_nobody() {
    const NAME: &str = "observers::an_observer_that_blocks_loses_events_and_hangs_nobody";
    let end = run(ms(60_000), &[], NAME, || {
        for preempts in [true, false] {
            let (blocks, heard) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
            let (waits, hears) = (blocks.clone(), heard.clone());
            let builder = observed(2, move |_| {
                while waits.load(Ordering::SeqCst) {
                    thread::sleep(ms(1));
                }
                hears.fetch_add(1, Ordering::SeqCst);
            });
            let runtime = builder.preempt(preempts).build();
            // These are more events than there is room for.
            let tasks: Vec<_> = (0..8)
                .map(|_| {
                    runtime.spawn(async {
                        for _ in 0..10_000 {
                            yield_now().await;
                        }
                    })
                })
                .collect();
            until(|| tasks.iter().all(|task| task.is_finished()));
            assert_eq!(heard.load(Ordering::SeqCst), 0);
            blocks.store(false, Ordering::SeqCst);
            tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
            let heard_of_those = heard.load(Ordering::SeqCst);
            assert!(heard_of_those >= 60_000, "{heard_of_those} of the events that fit");
            churn(&runtime, 100);
            drop(runtime);
            let heard_in_all = heard.load(Ordering::SeqCst);
            assert!(heard_in_all >= heard_of_those + 100, "events are delivered again");
        }
    });
    let Some(end) = end else { return };
    assert!(end.status.is_some_and(|status| status.success()), "{}", end.said);
    let times = end.said.matches("the observer is too slow").count();
    assert_eq!(times, 2, "each of two runtimes says it once: {}", end.said);
}

/// Threads that emit events wait for a slower observer, and no event is lost.
#[test]
fn an_observer_that_is_a_little_slow_hears_everything() {
    const NAME: &str = "observers::an_observer_that_is_a_little_slow_hears_everything";
    within(ms(60_000), NAME, || {
        const TASKS: u64 = 40_000;
        let (spawned, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (spawns, ends) = (spawned.clone(), ended.clone());
        let runtime = observed(2, move |event| {
            spin(Duration::from_micros(2));
            match event.what {
                What::Spawn { .. } => spawns.fetch_add(1, Ordering::SeqCst),
                What::Switch { prev: Some((_, runyard::Left::Exited)), .. } => {
                    ends.fetch_add(1, Ordering::SeqCst)
                }
                _ => 0,
            };
        })
        .build();
        for _ in 0..4 {
            churn(&runtime, TASKS as usize / 4);
        }
        assert_eq!(spawned.load(Ordering::SeqCst), TASKS);
        drop(runtime);
        assert_eq!([spawned, ended].map(|it| it.load(Ordering::SeqCst)), [TASKS, TASKS]);
    });
}

/// Seen failing: two events were delivered at once.
#[test]
fn events_come_in_order_and_before_block_on_returns() {
    const NAME: &str = "observers::events_come_in_order_and_before_block_on_returns";
    within(ms(60_000), NAME, || {
        let heard = Arc::new(Mutex::new((Time::ZERO, Vec::new())));
        let (hears, alone) = (heard.clone(), AtomicBool::new(true));
        let runtime = observed(2, move |event| {
            assert!(alone.swap(false, Ordering::SeqCst), "two at once");
            let (last, spawned) = &mut *hears.lock().unwrap();
            assert!(*last <= event.at, "{event:?} after {last:?}");
            *last = event.at;
            if let What::Spawn { task } = event.what {
                spawned.push(task);
            }
            alone.store(true, Ordering::SeqCst);
        })
        .build();
        let mut all: Vec<TaskId> = Vec::new();
        for round in 0..200 {
            let before = runtime.started().elapsed();
            let tasks = (0..1 + round % 20).map(|_| runtime.spawn(yield_now())).collect::<Vec<_>>();
            all.extend(tasks.iter().map(|task| task.id()));
            runtime.block_on(async {
                for task in tasks {
                    task.await.unwrap();
                }
            });
            let (last, spawned) = &*heard.lock().unwrap();
            assert_eq!(*spawned, all, "in round {round}");
            let span = before.as_nanos() as u64..=runtime.started().elapsed().as_nanos() as u64;
            assert!(span.contains(&last.0), "times count from the start of the runtime");
        }
    });
}

#[test]
fn an_observer_may_spawn_and_block() {
    const NAME: &str = "observers::an_observer_may_spawn_and_block";
    within(ms(60_000), NAME, || {
        let handle: Arc<Mutex<Option<Arc<Runtime>>>> = Arc::default();
        let (knows, done) = (handle.clone(), Arc::new(AtomicUsize::new(0)));
        let does = done.clone();
        let runtime = observed(1, move |event| {
            let What::Spawn { task } = event.what else { return };
            let runtime = knows.lock().unwrap().take();
            if let Some(runtime) = runtime {
                let also = spawn(async { time::sleep(ms(1)).await });
                let value = runtime.block_on(async move {
                    also.await.unwrap();
                    spawn(async { 7 }).await.unwrap()
                });
                assert!(value == 7 && task.0 < 100);
                does.fetch_add(1, Ordering::SeqCst);
                *knows.lock().unwrap() = Some(runtime);
            }
        })
        .build();
        let runtime = Arc::new(runtime);
        for _ in 0..10 {
            *handle.lock().unwrap() = Some(runtime.clone());
            churn(&runtime, 1);
            *handle.lock().unwrap() = None;
        }
        assert!(done.load(Ordering::SeqCst) >= 10);
    });
}

/// The observer has the last handle of the runtime, and drops it while tasks emit more events than there is room for.
#[test]
fn an_observer_may_end_the_runtime() {
    const NAME: &str = "observers::an_observer_may_end_the_runtime";
    within(ms(60_000), NAME, || {
        for busy in [false, true] {
            let handle: Arc<Mutex<Option<Runtime>>> = Arc::default();
            // Number of events up to the drop, including the one at the drop.
            let (knows, later) = (handle.clone(), Arc::new(AtomicUsize::new(0)));
            let counts = later.clone();
            let runtime = observed(2, move |_| {
                let runtime = knows.lock().unwrap().take();
                if runtime.is_some() || counts.load(Ordering::SeqCst) > 0 {
                    drop(runtime);
                    counts.fetch_add(1, Ordering::SeqCst);
                }
            })
            .build();
            let tasks: Vec<_> = (0..4)
                .map(|_| {
                    runtime.spawn(async move {
                        loop {
                            match busy {
                                true => yield_now().await,
                                false => time::sleep(ms(1)).await,
                            }
                        }
                    })
                })
                .collect();
            thread::sleep(ms(20));
            *handle.lock().unwrap() = Some(runtime);
            until(|| later.load(Ordering::SeqCst) > 0);
            assert!(tasks.iter().all(|task| task.is_finished()));
            until(|| later.load(Ordering::SeqCst) > 1);
        }
    });
}

/// A thread that waits in `block_on` holds a lock that the observer wants. Seen failing: the test did not end.
#[test]
fn block_on_waits_for_no_observer_that_waits_for_it() {
    const NAME: &str = "observers::block_on_waits_for_no_observer_that_waits_for_it";
    within(ms(60_000), NAME, || {
        let lock = Arc::new(Mutex::new(0_u64));
        let waits = lock.clone();
        let runtime = observed(1, move |_| *waits.lock().unwrap() += 1).build();
        let held = lock.lock().unwrap();
        assert_eq!(runtime.block_on(runtime.spawn(async { 7 })).unwrap(), 7);
        drop(held);
        drop(runtime);
        assert!(*lock.lock().unwrap() > 0);
    });
}

/// This runs with a storm of stops, and without preemption.
#[test]
fn an_observer_is_told_of_every_task_under_siege_and_without_preemption() {
    const NAME: &str =
        "observers::an_observer_is_told_of_every_task_under_siege_and_without_preemption";
    within(ms(60_000), NAME, || {
        for change in [|it: Builder| it.siege(3), |it: Builder| it.preempt(false)] {
            let spawned = Arc::new(AtomicUsize::new(0));
            let spawns = spawned.clone();
            let lock = Arc::new(Mutex::new(0));
            let takes = lock.clone();
            let runtime = change(observed(2, move |event| {
                *takes.lock().unwrap() += 1;
                spawns.fetch_add(
                    usize::from(matches!(event.what, What::Spawn { .. })),
                    Ordering::SeqCst,
                );
            }))
            .build();
            runtime.block_on(async {
                let tasks = (0..2_000).map(|_| {
                    let lock = lock.clone();
                    spawn(async move {
                        *lock.lock().unwrap() += 1;
                        yield_now().await;
                    })
                });
                for task in tasks.collect::<Vec<_>>() {
                    task.await.unwrap();
                }
            });
            assert_eq!(spawned.load(Ordering::SeqCst), 2_000);
        }
    });
}
