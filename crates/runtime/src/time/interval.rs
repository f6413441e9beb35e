//! Intervals: moments at equal distances, from one timer that stays armed.
//!
//! A tick is the instant for which it was planned. The next one is computed from that and from the current time. So the
//! effect of a delay is pure arithmetic, whatever the timer did meanwhile.

use super::clock::{after, time_of};
use super::tasks_slack;
use crate::current::turn;
use crate::time::timers::{Alarm, Armed};
use runyard_engine::time::Nanos;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// The rule for the ticks that follow a late one. A tick is late if its task had other work to do, or no CPU.
///
/// If a tick is late by less than a period, no tick was missed. [`Burst`] and [`Skip`] then continue at multiples of
/// the period from the first tick.
///
/// [`Burst`]: MissedTickBehavior::Burst
/// [`Skip`]: MissedTickBehavior::Skip
///
/// ```
/// use runyard::time::{MissedTickBehavior, interval};
/// use std::time::Duration;
///
/// runyard::test::paused(1).run(async {
///     let mut ticks = interval(Duration::from_millis(10));
///     ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
///     let first = ticks.tick().await;
///     runyard::time::sleep(Duration::from_millis(35)).await;
///     ticks.tick().await;
///     assert_eq!(ticks.tick().await, first + Duration::from_millis(40));
/// });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissedTickBehavior {
    /// All missed ticks come at once, one after the other. None is ever lost: there are as many ticks as periods that
    /// passed.
    ///
    /// This is the default, as in tokio. For a task that is more important than others, [`MissedTickBehavior::Skip`] is
    /// better, because it does not keep others from the CPU when it is late.
    #[default]
    Burst,
    /// The next tick comes a period after the late tick was delivered, and all others follow that. A tick counts as
    /// late here if it comes later than the slack allows.
    Delay,
    /// Missed ticks never come. The next tick is at the next multiple of the period from the first tick.
    /// [`Interval::overruns`] returns the number of missed ticks, like the kernel's own timers (`timer_getoverrun`).
    Skip,
}

/// An interval: a sequence of moments at equal distances.
///
/// One periodic timer of the engine serves all of them, and stays armed. It is cancelled when the interval is dropped.
/// It lapses the first time that it expires after a tick while no task waits. It is on the CPU of the task that waits.
/// If the task waits on another CPU than before, the timer follows it.
#[derive(Debug)]
pub struct Interval {
    next: Instant,
    period: Duration,
    slack: Option<Nanos>,
    missed: MissedTickBehavior,
    overruns: u64,
    armed: Option<(Armed, Nanos)>,
}

/// Makes an interval of moments `period` apart, of which the first is now.
///
/// ```
/// use runyard::{Runtime, time};
/// use std::time::Duration;
///
/// Runtime::new().block_on(async {
///     let period = Duration::from_millis(2);
///     let mut interval = time::interval(period).slack(Duration::from_micros(500));
///     let first = interval.tick().await;
///     assert_eq!(interval.tick().await, first + period);
/// });
/// ```
///
/// # Panics
/// If the period is zero.
#[must_use]
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    interval_at(super::now(), period)
}

/// Makes an interval of moments `period` apart, of which the first is `start`. If that has passed, the first tick comes
/// at once.
///
/// ```
/// use runyard::{Runtime, time};
/// use std::time::{Duration, Instant};
///
/// Runtime::new().block_on(async {
///     let start = Instant::now() + Duration::from_millis(2);
///     let mut ticks = time::interval_at(start, Duration::from_millis(1));
///     assert_eq!(ticks.tick().await, start);
/// });
/// ```
///
/// # Panics
/// If the period is zero.
#[must_use]
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    assert!(period > Duration::ZERO, "`period` must be non-zero");
    let missed = MissedTickBehavior::default();
    Interval { next: start, period, slack: None, missed, overruns: 0, armed: None }
}

impl Interval {
    /// Sets the slack: how much later than requested each tick may be. The default is the slack of the task.
    #[must_use]
    pub fn slack(mut self, slack: Duration) -> Interval {
        self.slack = Some(Nanos::from(slack));
        self
    }

    /// Waits for the next tick, and returns the instant for which it was planned. `elapsed()` of that instant is its
    /// delay. If the wait is dropped, the tick is not lost.
    ///
    /// # Panics
    /// If it has to wait, and the calling code belongs to no runtime.
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// Polls for the next tick as [`Interval::tick`], in futures that are written by hand.
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        let now = super::now();
        if now >= self.next {
            ready!(turn::proceed(cx));
            return Poll::Ready(self.take(now));
        }
        let alarm = self.alarm();
        let stays = self.armed.as_ref().is_some_and(|(armed, with)| {
            *with == alarm.slack && armed.is_near() && armed.wakes(alarm.at, cx.waker())
        });
        if !stays {
            self.armed = None;
            self.armed = Some((Armed::arm(alarm, cx.waker()), alarm.slack));
        }
        Poll::Pending
    }

    /// Returns the number of missed ticks: the moments after the last tick that had also passed when it came, and that
    /// get no tick. It is always zero for [`MissedTickBehavior::Burst`].
    #[must_use]
    pub fn overruns(&self) -> u64 {
        self.overruns
    }

    /// Moves the next tick to a period from now.
    ///
    /// ```
    /// use runyard::{Runtime, time};
    /// use std::time::{Duration, Instant};
    ///
    /// Runtime::new().block_on(async {
    ///     let mut interval = time::interval(Duration::from_millis(2));
    ///     interval.tick().await;
    ///     let now = Instant::now();
    ///     interval.reset();
    ///     assert!(interval.tick().await >= now + interval.period());
    /// });
    /// ```
    pub fn reset(&mut self) {
        self.reset_after(self.period);
    }

    /// Moves the next tick to now.
    pub fn reset_immediately(&mut self) {
        self.reset_at(super::now());
    }

    /// Moves the next tick to `after` from now, and all others with it.
    pub fn reset_after(&mut self, after: Duration) {
        self.reset_at(super::after(super::now(), after));
    }

    /// Moves the next tick to `deadline`, and all others with it. It comes at once if that has passed.
    pub fn reset_at(&mut self, deadline: Instant) {
        self.next = deadline;
        self.overruns = 0;
        if let Some((armed, _)) = self.armed.take() {
            let alarm = self.alarm();
            self.armed = armed.moved(alarm).map(|armed| (armed, alarm.slack));
        }
    }

    /// Returns the time between two moments.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Returns the rule for the ticks that follow a late one.
    #[must_use]
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.missed
    }

    /// Sets the rule for the ticks that follow a late one. The default is [`MissedTickBehavior::Burst`].
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.missed = behavior;
    }

    fn alarm(&self) -> Alarm {
        Alarm {
            at: time_of(self.next),
            slack: self.allowed(),
            period: Some(Nanos::from(self.period)),
        }
    }

    /// Returns the slack of a tick.
    fn allowed(&self) -> Nanos {
        self.slack.unwrap_or_else(tasks_slack)
    }

    /// Takes the moment that has come by now, and counts the missed ones.
    fn take(&mut self, now: Instant) -> Instant {
        let (late, period) = (Nanos::from(now - self.next).0, Nanos::from(self.period).0);
        let behind = late / period;
        let (next, overruns) = match self.missed {
            MissedTickBehavior::Burst => (after(self.next, self.period), 0),
            MissedTickBehavior::Delay if behind > 0 || late > self.allowed().0 => {
                // The armed timer has other moments.
                self.armed = None;
                (after(now, self.period), behind)
            }
            MissedTickBehavior::Skip | MissedTickBehavior::Delay => {
                (after(now, self.period - Duration::from_nanos(late % period)), behind)
            }
        };
        self.overruns = overruns;
        std::mem::replace(&mut self.next, next)
    }
}
