//! The runtime keeps working when it reaches the limits of the process.

use crate::child::{run, within};
use crate::common::{Work, ms, spin, threads, until, workers};
use crate::waits::wakes_by_a_waker_that_locks;
use runyard::{Runtime, Task, spawn, time};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Returns whether the user may have so many threads; otherwise reports that a test checks nothing.
fn may_have(threads: u64) -> bool {
    let may = getrlimit(Resource::Nproc).current.is_none_or(|most| most > threads);
    if !may {
        println!("not tested: it takes {threads} threads");
    }
    may
}

/// Seen failing: the test did not end. At 4,096 threads the next task that blocked froze its CPU.
#[test]
fn more_tasks_block_than_there_were_ever_threads_for() {
    if !may_have(5_000) {
        return;
    }
    within(ms(90_000), "limits::more_tasks_block_than_there_were_ever_threads_for", || {
        let runtime = workers(2);
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let begun = Arc::new(AtomicUsize::new(0));
        let waiters: Vec<_> = (0..4_200)
            .map(|_| {
                let (gate, begun) = (gate.clone(), begun.clone());
                runtime.spawn(async move {
                    begun.fetch_add(1, Ordering::Relaxed);
                    let open = gate.0.lock().unwrap();
                    drop(gate.1.wait_while(open, |open| !*open).unwrap());
                })
            })
            .collect();
        // The loop ends when all have begun, or as many as ever do.
        let began = Instant::now();
        while begun.load(Ordering::Relaxed) < 4_200 && began.elapsed() < ms(30_000) {
            std::thread::sleep(ms(10));
        }
        let opener = runtime.spawn(async move {
            *gate.0.lock().unwrap() = true;
            gate.1.notify_all();
        });
        runtime.block_on(async {
            opener.await.unwrap();
            for waiter in waiters {
                waiter.await.unwrap();
            }
        });
    });
}

/// Prevents more threads from now on, because their stacks have no room. Returns the old limit.
fn no_more_threads() -> Rlimit {
    // The memory for small allocations is available already, below one that stays.
    let mut blocks: Vec<_> = (0..8_000).map(|_| Box::new([0_u8; 1_000])).collect();
    std::mem::forget(blocks.pop());
    drop(blocks);
    let before = getrlimit(Resource::As);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    let kib: u64 = size.trim().trim_end_matches(" kB").parse().unwrap();
    // This is less than a stack, and more than a small program allocates.
    let current = Some(kib * 1_024 + (1 << 20));
    setrlimit(Resource::As, Rlimit { current, ..before }).unwrap();
    before
}

/// Keeps new threads from using the stacks of ended threads.
fn take_all_stacks() {
    let sleeps = || std::thread::Builder::new().spawn(|| std::thread::sleep(ms(4_000)));
    while sleeps().is_ok() {}
}

/// Without preemption, an important task waits for the end of hogs: hundreds of milliseconds. With it, it waits for at
/// most what other processes take from the worker.
fn assert_preempts(runtime: &Runtime) {
    let late = runtime.block_on(async { spawn(lateness()).await.unwrap() });
    assert!(late < ms(30), "the median is {late:?}");
}

/// Returns the lateness of an important task beside hogs: the median of 20. More hogs are stopped than a slot has
/// spares from the start.
async fn lateness() -> Duration {
    let over = Arc::new(AtomicBool::new(false));
    let hogs = (0..6).map(|_| {
        let over = over.clone();
        spawn(async move {
            while !over.load(Ordering::Relaxed) {
                spin(Duration::from_micros(50));
            }
        })
    });
    let hogs: Vec<_> = hogs.collect();
    time::sleep(ms(50)).await;
    let mut late = Vec::new();
    for _ in 0..20 {
        let asked = Instant::now() + ms(2);
        let important = async move {
            time::sleep_until(asked).await;
            asked.elapsed()
        };
        late.push(Task::builder().fifo(50).spawn(important).await.unwrap());
    }
    over.store(true, Ordering::Relaxed);
    for hog in hogs {
        hog.await.unwrap();
    }
    late.sort();
    late[late.len() / 2]
}

/// Seen failing: the test did not end. The owner of the only CPU waited for a lock, no thread could take the CPU over, and
/// the thread with the lock had been stopped for a real-time task.
#[test]
fn at_the_ceiling_a_thread_that_was_stopped_with_a_lock_releases_it() {
    let name = "limits::at_the_ceiling_a_thread_that_was_stopped_with_a_lock_releases_it";
    within(ms(60_000), name, || {
        (0..10).for_each(|_| a_stopped_thread_releases_its_lock());
    });
}

fn a_stopped_thread_releases_its_lock() {
    let runtime = Runtime::builder().workers(1).max_threads(3).build();
    let lock = Arc::new(Mutex::new(0));
    let (held, gone_on) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    // Tasks that did not block in their first poll are polled though there is no spare thread.
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let waiters = (0..10).map(|_| {
        let (lock, gate) = (lock.clone(), gate.clone());
        let waits = async move {
            gate.acquire().await.unwrap().forget();
            *lock.lock().unwrap() += 1;
        };
        Task::builder().fifo(10).spawn_on(waits, runtime.handle())
    });
    let waiters: Vec<_> = waiters.collect();
    let (is_held, goes_on) = (held.clone(), gone_on.clone());
    let stops = async move {
        while !is_held.load(Ordering::Relaxed) {
            time::sleep(ms(1)).await;
        }
        gate.add_permits(10);
        goes_on.store(true, Ordering::Relaxed);
    };
    let stops = Task::builder().fifo(20).spawn_on(stops, runtime.handle());
    let holder = runtime.spawn(async move {
        let mut holds = lock.lock().unwrap();
        held.store(true, Ordering::Relaxed);
        while !gone_on.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        *holds += 1;
    });
    for task in waiters.into_iter().chain([stops, holder]) {
        runtime.block_on(task).unwrap();
    }
}

/// Seen failing: the ticker stood still, because a task that blocked when there were no more threads kept its CPU.
#[test]
fn at_the_ceiling_a_task_that_does_not_block_goes_on() {
    let name = "limits::at_the_ceiling_a_task_that_does_not_block_goes_on";
    let end = run(ms(60_000), &[], name, || {
        let runtime = Runtime::builder().workers(1).max_threads(12).build();
        let ticks = Arc::new(AtomicUsize::new(0));
        let counted = ticks.clone();
        let ticker = runtime.spawn(async move {
            loop {
                time::sleep(ms(1)).await;
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        let begun = Arc::new(AtomicUsize::new(0));
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let waiters = (0..30).map(|_| {
            let (gate, begun) = (gate.clone(), begun.clone());
            runtime.spawn(async move {
                begun.fetch_add(1, Ordering::Relaxed);
                let open = gate.0.lock().unwrap();
                drop(gate.1.wait_while(open, |open| !*open).unwrap());
            })
        });
        let waiters: Vec<_> = waiters.collect();
        // There are no threads for more of them.
        until(|| begun.load(Ordering::Relaxed) >= 10);
        std::thread::sleep(ms(300));
        let begun_then = begun.load(Ordering::Relaxed);
        assert!(begun_then < 12, "{begun_then} have a thread");
        let before = ticks.load(Ordering::Relaxed);
        until(|| ticks.load(Ordering::Relaxed) >= before + 100);
        assert_eq!(threads().len(), 12 + 2, "with the keeper and the maker");
        *gate.0.lock().unwrap() = true;
        gate.1.notify_all();
        for waiter in waiters {
            runtime.block_on(waiter).unwrap();
        }
        assert_eq!(begun.load(Ordering::Relaxed), 30);
        ticker.task().abort();
        // Preemption works again.
        assert_preempts(&runtime);
    });
    let Some(end) = end else { return };
    let ended = end.status.is_some_and(|status| status.success());
    assert!(ended, "{:?}\n{}", end.status, end.said);
    let said = end.said.matches("the runtime has its maximum number of threads").count();
    assert_eq!(said, 1, "{}", end.said);
}

/// A runtime that ends while tasks wait for threads ends them too.
#[test]
fn tasks_that_wait_for_threads_end_with_the_runtime() {
    within(ms(60_000), "limits::tasks_that_wait_for_threads_end_with_the_runtime", || {
        let runtime = Runtime::builder().workers(1).max_threads(6).build();
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let (begun, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(()));
        let waiters: Vec<_> = (0..20)
            .map(|_| {
                let (gate, begun, dropped) = (gate.clone(), begun.clone(), dropped.clone());
                runtime.spawn(async move {
                    begun.fetch_add(1, Ordering::Relaxed);
                    let open = gate.0.lock().unwrap();
                    drop(gate.1.wait_while(open, |open| !*open).unwrap());
                    drop(dropped);
                })
            })
            .collect();
        until(|| begun.load(Ordering::Relaxed) >= 4);
        std::thread::sleep(ms(100));
        let ends = std::thread::spawn(move || drop(runtime));
        std::thread::sleep(ms(50));
        *gate.0.lock().unwrap() = true;
        gate.1.notify_all();
        ends.join().unwrap();
        drop(waiters);
        assert_eq!(Arc::strong_count(&dropped), 1, "every future is gone");
    });
}

/// Seen failing: hundreds of milliseconds, because all 4,096 places were used up in the seconds of the refusal.
#[test]
fn preemption_comes_back_when_threads_do() {
    within(ms(60_000), "limits::preemption_comes_back_when_threads_do", || {
        let runtime = workers(1);
        let before = no_more_threads();
        take_all_stacks();
        // More tasks are stopped at once than there are spares.
        let hogs: Vec<_> = (0..8).map(|_| runtime.spawn(async { spin(ms(700)) })).collect();
        for hog in hogs {
            runtime.block_on(hog).unwrap();
        }
        setrlimit(Resource::As, before).unwrap();
        assert_preempts(&runtime);
    });
}

/// Seen failing: two workers remained, and waited for ever.
#[test]
fn a_runtime_that_cannot_start_leaves_no_thread() {
    within(ms(20_000), "limits::a_runtime_that_cannot_start_leaves_no_thread", || {
        // There are stacks for the workers, but for no more threads.
        let here = Arc::new(std::sync::Barrier::new(2));
        let there = here.clone();
        let threads_of_two = [0, 1].map(|_| {
            let there = there.clone();
            std::thread::spawn(move || there.wait())
        });
        let before = no_more_threads();
        for thread in threads_of_two {
            thread.join().unwrap();
        }
        let built = catch_unwind(AssertUnwindSafe(|| workers(2)));
        setrlimit(Resource::As, before).unwrap();
        assert!(built.is_err(), "the limit was meant to keep it from starting");
        until(|| threads().is_empty());
    });
}

/// Seen failing: FIFO tasks waited hundreds of milliseconds for workers that had no timers.
#[test]
fn a_worker_without_timers_runs_nothing() {
    within(ms(60_000), "limits::a_worker_without_timers_runs_nothing", || {
        let runtime = workers(1);
        // Existing threads have their timers, and there are no more timers from now on. The limit belongs to the user,
        // whose other processes may have some.
        let before = getrlimit(Resource::Sigpending);
        setrlimit(Resource::Sigpending, Rlimit { current: Some(0), ..before }).unwrap();
        let hogs: Vec<_> = (0..8).map(|_| runtime.spawn(async { spin(ms(100)) })).collect();
        for hog in hogs {
            runtime.block_on(hog).unwrap();
        }
        setrlimit(Resource::Sigpending, before).unwrap();
        assert_preempts(&runtime);
    });
}

/// Seen failing: all 1,005 threads remained.
#[test]
fn threads_that_were_not_needed_for_seconds_are_given_back() {
    if !may_have(1_200) {
        return;
    }
    within(ms(150_000), "limits::threads_that_were_not_needed_for_seconds_are_given_back", || {
        let runtime = workers(2);
        let begun = Arc::new(AtomicUsize::new(0));
        let hogs: Vec<_> = (0..1_000)
            .map(|_| {
                let begun = begun.clone();
                runtime.spawn(async move {
                    begun.fetch_add(1, Ordering::Relaxed);
                    // All are stopped at the same time.
                    while begun.load(Ordering::Relaxed) < 1_000 {
                        std::hint::spin_loop();
                    }
                })
            })
            .collect();
        for hog in hogs {
            runtime.block_on(hog).unwrap();
        }
        let most = threads().len();
        assert!(most > 900, "there were {most} threads");
        // Two workers with two spares each, the keeper and the maker remain. On a quiet machine they are alone within
        // ten seconds.
        let (began, left) = (Instant::now(), 2 * 3 + 2);
        while threads().len() > left {
            assert!(began.elapsed() < ms(30_000), "{} of {most} remain", threads().len());
            std::thread::sleep(ms(100));
        }
        eprintln!("the last thread ended after {:?}", began.elapsed());
        // There are as many again when they are needed.
        let hogs: Vec<_> = (0..100).map(|_| runtime.spawn(async { spin(ms(10)) })).collect();
        for hog in hogs {
            runtime.block_on(hog).unwrap();
        }
    });
}

/// Seen failing: 1,947 threads.
#[test]
fn a_crowd_of_tasks_that_compute_for_some_milliseconds_needs_few_threads() {
    let name = "limits::a_crowd_of_tasks_that_compute_for_some_milliseconds_needs_few_threads";
    within(ms(300_000), name, || {
        let runtime = workers(2);
        let left = Arc::new(AtomicUsize::new(2_000));
        for _ in 0..2_000 {
            let left = left.clone();
            drop(runtime.spawn(async move {
                Work::default().compute(ms(6));
                left.fetch_sub(1, Ordering::Relaxed);
            }));
        }
        let mut most = 0;
        while left.load(Ordering::Relaxed) > 0 {
            most = most.max(threads().len());
            std::thread::sleep(ms(5));
        }
        // On a quiet machine there are at most 64. A worker that other processes keep off its CPU leaves its slot to another
        // thread, so there are more on a busy one.
        assert!(most <= 600, "there were {most} threads");
    });
}

/// Seen failing: the test did not end, and there was no warning.
#[test]
fn without_proc_a_lock_holder_runs_all_the_same() {
    let name = "limits::without_proc_a_lock_holder_runs_all_the_same";
    let hidden = ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /proc && exec \"$0\" \"$@\""];
    let end = run(ms(20_000), &hidden, name, || wakes_by_a_waker_that_locks(20));
    let Some(end) = end else { return };
    if end.said.contains("unshare failed") || end.said.contains("permission denied") {
        eprintln!("not tried: only root hides /proc");
        return;
    }
    let ended = end.status.is_some_and(|status| status.success());
    assert!(ended, "{:?}\n{}", end.status, end.said);
    assert!(end.said.contains("/proc"), "it is said once: {}", end.said);
}
