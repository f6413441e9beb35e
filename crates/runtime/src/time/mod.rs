//! Waiting for time to pass, with slack.
//!
//! All of it is the engine's timers: nothing comes before its time, a wait that was dropped wakes nobody
//! (but once, if it expires as it is dropped), and each comes by its slack later at the most while the CPU
//! is awake. Who sleeps on an idle machine with a slack of milliseconds shares one wake-up with all whose
//! windows are open by then.
//!
//! The names, and what they promise, are those of `tokio::time`. Instants are the standard library's.

mod clock;
mod interval;
pub(crate) mod late;
mod timeout;
pub(crate) mod timers;

pub use interval::{Interval, MissedTickBehavior, interval, interval_at};
pub use std::time::{Duration, Instant};
pub use timeout::{Elapsed, Timeout, timeout, timeout_at};

pub(crate) use clock::nanos;

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

/// The present instant: [`Instant::now`], but in a test in [virtual time](mod@crate::paused::test) that of its clock.
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

/// A future that is ready when its time has come: not before, and by its slack later at the most
/// while the CPU is awake.
///
/// It may be polled again after its end, and moved by [`Sleep::reset`] before and after that.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Sleep {
    deadline: Instant,
    /// The task's own, if not said.
    slack: Option<Nanos>,
    /// Whether it may be over when it is polled for the first time.
    looks: bool,
    armed: Option<Armed>,
}

/// A sleep of this length is armed without another look at the clock: nearly all are polled when they are
/// made. One that was not, and is over, expires as soon as it is armed.
const NOT_OVER: Duration = Duration::from_millis(1);

/// Waits for `span`. A span that no clock can tell is a hundred years.
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
/// When it is polled where no runtime is, if its time has not come.
pub fn sleep(span: Duration) -> Sleep {
    Sleep { looks: span < NOT_OVER, ..sleep_until(after(now(), span)) }
}

/// Waits for `deadline` to come. It is ready at once if that has passed.
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
/// When it is polled where no runtime is, if its time has not come.
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep { deadline, slack: None, looks: true, armed: None }
}

impl Sleep {
    /// How much later than asked it may be; as the task says if not said.
    pub fn slack(mut self, slack: Duration) -> Sleep {
        self.slack = Some(nanos(slack));
        self
    }

    /// When it ends.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether its time has come, by the clock: also if it was never polled.
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        now() >= self.deadline
    }

    /// Lets it end at `deadline` instead, earlier or later. Whoever waits for it is woken then, also
    /// without another poll. After its end it has to be polled again.
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
        // One of another runtime, which may be over, would wake nobody.
        drop(self.armed.take_if(|armed| !armed.is_current()));
        // One that has expired wakes nobody any more.
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

/// What the task allows in whose poll this is called.
fn tasks_slack() -> Nanos {
    crate::task::current::task(|task| {
        task.map_or(here::default_slack(), |cell| cell.slack.of_timers())
    })
}
