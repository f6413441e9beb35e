//! A runtime without preemption, as on macOS and Windows: tasks, timers, results, groups and the mutex. Every task goes
//! on at its next await.
//!
//! With `--cfg runyard_portable` the test uses only the facilities of those systems, and names nothing of Linux.
//! Without it, the test runs on Linux with preemption switched off.

use runyard::{
    Builder, JoinHandle, Limit, Runtime, Task, blocking, spawn, spawn_blocking, sync, time,
    yield_now,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: runyard::trial::Strict = runyard::trial::Strict;

/// Returns a builder for a part of the machine, without preemption. The portable runtime has no preemption in any case.
fn builder(workers: usize) -> Builder {
    Runtime::builder().workers(workers).preempt(cfg!(runyard_portable))
}

fn runtime() -> Runtime {
    builder(2).build()
}

const MS: Duration = Duration::from_millis(1);

/// Runs a test, and fails it if it has not ended after five minutes.
fn ends(test: impl FnOnce() + Send + 'static) {
    let (send, receive) = channel();
    let runs = thread::spawn(move || {
        test();
        send.send(()).unwrap();
    });
    match receive.recv_timeout(300_000 * MS) {
        Err(RecvTimeoutError::Timeout) => panic!("it never ends"),
        _ => runs.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

#[test]
fn it_says_that_it_stops_nobody() {
    ends(|| {
        assert!(!runtime().preempts());
        assert_eq!(Runtime::new().preempts(), !cfg!(runyard_portable));
    });
}

#[test]
fn results_come_and_panics_and_ends_are_told() {
    ends(|| {
        runtime().block_on(async {
            let tasks: Vec<_> = (0..1_000_u64).map(|n| spawn(async move { n * n })).collect();
            let mut sum = 0;
            for task in tasks {
                sum += task.await.unwrap();
            }
            assert_eq!(sum, (0..1_000).map(|n| n * n).sum());
            let panics = spawn(async { panic!("on purpose") });
            assert!(panics.await.is_err_and(|error| error.is_panic()));
            let endless = spawn(std::future::pending::<()>());
            endless.abort();
            assert!(endless.await.is_err_and(|error| error.is_cancelled()));
        });
    });
}

#[test]
fn a_poll_ends_by_itself_and_the_more_important_task_is_next() {
    ends(|| {
        let order = Arc::new(AtomicUsize::new(0));
        let place = |order: &Arc<AtomicUsize>| {
            let order = order.clone();
            async move { order.fetch_add(1, Ordering::SeqCst) }
        };
        builder(1).build().block_on(async {
            let poll = spawn(async move {
                let less = Task::builder().nice(19).spawn(place(&order));
                let more = Task::builder().fifo(50).spawn(place(&order));
                let until = Instant::now() + 20 * MS;
                while Instant::now() < until {}
                (order.fetch_add(1, Ordering::SeqCst), less, more)
            });
            let (here, less, more) = poll.await.unwrap();
            assert_eq!((here, more.await.unwrap(), less.await.unwrap()), (0, 1, 2));
        });
    });
}

#[test]
fn no_timer_is_early_and_none_is_lost_behind_tasks_that_yield() {
    ends(|| {
        runtime().block_on(async {
            let stop = Arc::new(AtomicBool::new(false));
            let yields = || {
                let stop = stop.clone();
                spawn(async move {
                    while !stop.load(Ordering::SeqCst) {
                        yield_now().await;
                    }
                })
            };
            let busy: Vec<_> = (0..4).map(|_| yields()).collect();
            let sleeps = (1..=20_u32).map(|n| {
                spawn(async move {
                    let began = Instant::now();
                    time::sleep(n * MS).await;
                    assert!(began.elapsed() >= n * MS);
                })
            });
            for sleep in sleeps.collect::<Vec<_>>() {
                sleep.await.unwrap();
            }
            assert!(time::timeout(5 * MS, std::future::pending::<()>()).await.is_err());
            let mut every = time::interval(MS);
            for _ in 0..10 {
                every.tick().await;
            }
            stop.store(true, Ordering::SeqCst);
            for task in busy {
                task.await.unwrap();
            }
        });
    });
}

#[test]
fn an_idle_runtime_is_woken_from_any_thread_and_at_its_timers() {
    ends(|| {
        let runtime = runtime();
        for round in 0..200_u32 {
            let (wake, woken) = bell();
            let waits = runtime.spawn(async move {
                time::sleep(Duration::from_micros(u64::from(round) * 10)).await;
                woken.wait().await;
            });
            let rings = thread::spawn(move || wake.ring());
            runtime.block_on(waits).unwrap();
            rings.join().unwrap();
        }
    });
}

/// Returns the two ends of a bell between a thread and a task.
fn bell() -> (Arc<Bell>, Arc<Bell>) {
    let bell = Arc::new(Bell::default());
    (bell.clone(), bell)
}

#[derive(Default)]
struct Bell {
    rung: AtomicBool,
    waker: std::sync::Mutex<Option<std::task::Waker>>,
}

impl Bell {
    fn ring(&self) {
        self.rung.store(true, Ordering::SeqCst);
        let waker = self.waker.lock().unwrap().take();
        waker.into_iter().for_each(std::task::Waker::wake);
    }

    async fn wait(&self) {
        std::future::poll_fn(|cx| {
            *self.waker.lock().unwrap() = Some(cx.waker().clone());
            if self.rung.load(Ordering::SeqCst) {
                std::task::Poll::Ready(())
            } else {
                std::task::Poll::Pending
            }
        })
        .await;
    }
}

/// Each of `many` blocking functions waits on the only CPU for a message from a later task.
fn others_run_during(many: usize, begin: impl Fn(Receiver<()>) -> JoinHandle<u32>) {
    let runtime = builder(1).build();
    runtime.block_on(async {
        let begins = (0..many).map(|_| {
            let (send, receive) = channel();
            (send, begin(receive))
        });
        for (send, function) in begins.collect::<Vec<_>>() {
            spawn(async move { send.send(()).unwrap() }).await.unwrap();
            assert_eq!(function.await.unwrap(), 7);
        }
    });
}

#[test]
fn others_run_during_blocking_functions() {
    // The last number is larger than that of the spares.
    for many in [1, 3, 40] {
        ends(move || {
            others_run_during(many, |receive| {
                spawn_blocking(move || {
                    receive.recv().unwrap();
                    7
                })
            });
        });
    }
}

#[test]
fn others_run_during_sections_that_block() {
    for many in [1, 3, 40] {
        ends(move || {
            others_run_during(many, |receive| {
                spawn(async move {
                    yield_now().await;
                    blocking(|| receive.recv().unwrap());
                    yield_now().await;
                    7
                })
            });
        });
    }
}

#[test]
fn blocking_functions_beyond_the_most_threads_wait_and_futures_run() {
    ends(|| {
        builder(1).max_threads(3).build().block_on(async {
            let (sends, functions): (Vec<_>, Vec<_>) = (0..20)
                .map(|nth| {
                    let (send, receive) = channel::<()>();
                    (send, spawn_blocking(move || receive.recv().map(|()| nth).unwrap()))
                })
                .unzip();
            for send in sends {
                spawn(async move { send.send(()).unwrap() }).await.unwrap();
            }
            for (nth, function) in functions.into_iter().enumerate() {
                assert_eq!(function.await.unwrap(), nth);
            }
        });
    });
}

#[test]
fn a_blocking_function_that_panics_says_so_and_leaves_the_cpu() {
    ends(|| {
        builder(1).build().block_on(async {
            let panics = spawn_blocking(|| panic!("on purpose"));
            assert!(panics.await.is_err_and(|error| error.is_panic()));
            assert_eq!(spawn(async { 7 }).await.unwrap(), 7);
        });
    });
}

#[test]
fn a_group_does_not_pay_for_what_waits() {
    ends(|| {
        let runtime = builder(1).build();
        let limited = runtime.group("limited").limit(Limit::new(5 * MS, 100 * MS));
        for group in [limited, runtime.group("unlimited")] {
            let group = group.create().unwrap();
            runtime.block_on(async {
                let waits = || thread::sleep(1_000 * MS);
                let function = Task::builder().group(&group).spawn_blocking(waits);
                // Another worker of the CPU polls meanwhile.
                spawn(async {}).await.unwrap();
                function.await.unwrap();
            });
            let used = group.usage().used;
            assert!(used < 1_000 * MS, "{used:?}");
        }
    });
}

#[test]
fn groups_have_limits_and_the_mutex_excludes() {
    ends(|| {
        let runtime = runtime();
        let limit = Limit::new(MS, 100 * MS);
        let group = runtime.group("tenant").limit(limit).create().unwrap();
        let sum = Arc::new(sync::Mutex::new((0_u64, 0_u64)));
        let adds = |sum: &Arc<sync::Mutex<(u64, u64)>>| {
            let sum = sum.clone();
            Task::builder().group(&group).spawn(async move {
                let mut guard = sum.lock().await;
                guard.0 += 1;
                let until = Instant::now() + MS / 10;
                while Instant::now() < until {}
                yield_now().await;
                guard.1 += 1;
                assert_eq!(guard.0, guard.1, "one at a time has it");
            })
        };
        runtime.block_on(async {
            for task in (0..40).map(|_| adds(&sum)).collect::<Vec<_>>() {
                task.await.unwrap();
            }
            assert_eq!(*sum.lock().await, (40, 40));
            // A busy machine may give the group less than its limit for a while.
            while group.usage().nr_throttled == 0 {
                adds(&sum).await.unwrap();
            }
        });
    });
}

#[test]
fn what_is_dropped_ends_its_tasks() {
    ends(|| {
        let alive = Arc::new(());
        let runtime = runtime();
        for _ in 0..100 {
            let mine = alive.clone();
            runtime.spawn(async move {
                time::sleep(Duration::from_secs(3_600)).await;
                drop(mine);
            });
        }
        drop(runtime);
        assert_eq!(Arc::strong_count(&alive), 1);
    });
}
