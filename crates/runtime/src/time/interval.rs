//! Moments at equal distances, from one timer that stays armed.
//!
//! A tick is the instant for which it was planned, and the next is computed from that and from the clock's
//! reading: what comes of a delay is arithmetic, whatever the timer did meanwhile.

use super::clock::{after, nanos, time_of};
use super::tasks_slack;
use crate::time::timers::{Alarm, Armed};
use runyard_engine::time::Nanos;
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Which ticks follow one that came late, because whoever waits for them had something else to do, or no
/// CPU.
///
/// A tick that comes less than a period late has no successor that was missed: [`Burst`] and [`Skip`] go on
/// at multiples of the period from the first tick.
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
    /// All that were missed come at once, one after the other. None is ever lost: the number of ticks is that
    /// of the periods that passed.
    ///
    /// The default, as in tokio. A task that matters more than others, and must not keep them from the CPU
    /// when it is late, is better off with [`MissedTickBehavior::Skip`].
    #[default]
    Burst,
    /// The next tick comes a period after the late one was answered, and so do all that follow. A tick is
    /// late in this sense if it comes later than the slack allows.
    Delay,
    /// Ticks that were missed never come. The next is the next multiple of the period from the first tick.
    /// [`Interval::overruns`] says how many were missed, as the kernel's own timers do (`timer_getoverrun`).
    Skip,
}

/// Moments at equal distances.
///
/// They are one periodic timer of the engine, which stays armed; it is cancelled when this is dropped, and
/// lapses the first time that it expires after a tick with nobody waiting. It is on the CPU of the task that
/// waits: where the task waits elsewhere than the last time, the timer follows it.
#[derive(Debug)]
pub struct Interval {
    next: Instant,
    period: Duration,
    slack: Option<Nanos>,
    missed: MissedTickBehavior,
    overruns: u64,
    armed: Option<(Armed, Nanos)>,
}

/// Moments `period` apart, of which the first is now.
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
pub fn interval(period: Duration) -> Interval {
    interval_at(super::now(), period)
}

/// Moments `period` apart, of which the first is `start`. If that has passed, the first tick comes at once.
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
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    assert!(period > Duration::ZERO, "`period` must be non-zero: ticks are some time apart");
    let missed = MissedTickBehavior::default();
    Interval { next: start, period, slack: None, missed, overruns: 0, armed: None }
}

impl Interval {
    /// How much later than asked each moment may be; as the task says if not said.
    #[must_use]
    pub fn slack(mut self, slack: Duration) -> Interval {
        self.slack = Some(nanos(slack));
        self
    }

    /// Waits for the next tick: the instant for which it was planned. How late it is that instant's
    /// `elapsed()` says. A tick that is not waited for to the end is not lost.
    ///
    /// # Panics
    /// If it has to wait where no runtime is.
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// The same for futures that are written by hand.
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        let now = super::now();
        if now >= self.next {
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

    /// How many moments after the last tick were over as well when it came, and are never told of. Always
    /// zero for [`MissedTickBehavior::Burst`].
    #[must_use]
    pub fn overruns(&self) -> u64 {
        self.overruns
    }

    /// The next tick comes a period from now.
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

    /// The next tick comes at once.
    pub fn reset_immediately(&mut self) {
        self.reset_at(super::now());
    }

    /// The next tick comes `after` from now, and all others follow that.
    pub fn reset_after(&mut self, after: Duration) {
        self.reset_at(super::after(super::now(), after));
    }

    /// The next tick comes at `deadline`, and all others follow that. It comes at once if that has passed.
    pub fn reset_at(&mut self, deadline: Instant) {
        self.next = deadline;
        self.overruns = 0;
        if let Some((armed, _)) = self.armed.take() {
            let alarm = self.alarm();
            self.armed = armed.moved(alarm).map(|armed| (armed, alarm.slack));
        }
    }

    /// What lies between two moments.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Which ticks follow one that came late.
    #[must_use]
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.missed
    }

    /// Says which ticks follow one that came late; [`MissedTickBehavior::Burst`] if not said.
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.missed = behavior;
    }

    fn alarm(&self) -> Alarm {
        Alarm { at: time_of(self.next), slack: self.allowed(), period: Some(nanos(self.period)) }
    }

    /// How much later than asked a moment may be.
    fn allowed(&self) -> Nanos {
        self.slack.unwrap_or_else(tasks_slack)
    }

    /// The moment that has come by now, and those that are missed.
    fn take(&mut self, now: Instant) -> Instant {
        let (late, period) = (nanos(now - self.next).0, nanos(self.period).0);
        let behind = late / period;
        let (next, overruns) = match self.missed {
            MissedTickBehavior::Burst => (after(self.next, self.period), 0),
            MissedTickBehavior::Delay if behind > 0 || late > self.allowed().0 => {
                // The timer's moments are others from now on.
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
