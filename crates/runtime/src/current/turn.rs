//! The turn of a poll: for how long its future goes on although other futures of its task, and other tasks, wait.
//!
//! A future that is always ready never ends its poll. Preemption lets other tasks run beside it, but the other futures of
//! its own task wait: a timeout around it, a heartbeat in the same `join!`. So the futures of this crate answer that they
//! are pending, and wake their task, once their poll has gone on for long. Futures of tokio count operations instead
//! ([`crate::driver`]).
//!
//! Code that blocks has no turn: in it another executor may poll its own futures. The same holds for tokio's budget.
//!
//! The clock is read at every 32nd operation. Of the operations after the end of a turn every second one goes on:
//! another executor in the middle of the poll would call a future that stays pending for ever.

use crate::driver::budget;
use crate::os;
use runyard_engine::time::{Nanos, Time};
use std::cell::Cell;
use std::task::{Context, Poll};

/// The length of a turn: much longer than most polls, and short enough for timeouts and heartbeats.
const TURN: Nanos = Nanos::from_millis(1);

/// The number of operations from one look at the clock to the next.
const OPERATIONS: u32 = 32;

/// The turn of the poll that a thread is in.
#[derive(Debug)]
struct Turn {
    /// The begin of the poll; 0 if it is of an executor that has no turns.
    began: Cell<u64>,
    is_over: Cell<bool>,
    operations: Cell<u32>,
}

thread_local! {
    static CURRENT: Turn = const {
        Turn { began: Cell::new(0), is_over: Cell::new(false), operations: Cell::new(0) }
    };
}

/// Begins the turn of a poll on the calling thread.
#[inline]
pub(crate) fn begin(now: Time) {
    CURRENT.with(|turn| {
        turn.began.set(now.0);
        turn.is_over.set(false);
    });
}

/// Runs code that is no part of a turn, as it blocks, or has polls of its own. The turn in whose middle it is goes on
/// after it.
pub(crate) fn without<R>(code: impl FnOnce() -> R) -> R {
    struct Back(u64, bool);
    impl Drop for Back {
        fn drop(&mut self) {
            CURRENT.with(|turn| {
                turn.began.set(self.0);
                turn.is_over.set(self.1);
            });
        }
    }
    let _back = CURRENT.with(|turn| Back(turn.began.replace(0), turn.is_over.replace(false)));
    budget::apart(code)
}

/// Counts an operation of a future. Wakes the task and is pending if the turn is over.
#[inline]
pub(crate) fn proceed(cx: &Context<'_>) -> Poll<()> {
    if CURRENT.with(|turn| turn.counts(os::thread::now)) {
        return Poll::Ready(());
    }
    cx.waker().wake_by_ref();
    Poll::Pending
}

impl Turn {
    /// Counts an operation. Returns whether it goes on.
    fn counts(&self, now: impl FnOnce() -> Time) -> bool {
        let nth = self.operations.get().wrapping_add(1);
        self.operations.set(nth);
        if self.is_over.get() {
            return nth % 2 == 1;
        }
        let began = self.began.get();
        if began == 0 || !nth.is_multiple_of(OPERATIONS) || now().since(Time(began)) < TURN {
            return true;
        }
        self.is_over.set(true);
        self.operations.set(0);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(began: u64) -> Turn {
        Turn { began: Cell::new(began), is_over: Cell::new(false), operations: Cell::new(0) }
    }

    #[test]
    fn an_operation_waits_after_the_turn_and_every_second_one_after_that() {
        let turn = turn(5);
        let end = Time(5) + TURN;
        assert!((0..100).all(|_| turn.counts(|| Time(end.0 - 1))));
        let first = (0..40).position(|_| !turn.counts(|| end)).unwrap();
        assert!(first < 32);
        let next: Vec<_> = (0..4).map(|_| turn.counts(|| end)).collect();
        assert_eq!(next, [true, false, true, false]);
    }

    #[test]
    fn other_executors_have_no_turns() {
        let turn = turn(0);
        assert!((0..1_000).all(|_| turn.counts(|| Time(u64::MAX))));
    }
}
