//! The conversion from the standard library's instants to the engine's time.
//!
//! Both are the kernel's monotonic clock, but an [`Instant`] does not reveal its value. So one instant is read between
//! two readings of the engine's clock, and every other instant is computed from its distance to it. The later of the
//! two readings stands for the instant. So a timer may be late by the time between them, some tens of nanoseconds, but
//! never early.

use crate::os;
use crate::os::above::without_preemption;
use crate::os::here;
use crate::os::sync::OnceLock;
use runyard_engine::time::{Nanos, Time};
use std::time::{Duration, Instant};

/// Number of times that the two clocks are read. The pair with the shortest time in between is kept.
const READINGS: usize = 16;

/// A hundred years, which stands for a span beyond the range of the clock.
const FAR: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

static ANCHOR: OnceLock<Anchor> = OnceLock::new();

/// The same moment on both clocks.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    instant: Instant,
    time: Time,
}

impl Anchor {
    fn get() -> Anchor {
        // The thread that reads the clocks is not stopped meanwhile, because other threads would wait for it.
        *ANCHOR.get().unwrap_or_else(|| without_preemption(|| ANCHOR.get_or_init(Anchor::read)))
    }

    fn read() -> Anchor {
        let read = || {
            let before = os::thread::monotonic();
            let instant = Instant::now();
            let time = os::thread::monotonic();
            (time.since(before), Anchor { instant, time })
        };
        let readings = (0..READINGS).map(|_| read());
        let closest = readings.min_by_key(|&(between, _)| between);
        closest.expect("the clocks are read more than once").1
    }

    fn time_of(self, instant: Instant) -> Time {
        match instant.checked_duration_since(self.instant) {
            Some(after) => self.time + Nanos::from(after),
            None => {
                let before = Nanos::from(self.instant.duration_since(instant));
                Time(self.time.0.saturating_sub(before.0))
            }
        }
    }
}

/// Returns the present instant. In a paused runtime that is the instant of its clock.
pub(super) fn now() -> Instant {
    here::now().map_or_else(Instant::now, instant_of)
}

/// Returns the instant for which [`time_of`] returns `time`.
fn instant_of(time: Time) -> Instant {
    let anchor = Anchor::get();
    match time.0.checked_sub(anchor.time.0) {
        Some(after) => anchor.instant + Duration::from_nanos(after),
        None => anchor.instant - Duration::from_nanos(anchor.time.0 - time.0),
    }
}

/// Returns the engine's time of `instant`. It is never before the instant.
pub(super) fn time_of(instant: Instant) -> Time {
    Anchor::get().time_of(instant)
}

/// Returns `span` after `instant`, or in a hundred years if there is no such instant.
pub(super) fn after(instant: Instant, span: Duration) -> Instant {
    let far = || instant.checked_add(FAR).unwrap_or(instant);
    instant.checked_add(span).unwrap_or_else(far)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_not_before_it_comes() {
        for _ in 0..1_000 {
            let before = os::thread::now();
            let time = time_of(Instant::now());
            assert!(before <= time, "{before:?} {time:?}");
        }
    }

    #[test]
    fn instants_keep_their_distance_and_their_order() {
        let anchor = Anchor { instant: Instant::now(), time: Time(5_000_000_000) };
        let span = Duration::from_secs(2);
        assert_eq!(anchor.time_of(anchor.instant + span), Time(7_000_000_000));
        assert_eq!(anchor.time_of(anchor.instant - span), Time(3_000_000_000));
        assert_eq!(anchor.time_of(anchor.instant - 3 * span), Time(0));
        assert_eq!(anchor.time_of(after(anchor.instant, Duration::from_secs(1 << 40))), Time::MAX);
    }

    #[test]
    fn a_span_that_no_clock_can_tell_is_far() {
        let now = Instant::now();
        assert_eq!(after(now, Duration::MAX), now + FAR);
        assert_eq!(after(now, Duration::from_secs(1)), now + Duration::from_secs(1));
    }
}
