//! Guarantees of the runtime's mutex beyond exclusion: a holder that delays a waiter is not delayed by tasks less
//! important than that waiter, nor by limits of groups that the waiter is outside of.

#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use common::{Flag, cpu_time, ends, ms, spin, under_a_storm, until, workers};
use runyard::sync::{Lock, LockOwned, Mutex, MutexGuard, OwnedMutexGuard};
use runyard::{
    JoinHandle, Limit, Runtime, Task, TaskBuilder, spawn, spawn_blocking, time, yield_now,
};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: runyard::trial::Strict = runyard::trial::Strict;

/// Auto traits, checked by the compiler. They are those of the standard library's mutex, except that a guard may be
/// kept across an await, and go to another thread with its task.
#[test]
fn what_may_be_sent_and_shared() {
    fn is_send<T: Send>() {}
    fn is_sync<T: Sync>() {}
    is_send::<Mutex<Cell<u8>>>();
    is_sync::<Mutex<Cell<u8>>>();
    is_send::<MutexGuard<'_, Cell<u8>>>();
    is_sync::<MutexGuard<'_, u8>>();
    is_send::<Lock<'_, Cell<u8>>>();
    is_send::<LockOwned<Cell<u8>>>();
    is_send::<OwnedMutexGuard<Cell<u8>>>();
    is_sync::<OwnedMutexGuard<u8>>();
    is_send::<OwnedMutexGuard<[u8]>>();

    /// Is ambiguous, and does not compile, if `T` has the trait that it must not have.
    macro_rules! is_not {
        ($auto:ident: $($of:ty),*) => {{
            trait Ambiguous<A> {
                fn some() {}
            }
            impl<T> Ambiguous<()> for T {}
            impl<T: $auto> Ambiguous<u8> for T {}
            $(<$of as Ambiguous<_>>::some();)*
        }};
    }
    is_not!(Send: Mutex<Rc<u8>>, MutexGuard<'static, Rc<u8>>, OwnedMutexGuard<Rc<u8>>);
    is_not!(Send: LockOwned<Rc<u8>>);
    is_not!(Sync: Mutex<Rc<u8>>, MutexGuard<'static, Cell<u8>>, OwnedMutexGuard<Cell<u8>>);
}

/// Several threads want it at once before it has any memory.
#[test]
fn a_static_is_wanted_by_many_from_the_first_moment() {
    static SUMS: [Mutex<u64>; 64] = [const { Mutex::new(0) }; 64];
    ends(|| {
        let runtime = workers(2);
        let tasks = (0..6).map(|_| {
            runtime.spawn(async {
                for sum in &SUMS {
                    let mut guard = sum.lock().await;
                    let before = *guard;
                    yield_now().await;
                    *guard = before + 1;
                }
            })
        });
        let tasks: Vec<_> = tasks.collect();
        for sum in SUMS.iter().rev() {
            *sum.blocking_lock() += 1;
        }
        tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
        assert!(SUMS.iter().all(|sum| *sum.try_lock().unwrap() == 7));
    });
}

#[test]
fn a_guard_that_shares_the_mutex_goes_where_it_likes() {
    ends(|| {
        let runtime = workers(2);
        let sized = Arc::new(Mutex::new([1, 2, 3]));
        let mutex: Arc<Mutex<[u8]>> = sized.clone();
        let mut guard = runtime.block_on(mutex.clone().lock_owned());
        assert!(Arc::ptr_eq(OwnedMutexGuard::mutex(&guard), &mutex));
        assert!(mutex.clone().try_lock_owned().is_err());
        assert_eq!(format!("{mutex:?} {guard:?}"), "Mutex { data: <locked> } [1, 2, 3]");
        let waits = runtime.spawn({
            let mutex = mutex.clone();
            async move { mutex.lock_owned().await.to_vec() }
        });
        // The last owner of the shared mutex is the guard, or a waiter.
        drop((sized, mutex));
        runtime.block_on(runtime.spawn(async move { guard[0] = 7 })).unwrap();
        assert_eq!(runtime.block_on(waits).unwrap(), [7, 2, 3]);
    });
}

#[test]
fn who_gives_up_waiting_to_share_it_keeps_nobody_from_it() {
    ends(|| {
        let runtime = workers(1);
        let mutex = Arc::new(Mutex::from(1));
        let guard = mutex.clone().blocking_lock_owned();
        runtime.block_on(async {
            for _ in 0..3 {
                let wait = time::timeout(ms(1), mutex.clone().lock_owned()).await;
                assert!(wait.is_err());
            }
        });
        // One waiter has its turn without knowing, and is dropped.
        let mut has_turn = Box::pin(mutex.clone().lock_owned());
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(has_turn.as_mut().poll(&mut cx).is_pending());
        drop(guard);
        assert!(mutex.try_lock().is_err());
        drop(has_turn);
        assert_eq!(*mutex.try_lock().unwrap(), 1);
        assert_eq!(Arc::try_unwrap(mutex).unwrap().into_inner(), 1, "it has no other owner");
    });
}

#[test]
fn one_at_a_time_has_it() {
    ends(|| {
        let sum = Arc::new(Mutex::new((0_u64, 0_u64)));
        let runtime = workers(2);
        under_a_storm(|| {
            runtime.block_on(async {
                let tasks = (0..8_u8).map(|nth| {
                    let sum = sum.clone();
                    Task::builder().nice(nth as i8).spawn(async move {
                        for round in 0..500 {
                            let mut guard = sum.lock().await;
                            guard.0 += 1;
                            if round % 50 == 0 {
                                yield_now().await;
                            }
                            guard.1 += 1;
                            assert_eq!(guard.0, guard.1, "no other task locked it");
                        }
                    })
                });
                let blocking = (0..3).map(|_| {
                    let sum = sum.clone();
                    spawn_blocking(move || {
                        for _ in 0..500 {
                            let mut guard = sum.blocking_lock();
                            (guard.0, guard.1) = (guard.0 + 1, guard.1 + 1);
                        }
                    })
                });
                for task in tasks.chain(blocking).collect::<Vec<_>>() {
                    task.await.unwrap();
                }
                assert_eq!(*sum.lock().await, (5_500, 5_500));
            });
        });
    });
}

#[test]
fn who_is_no_task_locks_it_too() {
    ends(|| {
        let mutex = Arc::new(Mutex::new(0));
        let runtime = workers(1);
        let guard = mutex.blocking_lock();
        let inside = mutex.clone();
        let task = start(&runtime, Task::builder(), async move { *inside.lock().await += 1 });
        std::thread::sleep(ms(5));
        assert!(!task.is_finished());
        drop(guard);
        runtime.block_on(task).unwrap();
        assert_eq!(*runtime.block_on(mutex.lock()), 1);
        assert_eq!(Arc::try_unwrap(mutex).unwrap().into_inner(), 1);
    });
}

/// Starts a task from outside of the runtime.
fn start<T: Send + 'static>(
    runtime: &Runtime,
    builder: TaskBuilder,
    what: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    let [task] = runtime.block_on(async { [builder.spawn(what)] });
    task
}

fn rt(
    runtime: &Runtime,
    prio: u8,
    what: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    start(runtime, Task::builder().fifo(prio), what)
}

/// Starts a real-time task that keeps its CPU until it is told to stop.
fn hog(runtime: &Runtime, prio: u8, stop: &Flag) -> JoinHandle<()> {
    let (stop, runs) = (stop.clone(), Flag::default());
    let running = runs.clone();
    let hog = rt(runtime, prio, async move {
        running.set();
        while !stop.is_set() {
            spin(Duration::from_micros(10));
        }
    });
    runs.wait();
    hog
}

/// Locks `mutex` in a task, and computes for a while before it unlocks it.
fn holder(runtime: &Runtime, prio: u8, mutex: &Arc<Mutex<u32>>) -> JoinHandle<()> {
    let (mutex, holds) = (mutex.clone(), Flag::default());
    let has_it = holds.clone();
    let holder = rt(runtime, prio, async move {
        let mut guard = mutex.lock().await;
        has_it.set();
        // The time is CPU time, so a task that runs only for a moment does not reach the end.
        let from = cpu_time();
        while cpu_time() - from < ms(30) {}
        *guard += 1;
    });
    holds.wait();
    holder
}

/// Locks `mutex` in a task after another task has added 1, and tells the hog to stop.
fn locks_after_one(
    runtime: &Runtime,
    prio: u8,
    mutex: &Arc<Mutex<u32>>,
    stop: &Flag,
) -> JoinHandle<()> {
    let (mutex, stop) = (mutex.clone(), stop.clone());
    rt(runtime, prio, async move {
        assert_eq!(*mutex.lock().await, 1);
        stop.set();
    })
}

#[test]
fn a_priority_inversion_ends() {
    ends(|| {
        let (runtime, stop) = (workers(1), Flag::default());
        let mutex = Arc::new(Mutex::new(0));
        let low = holder(&runtime, 1, &mutex);
        let middle = hog(&runtime, 50, &stop);
        let high = locks_after_one(&runtime, 90, &mutex, &stop);
        for task in [high, middle, low] {
            runtime.block_on(task).unwrap();
        }
    });
}

#[test]
fn a_priority_goes_along_a_chain_of_mutexes() {
    ends(|| {
        let (runtime, stop) = (workers(1), Flag::default());
        let [first, second] = [0, 0].map(|value| Arc::new(Mutex::new(value)));
        let low = holder(&runtime, 1, &first);
        let holds = Flag::default();
        let between = rt(&runtime, 2, {
            let (first, second, holds) = (first.clone(), second.clone(), holds.clone());
            async move {
                let mut outer = second.lock().await;
                holds.set();
                *outer += *first.lock().await;
            }
        });
        holds.wait();
        let middle = hog(&runtime, 50, &stop);
        let high = rt(&runtime, 90, {
            let stop = stop.clone();
            async move {
                // This is within a closure, so the thread waits.
                assert_eq!(*second.blocking_lock(), 1);
                stop.set();
            }
        });
        for task in [high, middle, between, low] {
            runtime.block_on(task).unwrap();
        }
    });
}

#[test]
fn a_priority_goes_to_a_guard_that_shares_the_mutex() {
    ends(|| {
        let (runtime, stop) = (workers(1), Flag::default());
        let mutex = Arc::new(Mutex::new(0));
        let holds = Flag::default();
        let low = rt(&runtime, 1, {
            let (mutex, has_it) = (mutex.clone(), holds.clone());
            async move {
                let mut guard = mutex.lock_owned().await;
                has_it.set();
                let from = cpu_time();
                while cpu_time() - from < ms(30) {}
                *guard += 1;
            }
        });
        holds.wait();
        let middle = hog(&runtime, 50, &stop);
        let high = rt(&runtime, 90, {
            let (mutex, stop) = (mutex.clone(), stop.clone());
            async move {
                assert_eq!(*mutex.lock_owned().await, 1);
                stop.set();
            }
        });
        for task in [high, middle, low] {
            runtime.block_on(task).unwrap();
        }
    });
}

/// Seen failing: the mutex had once been contended under another holder, and the loan went to that holder.
#[test]
fn a_priority_goes_to_who_has_it_now() {
    ends(|| {
        let (runtime, stop) = (workers(1), Flag::default());
        let mutex = Arc::new(Mutex::new(0));
        let [holds, left, passed] = [(); 3].map(|()| Flag::default());
        let first = rt(&runtime, 1, {
            let (mutex, stop) = (mutex.clone(), stop.clone());
            let (holds, left, passed) = (holds.clone(), left.clone(), passed.clone());
            async move {
                let guard = mutex.lock().await;
                holds.set();
                while !left.is_set() {
                    time::sleep(ms(1)).await;
                }
                drop(guard);
                passed.set();
                while !stop.is_set() {
                    time::sleep(ms(1)).await;
                }
            }
        });
        holds.wait();
        let leaves = rt(&runtime, 2, {
            let mutex = mutex.clone();
            async move {
                assert!(time::timeout(ms(5), mutex.lock()).await.is_err());
                left.set();
            }
        });
        passed.wait();
        let low = holder(&runtime, 1, &mutex);
        let middle = hog(&runtime, 50, &stop);
        let high = locks_after_one(&runtime, 90, &mutex, &stop);
        for task in [high, middle, low, leaves, first] {
            runtime.block_on(task).unwrap();
        }
    });
}

#[test]
fn who_becomes_important_while_it_waits_lends_that() {
    ends(|| {
        let (runtime, stop) = (workers(1), Flag::default());
        let mutex = Arc::new(Mutex::new(0));
        let low = holder(&runtime, 1, &mutex);
        let waits = Flag::default();
        let waiter = rt(&runtime, 2, {
            let (stop, waits) = (stop.clone(), waits.clone());
            async move {
                let mut lock = pin!(mutex.lock());
                let first = poll_fn(|cx| Poll::Ready(lock.as_mut().poll(cx).is_ready()));
                assert!(!first.await);
                waits.set();
                let guard = lock.await;
                stop.set();
                drop(guard);
            }
        });
        waits.wait();
        let middle = hog(&runtime, 50, &stop);
        waiter.task().set_policy(runyard::Policy::Fifo(runyard::RtPrio::MAX));
        for task in [waiter, middle, low] {
            runtime.block_on(task).unwrap();
        }
    });
}

#[test]
fn who_is_out_of_budget_gives_it_back_all_the_same() {
    ends(|| {
        let runtime = workers(2);
        let crumbs = Limit::new(ms(1), Duration::from_secs(1));
        let group = runtime.group("throttled").limit(crumbs).create().unwrap();
        let mutex = Arc::new(Mutex::new(0));
        let holds = Flag::default();
        let task = start(&runtime, Task::builder().group(&group), {
            let (mutex, holds) = (mutex.clone(), holds.clone());
            async move {
                let mut guard = mutex.lock().await;
                holds.set();
                // Within its budget this would take most of a minute.
                let begin = cpu_time();
                while cpu_time() - begin < ms(50) {}
                *guard += 1;
                drop(guard);
            }
        });
        holds.wait();
        until(|| group.usage().nr_throttled > 0);
        let begin = Instant::now();
        let outside = mutex.clone();
        let waiter = start(&runtime, Task::builder(), async move { *outside.lock().await });
        assert_eq!(runtime.block_on(waiter).unwrap(), 1);
        assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
        assert!(group.usage().used >= ms(40), "its own group has paid: {:?}", group.usage());
        // The task owes the time that it has used, and would pay for most of a minute.
        group.set_limit(None).unwrap();
        runtime.block_on(task).unwrap();
    });
}

/// A waiter waits for a holder with budget, until the holder's group gets a limit, or until the holder is moved to a
/// group with a limit. The waiter is a task, or a thread that is not a task.
#[test]
fn who_is_out_of_budget_later_gives_it_back_all_the_same() {
    for (moves, is_task) in [(false, true), (true, true), (false, false), (true, false)] {
        ends(move || becomes_out_of_budget(moves, is_task));
    }
}

fn becomes_out_of_budget(moves: bool, is_task: bool) {
    let runtime = workers(2);
    let group = runtime.group("throttled").create().unwrap();
    let mutex = Arc::new(Mutex::new(0));
    let [holds, waits, goes_on] = [(); 3].map(|()| Flag::default());
    let builder = if moves { Task::builder() } else { Task::builder().group(&group) };
    let task = start(&runtime, builder, {
        let (mutex, holds, goes_on) = (mutex.clone(), holds.clone(), goes_on.clone());
        async move {
            let mut guard = mutex.lock().await;
            holds.set();
            while !goes_on.is_set() {
                yield_now().await;
            }
            // Within its budget this would take most of a minute.
            let begin = cpu_time();
            while cpu_time() - begin < ms(50) {}
            *guard += 1;
        }
    });
    holds.wait();
    let waiting = waits.clone();
    let waiter = async move {
        let mut lock = pin!(mutex.lock());
        let polled = |cx: &mut std::task::Context<'_>| {
            let polled = lock.as_mut().poll(cx);
            waiting.set();
            polled.map(|guard| *guard)
        };
        poll_fn(polled).await
    };
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| match is_task {
            true => runtime.block_on(async { spawn(waiter).await.unwrap() }),
            false => runtime.block_on(waiter),
        });
        waits.wait();
        group.set_limit(Limit::new(ms(1), Duration::from_secs(1))).unwrap();
        if moves {
            task.task().set_group(&group);
        }
        goes_on.set();
        let begin = Instant::now();
        assert_eq!(waiter.join().unwrap(), 1);
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(30), "{took:?}: {moves}, {is_task}");
    });
    group.set_limit(None).unwrap();
    runtime.block_on(task).unwrap();
}

#[test]
fn a_panic_gives_it_back() {
    ends(|| {
        let runtime = workers(2);
        let mutex = Arc::new(Mutex::new(0));
        let panics = mutex.clone();
        runtime.block_on(async {
            let task = spawn(async move {
                let mut guard = panics.lock().await;
                *guard = 7;
                yield_now().await;
                panic!("on purpose, with a lock");
            });
            let error = task.await.map(|(): ()| ()).unwrap_err();
            assert!(error.is_panic());
            assert_eq!(*mutex.lock().await, 7);
        });
    });
}

#[test]
fn who_stops_waiting_keeps_nobody_from_it() {
    ends(|| {
        let runtime = workers(2);
        let mutex = Arc::new(Mutex::new(0_u64));
        let had = Arc::new(AtomicU64::new(0));
        runtime.block_on(async {
            let mut tasks = Vec::new();
            for nth in 0..6_u64 {
                let (mutex, had) = (mutex.clone(), had.clone());
                let builder = Task::builder();
                let builder = if nth % 2 == 0 { builder.fifo(1 + nth as u8) } else { builder };
                tasks.push(builder.spawn(async move {
                    for round in 0..200 {
                        let mut lock = pin!(mutex.lock());
                        let mut polls = 0;
                        let guard = poll_fn(|cx| {
                            polls += 1;
                            match lock.as_mut().poll(cx) {
                                Poll::Ready(guard) => Poll::Ready(Some(guard)),
                                Poll::Pending if (nth + round) % 3 == 0 => Poll::Ready(None),
                                Poll::Pending => Poll::Pending,
                            }
                        });
                        if let Some(mut guard) = guard.await {
                            *guard += 1;
                            had.fetch_add(1, Ordering::Relaxed);
                            if round % 20 == 0 {
                                yield_now().await;
                            }
                        }
                    }
                }));
            }
            let aborted = mutex.clone();
            let aborted = spawn(async move {
                let _guard = aborted.lock().await;
                time::sleep(Duration::from_secs(3_600)).await;
            });
            time::sleep(ms(3)).await;
            aborted.abort();
            for task in tasks {
                task.await.unwrap();
            }
            assert_eq!(*mutex.lock().await, had.load(Ordering::Relaxed));
        });
    });
}
