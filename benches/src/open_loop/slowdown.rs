//! The outcome of the requests of a point: slowdowns, and the part of the arrivals that was answered.
//!
//! **Slowdown** is a request's sojourn, from the moment at which it was due to its end, over its service time. The wait
//! of a request that was accepted late counts.
//!
//! **Achieved** is the number of requests that ended during the counted time over the number that arrived in it. It is
//! 1 for a side that keeps up, however long its requests wait, and less for a side whose queue grows.
//!
//! A quantile needs [`BEYOND`] requests beyond it; otherwise it is absent. With 10,000 requests there is a p99.9. All
//! sojourns are kept and sorted, so quantiles are exact. (Rejected: the report's histogram, whose values are times and
//! within 1 %.)

use super::mix::Class;
use super::trace::Trace;
use runyard_engine::time::Nanos;
use serde::{Deserialize, Serialize};

/// First part of a point, whose requests are not counted because queues are still growing.
const WARM_UP: f64 = 0.1;

/// Least number of requests beyond a quantile. A quoted figure should have 100.
const BEYOND: usize = 10;

/// The outcome of the requests of one seed.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Round {
    /// Requests that ended over requests that arrived.
    pub achieved: f64,
    /// Slowdowns of all requests.
    pub all: Slowdowns,
    /// Slowdowns of the requests below the mean service time.
    pub short: Slowdowns,
}

/// Quantiles of slowdowns; `null` where there were too few requests.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Slowdowns {
    pub count: usize,
    pub p50: Option<f64>,
    pub p99: Option<f64>,
    pub p999: Option<f64>,
}

impl Round {
    /// Computes the figures of requests from their ends, in the order of `trace`.
    pub(crate) fn new(trace: &Trace, ends: &[Nanos]) -> Round {
        assert_eq!(trace.requests.len(), ends.len(), "every request has an end");
        let from = Nanos((trace.span.0 as f64 * WARM_UP) as u64);
        let counts = |at: Nanos| from <= at && at < trace.span;
        let counted = || trace.requests.iter().zip(ends).filter(|(r, _)| counts(r.arrival));
        let slowdown = |(request, end): (&super::trace::Request, &Nanos)| {
            assert!(*end >= request.arrival, "a request ends after it came");
            (*end - request.arrival).0 as f64 / trace.service(*request).0 as f64
        };
        let short = counted().filter(|(r, _)| trace.class(**r) == Class::Short);
        let ended = ends.iter().filter(|&&end| counts(end)).count();
        Round {
            achieved: ended as f64 / counted().count() as f64,
            all: Slowdowns::of(counted().map(slowdown).collect()),
            short: Slowdowns::of(short.map(slowdown).collect()),
        }
    }
}

impl Slowdowns {
    fn of(mut slowdowns: Vec<f64>) -> Slowdowns {
        slowdowns.sort_unstable_by(f64::total_cmp);
        let count = slowdowns.len();
        let at = |beyond_per_mille: usize| {
            let beyond = count * beyond_per_mille / 1_000;
            (beyond >= BEYOND).then(|| slowdowns[count - beyond - 1])
        };
        Slowdowns { count, p50: at(500), p99: at(10), p999: at(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::mix::Mix;
    use super::super::trace::Request;
    use super::*;

    /// Returns `count` requests, one every 10 us, alternately of the first and the second kind.
    fn known(count: u64) -> Trace {
        let request =
            |nth| Request { arrival: Nanos::from_micros(10 * nth), kind: nth as usize % 2 };
        let span = Nanos::from_micros(10 * count);
        Trace { mix: Mix::B3, span, requests: (0..count).map(request).collect() }
    }

    /// Returns ends at which each request takes `by` times its service time.
    fn slowed(trace: &Trace, by: impl Fn(usize) -> u64) -> Vec<Nanos> {
        let end = |(nth, &request): (usize, &Request)| {
            request.arrival + Nanos(trace.service(request).0 * by(nth))
        };
        trace.requests.iter().enumerate().map(end).collect()
    }

    #[test]
    fn slowdowns_are_sojourns_over_service_times() {
        let trace = known(20_000);
        // The long requests take twice their service time. Every nineteenth short one takes 30 times its service time.
        let ends = slowed(&trace, |nth| match nth % 2 {
            1 => 2,
            _ if nth % 19 == 0 => 30,
            _ => 1,
        });
        let round = Round::new(&trace, &ends);
        assert_eq!((round.all.count, round.short.count), (18_000, 9_000));
        assert_eq!(
            (round.all.p50, round.all.p99, round.all.p999),
            (Some(2.0), Some(30.0), Some(30.0))
        );
        assert_eq!((round.short.p50, round.short.p99), (Some(1.0), Some(30.0)));
        assert_eq!(round.short.p999, None, "9 requests are beyond it");
    }

    #[test]
    fn a_queue_that_grows_is_not_achieved() {
        let trace = known(10_000);
        let kept_up: Vec<_> = trace.requests.iter().map(|r| r.arrival + Nanos(5_000)).collect();
        assert!(Round::new(&trace, &kept_up).achieved > 0.999);
        let twice = |r: &Request| Nanos(r.arrival.0 * 2 + 5_000);
        let grew: Vec<_> = trace.requests.iter().map(twice).collect();
        let achieved = Round::new(&trace, &grew).achieved;
        assert!((achieved - 0.5).abs() < 0.01, "{achieved}");
    }
}
