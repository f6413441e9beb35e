//! `sleep`, `timeout` and `interval`.

use super::rt;
use crate::{Flag, HOUR, ends, ms, poll_once};
use rt::time::{Instant, Interval, MissedTickBehavior, error::Elapsed};
use rt::time::{interval, interval_at, sleep, sleep_until, timeout, timeout_at};
use std::future::{pending, poll_fn, ready};
use std::pin::pin;
use std::task::Poll;
use std::thread;
use std::time::Duration;

const PERIOD: Duration = Duration::from_millis(20);

/// Runs a task to its end.
fn in_a_task(body: impl Future<Output = ()> + Send + 'static) {
    ends(|| {
        let runtime = rt::runtime(1);
        runtime.block_on(async { rt::spawn(body).await.unwrap() });
    });
}

#[test]
fn the_first_tick_comes_at_once() {
    in_a_task(async {
        let before = Instant::now();
        let mut every = interval(HOUR);
        let tick = every.tick().await;
        assert!(before <= tick && tick <= Instant::now());
        assert_eq!(every.period(), HOUR);
        assert!(poll_once(pin!(every.tick())).await.is_none(), "the second is an hour away");
    });
}

#[test]
fn ticks_are_a_period_apart_and_none_is_early() {
    in_a_task(async {
        let start = Instant::now() + PERIOD;
        let mut every = interval_at(start, PERIOD);
        assert_eq!(every.missed_tick_behavior(), MissedTickBehavior::Burst);
        for nth in 0..5 {
            let tick = every.tick().await;
            assert_eq!(tick, start + PERIOD * nth);
            assert!(Instant::now() >= tick);
        }
    });
}

#[test]
fn a_tick_that_is_given_up_is_not_lost() {
    in_a_task(async {
        let start = Instant::now() + PERIOD;
        let mut every = interval_at(start, PERIOD);
        for _ in 0..3 {
            if let Ok(tick) = timeout(ms(1), every.tick()).await {
                // On a busy machine the tick may have come by then.
                assert_eq!(tick, start);
                return;
            }
        }
        assert_eq!(every.tick().await, start);
    });
}

/// Returns an interval that began at the returned first tick, and is late by more than two periods.
async fn late(behavior: MissedTickBehavior) -> (Instant, Interval) {
    let mut every = interval(PERIOD);
    every.set_missed_tick_behavior(behavior);
    assert_eq!(every.missed_tick_behavior(), behavior);
    let start = every.tick().await;
    thread::sleep(PERIOD * 5 / 2);
    (start, every)
}

#[test]
fn a_burst_makes_up_for_all_that_was_missed() {
    in_a_task(async {
        let (start, mut every) = late(MissedTickBehavior::Burst).await;
        for nth in 1..=5 {
            assert_eq!(every.tick().await, start + PERIOD * nth);
        }
        thread::sleep(PERIOD * 3);
        for nth in 6..=10 {
            assert_eq!(every.tick().await, start + PERIOD * nth);
        }
    });
}

#[test]
fn after_a_delay_the_next_tick_is_a_period_from_then() {
    in_a_task(async {
        let (start, mut every) = late(MissedTickBehavior::Delay).await;
        let before = Instant::now();
        assert_eq!(every.tick().await, start + PERIOD, "the late one");
        let after = Instant::now();
        let next = every.tick().await;
        assert!(before + PERIOD <= next && next <= after + PERIOD);
        assert!(every.tick().await >= next + PERIOD);
    });
}

#[test]
fn skipped_ticks_leave_multiples_of_the_period() {
    in_a_task(async {
        let (start, mut every) = late(MissedTickBehavior::Skip).await;
        let before = Instant::now();
        assert_eq!(every.tick().await, start + PERIOD, "the late one");
        let after = Instant::now();
        let next = every.tick().await;
        assert!(before < next && next <= after + PERIOD);
        assert_eq!((next - start).as_nanos() % PERIOD.as_nanos(), 0);
    });
}

#[test]
fn an_interval_is_reset() {
    in_a_task(async {
        let mut every = interval(HOUR);
        every.tick().await;
        let at = Instant::now() + ms(2);
        every.reset_at(at);
        assert_eq!(every.tick().await, at);
        let before = Instant::now();
        every.reset_immediately();
        let tick = every.tick().await;
        assert!(before <= tick && tick <= Instant::now());
        let before = Instant::now();
        every.reset_after(ms(3));
        let after = Instant::now();
        let tick = every.tick().await;
        assert!(before + ms(3) <= tick && tick <= after + ms(3));
        every.reset();
        assert!(poll_once(pin!(every.tick())).await.is_none(), "an hour from now");
    });
}

#[test]
fn after_a_reset_ticks_are_counted_from_there() {
    in_a_task(async {
        let mut every = interval(PERIOD);
        every.tick().await;
        let before = Instant::now();
        every.reset();
        let after = Instant::now();
        let tick = every.tick().await;
        assert!(before + PERIOD <= tick && tick <= after + PERIOD);
        assert_eq!(every.tick().await, tick + PERIOD);
    });
}

#[test]
#[should_panic(expected = "`period` must be non-zero")]
fn a_period_of_zero_panics() {
    rt::runtime(1).block_on(async { drop(interval(Duration::ZERO)) });
}

#[test]
fn a_future_that_is_ready_is_in_time() {
    in_a_task(async {
        assert_eq!(timeout(HOUR, ready(1)).await, Ok(1));
        assert_eq!(timeout(Duration::ZERO, ready(2)).await, Ok(2));
        assert_eq!(timeout_at(Instant::now(), ready(3)).await, Ok(3));
        assert_eq!(timeout(Duration::MAX, ready(4)).await, Ok(4));
    });
}

#[test]
fn a_future_that_is_late_is_given_up_and_dropped() {
    in_a_task(async {
        let before = Instant::now();
        let dropped = Flag::default();
        let held = dropped.at_drop();
        let never = async move {
            let _held = held;
            pending::<()>().await;
        };
        let late: Result<(), Elapsed> = timeout(ms(3), never).await;
        assert!(Instant::now() >= before + ms(3));
        assert!(dropped.is_set());
        let error = std::io::Error::from(late.unwrap_err());
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        assert!(timeout(Duration::ZERO, pending::<()>()).await.is_err());
    });
}

#[test]
fn a_deadline_that_has_passed_lets_the_future_be_polled() {
    in_a_task(async {
        let past = Instant::now();
        thread::sleep(ms(5));
        let mut polls = 0;
        let never = poll_fn(|_| {
            polls += 1;
            Poll::<()>::Pending
        });
        assert!(timeout_at(past, never).await.is_err());
        assert!(polls >= 1);
    });
}

#[test]
fn of_two_timeouts_the_shorter_one_counts() {
    in_a_task(async {
        let inner = timeout(ms(1), pending::<()>());
        assert!(matches!(timeout(HOUR, inner).await, Ok(Err(_))));
        let inner = timeout(HOUR, pending::<()>());
        assert!(timeout(ms(1), inner).await.is_err());
    });
}

#[test]
fn a_sleep_tells_its_deadline_and_whether_it_has_come() {
    in_a_task(async {
        let before = Instant::now();
        let mut long = pin!(sleep(HOUR));
        assert!(before + HOUR <= long.deadline() && long.deadline() <= Instant::now() + HOUR);
        assert!(poll_once(long.as_mut()).await.is_none());
        assert!(!long.is_elapsed());
        let deadline = Instant::now() + ms(2);
        let mut short = pin!(sleep_until(deadline));
        assert_eq!(short.deadline(), deadline);
        short.as_mut().await;
        assert!(short.is_elapsed() && Instant::now() >= deadline);
    });
}

#[test]
fn a_sleep_is_moved_to_an_earlier_and_to_a_later_time() {
    in_a_task(async {
        let mut moved = pin!(sleep(HOUR));
        assert!(poll_once(moved.as_mut()).await.is_none());
        let earlier = Instant::now() + ms(2);
        moved.as_mut().reset(earlier);
        assert_eq!(moved.deadline(), earlier);
        moved.as_mut().await;
        assert!(Instant::now() >= earlier);

        let mut moved = pin!(sleep(ms(1)));
        let _ = poll_once(moved.as_mut()).await;
        let later = Instant::now() + ms(30);
        moved.as_mut().reset(later);
        moved.as_mut().await;
        assert!(Instant::now() >= later);
        // The same holds after its end.
        let again = Instant::now() + ms(2);
        moved.as_mut().reset(again);
        assert!(!moved.is_elapsed());
        moved.as_mut().await;
        assert!(Instant::now() >= again);
    });
}

#[test]
fn a_sleep_that_was_moved_wakes_who_polled_it_before() {
    in_a_task(async {
        let mut moved = pin!(sleep(HOUR));
        let mut was_moved = false;
        poll_fn(|cx| {
            let polled = moved.as_mut().poll(cx);
            if !std::mem::replace(&mut was_moved, true) {
                moved.as_mut().reset(Instant::now() + ms(2));
                return Poll::Pending;
            }
            polled
        })
        .await;
    });
}
