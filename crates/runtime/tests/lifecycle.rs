//! The begin and the end of a runtime, and the behaviour of its handles meanwhile and afterwards.

use runyard::{
    BuildError, Handle, JoinError, Nice, Policy, Runtime, SpawnError, Task, spawn, time, yield_now,
};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use common::{ends, ms, until, workers};

#[global_allocator]
static ALLOCATOR: runyard::trial::Strict = runyard::trial::Strict;

/// Counts how often it was dropped.
#[derive(Clone, Default)]
struct Drops(Arc<AtomicUsize>);

struct Dropped(Drops);

impl Drops {
    fn one(&self) -> Dropped {
        Dropped(self.clone())
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Returns whether two handles belong to one runtime.
fn are_same(one: &Handle, other: &Handle) -> bool {
    format!("{one:?}") == format!("{other:?}")
}

/// Returns the handle of a runtime that has ended.
fn ended() -> Handle {
    workers(1).handle().clone()
}

fn is_cancelled<T>(result: Result<T, JoinError>) -> bool {
    result.as_ref().is_err_and(JoinError::is_cancelled)
}

#[test]
fn a_handle_may_go_to_any_thread() {
    fn may_go<T: Clone + Send + Sync + std::fmt::Debug + Unpin + 'static>() {}
    may_go::<Handle>();
}

#[test]
fn a_handle_spawns_from_any_thread_with_any_attribute() {
    let runtime = workers(1);
    let handle = runtime.handle().clone();
    let tasks = thread::spawn(move || {
        let plain = handle.spawn(async { Task::current().policy() });
        let fifo = Task::builder().fifo(50).spawn_on(async { Task::current().policy() }, &handle);
        let nice = Task::builder().nice(5).name("five");
        let nice = nice.spawn_blocking_on(|| Task::current().name().map(str::to_owned), &handle);
        let blocking = handle.spawn_blocking(|| Handle::try_current().is_ok());
        (plain, fifo, nice, blocking)
    });
    let (plain, fifo, nice, blocking) = tasks.join().unwrap();
    assert_eq!(runtime.block_on(plain).unwrap(), Policy::Normal(Nice::new(0).unwrap()));
    assert!(matches!(runtime.block_on(fifo).unwrap(), Policy::Fifo(_)));
    assert_eq!(runtime.block_on(nice).unwrap().as_deref(), Some("five"));
    assert!(runtime.block_on(blocking).unwrap());
}

#[test]
fn the_current_handle_is_that_of_the_code_that_asks() {
    assert!(Handle::try_current().unwrap_err().is_missing_context());
    let (one, other) = (workers(1), workers(1));
    one.block_on(async {
        assert!(are_same(&Handle::current(), one.handle()));
        let of_task = spawn(async { Handle::current() }).await.unwrap();
        assert!(are_same(&of_task, one.handle()));
        // A task of another runtime belongs to that runtime, whichever code spawned it.
        let of_task = other.spawn(async { Handle::current() }).await.unwrap();
        assert!(are_same(&of_task, other.handle()));
    });
    assert!(Handle::try_current().is_err());
}

#[test]
fn a_destructor_of_a_thread_local_gets_an_answer() {
    struct Asks;
    static ANSWER: Mutex<Option<bool>> = Mutex::new(None);
    impl Drop for Asks {
        fn drop(&mut self) {
            let error = Handle::try_current().err();
            *ANSWER.lock().unwrap() = error.map(|it| it.is_thread_local_destroyed());
        }
    }
    thread_local! { static ASKS: RefCell<Option<Asks>> = const { RefCell::new(None) } }
    let runtime = workers(1);
    let handle = runtime.handle().clone();
    let thread = thread::spawn(move || {
        // The order in which thread locals are dropped is not fixed, so either answer is right.
        ASKS.with_borrow_mut(|asks| *asks = Some(Asks));
        drop(handle.enter());
    });
    thread.join().unwrap();
    assert!(ANSWER.lock().unwrap().is_some());
}

#[test]
fn guards_nest_and_the_newest_that_is_left_counts_in_whatever_order_they_end() {
    let runtimes = [workers(1), workers(1), workers(1)];
    let [one, two, three] = runtimes.each_ref().map(Runtime::handle);
    let is_current = |handle: &Handle| are_same(&Handle::current(), handle);
    let first = one.enter();
    let second = two.enter();
    assert!(is_current(two));
    let third = three.enter();
    assert!(is_current(three));
    drop(second);
    assert!(is_current(three));
    drop(third);
    assert!(is_current(one));
    let again = one.enter();
    drop(first);
    assert!(is_current(one));
    drop(again);
    assert!(Handle::try_current().is_err());
}

#[test]
fn an_entered_runtime_has_the_tasks_and_the_timers() {
    let (one, other) = (workers(1), workers(1));
    one.block_on(async {
        let handle = {
            let _guard = other.enter();
            spawn(async { (Handle::current(), time::sleep(ms(1)).await).0 })
        };
        assert!(are_same(&handle.await.unwrap(), other.handle()));
    });
}

#[test]
fn what_a_handle_spawns_after_the_end_is_cancelled_and_dropped() {
    let (handle, drops) = (ended(), Drops::default());
    let held = drops.one();
    let task = handle.spawn(async move { drop(held) });
    assert_eq!(drops.count(), 1);
    assert!(task.is_finished() && task.task().is_finished());
    // Every method of a task handle works for this task.
    let of = task.task().clone();
    of.set_policy(Policy::Normal(Nice::new(5).unwrap()));
    of.set_affinity([0]);
    of.set_slack(ms(1));
    of.set_group(None);
    of.abort();
    assert!(of.group().is_none());
    assert!(is_cancelled(handle.block_on(task)));

    let held = drops.one();
    assert!(is_cancelled(handle.block_on(handle.spawn_blocking(move || drop(held)))));
    let held = drops.one();
    let fifo = Task::builder().fifo(9).affinity([0]).name("late");
    let fifo = fifo.spawn_on(async move { drop(held) }, &handle);
    assert_eq!(fifo.task().name(), Some("late"));
    assert!(is_cancelled(handle.block_on(fifo)));
    assert_eq!(drops.count(), 3);
    let _guard = handle.enter();
    drop(spawn(pending::<()>()));
}

#[test]
fn a_panic_of_a_future_that_is_refused_is_the_result() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let (handle, panics) = (ended(), Panics);
    let task = handle.spawn(async move { drop(panics) });
    assert!(handle.block_on(task).is_err_and(|error| error.is_panic()));
}

/// Seen failing: tasks that arrived after the last check of the live tasks waited for ever in run queues.
#[test]
fn of_all_tasks_that_are_spawned_while_a_runtime_ends_each_ends() {
    ends(|| {
        for _ in 0..40 {
            let runtime = workers(2);
            let (drops, over) = (Drops::default(), Arc::new(AtomicBool::new(false)));
            let spawners = [(); 2].map(|()| {
                let (handle, drops) = (runtime.handle().clone(), drops.clone());
                let over = over.clone();
                thread::spawn(move || {
                    let mut tasks = Vec::new();
                    while !over.load(Ordering::SeqCst) && tasks.len() < 20_000 {
                        let held = drops.one();
                        tasks.push(handle.spawn(async move {
                            yield_now().await;
                            drop(held);
                        }));
                    }
                    // Some more tasks come after the end.
                    tasks.extend((0..9).map(|_| {
                        let held = drops.one();
                        handle.spawn(async move { drop(held) })
                    }));
                    let nr = tasks.len();
                    for task in tasks {
                        let _ = handle.block_on(task);
                    }
                    nr
                })
            });
            thread::sleep(ms(1));
            drop(runtime);
            over.store(true, Ordering::SeqCst);
            let nr: usize = spawners.map(|spawner| spawner.join().unwrap()).iter().sum();
            assert_eq!(drops.count(), nr);
        }
    });
}

#[test]
fn block_on_goes_on_over_the_end_of_its_runtime() {
    ends(|| {
        let runtime = workers(1);
        let handle = runtime.handle().clone();
        let (sends, sleeps) = channel();
        let waits = thread::spawn(move || {
            handle.block_on(async {
                let began = Instant::now();
                let mut interval = time::interval(ms(5));
                interval.tick().await;
                // This timer is armed before the end, and served after it.
                let mut early = pin!(time::sleep(ms(60)));
                assert!(poll_fn(|cx| Poll::Ready(early.as_mut().poll(cx).is_pending())).await);
                sends.send(()).unwrap();
                early.await;
                interval.tick().await;
                // This timer is armed after the end.
                time::sleep(ms(20)).await;
                interval.tick().await;
                let spawned = spawn(async {}).await;
                (began.elapsed() >= ms(80), is_cancelled(spawned))
            })
        });
        sleeps.recv().unwrap();
        drop(runtime);
        assert_eq!(waits.join().unwrap(), (true, true));
    });
}

#[test]
fn a_wait_after_the_end_that_is_given_up_is_gone() {
    ends(|| {
        let handle = ended();
        handle.block_on(async {
            let long = time::timeout(ms(5), time::sleep(Duration::from_secs(3_600)));
            assert!(long.await.is_err());
        });
    });
}

/// Returns a task that ends when it is told to.
fn never_ends(runtime: &Runtime, begun: &Arc<Barrier>) -> (Receiver<()>, Arc<AtomicBool>) {
    let (ends, ended) = channel();
    let (begun, over) = (begun.clone(), Arc::new(AtomicBool::new(false)));
    let stop = over.clone();
    runtime.spawn_blocking(move || {
        begun.wait();
        while !stop.load(Ordering::SeqCst) {
            thread::sleep(ms(1));
        }
        drop(ends);
    });
    (ended, over)
}

/// Seen failing: one of 200 functions ran.
#[test]
fn blocking_functions_given_before_the_end_run_to_their_end() {
    for preempts in [true, false] {
        let ran = Arc::new(AtomicUsize::new(0));
        for round in 1..=100 {
            let runtime = Runtime::builder().workers(1).preempt(preempts).build();
            let (counts, last) = (ran.clone(), ran.clone());
            drop(runtime.spawn_blocking(move || counts.fetch_add(1, Ordering::SeqCst)));
            let kept = runtime.spawn_blocking(move || last.fetch_add(1, Ordering::SeqCst));
            drop(runtime);
            assert_eq!(ran.load(Ordering::SeqCst), 2 * round);
            assert!(workers(1).block_on(kept).is_ok());
        }
    }
}

/// A function that has begun is left behind, and one that has not is cancelled.
#[test]
fn shutdown_timeout_cuts_off_functions_that_have_not_begun() {
    let runtime = Runtime::builder().workers(1).preempt(false).build();
    let ((begins, begun), (go_on, until)) = (channel(), channel::<()>());
    // Without preemption it keeps the only CPU.
    runtime.spawn(async move {
        begins.send(()).unwrap();
        until.recv().map_err(drop)
    });
    begun.recv().unwrap();
    let function = runtime.spawn_blocking(|| ());
    let began = Instant::now();
    runtime.shutdown_timeout(ms(50));
    assert!(began.elapsed() >= ms(50));
    drop(go_on);
    assert!(is_cancelled(workers(1).block_on(function)));
}

#[test]
fn shutdown_timeout_leaves_a_blocking_function_behind_and_cancels_the_others() {
    ends(|| {
        let (runtime, begun) = (workers(1), Arc::new(Barrier::new(2)));
        let handle = runtime.handle().clone();
        let (left, over) = never_ends(&runtime, &begun);
        begun.wait();
        let waits = runtime.spawn(pending::<()>());
        runtime.shutdown_timeout(ms(20));
        assert!(is_cancelled(handle.block_on(waits)));
        assert!(is_cancelled(handle.block_on(handle.spawn(async {}))));
        over.store(true, Ordering::SeqCst);
        assert!(left.recv().is_err(), "it has ended by itself");
    });
}

#[test]
fn shutdown_timeout_leaves_a_long_poll_behind_which_others_still_preempt() {
    ends(|| {
        let (runtime, over) = (workers(1), Arc::new(AtomicBool::new(false)));
        let (begun, begins) = channel();
        let stop = over.clone();
        let hog = Task::builder().nice(19).spawn_on(
            async move {
                begun.send(()).unwrap();
                while !stop.load(Ordering::SeqCst) {}
            },
            runtime.handle(),
        );
        begins.recv().unwrap();
        // This task is in the queue of the only CPU when the end begins, and ends beside the hog.
        let waits = Task::builder().fifo(9).spawn_on(pending::<()>(), runtime.handle());
        let handle = runtime.handle().clone();
        runtime.shutdown_timeout(ms(20));
        assert!(is_cancelled(handle.block_on(waits)));
        assert!(!hog.is_finished());
        over.store(true, Ordering::SeqCst);
        until(|| hog.is_finished());
    });
}

#[test]
fn shutdown_timeout_waits_no_longer_than_it_has_to() {
    ends(|| {
        let (threads, stops) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (start, stop) = (threads.clone(), stops.clone());
        let runtime = Runtime::builder()
            .workers(1)
            .on_thread_start(move || _ = start.fetch_add(1, Ordering::SeqCst))
            .on_thread_stop(move || _ = stop.fetch_add(1, Ordering::SeqCst))
            .build();
        let drops = Drops::default();
        let held = drops.one();
        runtime.spawn(async move { (pending::<()>().await, held).0 });
        runtime.shutdown_timeout(Duration::MAX);
        assert_eq!(drops.count(), 1);
        // No thread is left.
        assert!(threads.load(Ordering::SeqCst) > 0);
        assert_eq!(stops.load(Ordering::SeqCst), threads.load(Ordering::SeqCst));
    });
}

#[test]
fn shutdown_background_waits_for_nobody() {
    ends(|| {
        let (runtime, begun) = (workers(1), Arc::new(Barrier::new(2)));
        let handle = runtime.handle().clone();
        let (left, over) = never_ends(&runtime, &begun);
        begun.wait();
        runtime.shutdown_background();
        // The runtime is closed when the call returns.
        let drops = Drops::default();
        let held = drops.one();
        drop(handle.spawn(async move { drop(held) }));
        assert_eq!(drops.count(), 1);
        over.store(true, Ordering::SeqCst);
        assert!(left.recv().is_err(), "it has ended by itself");
    });
}

#[test]
fn a_task_may_end_its_own_runtime_in_each_way() {
    let in_each_way: [fn(Runtime); 4] = [
        drop,
        Runtime::shutdown_background,
        |runtime| runtime.shutdown_timeout(Duration::MAX),
        |runtime| runtime.shutdown_timeout(Duration::ZERO),
    ];
    for end in in_each_way {
        ends(move || {
            let (runtime, handle) = {
                let runtime = workers(1);
                let handle = runtime.handle().clone();
                (runtime, handle)
            };
            let own = handle.spawn(async move {
                end(runtime);
                7
            });
            assert_eq!(handle.block_on(own).unwrap(), 7);
        });
    }
}

#[test]
fn hooks_are_called_on_every_thread_that_runs_tasks_and_nowhere_else() {
    ends(|| {
        let started = Arc::new(Mutex::new(BTreeSet::new()));
        let stopped = Arc::new(Mutex::new(BTreeSet::new()));
        let here = || format!("{:?}", thread::current().id());
        let (start, stop) = (started.clone(), stopped.clone());
        let runtime = Runtime::builder()
            .workers(1)
            .on_thread_start(move || {
                assert!(Handle::try_current().is_ok(), "it belongs to the runtime");
                assert!(start.lock().unwrap().insert(here()), "once a thread");
            })
            .on_thread_stop(move || assert!(stop.lock().unwrap().insert(here()), "once a thread"))
            .build();
        // These are more threads than there were at the start, because all wait at once.
        let nr = 20;
        let all = Arc::new(Barrier::new(nr));
        let tasks: Vec<_> = (0..nr)
            .map(|_| {
                let (all, started) = (all.clone(), started.clone());
                runtime.spawn_blocking(move || {
                    all.wait();
                    started.lock().unwrap().contains(&here())
                })
            })
            .collect();
        for task in tasks {
            assert!(runtime.block_on(task).unwrap(), "its thread was hooked");
        }
        assert!(!started.lock().unwrap().contains(&here()));
        drop(runtime);
        assert!(started.lock().unwrap().len() >= nr);
        assert_eq!(*started.lock().unwrap(), *stopped.lock().unwrap());
    });
}

#[test]
fn hooks_that_panic_or_end_the_runtime_harm_nobody() {
    ends(|| {
        let runtime = Runtime::builder()
            .workers(1)
            .on_thread_start(|| panic!("on purpose, as it starts"))
            .on_thread_stop(|| panic!("on purpose, as it stops"))
            .thread_name_fn(|| panic!("on purpose, as it is named"))
            .build();
        let name = || thread::current().name().map(str::to_owned);
        let name = runtime.block_on(runtime.spawn_blocking(name)).unwrap();
        assert!(name.is_some_and(|name| name.starts_with("runyard-")));
        drop(runtime);

        // The hook of one runtime drops the last reference to another, and to its own.
        let shared = Arc::new(Mutex::new(None::<Runtime>));
        let takes = shared.clone();
        let take = move || drop(takes.lock().unwrap().take());
        let runtime = Runtime::builder().workers(1).on_thread_stop(take.clone()).build();
        *shared.lock().unwrap() = Some(workers(1));
        drop(runtime);
        assert!(shared.lock().unwrap().is_none());
        let runtime = Runtime::builder().workers(1).on_thread_stop(take).build();
        *shared.lock().unwrap() = Some(workers(1));
        runtime.shutdown_timeout(Duration::MAX);
        assert!(shared.lock().unwrap().is_none());
    });
}

#[test]
fn a_hook_may_end_the_runtime_whose_thread_starts() {
    ends(|| {
        let shared = Arc::new(Mutex::new(None::<Runtime>));
        let takes = shared.clone();
        let take = move || drop(takes.lock().unwrap().take());
        let runtime = Runtime::builder().workers(1).on_thread_start(take).build();
        let handle = runtime.handle().clone();
        *shared.lock().unwrap() = Some(runtime);
        // The next thread that is started ends the runtime.
        let all = Arc::new(AtomicBool::new(false));
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let all = all.clone();
                handle.spawn_blocking(move || {
                    while !all.load(Ordering::SeqCst) {
                        thread::sleep(ms(1));
                    }
                })
            })
            .collect();
        until(|| shared.lock().unwrap().is_none());
        all.store(true, Ordering::SeqCst);
        tasks.into_iter().for_each(|task| drop(handle.block_on(task)));
    });
}

#[test]
fn threads_have_the_names_that_were_asked_for() {
    let name = || thread::current().name().map(str::to_owned);
    let of = |runtime: Runtime| runtime.block_on(runtime.spawn_blocking(name)).unwrap().unwrap();
    let new = || Runtime::builder().workers(1);
    assert!(of(new().build()).starts_with("runyard-"));
    assert_eq!(of(new().thread_name("web").build()), "web");
    assert_eq!(of(new().thread_name("we\0b").build()), "we");
    let next = AtomicUsize::new(0);
    let counts = move || format!("web-{}", next.fetch_add(1, Ordering::SeqCst));
    assert!(of(new().thread_name_fn(counts).build()).starts_with("web-"));
}

#[test]
fn a_runtime_that_cannot_start_is_an_error() {
    let builder = Runtime::builder().workers(1).stack_size(1 << 60);
    let error = builder.clone().try_build().unwrap_err();
    assert!(matches!(error, BuildError::Thread(_)), "{error}");
    let converts = || -> std::io::Result<Runtime> { Ok(builder.try_build()?) };
    assert!(converts().is_err());
    assert!(Runtime::builder().workers(1).try_build().is_ok());
}

#[test]
fn attributes_that_a_runtime_does_not_take_are_errors() {
    let runtime = Runtime::builder().workers(1).min_latency_nice(-3).build();
    let handle = runtime.handle();
    let drops = Drops::default();
    let held = drops.one();
    let far = Task::builder().affinity([9]).try_spawn_on(async move { drop(held) }, handle);
    assert_eq!(far.unwrap_err(), SpawnError::Affinity { asked: vec![9], cpus: 1 });
    assert_eq!(drops.count(), 1);
    let low = Task::builder().latency_nice(-4).try_spawn_on(async {}, handle);
    assert!(matches!(low, Err(SpawnError::LatencyNice(_))));
    let other = workers(1);
    let group = other.group("other").create().unwrap();
    let strange = Task::builder().group(&group).try_spawn_on(async {}, handle);
    assert_eq!(strange.unwrap_err(), SpawnError::Group);
    let right = Task::builder().affinity([0, 9]).try_spawn_on(async { 7 }, handle);
    assert_eq!(runtime.block_on(right.unwrap()).unwrap(), 7);
}

/// Seen failing: each of them panicked, or ended the process for lack of memory.
#[test]
fn absurd_settings_are_refused_or_bounded() {
    let groups = Runtime::builder().workers(1).max_groups(usize::MAX).try_build();
    assert!(matches!(groups, Err(BuildError::Groups { asked: usize::MAX, most: 65_536 })));
    for threads in [1 << 40, usize::MAX] {
        let runtime = Runtime::builder().workers(1).max_threads(threads).try_build().unwrap();
        let task = Task::builder().affinity(0..).spawn_on(async { 7 }, runtime.handle());
        assert_eq!(runtime.block_on(task).unwrap(), 7);
        let refused = Task::builder().affinity(1..).try_spawn_on(async {}, runtime.handle());
        assert!(refused.unwrap_err().to_string().ends_with("15, 16] and more"));
    }
}
