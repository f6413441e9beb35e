//! Waiting for time to pass, with slack.
//!
//! All of it is the engine's timers: nothing comes before its time, a wait that was dropped wakes nobody
//! (but once, if it expires as it is dropped), and each comes by its slack later at the most while the CPU
//! is awake. Who sleeps on an idle machine with a slack of milliseconds shares one wake-up with all whose
//! windows are open by then.

mod interval;
mod timeout;

pub use interval::{Interval, MissedTicks, Tick, interval};
pub use timeout::{Elapsed, Timeout, timeout};

use crate::os;
use crate::timers::{Alarm, Armed};
use runyard_engine::attr::Attr;
use runyard_engine::time::{Nanos, Time};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A future that is ready when its time has come: not before, and by its slack later at the most
/// while the CPU is awake.
#[derive(Debug)]
pub struct Sleep {
    at: Time,
    /// The task's own, if not said.
    slack: Option<Nanos>,
    /// Whether it may be over when it is polled for the first time.
    looks: bool,
    armed: Option<Armed>,
}

/// A sleep of this length is armed without another look at the clock: nearly all are polled when they are
/// made. One that was not, and is over, expires as soon as it is armed.
const NOT_OVER: Nanos = Nanos::from_millis(1);

/// Waits for `span`.
#[must_use]
pub fn sleep(span: Duration) -> Sleep {
    let span = nanos(span);
    let at = os::thread::now() + span;
    Sleep { at, slack: None, looks: span < NOT_OVER, armed: None }
}

/// Waits for `instant` to come.
#[must_use]
pub fn sleep_until(instant: Instant) -> Sleep {
    sleep(instant.saturating_duration_since(Instant::now()))
}

impl Sleep {
    /// How much later than asked it may be; as the task says if not said.
    #[must_use]
    pub fn slack(mut self, slack: Duration) -> Sleep {
        self.slack = Some(nanos(slack));
        self
    }

    fn poll_until(&mut self, cx: &Context<'_>) -> Poll<()> {
        let looks = std::mem::replace(&mut self.looks, true);
        // One of another runtime, which may be over, would wake nobody.
        drop(self.armed.take_if(|armed| !armed.is_current()));
        // One that has expired wakes nobody any more.
        let waits = (!looks || os::thread::now() < self.at)
            && self.armed.as_ref().is_none_or(|armed| armed.wakes(self.at, cx.waker()));
        if !waits {
            self.armed = None;
            return Poll::Ready(());
        }
        if self.armed.is_none() {
            let slack = self.slack.unwrap_or_else(tasks_slack);
            let alarm = Alarm { at: self.at, slack, period: None };
            self.armed = Some(Armed::arm(alarm, cx.waker()));
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
    os::local::task(|task| task.map_or(Attr::DEFAULT_SLACK, |cell| cell.slack.of_timers()))
}

pub(crate) fn nanos(span: Duration) -> Nanos {
    Nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}
