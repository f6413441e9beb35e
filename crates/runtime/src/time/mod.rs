//! Timers: sleeps, timeouts and intervals, with slack.
//!
//! All of them are timers of the engine. A timer never expires early. While the CPU is awake, it is late by at most its
//! slack. A wait that was dropped wakes no task, except that it may do so once if it expires while it is dropped. On an
//! idle machine, tasks that sleep with a slack of milliseconds share one wake-up, if their windows are open at the same
//! time.
//!
//! The names, and their guarantees, are those of `tokio::time`. Instants are the standard library's.

mod clock;
mod interval;
pub(crate) mod late;
mod timeout;
pub(crate) mod timers;

pub use interval::{Interval, MissedTickBehavior, interval, interval_at};
pub use std::time::{Duration, Instant};
pub use timeout::{Elapsed, Timeout, timeout, timeout_at};

use crate::os::here;
use crate::time::timers::{Alarm, Armed};
use clock::{after, time_of};
use runyard_engine::time::Nanos;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The errors of this module, under the path that they have in tokio.
pub mod error {
    pub use super::timeout::Elapsed;
}

/// Returns the present instant. That is [`Instant::now`], or in a test in [virtual time](mod@crate::paused::test) the
/// instant of its clock.
///
/// Code that takes instants from here, and not from the standard library, can be tested in virtual time.
///
/// ```
/// use runyard::{test, time};
/// use std::time::Duration;
///
/// test::paused(1).run(async {
///     let begin = time::now();
///     time::sleep(Duration::from_secs(3_600)).await;
///     assert_eq!(time::now() - begin, Duration::from_secs(3_600));
/// });
/// ```
#[must_use]
pub fn now() -> Instant {
    clock::now()
}

/// A future that is ready when its deadline has passed. It is never early. While the CPU is awake, it is late by at
/// most its slack.
///
/// It may be polled again after its end, and moved by [`Sleep::reset`] before and after that.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Sleep {
    deadline: Instant,
    /// The slack; the task's own if none.
    slack: Option<Nanos>,
    /// Whether the deadline may have passed at the first poll, so that it must read the clock.
    looks: bool,
    armed: Option<Armed>,
}

/// A sleep of at least this length is armed without another reading of the clock, because nearly every sleep is polled
/// as soon as it is made. If it was polled later and has ended, its timer expires as soon as it is armed.
const NOT_OVER: Duration = Duration::from_millis(1);

/// Waits for `span`. A span beyond the range of the clock counts as a hundred years.
///
/// ```
/// use runyard::{Runtime, time};
/// use std::time::{Duration, Instant};
///
/// Runtime::new().block_on(async {
///     let began = Instant::now();
///     time::sleep(Duration::from_millis(2)).await;
///     assert!(began.elapsed() >= Duration::from_millis(2));
/// });
/// ```
///
/// # Panics
/// When it is polled before its deadline, and the calling code belongs to no runtime.
#[track_caller]
pub fn sleep(span: Duration) -> Sleep {
    Sleep { looks: span < NOT_OVER, ..sleep_until(after(now(), span)) }
}

/// Waits until `deadline`. If that has passed, the future is ready at once.
///
/// ```
/// use runyard::{Runtime, time};
/// use std::time::{Duration, Instant};
///
/// let deadline = Instant::now() + Duration::from_millis(2);
/// Runtime::new().block_on(time::sleep_until(deadline));
/// assert!(Instant::now() >= deadline);
/// ```
///
/// # Panics
/// When it is polled before its deadline, and the calling code belongs to no runtime.
#[track_caller]
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep { deadline, slack: None, looks: true, armed: None }
}

impl Sleep {
    /// Sets the slack: how much later than requested the sleep may end. The default is the slack of the task.
    pub fn slack(mut self, slack: Duration) -> Sleep {
        self.slack = Some(Nanos::from(slack));
        self
    }

    /// Returns the instant at which the sleep ends.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns whether the deadline has passed by the clock, even if the sleep was never polled.
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        now() >= self.deadline
    }

    /// Moves the deadline, earlier or later. The task that waits is woken then, without another poll. After its end the
    /// sleep must be polled again.
    ///
    /// ```
    /// use runyard::{Runtime, time};
    /// use std::pin::pin;
    /// use std::time::{Duration, Instant};
    ///
    /// Runtime::new().block_on(async {
    ///     let mut sleep = pin!(time::sleep(Duration::from_secs(3600)));
    ///     let soon = Instant::now() + Duration::from_millis(1);
    ///     sleep.as_mut().reset(soon);
    ///     assert_eq!(sleep.deadline(), soon);
    ///     sleep.as_mut().await;
    ///     assert!(sleep.is_elapsed());
    /// });
    /// ```
    pub fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        self.deadline = deadline;
        self.looks = true;
        let alarm = self.alarm();
        self.armed = self.armed.take().and_then(|armed| armed.moved(alarm));
    }

    fn alarm(&self) -> Alarm {
        let slack = self.slack.unwrap_or_else(tasks_slack);
        Alarm { at: time_of(self.deadline), slack, period: None }
    }

    fn poll_until(&mut self, cx: &Context<'_>) -> Poll<()> {
        let looks = std::mem::replace(&mut self.looks, true);
        // A timer of another runtime, which may be over, would wake no task.
        drop(self.armed.take_if(|armed| !armed.is_current()));
        // A timer that has expired wakes no task any more.
        let still_wakes = |armed: &Armed| armed.wakes(time_of(self.deadline), cx.waker());
        let waits = (!looks || !self.is_elapsed()) && self.armed.as_ref().is_none_or(still_wakes);
        if !waits {
            self.armed = None;
            return Poll::Ready(());
        }
        if self.armed.is_none() {
            self.armed = Some(Armed::arm(self.alarm(), cx.waker()));
        }
        Poll::Pending
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_until(cx)
    }
}

/// Returns the slack of the task that the calling code belongs to.
fn tasks_slack() -> Nanos {
    crate::current::task::task(|task| {
        task.map_or(here::default_slack(), |cell| cell.slack.of_timers())
    })
}
