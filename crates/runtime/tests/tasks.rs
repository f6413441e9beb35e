//! Guarantees for tasks: a task runs, its result arrives, its end is visible, and nothing is left of it.

use runyard::{
    Event, JoinError, LatencyNice, Nanos, Policy, Runtime, Slice, Task, TaskId, What, spawn,
    spawn_blocking, time, wake_at_once, yield_now,
};
use rustix::thread::sched_getcpu;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: runyard::trial::Strict = runyard::trial::Strict;

fn runtime() -> Runtime {
    Runtime::builder().workers(2).build()
}

/// Returns whether the process may run on two CPUs; otherwise reports that a test checks nothing.
fn are_there_two_cpus() -> bool {
    let two = std::thread::available_parallelism().unwrap().get() > 1;
    if !two {
        println!("not tested: it takes two CPUs");
    }
    two
}

#[test]
fn a_result_comes_to_whoever_waits_for_it() {
    let sum = runtime().block_on(async {
        let tasks: Vec<_> = (0..1_000_u64).map(|n| spawn(async move { n * n })).collect();
        let mut sum = 0;
        for task in tasks {
            sum += task.await.unwrap();
        }
        sum
    });
    assert_eq!(sum, (0..1_000).map(|n| n * n).sum());
}

#[test]
fn tasks_spawn_tasks() {
    let depth = runtime().block_on(async {
        fn chain(n: usize) -> std::pin::Pin<Box<dyn Future<Output = usize> + Send>> {
            Box::pin(async move { if n == 0 { 0 } else { 1 + spawn(chain(n - 1)).await.unwrap() } })
        }
        chain(500).await
    });
    assert_eq!(depth, 500);
}

/// The memory of a task that is over may become that of a new one.
#[test]
fn the_waker_and_the_handle_of_a_task_that_is_over_do_not_reach_another_one() {
    #[derive(Default)]
    struct Gate {
        waker: Mutex<Option<Waker>>,
        is_open: AtomicBool,
        polls: AtomicUsize,
    }
    async fn pass(gate: Arc<Gate>) {
        poll_fn(|cx| {
            gate.polls.fetch_add(1, Ordering::SeqCst);
            *gate.waker.lock().unwrap() = Some(cx.waker().clone());
            if gate.is_open.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
    let runtime = Runtime::builder().workers(1).build();
    let spawner = runtime.spawn(async {
        for nth in 0..100 {
            let open = Arc::new(Gate { is_open: AtomicBool::new(true), ..Gate::default() });
            let over = spawn(pass(open.clone()));
            let (id, handle) = (over.id(), over.abort_handle());
            over.await.unwrap();
            let waker = open.waker.lock().unwrap().take().unwrap();
            let shut = Arc::new(Gate::default());
            let waits = spawn(pass(shut.clone()));
            yield_now().await;
            while shut.polls.load(Ordering::SeqCst) == 0 {
                yield_now().await;
            }
            // One of the two keeps the memory.
            if nth % 2 == 0 {
                drop(handle)
            } else {
                handle.abort()
            }
            waker.wake_by_ref();
            yield_now().await;
            yield_now().await;
            assert_eq!((shut.polls.load(Ordering::SeqCst), waits.is_finished()), (1, false));
            assert_ne!(waits.id(), id);
            shut.is_open.store(true, Ordering::SeqCst);
            shut.waker.lock().unwrap().take().unwrap().wake();
            waits.await.unwrap();
        }
    });
    runtime.block_on(spawner).unwrap();
}

/// Seen failing: the future was dropped after the unwinding, so its destructor saw no panic.
#[test]
fn a_future_that_panics_is_dropped_while_its_thread_unwinds() {
    struct Asks(Arc<AtomicUsize>);
    impl Drop for Asks {
        fn drop(&mut self) {
            self.0.fetch_add(1 + usize::from(std::thread::panicking()), Ordering::SeqCst);
            // A second panic goes no further.
            assert!(!std::thread::panicking(), "on purpose");
        }
    }
    let drops = Arc::new(AtomicUsize::new(0));
    // The poll fails outside of the function whose values it would drop.
    let (asks, mut polls) = (Asks(drops.clone()), 0);
    let future = poll_fn(move |cx| {
        let _held = &asks;
        polls += 1;
        assert!(polls < 2, "on purpose");
        cx.waker().wake_by_ref();
        Poll::<()>::Pending
    });
    let error = runtime().block_on(async { spawn(future).await.unwrap_err() });
    assert!(error.is_panic(), "{error}");
    assert_eq!(drops.load(Ordering::SeqCst), 2);
}

/// Seen failing: the place was in the runtime.
#[test]
fn a_panic_names_the_line_of_the_caller() {
    let places = Arc::new(Mutex::new(Vec::new()));
    let told = places.clone();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().name().is_some_and(|name| name.contains("names_the_line")) {
            told.lock().unwrap().extend(info.location().map(|place| place.file().to_owned()));
        } else {
            before(info);
        }
    }));
    let one = runtime();
    let calls: [&dyn Fn(); 8] = [
        &|| drop(spawn(async {})),
        &|| drop(spawn_blocking(|| ())),
        &|| drop(Task::builder().affinity([9]).spawn_on(async {}, one.handle())),
        &|| drop(Task::builder().fifo(0)),
        &|| drop(Task::builder().nice(20)),
        &|| drop(time::interval(Duration::ZERO)),
        &|| drop(runyard::Handle::current()),
        &|| drop(one.group("of").weight(0)),
    ];
    for call in calls {
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).is_err());
    }
    drop(std::panic::take_hook());
    let places = places.lock().unwrap();
    assert_eq!(places.len(), calls.len());
    assert!(places.iter().all(|place| place.ends_with("tests/tasks.rs")), "{places:?}");
}

#[test]
fn a_panic_is_the_result_and_nobody_elses() {
    runtime().block_on(async {
        let panics = spawn(async { panic!("on purpose") });
        let lives = spawn(async { 7 });
        let error: JoinError = panics.await.map(|(): ()| ()).unwrap_err();
        assert!(error.is_panic(), "{error}");
        assert_eq!(lives.await.unwrap(), 7);
    });
}

#[test]
fn an_aborted_task_ends_at_its_next_await_and_drops_what_it_has() {
    struct Dropped(Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let drops = Arc::new(AtomicUsize::new(0));
    let held = Dropped(drops.clone());
    runtime().block_on(async move {
        let task = spawn(async move {
            let _held = held;
            time::sleep(Duration::from_secs(3_600)).await;
        });
        yield_now().await;
        task.abort();
        assert!(task.await.is_err_and(|error| error.is_cancelled()));
    });
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

#[test]
fn a_sleep_is_never_short() {
    runtime().block_on(async {
        let sleeps = (0..200_u64).map(|n| {
            spawn(async move {
                let (started, span) = (Instant::now(), Duration::from_micros(n * 37));
                time::sleep(span).await;
                assert!(started.elapsed() >= span, "{:?} of {span:?}", started.elapsed());
            })
        });
        for sleep in sleeps.collect::<Vec<_>>() {
            sleep.await.unwrap();
        }
    });
}

#[test]
fn blocking_functions_have_their_result_too() {
    runtime().block_on(async {
        let blocking = (0..8_u64).map(|n| {
            spawn_blocking(move || {
                std::thread::sleep(Duration::from_millis(5));
                n
            })
        });
        let mut sum = 0;
        for task in blocking.collect::<Vec<_>>() {
            sum += task.await.unwrap();
        }
        assert_eq!(sum, 28);
    });
}

#[test]
fn yielding_lets_others_run_on_one_cpu() {
    let runtime = Runtime::builder().workers(1).build();
    let turns = runtime.block_on(async {
        let turns = Arc::new(AtomicUsize::new(0));
        let tasks = (0..4).map(|_| {
            let turns = turns.clone();
            spawn(async move {
                for _ in 0..1_000 {
                    turns.fetch_add(1, Ordering::Relaxed);
                    yield_now().await;
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        turns.load(Ordering::Relaxed)
    });
    assert_eq!(turns, 4_000);
}

#[test]
fn a_more_important_task_does_not_wait_for_a_poll_to_end() {
    let runtime = Runtime::builder().workers(1).build();
    runtime.block_on(async {
        let hog = spawn(async {
            let end = Instant::now() + Duration::from_millis(600);
            while Instant::now() < end {
                std::hint::spin_loop();
            }
            Instant::now()
        });
        time::sleep(Duration::from_millis(20)).await;
        let important = Task::builder().fifo(10).spawn(async { Instant::now() });
        let (ran, ended) = (important.await.unwrap(), hog.await.unwrap());
        assert!(ran < ended, "it ran before the hog's only poll was over");
    });
}

#[test]
fn runtimes_wake_and_spawn_into_each_other() {
    // The workers of both runtimes have the same numbers, and one has fewer CPUs than the other.
    let (one, two) = (Arc::new(Runtime::builder().workers(1).build()), runtime());
    let other = one.clone();
    let sum = two.block_on(async {
        let tasks = (0..50_u64).map(|n| {
            let other = other.clone();
            spawn(async move {
                let there = other.spawn(async move {
                    time::sleep(Duration::from_micros(100)).await;
                    n
                });
                there.await.unwrap()
            })
        });
        let mut sum = 0;
        for task in tasks.collect::<Vec<_>>() {
            sum += task.await.unwrap();
        }
        sum
    });
    assert_eq!(sum, (0..50).sum());
    drop((one, other));
}

/// Receives every event and keeps none.
#[derive(Debug)]
struct Deaf;

impl runyard::Observer for Deaf {
    fn event(&self, _: &runyard::Event) {}
}

#[test]
fn a_runtime_that_is_dropped_lets_go_of_everything() {
    let known = Arc::new(Deaf);
    let runtime = Runtime::builder().workers(2).observer(known.clone()).build();
    runtime.block_on(async {
        let hogs = (0..4).map(|_| {
            spawn(async {
                let end = Instant::now() + Duration::from_millis(5);
                while Instant::now() < end {}
            })
        });
        for hog in hogs.collect::<Vec<_>>() {
            hog.await.unwrap();
        }
        let sleeper = spawn(time::sleep(Duration::MAX));
        yield_now().await;
        sleeper.abort();
        drop(sleeper.await);
        // One timer is dropped while it is armed, and one has no waiter any more.
        spawn(async {
            let mut sleep = Box::pin(time::sleep(Duration::from_secs(3_600)));
            std::future::poll_fn(|cx| {
                assert!(sleep.as_mut().poll(cx).is_pending());
                std::task::Poll::Ready(())
            })
            .await;
        })
        .await
        .unwrap();
        drop(spawn(async { time::sleep(Duration::from_secs(3_600)).await }));
    });
    drop(runtime);
    assert_eq!(Arc::strong_count(&known), 1);
}

#[test]
fn a_panic_while_an_aborted_task_is_dropped_is_its_result() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    runtime().block_on(async {
        let begun = Arc::new(AtomicUsize::new(0));
        let tells = begun.clone();
        let task = spawn(async move {
            let _bomb = Bomb;
            tells.store(1, Ordering::SeqCst);
            time::sleep(Duration::MAX).await;
        });
        while begun.load(Ordering::SeqCst) == 0 {
            time::sleep(Duration::from_millis(1)).await;
        }
        task.abort();
        assert!(task.await.is_err_and(|error| error.is_panic()));
    });
}

#[test]
fn a_runtime_may_be_dropped_by_its_own_task() {
    let runtime = Arc::new(runtime());
    let (send, receive) = std::sync::mpsc::channel();
    let own = runtime.clone();
    drop(runtime.spawn(async move {
        yield_now().await;
        drop(own);
        send.send(()).unwrap();
    }));
    drop(runtime);
    receive.recv_timeout(Duration::from_secs(60)).unwrap();
}

/// Without preemption nothing ends the waker's poll, which here waits for the woken task.
#[test]
fn who_is_woken_at_once_does_not_wait_for_the_wakers_poll() {
    if !are_there_two_cpus() {
        return;
    }
    let ran = Arc::new(AtomicUsize::new(0));
    let slept: Arc<Mutex<Option<Waker>>> = Arc::default();
    let (told, waker) = (ran.clone(), slept.clone());
    let rounds = Runtime::builder().workers(2).preempt(false).build().block_on(async move {
        let sleeper = spawn(poll_fn(move |cx| {
            *slept.lock().unwrap() = Some(cx.waker().clone());
            told.fetch_add(1, Ordering::SeqCst);
            Poll::<()>::Pending
        }));
        let wakes = spawn(async move {
            let mut rounds = 0;
            while rounds < 20 {
                time::sleep(Duration::from_micros(500)).await;
                let Some(waker) = waker.lock().unwrap().take() else { continue };
                let before = ran.load(Ordering::SeqCst);
                wake_at_once(|| waker.wake());
                let start = Instant::now();
                while ran.load(Ordering::SeqCst) == before {
                    assert!(start.elapsed() < Duration::from_secs(60), "in round {rounds}");
                }
                rounds += 1;
            }
            rounds
        });
        let rounds = wakes.await.unwrap();
        sleeper.abort();
        rounds
    });
    assert_eq!(rounds, 20);
}

/// Records in which order a SCHED_IDLE task and a normal one have a CPU. It takes no lock: a task that waited for one
/// would lose its own CPU.
#[derive(Debug, Default)]
struct Turns {
    soaker: AtomicUsize,
    normal: AtomicUsize,
    /// Number of wake-ups of the normal task during a turn of the soaker, after which it was next. `waited` counts
    /// those after which it was not.
    next: AtomicUsize,
    waited: AtomicUsize,
    woken: AtomicBool,
}

impl runyard::Observer for Turns {
    fn event(&self, event: &Event) {
        let is =
            |task: TaskId, known: &AtomicUsize| task.index() + 1 == known.load(Ordering::SeqCst);
        match event.what {
            What::Wake { task, .. } if is(task, &self.normal) => {
                self.woken.store(true, Ordering::SeqCst);
            }
            What::Exec { task, .. } if self.woken.load(Ordering::SeqCst) => {
                if is(task, &self.normal) {
                    self.woken.store(false, Ordering::SeqCst);
                    self.next.fetch_add(1, Ordering::SeqCst);
                } else if is(task, &self.soaker) {
                    self.waited.fetch_add(1, Ordering::SeqCst);
                }
            }
            _ => {}
        }
    }
}

#[test]
fn a_task_of_idle_policy_that_never_awaits_leaves_whenever_a_normal_one_is_woken() {
    const ROUNDS: usize = 100;
    let turns = Arc::new(Turns::default());
    let runtime = Runtime::builder().workers(1).observer(turns.clone()).build();
    let (over, polls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (soaks, polled, told) = (over.clone(), polls.clone(), turns.clone());
    let normal = runtime.spawn(async move {
        let soaker = Task::builder().policy(Policy::Idle).spawn(async move {
            polled.fetch_add(1, Ordering::SeqCst);
            while !soaks.load(Ordering::SeqCst) {
                std::hint::spin_loop();
            }
        });
        told.soaker.store(soaker.id().index() + 1, Ordering::SeqCst);
        told.normal.store(Task::current().id().index() + 1, Ordering::SeqCst);
        for _ in 0..ROUNDS {
            time::sleep(Duration::from_millis(1)).await;
        }
        over.store(true, Ordering::SeqCst);
        soaker.await.unwrap();
    });
    runtime.block_on(normal).unwrap();
    assert_eq!(polls.load(Ordering::SeqCst), 1, "it had one poll, which did not end before");
    let (next, waited) = (turns.next.load(Ordering::SeqCst), turns.waited.load(Ordering::SeqCst));
    // This is less than once a round: a sleep that is over before it begins wakes no task.
    assert!(next >= ROUNDS / 2, "it was woken and ran {next} times");
    // If the machine keeps a worker waiting for some milliseconds, the worker seems to block. Its slot then goes to
    // another worker, and the order is not defined.
    assert!(waited <= ROUNDS / 4, "the soaker had {waited} turns more");
}

#[test]
fn a_task_of_idle_policy_goes_from_a_busy_cpu_to_a_free_one() {
    if !are_there_two_cpus() {
        return;
    }
    let over = Arc::new(AtomicBool::new(false));
    let spins = |at: &Arc<AtomicUsize>| {
        let (over, at) = (over.clone(), at.clone());
        async move {
            while !over.load(Ordering::SeqCst) {
                at.store(1 + sched_getcpu(), Ordering::SeqCst);
            }
        }
    };
    let [hog, soaker] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let both = runtime().block_on(async {
        let idle = Task::builder().policy(Policy::Idle).affinity([0]).spawn(spins(&soaker));
        until(|| soaker.load(Ordering::SeqCst) > 0).await;
        let normal = Task::builder().affinity([0]).spawn(spins(&hog));
        until(|| hog.load(Ordering::SeqCst) > 0).await;
        let shared = hog.load(Ordering::SeqCst) == soaker.load(Ordering::SeqCst);
        idle.task().set_affinity([0, 1]);
        until(|| hog.load(Ordering::SeqCst) != soaker.load(Ordering::SeqCst)).await;
        over.store(true, Ordering::SeqCst);
        idle.await.unwrap();
        normal.await.unwrap();
        shared
    });
    assert!(both, "as long as it had to, it shared the hog's CPU");
}

fn latency_nice(value: i64) -> LatencyNice {
    LatencyNice::new(value).unwrap()
}

/// Returns the current attributes of the calling task.
fn mine() -> (i8, Option<Slice>) {
    (Task::current().latency_nice().get(), Task::current().slice())
}

#[test]
fn a_task_keeps_the_latency_nice_and_the_slice_that_were_asked_for_it_last() {
    runtime().block_on(async {
        let slice = Slice::new(Nanos::from_micros(700));
        let asks = Task::builder().latency_nice(-20).slice(Duration::from_micros(700));
        let task = asks.spawn(async {
            let had = mine();
            Task::current().set_latency_nice(latency_nice(19)).unwrap();
            Task::current().set_slice(None);
            yield_now().await;
            (had, mine())
        });
        assert_eq!(task.await.unwrap(), ((-20, slice), (19, None)));
        let sleeps = spawn(time::sleep(Duration::from_secs(3_600)));
        assert_eq!(
            (sleeps.task().latency_nice(), sleeps.task().slice()),
            (LatencyNice::ZERO, None)
        );
        sleeps.task().set_latency_nice(latency_nice(-3)).unwrap();
        sleeps.task().set_slice(slice);
        assert_eq!(
            (sleeps.task().latency_nice(), sleeps.task().slice()),
            (latency_nice(-3), slice)
        );
        sleeps.abort();
    });
}

#[test]
fn of_tasks_that_wait_the_sensitive_one_is_first() {
    let runtime = Runtime::builder().workers(1).build();
    let order = Arc::new(Mutex::new(Vec::new()));
    let told = order.clone();
    let all = async move {
        // This task is more important than the others, and runs until all of them wait.
        let values = [0, 19, 0, 5, -20, 0];
        let spawn = |value| {
            let told = told.clone();
            let task = async move { told.lock().unwrap().push(value) };
            Task::builder().nice(0).latency_nice(value).spawn(task)
        };
        for task in values.map(spawn) {
            task.await.unwrap();
        }
    };
    runtime.block_on(async { Task::builder().fifo(50).spawn(all).await.unwrap() });
    let order = order.lock().unwrap();
    assert_eq!((order.len(), order[0]), (6, -20), "{order:?}");
}

#[test]
fn a_spawned_task_inherits_latency_nice_and_slice_unless_it_asks_or_its_spawner_resets() {
    let runtime = Arc::new(runtime());
    let (inner, other) = (runtime.clone(), self::runtime());
    let slice = Slice::new(Nanos::from_millis(1));
    let asks = || Task::builder().latency_nice(-7).slice(Duration::from_millis(1));
    runtime.block_on(async {
        let spawner = asks().spawn(async move {
            assert_eq!(spawn(async { mine() }).await.unwrap(), (-7, slice), "spawn");
            assert_eq!(spawn_blocking(mine).await.unwrap(), (-7, slice), "spawn_blocking");
            assert_eq!(inner.spawn(async { mine() }).await.unwrap(), (-7, slice), "Runtime::spawn");
            let below = spawn(async { spawn(async { mine() }).await.unwrap() });
            assert_eq!(below.await.unwrap(), (-7, slice), "by a child");
            let own = Task::builder().latency_nice(0).spawn(async { mine() });
            assert_eq!(own.await.unwrap(), (0, slice), "it asks for one of the two");
            assert_eq!(other.spawn(async { mine() }).await.unwrap(), (0, None), "another runtime");
            Task::current().set_latency_nice(latency_nice(3)).unwrap();
            Task::current().set_slice(None);
            assert_eq!(
                spawn(async { mine() }).await.unwrap(),
                (3, None),
                "the value that it has by then"
            );
        });
        spawner.await.unwrap();
        let resets = asks().reset_on_fork().spawn(async move {
            let own = Task::builder().latency_nice(5).spawn(async {
                assert_eq!(
                    spawn(async { mine() }).await.unwrap(),
                    (5, None),
                    "no other task resets"
                );
                mine()
            });
            (mine(), spawn(async { mine() }).await.unwrap(), own.await.unwrap())
        });
        assert_eq!(resets.await.unwrap(), ((-7, slice), (0, None), (5, None)));
        assert_eq!(spawn(async { mine() }).await.unwrap(), (0, None), "from outside a task");
    });
}

#[test]
fn the_owner_of_a_runtime_sets_the_lowest_latency_nice() {
    let runtime = Runtime::builder().workers(1).min_latency_nice(-5).build();
    runtime.block_on(async {
        let task = Task::builder().latency_nice(-5).spawn(async {
            let refused = Task::current().set_latency_nice(latency_nice(-6)).unwrap_err();
            (refused.to_string(), mine())
        });
        let (refused, kept) = task.await.unwrap();
        assert_eq!(refused, "latency nice -6 is below -5, the lowest that this runtime allows");
        assert_eq!(kept, (-5, None));
        let spawned = std::panic::catch_unwind(|| {
            drop(Task::builder().latency_nice(-6).spawn(async {}));
        });
        let message = *spawned.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(message, refused);
        assert_eq!(spawn(async { 7 }).await.unwrap(), 7, "nothing came of it");
    });
    let none = Runtime::builder().workers(1).min_latency_nice(0).build();
    none.block_on(async {
        assert!(spawn(async {}).task().set_latency_nice(latency_nice(-1)).is_err());
        assert!(spawn(async {}).task().set_latency_nice(LatencyNice::ZERO).is_ok());
    });
}

#[test]
fn values_that_are_none_are_refused() {
    let wrong: [fn(); 5] = [
        || drop(Task::builder().latency_nice(20)),
        || drop(Task::builder().latency_nice(-21)),
        || drop(Task::builder().slice(Duration::from_micros(99))),
        || drop(Task::builder().slice(Duration::from_millis(101))),
        || drop(Runtime::builder().min_latency_nice(1)),
    ];
    for (nth, wrong) in wrong.into_iter().enumerate() {
        assert!(std::panic::catch_unwind(wrong).is_err(), "{nth}");
    }
}

/// Waits until the condition holds.
async fn until(happened: impl Fn() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < Duration::from_secs(60), "it does not happen");
        time::sleep(Duration::from_millis(1)).await;
    }
}
