//! The service of every live side: requests that compute, and a record of the end of each.

use super::spin::Spin;
use super::trace::Trace;
use runyard_engine::time::Nanos;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Time between the creation of a service and its beginning, in which all threads start.
const LEAD: Duration = Duration::from_millis(50);

/// Interval of the check that all requests have ended; long compared with a request.
const LOOK: Duration = Duration::from_millis(5);

/// Number of spans after the last arrival at which an unfinished request counts as lost.
const LOST_AFTER: u64 = 5;

/// Minimum of that time, for short spans on a machine with other work.
const LOST_AFTER_AT_LEAST: Nanos = Nanos::from_secs(20);

/// The requests and their shared state.
#[derive(Debug)]
pub(crate) struct Service {
    trace: Trace,
    spin: Spin,
    begin: Timespec,
    /// End of each request, from the beginning on; 0 until it ends.
    ends: Vec<AtomicU64>,
}

impl Service {
    pub(crate) fn new(trace: Trace, spin: Spin) -> Service {
        let ends = trace.requests.iter().map(|_| AtomicU64::new(0)).collect();
        let lead = Timespec::try_from(LEAD).expect("it is short");
        Service { trace, spin, begin: clock_gettime(ClockId::Monotonic) + lead, ends }
    }

    pub(crate) fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Answers a request on the calling thread.
    pub(crate) fn answer(&self, nth: usize) {
        self.spin.compute(self.trace.service(self.trace.requests[nth]));
        self.ends[nth].store(self.now().0, Ordering::Release);
    }

    /// Returns the time until a request arrives; zero if it is due.
    pub(crate) fn until(&self, nth: usize) -> Duration {
        let due = self.begin + span(self.trace.requests[nth].arrival);
        Duration::try_from(due - clock_gettime(ClockId::Monotonic)).unwrap_or_default()
    }

    /// Hands over every request when it is due, or as soon as this thread runs.
    pub(crate) fn accept(&self, mut hand_over: impl FnMut(usize)) {
        for (nth, request) in self.trace.requests.iter().enumerate() {
            let due = self.begin + span(request.arrival);
            // Only a signal ends a sleep early.
            while clock_gettime(ClockId::Monotonic) < due {
                let _ = clock_nanosleep_absolute(ClockId::Monotonic, &due);
            }
            hand_over(nth);
        }
    }

    /// Waits until all requests have ended and returns the end of each.
    ///
    /// # Panics
    ///
    /// Panics if a request does not end, which means that the scheduler has lost it.
    pub(crate) fn ends(&self) -> Vec<Nanos> {
        let enough = Nanos(self.trace.span.0 * LOST_AFTER).max(LOST_AFTER_AT_LEAST);
        let ended =
            |end: &AtomicU64| Some(Nanos(end.load(Ordering::Acquire))).filter(|at| at.0 > 0);
        let end = |(nth, end): (usize, &AtomicU64)| {
            loop {
                if let Some(end) = ended(end) {
                    return end;
                }
                let lost = || self.ends.iter().filter(|end| ended(end).is_none()).count();
                assert!(
                    self.now() < self.trace.span + enough,
                    "request {nth} never ended, nor did {} more of {}",
                    lost().saturating_sub(1),
                    self.ends.len()
                );
                thread::sleep(LOOK);
            }
        };
        self.ends.iter().enumerate().map(end).collect()
    }

    /// Returns the time since the beginning; zero before it.
    fn now(&self) -> Nanos {
        let since = Duration::try_from(clock_gettime(ClockId::Monotonic) - self.begin);
        Nanos(since.unwrap_or_default().as_nanos() as u64)
    }
}

fn span(nanos: Nanos) -> Timespec {
    Timespec::try_from(Duration::from_nanos(nanos.0)).expect("a run is short")
}
