//! Programs in virtual time: their computations take the time that they state, under the real policies, in the same way
//! each time. A test that cannot go on reports the reason.

use futures_util::stream::{FuturesUnordered, StreamExt};
use runyard::test::{self};
use runyard::{Limit, Task, spawn, sync, time, yield_now};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: runyard::trial::Strict = runyard::trial::Strict;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Returns the message with which a test fails.
fn failure(test: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(test)).expect_err("the test fails");
    let said = payload.downcast::<String>().map(|said| *said);
    said.or_else(|other| other.downcast::<&str>().map(|said| said.to_string())).expect("a message")
}

#[test]
fn computing_takes_the_time_that_it_says() {
    test::paused(1).run(async {
        let begin = time::now();
        let task = spawn(async {
            test::compute(ms(3));
            time::sleep(ms(4)).await;
            test::compute(ms(5));
        });
        task.await.unwrap();
        assert_eq!(time::now() - begin, ms(12));
        test::compute(ms(2));
        assert_eq!(time::now() - begin, ms(14));
    });
}

#[runyard::test(paused, seed = 7, cpus = 2)]
async fn the_attribute_says_the_same() {
    let begin = time::now();
    let both = [0, 1].map(|_| spawn(async { test::compute(ms(5)) }));
    test::compute(ms(1));
    for task in both {
        task.await.unwrap();
    }
    assert_eq!(time::now() - begin, ms(5));
}

#[test]
fn as_many_compute_at_a_time_as_there_are_cpus() {
    for cpus in [1, 2, 3, 4, 12] {
        let took = test::paused(cpus as u64).cpus(cpus).run(async {
            let begin = time::now();
            let all: Vec<_> = (0..12).map(|_| spawn(async { test::compute(ms(60)) })).collect();
            for task in all {
                task.await.unwrap();
            }
            time::now() - begin
        });
        assert!(took >= ms(720) / cpus as u32, "{cpus} CPUs: {took:?}");
        // An idle CPU takes tasks from others, though not at once.
        assert!(took <= ms(720) / cpus as u32 + ms(60), "{cpus} CPUs: {took:?}");
    }
}

#[test]
fn a_thousand_sleeps_of_an_hour_take_an_hour_of_virtual_time() {
    let hour = Duration::from_secs(3_600);
    test::paused(3).cpus(2).run(async {
        let begin = time::now();
        let all: Vec<_> = (0..1_000).map(|_| spawn(time::sleep(hour))).collect();
        for task in all {
            task.await.unwrap();
        }
        assert_eq!(time::now() - begin, hour);
    });
}

#[test]
fn time_is_virtual_wherever_it_is_asked_for() {
    test::paused(4).run(async {
        let begin = time::now();
        time::sleep_until(begin + ms(10)).await;
        assert_eq!(time::now(), begin + ms(10));
        let late = time::timeout(ms(5), time::sleep(ms(6))).await;
        assert!(late.is_err());
        assert_eq!(time::now(), begin + ms(15));
        let mut interval = time::interval(ms(100));
        // The first tick comes at once.
        for nth in 0..3 {
            assert_eq!(interval.tick().await, begin + ms(15 + nth * 100));
        }
        assert_eq!(time::now(), begin + ms(215));
    });
    assert!(time::now() - Instant::now() < ms(1_000), "the machine's clock again");
}

/// Returns how long a task of priority 90 waits for a lock of a task of priority 10, while one of priority 50 computes.
fn waits_in_an_inversion<L, G>(lock: impl Fn() -> L + Clone + Send + 'static) -> Duration
where
    L: Future<Output = G> + Send,
    G: Send,
{
    test::paused(5).run(async move {
        let rt = |prio| Task::builder().fifo(prio);
        let (low, high) = (lock.clone(), lock);
        let low = rt(10).spawn(async move {
            let _has = low().await;
            test::compute(ms(5));
        });
        time::sleep(ms(1)).await;
        let begin = time::now();
        let high = rt(90).spawn(async move {
            let _has = high().await;
            time::now() - begin
        });
        let middle = rt(50).spawn(async { test::compute(ms(500)) });
        let waited = high.await.unwrap();
        middle.await.unwrap();
        low.await.unwrap();
        waited
    })
}

#[test]
fn a_priority_inversion_fails_a_test_and_inheritance_mends_it() {
    let plain = Arc::new(tokio::sync::Mutex::new(()));
    let plain = waits_in_an_inversion(move || plain.clone().lock_owned());
    assert_eq!(plain, ms(504), "it waits for the middle one");
    let inherits = Arc::new(sync::Mutex::new(()));
    let inherits = waits_in_an_inversion(move || inherits.clone().lock_owned());
    assert_eq!(inherits, ms(4), "the rest of the section");
}

#[test]
fn a_tenant_of_a_tenth_has_exactly_that() {
    test::seeds(0..5, |paused| {
        paused.cpus(2).run(async {
            let tenth = Limit::new(ms(10), ms(100));
            let tenant = test::group("tenant").limit(tenth).create().unwrap();
            let used = Arc::new(AtomicU64::new(0));
            for _ in 0..3 {
                let used = used.clone();
                drop(Task::builder().group(&tenant).spawn(async move {
                    loop {
                        test::compute(Duration::from_micros(100));
                        used.fetch_add(100, Ordering::Relaxed);
                    }
                }));
            }
            time::sleep(Duration::from_secs(10)).await;
            let used = Duration::from_micros(used.load(Ordering::Relaxed));
            assert!(used > ms(990) && used <= ms(1_010), "{used:?} of 1 s");
            assert!(tenant.usage().nr_throttled > 90);
        });
    });
}

#[test]
fn a_real_time_hog_leaves_fair_tasks_what_throttling_saves() {
    test::paused(6).run(async {
        let done = Arc::new(AtomicU64::new(0));
        let fair = done.clone();
        drop(Task::builder().fifo(50).spawn(async {
            loop {
                test::compute(ms(1));
            }
        }));
        drop(spawn(async move {
            loop {
                test::compute(ms(1));
                fair.fetch_add(1, Ordering::Relaxed);
            }
        }));
        time::sleep(Duration::from_secs(20)).await;
        let done = done.load(Ordering::Relaxed);
        assert!((950..=1_050).contains(&done), "{done} ms of 20 s, of which 5 % are 1 s");
    });
}

#[test]
fn nice_values_are_shares() {
    test::paused(7).run(async {
        let done = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        for (nth, nice) in [(0, 0), (1, 5)] {
            let done = done.clone();
            drop(Task::builder().nice(nice).spawn(async move {
                loop {
                    test::compute(ms(1));
                    done[nth].fetch_add(1, Ordering::Relaxed);
                }
            }));
        }
        time::sleep(Duration::from_secs(10)).await;
        let [all, less] = [0, 1].map(|nth| done[nth].load(Ordering::Relaxed) as f64);
        // The weights are 1024 and 335.
        assert!((all / less - 1_024.0 / 335.0).abs() < 0.2, "{all} and {less}");
    });
}

#[test]
fn a_more_important_task_preempts_in_the_middle_of_a_poll() {
    test::paused(8).run(async {
        let begin = time::now();
        let long = spawn(async { test::compute(ms(100)) });
        time::sleep(ms(10)).await;
        let alarm = Task::builder().fifo(1).spawn(async move {
            test::compute(ms(1));
            time::now() - begin
        });
        assert_eq!(alarm.await.unwrap(), ms(11));
        assert!(!long.is_finished());
        long.await.unwrap();
        assert_eq!(time::now() - begin, ms(101));
    });
}

/// Returns the trace, in order, of a program that uses some of every mechanism.
fn trace(seed: u64) -> Vec<String> {
    let trace = Arc::new(Mutex::new(Vec::new()));
    let all = trace.clone();
    test::paused(seed).cpus(3).run(async move {
        let begin = time::now();
        let note = move |what: &str, nth: u64| {
            let line = format!("{:?} {:?} {what} {nth}", time::now() - begin, test::cpu());
            all.lock().unwrap().push(line);
        };
        let lock = Arc::new(sync::Mutex::new(()));
        let task = |nth: u64| {
            let (note, lock) = (note.clone(), lock.clone());
            let task = if nth.is_multiple_of(3) {
                Task::builder().fifo(nth as u8 + 1)
            } else {
                Task::builder().nice(nth as i8)
            };
            task.spawn(async move {
                for round in 0..10 {
                    note("computes", nth);
                    test::compute(Duration::from_micros(300 + nth * 50));
                    let guard = lock.lock().await;
                    note("has it", nth);
                    test::compute(Duration::from_micros(20 * round));
                    drop(guard);
                    time::sleep(Duration::from_micros(100 * (nth % 4))).await;
                    yield_now().await;
                }
            })
        };
        let mut all: FuturesUnordered<_> = (0..12).map(task).collect();
        while let Some(ended) = all.next().await {
            ended.unwrap();
        }
    });
    Arc::into_inner(trace).unwrap().into_inner().unwrap()
}

/// Asserts that two runs of a seed are equal, and shows the first difference.
fn assert_same<T: PartialEq + std::fmt::Debug>(one: &[T], other: &[T]) {
    let differs = one.iter().zip(other).position(|(one, other)| one != other);
    assert_eq!(differs.map(|at| (&one[at], &other[at])), None);
    assert_eq!(one.len(), other.len());
}

/// Set for the process that a test starts of itself.
const CHILD: &str = "RUNYARD_PAUSED_CHILD";

#[test]
fn a_seed_fixes_the_order_of_everything_in_another_process_too() {
    let first = trace(11);
    if std::env::var_os(CHILD).is_some() {
        println!("TRACE {first:?}");
        return;
    }
    assert_eq!(first.len(), 12 * 10 * 2);
    for _ in 0..5 {
        assert_same(&trace(11), &first);
    }
    assert!((12..20).any(|seed| trace(seed) != first), "other seeds, other orders");
    let name = "a_seed_fixes_the_order_of_everything_in_another_process_too";
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(CHILD, "yes")
        .output()
        .unwrap();
    let said = String::from_utf8(child.stdout).unwrap();
    assert!(said.contains(&format!("TRACE {first:?}")), "another process has another order");
}

#[test]
fn a_deadlock_names_who_waits() {
    let said = failure(|| {
        test::paused(9).run(async {
            let never = Task::builder().name("reader").spawn(std::future::pending::<()>());
            never.await.unwrap();
        });
    });
    assert!(said.starts_with("deadlock in virtual time"), "{said}");
    assert!(said.contains("`reader`, spawned at") && said.contains("paused.rs"), "{said}");
}

#[test]
fn who_is_woken_from_outside_of_virtual_time_is_named() {
    let said = failure(|| {
        test::paused(10).run(async {
            let (send, receive) = tokio::sync::oneshot::channel();
            let task = Task::builder().name("client").spawn(receive);
            // The task waits by then.
            time::sleep(ms(1)).await;
            let reactor = std::thread::Builder::new().name("reactor".to_owned());
            reactor.spawn(move || send.send(()).unwrap()).unwrap().join().unwrap();
            time::sleep(ms(1)).await;
            task.await.unwrap().unwrap();
        });
    });
    assert!(said.contains("`client`, spawned at") && said.contains("thread `reactor`"), "{said}");
}

#[test]
fn two_that_yield_for_ever_are_found() {
    let said = failure(|| {
        test::paused(12).run(async {
            let waits = Task::builder().name("spins").spawn(async {
                loop {
                    yield_now().await;
                }
            });
            waits.await.unwrap()
        });
    });
    assert!(said.contains("virtual time stands still") && said.contains("`spins`"), "{said}");
}

#[test]
fn panics_and_aborts_come_out() {
    test::paused(13).run(async {
        let panics = spawn(async {
            test::compute(ms(1));
            panic!("as it is to")
        });
        let payload = panics.await.unwrap_err().into_panic();
        assert_eq!(payload.downcast_ref(), Some(&"as it is to"));
        let sleeps = spawn(time::sleep(ms(1_000)));
        sleeps.abort();
        let begin = time::now();
        assert!(sleeps.await.unwrap_err().is_cancelled());
        assert_eq!(time::now(), begin);
        let computes = spawn(async {
            test::compute(ms(10));
            yield_now().await;
            unreachable!("it was aborted");
        });
        time::sleep(ms(1)).await;
        computes.abort();
        assert!(computes.await.unwrap_err().is_cancelled());
        assert_eq!(time::now() - begin, ms(10), "to the next await");
    });
    let said = failure(|| test::paused(14).run(async { panic!("the main future") }));
    assert_eq!(said, "the main future");
}

/// Records that it is dropped, and computes in its destructor.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        test::compute(ms(1));
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn what_is_left_at_the_end_is_dropped_wherever_it_is() {
    let dropped: Vec<_> = (0..4).map(|_| Arc::new(AtomicBool::new(false))).collect();
    test::paused(15).cpus(2).run(async {
        let value = |nth: usize| Dropped(dropped[nth].clone());
        let (sleeps, computes, waits, main) = (value(0), value(1), value(2), value(3));
        drop(spawn(async move {
            let _value = sleeps;
            time::sleep(ms(1_000)).await;
        }));
        drop(spawn(async move {
            let _value = computes;
            loop {
                test::compute(ms(1));
            }
        }));
        let none = test::group("none").limit(Limit::new(ms(1), ms(1_000))).create().unwrap();
        drop(Task::builder().group(&none).spawn(async move {
            let _value = waits;
            test::compute(Duration::from_secs(100));
        }));
        time::sleep(ms(20)).await;
        drop(main);
    });
    assert!(dropped.iter().all(|dropped| dropped.load(Ordering::Relaxed)));
    assert!(dropped.iter().all(|dropped| Arc::strong_count(dropped) == 1));
}

#[test]
fn nobody_preempts_in_a_section_without_preemption() {
    test::paused(16).run(async {
        let begin = time::now();
        let long = spawn(async {
            test::compute(ms(10));
            runyard::without_preemption(|| test::compute(ms(10)));
            test::compute(ms(10));
        });
        time::sleep(ms(15)).await;
        let alarm = Task::builder().fifo(1).spawn(async move { time::now() - begin });
        assert_eq!(alarm.await.unwrap(), ms(20));
        long.await.unwrap();
        assert_eq!(time::now() - begin, ms(30));
    });
}

/// Returns how long it takes until a task begins whose spawner keeps computing, while another CPU is idle.
fn begins_after(seed: u64, at_once: bool) -> Duration {
    test::paused(seed).cpus(2).run(async move {
        let spawns = spawn(async move {
            let begin = time::now();
            let task = async move { time::now() - begin };
            let task = if at_once { runyard::wake_at_once(|| spawn(task)) } else { spawn(task) };
            test::compute(ms(10));
            task.await.unwrap()
        });
        spawns.await.unwrap()
    })
}

#[test]
fn who_is_woken_by_a_poll_waits_for_it_a_little_as_in_the_live_runtime() {
    for seed in 0..10 {
        // The busy CPU gives the task away at its next tick.
        let waited = begins_after(seed, false);
        assert!(waited > Duration::ZERO && waited <= ms(1), "{waited:?}");
        assert_eq!(begins_after(seed, true), Duration::ZERO);
    }
}

#[test]
fn a_deadlock_of_mutexes_names_who_has_them() {
    let said = failure(|| {
        test::paused(17).run(async {
            let (one, two) = (Arc::new(sync::Mutex::new(())), Arc::new(sync::Mutex::new(())));
            let both = |name: &str, first: &Arc<sync::Mutex<()>>, then: &Arc<sync::Mutex<()>>| {
                let (first, then) = (first.clone(), then.clone());
                Task::builder().fifo(9).name(name).spawn(async move {
                    let _first = first.lock().await;
                    time::sleep(ms(1)).await;
                    let _then = then.lock().await;
                })
            };
            let (there, back) = (both("there", &one, &two), both("back", &two, &one));
            // Otherwise it would run for ever.
            let limit = Limit::new(ms(1), ms(10));
            let group = test::group("limited").limit(limit).create().unwrap();
            Task::builder().group(&group).spawn(async { test::compute(ms(7)) }).await.unwrap();
            there.await.unwrap();
            back.await.unwrap();
        });
    });
    assert!(said.contains("`there`") && said.contains("`back`"), "{said}");
    assert!(said.contains("waits for a mutex that task"), "{said}");
    assert!(said.ends_with("(seed 17)"), "{said}");
}

#[test]
fn a_thread_does_not_wait_for_a_mutex_in_virtual_time() {
    test::paused(18).run(async {
        let lock = Arc::new(sync::Mutex::new(()));
        let has = lock.lock().await;
        let waits = lock.clone();
        let waits = runyard::spawn_blocking(move || drop(waits.blocking_lock()));
        assert!(waits.await.unwrap_err().is_panic());
        drop(has);
        let locks = runyard::spawn_blocking(move || drop(lock.blocking_lock()));
        locks.await.unwrap();
    });
}

#[test]
fn computing_is_for_virtual_time() {
    assert!(failure(|| test::compute(ms(1))).contains("virtual time"));
    assert!(
        failure(|| test::paused(1).run(async { drop(runyard::Runtime::new()) })).contains("live")
    );
}

/// Keeps all events.
#[derive(Debug, Default)]
struct Events(Mutex<Vec<runyard_engine::event::Event>>);

impl runyard::Observer for Events {
    fn event(&self, event: &runyard_engine::event::Event) {
        self.0.lock().unwrap().push(*event);
    }
}

#[test]
fn an_observer_hears_the_same_each_time() {
    let heard = |seed| {
        let events = Arc::new(Events::default());
        test::paused(seed).cpus(2).observer(events.clone()).run(async {
            let task = |nth: u64| {
                Task::builder().nice(nth as i8).spawn(async move {
                    for _ in 0..20 {
                        test::compute(Duration::from_micros(700 + nth));
                        time::sleep(Duration::from_micros(100 * nth)).await;
                    }
                })
            };
            let all: Vec<_> = (0..5).map(task).collect();
            for task in all {
                task.await.unwrap();
            }
        });
        Arc::into_inner(events).unwrap().0.into_inner().unwrap()
    };
    let events = heard(1);
    assert!(events.len() > 500, "{}", events.len());
    assert!(events.is_sorted_by_key(|event| event.at));
    assert_same(&events, &heard(1));
    assert!(events != heard(2), "other seeds, other orders");
}
