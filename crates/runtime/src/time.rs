//! Waiting for time to pass, with slack.

use crate::builder::current_cell;
use crate::os;
use crate::primitives::{Arc, lock};
use crate::runtime::current;
use crate::shared::{Armed, Shared};
use crate::task::without_preemption;
use runyard_engine::attr::Attr;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::Window;
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
    armed: Option<(Arc<Shared>, Armed)>,
}

/// Waits for `span`.
#[must_use]
pub fn sleep(span: Duration) -> Sleep {
    Sleep { at: os::thread::now() + nanos(span), slack: None, armed: None }
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
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if os::thread::now() >= self.at {
            return Poll::Ready(());
        }
        self.disarm();
        let shared = current();
        let slack = self.slack.unwrap_or_else(tasks_slack);
        let window = Window { soft: self.at, hard: self.at + slack };
        let armed = shared.arm(window, cx.waker());
        self.armed = Some((shared, armed));
        Poll::Pending
    }
}

impl Sleep {
    fn disarm(&mut self) {
        if let Some((shared, armed)) = self.armed.take() {
            shared.cancel(armed);
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.disarm();
    }
}

/// Moments at equal distances. One that was missed comes at once.
#[derive(Debug)]
pub struct Interval {
    next: Time,
    period: Nanos,
    slack: Option<Nanos>,
}

/// Moments `period` apart, the first one period from now.
///
/// # Panics
/// If the period is zero.
#[must_use]
pub fn interval(period: Duration) -> Interval {
    let period = nanos(period);
    assert!(period > Nanos::ZERO, "moments are some time apart");
    Interval { next: os::thread::now() + period, period, slack: None }
}

impl Interval {
    /// How much later than asked each moment may be; as the task says if not said.
    #[must_use]
    pub fn slack(mut self, slack: Duration) -> Interval {
        self.slack = Some(nanos(slack));
        self
    }

    /// Waits for the next moment; how much later than that it is.
    pub async fn tick(&mut self) -> Duration {
        let due = self.next;
        Sleep { at: due, slack: self.slack, armed: None }.await;
        self.next = due + self.period;
        Duration::from_nanos(os::thread::now().since(due).0)
    }
}

/// What the task allows in whose poll this is called.
fn tasks_slack() -> Nanos {
    let cell = current_cell();
    cell.map_or(Attr::DEFAULT_SLACK, |cell| without_preemption(|| lock(&cell.asked).slack()))
}

pub(crate) fn nanos(span: Duration) -> Nanos {
    Nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}
