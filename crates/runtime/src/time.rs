//! Waiting for time to pass, with slack.

use crate::os;
use crate::runtime::{Shared, current, window};
use crate::sync::Arc;
use runyard_engine::attr::Attr;
use runyard_engine::cpu::CpuId;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::TimerId;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// A future that is ready when its time has come: not before, and by its slack later at the most
/// while the CPU is awake.
#[derive(Debug)]
pub struct Sleep {
    at: Time,
    slack: Nanos,
    armed: Option<(Arc<Shared>, CpuId, TimerId)>,
}

/// Waits for `span`.
#[must_use]
pub fn sleep(span: Duration) -> Sleep {
    sleep_until_time(os::thread::now() + nanos(span))
}

fn sleep_until_time(at: Time) -> Sleep {
    Sleep { at, slack: Attr::DEFAULT_SLACK, armed: None }
}

impl Sleep {
    /// How much later than asked it may be; 50 us if not said.
    #[must_use]
    pub fn slack(mut self, slack: Duration) -> Sleep {
        self.slack = nanos(slack);
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
        let (cpu, timer) = shared.arm(window(self.at, self.slack), cx.waker());
        self.armed = Some((shared, cpu, timer));
        Poll::Pending
    }
}

impl Sleep {
    fn disarm(&mut self) {
        if let Some((shared, cpu, timer)) = self.armed.take() {
            shared.cancel(cpu, timer);
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
    slack: Nanos,
}

/// Moments `period` apart, the first one period from now.
///
/// # Panics
/// If the period is zero.
#[must_use]
pub fn interval(period: Duration) -> Interval {
    let period = nanos(period);
    assert!(period > Nanos::ZERO, "moments are some time apart");
    Interval { next: os::thread::now() + period, period, slack: Attr::DEFAULT_SLACK }
}

impl Interval {
    /// How much later than asked each moment may be; 50 us if not said.
    #[must_use]
    pub fn slack(mut self, slack: Duration) -> Interval {
        self.slack = nanos(slack);
        self
    }

    /// Waits for the next moment; how much later than that it is.
    pub async fn tick(&mut self) -> Duration {
        let due = self.next;
        self.next = due + self.period;
        Sleep { at: due, slack: self.slack, armed: None }.await;
        Duration::from_nanos(os::thread::now().since(due).0)
    }
}

fn nanos(span: Duration) -> Nanos {
    Nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}
