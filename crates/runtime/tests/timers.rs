//! Guarantees for timers: a waiter is never woken early, never by a cancelled timer, and never waits for ever; missed
//! moments are counted; and an idle CPU that is awake serves every open window.

#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use common::{Woken, cpus_of_two, ends, ms, spin, until, workers};
use runyard::experiments::{Experiments, Feature, Features};
use runyard::time::{Elapsed, Interval, MissedTickBehavior, interval_at, sleep, timeout};
use runyard::{Event, Observer, Runtime, Task, TaskId, Time, What, spawn, yield_now};
use std::collections::BTreeMap;
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: runyard::trial::Strict = runyard::trial::Strict;

const HOUR: Duration = Duration::from_secs(3_600);

/// Records the events of timers.
#[derive(Debug, Default)]
struct Timers {
    armed: AtomicUsize,
    expired: AtomicUsize,
    greedy: AtomicUsize,
    cancelled: AtomicUsize,
    /// The time and the CPU of each expiry.
    expiries: Mutex<Vec<(Time, usize)>>,
    /// Number of expiries before each task ran for the first time.
    before: Mutex<BTreeMap<TaskId, usize>>,
}

impl Observer for Timers {
    fn event(&self, event: &Event) {
        let count = |counter: &AtomicUsize| counter.fetch_add(1, Ordering::SeqCst);
        match event.what {
            What::TimerArmed => count(&self.armed),
            What::TimerExpired { greedy } => {
                self.expiries.lock().unwrap().push((event.at, event.cpu.index()));
                self.greedy.fetch_add(greedy.into(), Ordering::SeqCst);
                count(&self.expired)
            }
            What::TimerCancelled => count(&self.cancelled),
            What::Exec { task, .. } => {
                let expired = self.expired.load(Ordering::SeqCst);
                *self.before.lock().unwrap().entry(task).or_insert(expired)
            }
            _ => 0,
        };
    }
}

impl Timers {
    /// Returns a runtime with this observer.
    fn of(workers: usize, features: Features) -> (Runtime, Arc<Timers>) {
        let timers = Arc::new(Timers::default());
        let builder = Runtime::builder().workers(workers).features(features);
        (builder.observer(timers.clone()).build(), timers)
    }

    /// Returns the numbers of timers that were armed, expired, expired greedily, and were cancelled.
    fn counts(&self) -> [usize; 4] {
        let counters = [&self.armed, &self.expired, &self.greedy, &self.cancelled];
        counters.map(|counter| counter.load(Ordering::SeqCst))
    }

    /// Returns the number of expiries before a task ran for the first time.
    fn before(&self, task: TaskId) -> usize {
        self.before.lock().unwrap()[&task]
    }
}

#[test]
fn nothing_comes_early_and_every_timer_expires_or_is_cancelled_once() {
    ends(|| {
        let (runtime, timers) = Timers::of(2, Features::of_runtime());
        runtime.block_on(async {
            let tasks = (0..100_u64).map(|n| {
                let slack = [0, 50, 3_000][n as usize % 3];
                let task = Task::builder().slack(Duration::from_micros(slack));
                task.spawn(async move {
                    for round in 0..5 {
                        let span = Duration::from_micros((n * 37 + round * 1_003) % 4_000);
                        let started = Instant::now();
                        sleep(span).await;
                        assert!(started.elapsed() >= span, "{:?} of {span:?}", started.elapsed());
                        let late = timeout(span, sleep(HOUR)).await;
                        assert_eq!(late, Err(Elapsed));
                        assert!(started.elapsed() >= 2 * span, "{:?}", started.elapsed());
                    }
                })
            });
            for task in tasks.collect::<Vec<_>>() {
                task.await.unwrap();
            }
        });
        drop(runtime);
        let [armed, expired, _, cancelled] = timers.counts();
        assert!(expired > 0 && cancelled > 0, "{timers:?}");
        assert_eq!(armed, expired + cancelled, "{timers:?}");
    });
}

#[test]
fn who_drops_a_sleep_is_not_woken_by_it() {
    ends(|| {
        workers(1).block_on(async {
            let task = spawn(async {
                let woken = Arc::new(Woken::default());
                let waker = Waker::from(woken.clone());
                for round in 0..500_u64 {
                    // Some sleeps are over when they are dropped. With slack, some have not expired by then.
                    let slack = Duration::from_micros(round % 7 * 100);
                    {
                        let mut sleep = pin!(sleep(Duration::from_micros(1_000)).slack(slack));
                        let _ = sleep.as_mut().poll(&mut Context::from_waker(&waker));
                        spin(Duration::from_micros(980 + round % 50));
                    }
                    let before = woken.count();
                    sleep(Duration::from_micros(200)).slack(Duration::ZERO).await;
                    assert_eq!(woken.count(), before, "in round {round}");
                }
                let in_time = woken.count();
                sleep(ms(5)).await;
                assert_eq!(woken.count(), in_time);
            });
            task.await.unwrap();
        });
    });
}

#[test]
fn a_task_that_is_aborted_in_its_sleep_leaves_no_timer() {
    ends(|| {
        let (runtime, timers) = Timers::of(1, Features::of_runtime());
        runtime.block_on(async {
            let sleeps = spawn(sleep(HOUR));
            let ticks = spawn(async { skipping(HOUR).tick().await });
            while timers.counts()[0] < 2 {
                yield_now().await;
                thread::sleep(ms(1));
            }
            sleeps.abort();
            ticks.abort();
            assert!(sleeps.await.is_err() && ticks.await.is_err());
        });
        assert_eq!(timers.counts(), [2, 0, 0, 2]);
    });
}

#[test]
fn a_future_that_is_ready_in_time_is_and_one_that_is_not_is_given_up() {
    ends(|| {
        struct Dropped(Arc<AtomicBool>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let (runtime, timers) = Timers::of(2, Features::of_runtime());
        runtime.block_on(async {
            let task = spawn(async {
                assert_eq!(timeout(Duration::ZERO, async { 7 }).await, Ok(7), "it is asked first");
                let soon = async {
                    sleep(ms(1)).slack(Duration::ZERO).await;
                    7
                };
                assert_eq!(timeout(HOUR, soon).slack(HOUR).await, Ok(7));
                let given_up = Arc::new(AtomicBool::new(false));
                let held = Dropped(given_up.clone());
                let never = async {
                    let _held = held;
                    pending::<()>().await;
                };
                let started = Instant::now();
                let late = timeout(ms(3), never).slack(Duration::ZERO).await;
                assert_eq!(
                    late.unwrap_err().to_string(),
                    "the time was over before the future was ready"
                );
                assert!(started.elapsed() >= ms(3));
                assert!(given_up.load(Ordering::SeqCst), "its future is dropped");
            });
            task.await.unwrap();
        });
        drop(runtime);
        assert_eq!(timers.counts(), [3, 2, 0, 1], "that of the hour was cancelled");
    });
}

const PERIOD: Duration = Duration::from_millis(2);

/// Returns an interval whose first tick comes a period from now, and that skips missed ticks.
fn skipping(period: Duration) -> Interval {
    let mut every = interval_at(Instant::now() + period, period);
    every.set_missed_tick_behavior(MissedTickBehavior::Skip);
    every
}

/// Takes `times` ticks, from `first` on, and keeps the CPU for ten periods at each seventh. Returns the number of
/// moments that passed.
async fn ticks(first: Instant, slack: Duration, times: u64) -> u64 {
    let mut every = interval_at(first, PERIOD).slack(slack);
    every.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut passed = 0;
    for round in 0..times {
        let before = Instant::now();
        let tick = every.tick().await;
        assert_eq!(tick, first + PERIOD * passed as u32, "each is a multiple of the period");
        assert!(Instant::now() >= tick, "none comes before its time");
        passed += 1 + every.overruns();
        assert!(first + PERIOD * passed as u32 > before, "a passed moment is not a future tick");
        if round % 7 == 3 {
            spin(PERIOD * 10);
        }
    }
    passed
}

#[test]
fn ticks_and_overruns_are_the_periods_that_passed() {
    ends(|| {
        for slack in [Duration::ZERO, PERIOD / 2, PERIOD * 3] {
            workers(2).block_on(async {
                let began = Instant::now();
                let passed = spawn(ticks(began + PERIOD, slack, 30)).await.unwrap();
                assert!(began.elapsed() >= PERIOD * passed as u32, "no tick comes early");
                assert!(passed >= 30 + 4 * 9, "{passed}: missed ticks are counted");
            });
        }
    });
}

#[test]
fn a_burst_catches_up_and_misses_none() {
    ends(|| {
        workers(1).block_on(async {
            let task = spawn(async {
                let mut every = interval_at(Instant::now() + PERIOD, PERIOD);
                let began = Instant::now();
                spin(PERIOD * 10);
                let mut ticks = 0_u32;
                loop {
                    let tick = every.tick().await;
                    ticks += 1;
                    assert_eq!(every.overruns(), 0);
                    assert!(began.elapsed() >= PERIOD * ticks);
                    if tick.elapsed() < PERIOD {
                        break;
                    }
                }
                assert!(ticks >= 10, "{ticks} of ten that were behind");
            });
            task.await.unwrap();
        });
    });
}

#[test]
fn after_a_delay_the_next_is_a_period_away() {
    let task = |tenths: u32| async move {
        let work = PERIOD * tenths / 10;
        let mut every = interval_at(Instant::now() + PERIOD, PERIOD);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for _ in 0..5 {
            spin(work);
            let before = Instant::now();
            let tick = every.tick().await;
            assert!(tick.elapsed() >= work - PERIOD, "{tick:?}");
            assert!(every.overruns() >= u64::from(tenths / 10 - 1), "{}", every.overruns());
            every.tick().await;
            assert!(before.elapsed() >= PERIOD, "{:?}", before.elapsed());
        }
    };
    ends(move || {
        for tenths in [100, 19] {
            workers(1).block_on(async { spawn(task(tenths)).await.unwrap() });
        }
    });
}

#[test]
fn an_interval_that_nobody_awaits_lets_the_cpu_sleep() {
    ends(|| {
        let (runtime, timers) = Timers::of(1, Features::of_runtime());
        runtime.block_on(async {
            let task = spawn(async {
                let mut every = skipping(PERIOD);
                every.tick().await;
                sleep(PERIOD * 20).slack(Duration::ZERO).await;
                every.tick().await;
                assert!(every.overruns() >= 15, "{}", every.overruns());
                every.tick().await;
            });
            task.await.unwrap();
        });
        drop(runtime);
        let [armed, expired, _, cancelled] = timers.counts();
        // These are a tick, one without a waiter, the sleep, and perhaps the same two at the end.
        assert!((3..=5).contains(&expired), "{timers:?}");
        assert_eq!(armed, expired + cancelled, "{timers:?}");
    });
}

/// Waits for a moment that has not come at the first poll.
async fn await_moment(every: &mut Interval) {
    let mut waited = false;
    while !waited {
        let asks = |cx: &mut Context<'_>| {
            let tick = every.poll_tick(cx);
            waited |= tick.is_pending();
            tick
        };
        poll_fn(asks).await;
    }
}

#[test]
fn an_interval_follows_its_task_to_another_cpu() {
    ends(|| {
        let (runtime, timers) = Timers::of(2, Features::of_runtime());
        let goes_to = [0, cpus_of_two() - 1, 0];
        let moments = runtime.block_on(async {
            let task = Task::builder().affinity([0]).spawn(async move {
                let mut every = skipping(PERIOD);
                let mut moments = Vec::new();
                for cpu in goes_to {
                    Task::current().set_affinity([cpu]);
                    yield_now().await;
                    await_moment(&mut every).await;
                    moments.push(Instant::now());
                }
                moments
            });
            task.await.unwrap()
        });
        let expiries = timers.expiries.lock().unwrap();
        let cpus = moments.into_iter().map(|moment| {
            let moment = Time((moment - runtime.started()).as_nanos() as u64);
            let (_, cpu) = expiries.iter().rfind(|(at, _)| *at <= moment).unwrap();
            *cpu
        });
        assert_eq!(cpus.collect::<Vec<_>>(), goes_to);
    });
}

/// Returns the slack of the calling task.
fn mine() -> Duration {
    Task::current().slack()
}

#[test]
fn a_spawned_task_inherits_slack_unless_it_asks() {
    ends(|| {
        const DEFAULT: Duration = Duration::from_micros(50);
        let (seven, three) = (ms(7), ms(3));
        workers(2).block_on(async {
            assert_eq!(spawn(async { mine() }).await.unwrap(), DEFAULT);
            let rt = Task::builder().fifo(3).spawn(async {
                let below = Task::builder().nice(0).spawn(async { mine() });
                (mine(), below.await.unwrap())
            });
            assert_eq!(
                rt.await.unwrap(),
                (Duration::ZERO, DEFAULT),
                "it passes on the slack that it would have"
            );
            let spawner = Task::builder().slack(seven).spawn(async move {
                assert_eq!(mine(), seven);
                let below = spawn(async { spawn(async { mine() }).await.unwrap() });
                assert_eq!(below.await.unwrap(), seven, "by a child");
                let rt = Task::builder().fifo(3).spawn(async { mine() });
                assert_eq!(rt.await.unwrap(), Duration::ZERO, "real-time tasks have none");
                let own = Task::builder().slack(Duration::ZERO).spawn(async { mine() });
                assert_eq!(own.await.unwrap(), Duration::ZERO, "it asks for its own");
                Task::current().set_slack(three);
                assert_eq!(
                    spawn(async { mine() }).await.unwrap(),
                    three,
                    "the slack that it has by then"
                );
            });
            spawner.await.unwrap();
            let resets = Task::builder().slack(seven).reset_on_fork();
            let below = resets.spawn(async { spawn(async { mine() }).await.unwrap() });
            assert_eq!(below.await.unwrap(), seven, "that is not reset");
        });
    });
}

#[test]
fn an_exact_timer_is_not_postponed_by_the_slack_of_another() {
    for features in [Features::of_runtime(), Features::of_runtime().without(Feature::GreedyTimers)]
    {
        ends(move || {
            let (runtime, _) = Timers::of(1, features);
            runtime.block_on(async {
                let slow = Task::builder().slack(HOUR);
                let slow = slow.spawn(async { timeout(ms(1), sleep(HOUR)).slack(HOUR).await });
                sleep(ms(2)).slack(Duration::ZERO).await;
                spawn(sleep(ms(5)).slack(Duration::ZERO)).await.unwrap();
                slow.abort();
            });
        });
    }
}

/// Starts a task whose window is open, but hidden behind a timer whose window is not. The regular walk does not reach
/// it.
async fn hidden() -> runyard::JoinHandle<()> {
    let window = spawn(sleep(ms(10)).slack(2 * HOUR));
    drop(spawn(sleep(HOUR).slack(Duration::ZERO)));
    window
}

/// Wakes the worker from outside, when it has been idle and windows have opened. Returns the number of expiries before
/// that, and the number when the woken task ran.
fn wake(runtime: &Runtime, timers: &Arc<Timers>) -> (usize, usize) {
    until(|| timers.counts()[0] == 2);
    thread::sleep(ms(30));
    runtime.block_on(async {});
    let before = timers.counts()[1];
    let woken = runtime.spawn(async {});
    let task = woken.id();
    runtime.block_on(woken).unwrap();
    (before, timers.before(task))
}

#[test]
fn a_cpu_that_is_woken_for_another_reason_serves_every_open_window_after_that() {
    ends(|| {
        let served_after = || {
            let (runtime, timers) = Timers::of(1, Features::of_runtime());
            let window = runtime.block_on(hidden());
            let expired = wake(&runtime, &timers);
            runtime.block_on(window).unwrap();
            assert_eq!(timers.counts()[1..3], [1, 1], "it was served greedily");
            expired == (0, 0)
        };
        // A busy machine may keep the worker from its sleep until it is woken.
        assert!(
            (0..10).any(|_| served_after()),
            "the task for which it was woken is scheduled first"
        );
    });
}

/// Returns how many of `windows` windows are served before a task that a thread in `block_on` spawns. That thread is
/// woken in the middle of the walk, by the first of the windows.
fn served_before_a_task(windows: usize) -> usize {
    let (runtime, timers) = Timers::of(1, Features::of_runtime());
    // No window opens before all are armed.
    let window = || sleep(ms(50)).slack(2 * HOUR);
    let (others, task) = runtime.block_on(async {
        let mut first = Box::pin(window());
        assert!(poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx).is_pending())).await);
        let others = spawn(async move {
            let mut others: Vec<_> = (0..windows).map(|_| Box::pin(window())).collect();
            // This timer hides them from the regular walk.
            drop(spawn(sleep(HOUR).slack(Duration::ZERO)));
            for other in &mut others {
                assert!(other.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            }
            sleep(ms(100)).slack(Duration::ZERO).await;
            others
        });
        first.await;
        (others, Task::builder().fifo(3).spawn(async {}))
    });
    let id = task.id();
    runtime.block_on(task).unwrap();
    until(|| timers.counts()[2] == 1 + windows);
    drop(runtime.block_on(others));
    timers.before(id)
}

#[test]
fn a_greedy_walk_stops_when_somebody_is_to_run() {
    // The walk takes far longer than the woken thread needs.
    const WINDOWS: usize = 20_000;
    ends(|| {
        // A busy machine may keep that thread from its CPU.
        let tries = (0..20).map(|_| served_before_a_task(WINDOWS));
        let mut tries = tries.inspect(|served| eprintln!("{served} windows were served before it"));
        assert!(tries.any(|served| served < WINDOWS), "it goes on to its end");
    });
}

#[test]
fn a_window_without_an_end_is_served_when_the_cpu_is_awake() {
    ends(|| {
        let (runtime, timers) = Timers::of(1, Features::of_runtime());
        let window = runtime.spawn(sleep(ms(5)).slack(Duration::MAX));
        let never = runtime.spawn(sleep(Duration::MAX).slack(Duration::MAX));
        wake(&runtime, &timers);
        runtime.block_on(window).unwrap();
        let before_idle = async {
            let window = spawn(sleep(ms(5)).slack(Duration::MAX));
            yield_now().await;
            spin(ms(10));
            window.await.unwrap();
        };
        runtime.block_on(runtime.spawn(before_idle)).unwrap();
        let tick = runtime.spawn(async { skipping(ms(5)).slack(Duration::MAX).tick().await });
        thread::sleep(ms(30));
        runtime.block_on(runtime.spawn(async {})).unwrap();
        runtime.block_on(tick).unwrap();
        assert!(!never.is_finished());
        never.abort();
    });
}

#[test]
fn a_timer_of_an_idle_cpu_serves_every_open_window() {
    ends(|| {
        let (runtime, timers) = Timers::of(1, Features::of_runtime());
        runtime.block_on(async {
            let window = hidden().await;
            spawn(sleep(ms(20)).slack(Duration::ZERO)).await.unwrap();
            window.await.unwrap();
        });
        assert_eq!(timers.counts()[1..3], [2, 1], "one of the two was served greedily");
    });
}

#[test]
fn without_the_feature_a_window_behind_a_closed_one_stays() {
    ends(|| {
        let features = Features::of_runtime().without(Feature::GreedyTimers);
        let (runtime, timers) = Timers::of(1, features);
        let window = runtime.block_on(hidden());
        wake(&runtime, &timers);
        wake(&runtime, &timers);
        assert!(!window.is_finished(), "it waits for its interrupt");
        assert_eq!(timers.counts()[2], 0);
    });
}

#[test]
fn a_timer_of_a_more_important_task_stops_who_keeps_the_cpu() {
    // The hog's only poll ends when the other task has slept for the last time.
    ends(|| {
        workers(1).block_on(async {
            let over = Arc::new(AtomicBool::new(false));
            let ends = over.clone();
            let hog = spawn(async move { while !ends.load(Ordering::SeqCst) {} });
            let important = Task::builder().fifo(9).spawn(async move {
                let mut every = skipping(PERIOD);
                for _ in 0..10 {
                    sleep(ms(1)).slack(ms(1)).await;
                    every.tick().await;
                }
                over.store(true, Ordering::SeqCst);
            });
            important.await.unwrap();
            hog.await.unwrap();
        });
    });
}

#[test]
fn a_cpu_that_slept_for_a_timer_that_is_gone_ticks_again() {
    ends(|| {
        let runtime = workers(1);
        let both = runtime.block_on(async {
            let mut gone = Box::pin(sleep(HOUR));
            let mut cx = Context::from_waker(Waker::noop());
            assert!(gone.as_mut().poll(&mut cx).is_pending());
            thread::sleep(ms(20));
            drop(gone);
            let began: [_; 2] = std::array::from_fn(|_| Arc::new(AtomicBool::new(false)));
            // Each task keeps the only CPU until the other has had it.
            [0, 1].map(|nth| {
                let (own, other) = (began[nth].clone(), began[1 - nth].clone());
                let hog = spawn(async move {
                    own.store(true, Ordering::SeqCst);
                    while !other.load(Ordering::SeqCst) {}
                });
                if nth == 0 {
                    until(|| began[0].load(Ordering::SeqCst));
                }
                hog
            })
        });
        both.into_iter().for_each(|hog| runtime.block_on(hog).unwrap());
    });
}

#[test]
fn a_sleep_wakes_who_polled_it_last() {
    ends(|| {
        let task = async {
            // On a busy machine the task may lose its CPU before it polls again.
            let mut sleep = pin!(sleep(ms(300)).slack(Duration::ZERO));
            let before = Arc::new(Woken::default());
            let waker = Waker::from(before.clone());
            assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            sleep.await;
            assert_eq!(before.count(), 0);
        };
        let runtime = workers(1);
        runtime.block_on(runtime.spawn(task)).unwrap();
    });
}

#[test]
fn a_sleep_waits_where_it_is_polled_last() {
    ends(|| {
        let (mut moves, mut gives_up) =
            (Box::pin(sleep(ms(200))), Box::pin(timeout(ms(200), pending::<()>())));
        let first = workers(1);
        let polled = first.spawn(async move {
            let mut cx = Context::from_waker(Waker::noop());
            assert!(moves.as_mut().poll(&mut cx).is_pending());
            assert!(gives_up.as_mut().poll(&mut cx).is_pending());
            (moves, gives_up)
        });
        let (moves, gives_up) = first.block_on(polled).unwrap();
        drop(first);
        let second = workers(1);
        second.block_on(second.spawn(moves)).unwrap();
        assert_eq!(second.block_on(second.spawn(gives_up)).unwrap(), Err(Elapsed));
    });
}

/// Other threads drop the timer at moments around its expiry.
#[test]
fn an_interval_that_is_dropped_as_it_expires_adds_up() {
    const PERIOD: Duration = Duration::from_micros(300);
    ends(|| {
        let (runtime, timers) = Timers::of(1, Features::of_runtime());
        for round in 0..400_u64 {
            let made = runtime.spawn(async move {
                let mut every = skipping(PERIOD).slack(Duration::ZERO);
                assert!(every.poll_tick(&mut Context::from_waker(Waker::noop())).is_pending());
                (Instant::now(), every)
            });
            let (began, every) = runtime.block_on(made).unwrap();
            while began.elapsed()
                < PERIOD - Duration::from_micros(20) + Duration::from_nanos(200 * round)
            {
            }
            drop(every);
        }
        drop(runtime);
        let [armed, expired, _, cancelled] = timers.counts();
        assert!(armed >= 400 && cancelled > 0, "{timers:?}");
        assert_eq!(armed, expired + cancelled, "{timers:?}");
    });
}
