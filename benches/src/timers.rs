//! Timers of one CPU, of which so many are armed all the time.
//!
//! Most timers are timeouts, cancelled before they expire: here each is when as many others were
//! armed after it. The rest expire: the first is taken, another armed, for any moment of the next
//! second.

use crate::rig::Clock;
use crate::{Operation, Runner};
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::{TimerId, TimerQueue, Token, Window};
use std::collections::VecDeque;

/// Timers that are armed.
const ARMED: [usize; 3] = [10, 1_000, 100_000];

/// A timer is armed for a moment within this span.
const HORIZON: Nanos = Nanos::from_secs(1);

/// Armed timers, in the order in which they were armed.
#[derive(Default)]
struct Timers {
    queue: TimerQueue,
    ids: VecDeque<TimerId>,
    clock: Clock,
}

pub(crate) fn operations() -> Vec<Operation> {
    let mut operations = Vec::new();
    for armed in ARMED {
        let name = format!("timer/arm-cancel/{armed}");
        operations.push(Operation::new(name, move || cancellations(armed)));
        let name = format!("timer/arm-expire/{armed}");
        operations.push(Operation::new(name, move || expiries(armed)));
    }
    operations
}

fn cancellations(armed: usize) -> Runner {
    let mut timers = Timers::new(armed);
    Box::new(move |times| {
        for _ in 0..times {
            let id = timers.arm();
            timers.ids.push_back(id);
            let oldest = timers.ids.pop_front().expect("timers are armed");
            assert!(timers.queue.cancel(oldest), "no timer expires");
        }
    })
}

fn expiries(armed: usize) -> Runner {
    let mut timers = Timers::new(armed);
    Box::new(move |times| {
        for _ in 0..times {
            timers.clock.now = timers.queue.first().expect("timers are armed").hard;
            let expired = timers.queue.take_expired(timers.clock.now);
            assert!(expired.is_some(), "a timer expires when its window closes");
            timers.arm();
        }
    })
}

impl Timers {
    fn new(armed: usize) -> Timers {
        let mut timers = Timers::default();
        for _ in 0..armed {
            let id = timers.arm();
            timers.ids.push_back(id);
        }
        timers
    }

    fn arm(&mut self) -> TimerId {
        let at: Time = self.clock.now + self.clock.below(HORIZON);
        self.queue.arm(Window::exact(at), Token(0))
    }
}
