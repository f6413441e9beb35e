//! Moments at equal distances, from one timer that stays armed.

use super::{nanos, tasks_slack};
use crate::os;
use crate::timers::{Alarm, Armed};
use runyard_engine::time::{Nanos, Time};
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

/// What becomes of moments that were missed, because whoever waits for them had something else to do for
/// longer than a period, or no CPU. In the terms of tokio's `MissedTickBehavior`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissedTicks {
    /// They are over: the next is the next of those that are a multiple of the period from the first.
    /// [`Tick::overruns`] says how many there were, as the kernel's own timers do (`timer_getoverrun`).
    ///
    /// The default: who is late has one moment to answer, and by that nothing more to catch up with. A
    /// burst would make it later still, and if it is real-time keep everybody else from the CPU.
    #[default]
    Skip,
    /// They come at once, one after the other, until none is behind: for who has to do something as often
    /// as the clock says. None is ever missed.
    Burst,
    /// Who is later than the slack allows has the next a period from then: at least that long lies between
    /// two, but for the slack.
    Delay,
}

/// A moment that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// How long ago.
    pub late: Duration,
    /// How many moments after it are over as well, and will not be told of.
    pub overruns: u64,
}

/// Moments at equal distances.
///
/// They are one periodic timer of the engine, which stays armed; it is cancelled when this is dropped, and
/// lapses the first time that it expires after a tick with nobody waiting. It is on the CPU of the task that
/// waits: where the task waits elsewhere than the last time, the timer follows it.
#[derive(Debug)]
pub struct Interval {
    next: Time,
    period: Nanos,
    slack: Option<Nanos>,
    missed: MissedTicks,
    armed: Option<(Armed, Nanos)>,
}

/// Moments `period` apart, the first one period from now.
///
/// ```
/// use runyard::{Runtime, time};
/// use std::time::Duration;
///
/// Runtime::new().block_on(async {
///     let mut interval = time::interval(Duration::from_millis(1)).slack(Duration::from_micros(500));
///     let mut passed = 0;
///     while passed < 5 {
///         passed += 1 + interval.tick().await.overruns;
///     }
/// });
/// ```
///
/// # Panics
/// If the period is zero.
#[must_use]
pub fn interval(period: Duration) -> Interval {
    let period = nanos(period);
    assert!(period > Nanos::ZERO, "moments are some time apart");
    let next = os::thread::now() + period;
    Interval { next, period, slack: None, missed: MissedTicks::default(), armed: None }
}

impl Interval {
    /// How much later than asked each moment may be; as the task says if not said.
    #[must_use]
    pub fn slack(mut self, slack: Duration) -> Interval {
        self.slack = Some(nanos(slack));
        self
    }

    /// What becomes of moments that are missed; [`MissedTicks::Skip`] if not said.
    #[must_use]
    pub fn missed_ticks(mut self, missed: MissedTicks) -> Interval {
        self.missed = missed;
        self
    }

    /// Waits for the next moment. One that is not waited for to the end is not lost.
    pub async fn tick(&mut self) -> Tick {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// The same for who writes futures by hand.
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Tick> {
        let now = os::thread::now();
        if now >= self.next {
            return Poll::Ready(self.take(now));
        }
        let slack = self.allowed();
        let stays = self.armed.as_ref().is_some_and(|(armed, with)| {
            *with == slack && armed.is_near() && armed.wakes(self.next, cx.waker())
        });
        if !stays {
            self.armed = None;
            let alarm = Alarm { at: self.next, slack, period: Some(self.period) };
            self.armed = Some((Armed::arm(alarm, cx.waker()), slack));
        }
        Poll::Pending
    }

    /// How much later than asked a moment may be.
    fn allowed(&self) -> Nanos {
        self.slack.unwrap_or_else(tasks_slack)
    }

    /// The moment that has come by now, and those that are missed.
    fn take(&mut self, now: Time) -> Tick {
        let late = now.since(self.next);
        let behind = late.0 / self.period.0;
        let (next, overruns) = match self.missed {
            MissedTicks::Burst => (self.next + self.period, 0),
            MissedTicks::Delay if behind > 0 || late > self.allowed() => {
                // The timer's moments are others from now on.
                self.armed = None;
                (now + self.period, behind)
            }
            MissedTicks::Skip | MissedTicks::Delay => {
                (self.next + Nanos((behind + 1) * self.period.0), behind)
            }
        };
        self.next = next;
        Tick { late: Duration::from_nanos(late.0), overruns }
    }
}
