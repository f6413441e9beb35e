//! A future that is given up when its time is over.

use super::{Sleep, sleep, sleep_until};
use std::fmt;
use std::future::{Future, IntoFuture};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// The error of a timeout: the time was over before the future was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time was over before the future was ready")
    }
}

impl std::error::Error for Elapsed {}

impl From<Elapsed> for io::Error {
    fn from(_: Elapsed) -> io::Error {
        io::ErrorKind::TimedOut.into()
    }
}

pin_project_lite::pin_project! {
    /// A future with a deadline.
    #[derive(Debug)]
    #[must_use = "a future does nothing unless it is awaited"]
    pub struct Timeout<F> {
        #[pin]
        future: F,
        sleep: Sleep,
    }
}

/// Waits for `future`, at most for `span` from now. The future is polled before the deadline is checked. So a future
/// that is ready is in time, whatever the clock says, and no timer is armed for it. The future is dropped together with
/// the returned one.
///
/// A timeout of 1 ms or more does not read the clock at its first poll. If the first poll of the future itself takes
/// longer than the timeout, the future may be polled once more before it is given up.
///
/// ```
/// use runyard::{Runtime, time};
/// use std::{future::pending, time::Duration};
///
/// Runtime::new().block_on(async {
///     assert_eq!(time::timeout(Duration::from_secs(60), async { 7 }).await, Ok(7));
///     let late = time::timeout(Duration::from_millis(1), pending::<()>()).await;
///     assert_eq!(late, Err(time::Elapsed));
/// });
/// ```
pub fn timeout<F: IntoFuture>(span: Duration, future: F) -> Timeout<F::IntoFuture> {
    Timeout { future: future.into_future(), sleep: sleep(span) }
}

/// Waits for `future` until `deadline`. The future is polled first, even if the deadline has passed.
///
/// ```
/// use runyard::{Runtime, time};
/// use std::{future::pending, time::Instant};
///
/// Runtime::new().block_on(async {
///     let now = Instant::now();
///     assert_eq!(time::timeout_at(now, async { 7 }).await, Ok(7));
///     assert_eq!(time::timeout_at(now, pending::<()>()).await, Err(time::Elapsed));
/// });
/// ```
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timeout { future: future.into_future(), sleep: sleep_until(deadline) }
}

impl<F> Timeout<F> {
    /// Sets the slack: how much later than requested the future may be given up. The default is the slack of the task.
    pub fn slack(mut self, slack: Duration) -> Timeout<F> {
        self.sleep = self.sleep.slack(slack);
        self
    }

    /// Returns a reference to the inner future.
    pub fn get_ref(&self) -> &F {
        &self.future
    }

    /// Returns a mutable reference to the inner future.
    pub fn get_mut(&mut self) -> &mut F {
        &mut self.future
    }

    /// Returns the inner future, without its deadline.
    pub fn into_inner(self) -> F {
        self.future
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        match this.future.poll(cx) {
            Poll::Ready(value) => Poll::Ready(Ok(value)),
            Poll::Pending => this.sleep.poll_until(cx).map(|()| Err(Elapsed)),
        }
    }
}
