//! A timer that is moved wakes its waiter at the new time, and leaves nothing behind.

#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use common::{Woken, ends, ms, workers};
use runyard::time::{Interval, interval_at, sleep};
use runyard::{Event, Observer, Runtime, What, spawn};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: runyard::trial::Strict = runyard::trial::Strict;

const HOUR: Duration = Duration::from_secs(3_600);

/// Counts the timers that are armed, that expire, and that are cancelled.
#[derive(Debug, Default)]
struct Counts([AtomicUsize; 3]);

impl Observer for Counts {
    fn event(&self, event: &Event) {
        let nth = match event.what {
            What::TimerArmed => 0,
            What::TimerExpired { .. } => 1,
            What::TimerCancelled => 2,
            _ => return,
        };
        self.0[nth].fetch_add(1, Ordering::SeqCst);
    }
}

impl Counts {
    fn of(workers: usize) -> (Runtime, Arc<Counts>) {
        let counts = Arc::new(Counts::default());
        (Runtime::builder().workers(workers).observer(counts.clone()).build(), counts)
    }

    /// Returns these three numbers when the runtime is over.
    fn at_the_end(&self, runtime: Runtime) -> [usize; 3] {
        drop(runtime);
        self.0.each_ref().map(|count| count.load(Ordering::SeqCst))
    }
}

#[test]
fn who_waits_for_a_sleep_is_woken_when_it_was_moved_to() {
    ends(|| {
        let (runtime, counts) = Counts::of(1);
        let began = Instant::now();
        let task = runtime.spawn(async {
            let mut moved = Box::pin(sleep(HOUR));
            let mut is_moved = false;
            poll_fn(|cx| {
                let polled = moved.as_mut().poll(cx);
                if !std::mem::replace(&mut is_moved, true) {
                    // The timer is moved to later and to earlier times after its waiter has registered.
                    for after in [HOUR * 2, ms(1), HOUR, ms(3)] {
                        moved.as_mut().reset(Instant::now() + after);
                    }
                    assert!(polled.is_pending());
                    return Poll::Pending;
                }
                polled
            })
            .await;
        });
        runtime.block_on(task).unwrap();
        assert!(began.elapsed() >= ms(3));
        assert_eq!(counts.at_the_end(runtime), [5, 1, 4], "each move but the last was cancelled");
    });
}

#[test]
fn a_sleep_that_was_moved_leaves_no_timer() {
    ends(|| {
        let (runtime, counts) = Counts::of(1);
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        runtime
            .block_on(runtime.spawn(async move {
                let mut sleep = Box::pin(sleep(HOUR));
                assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
                for nth in 1..=100 {
                    sleep.as_mut().reset(Instant::now() + HOUR * nth);
                }
            }))
            .unwrap();
        assert_eq!(counts.at_the_end(runtime), [101, 0, 101]);
        assert_eq!(woken.count(), 0, "no task was woken");
        assert_eq!(Arc::strong_count(&woken), 1, "and no waker is kept");
    });
}

#[test]
fn a_sleep_that_nobody_polled_arms_nothing_when_it_is_moved() {
    ends(|| {
        let (runtime, counts) = Counts::of(1);
        runtime
            .block_on(runtime.spawn(async { Box::pin(sleep(HOUR)).as_mut().reset(Instant::now()) }))
            .unwrap();
        assert_eq!(counts.at_the_end(runtime), [0, 0, 0]);
    });
}

#[test]
fn a_sleep_is_moved_from_a_thread_that_is_no_task_too() {
    ends(|| {
        let runtime = workers(1);
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let polled = runtime.spawn(async move {
            let mut sleep = Box::pin(sleep(HOUR));
            assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            [sleep]
        });
        let [mut sleep] = runtime.block_on(polled).unwrap();
        sleep.as_mut().reset(Instant::now() + ms(2));
        common::until(|| woken.count() == 1);
        assert!(sleep.is_elapsed());
        runtime.block_on(sleep);
    });
}

/// The same holds for the timer of an interval, which is periodic.
#[test]
fn who_waits_for_an_interval_is_woken_when_it_was_moved_to() {
    type Move = fn(&mut Interval);
    const MOVES: [Move; 4] = [
        |every| every.reset_immediately(),
        |every| every.reset_after(ms(1)),
        |every| every.reset_at(Instant::now() + ms(1)),
        |every| every.reset(),
    ];
    ends(|| {
        for moves in MOVES {
            let (runtime, counts) = Counts::of(1);
            let task = runtime.spawn(async move {
                let mut every = interval_at(Instant::now() + HOUR, ms(2));
                let mut was_moved = false;
                poll_fn(|cx| {
                    let polled = every.poll_tick(cx);
                    if !std::mem::replace(&mut was_moved, true) {
                        moves(&mut every);
                        return Poll::Pending;
                    }
                    polled
                })
                .await;
                every.tick().await;
            });
            runtime.block_on(task).unwrap();
            let [armed, expired, cancelled] = counts.at_the_end(runtime);
            assert_eq!(armed, expired + cancelled, "{counts:?}");
        }
    });
}

/// The timer is in another CPU's table, while that CPU serves it.
#[test]
fn a_sleep_that_is_moved_as_it_expires_adds_up() {
    ends(|| {
        let (runtime, counts) = Counts::of(2);
        let tasks: Vec<_> = (0..2_u64)
            .map(|task| {
                runtime.spawn(async move {
                    for round in 0..200 {
                        let soon = Duration::from_micros(50 + (task * 7 + round) % 20);
                        let mut moved = Box::pin(sleep(soon).slack(Duration::ZERO));
                        poll_fn(|cx| Poll::Ready(moved.as_mut().poll(cx).is_ready())).await;
                        spawn(sleep(Duration::from_micros(40))).await.unwrap();
                        moved.as_mut().reset(Instant::now() + soon);
                        moved.await;
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
        let [armed, expired, cancelled] = counts.at_the_end(runtime);
        assert_eq!(armed, expired + cancelled, "{counts:?}");
    });
}
