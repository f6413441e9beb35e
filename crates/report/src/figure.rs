//! One figure of a report, and the figures of one distribution.

use crate::histogram::Histogram;
use runyard_engine::time::Nanos;
use serde::{Deserialize, Serialize};

/// A count, or a span in nanoseconds; `None` if the host cannot know it.
pub type Figure = Option<u64>;

/// Spans of time: exact count, minimum, mean and maximum; percentiles within 1 %. All but the
/// count are `None` if it is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyReport {
    /// How many there were.
    pub count: Figure,
    /// The shortest.
    pub min_ns: Figure,
    /// The mean, rounded down.
    pub mean_ns: Figure,
    /// What half of them did not exceed.
    pub p50_ns: Figure,
    /// What 90 % of them did not exceed.
    pub p90_ns: Figure,
    /// What 99 % of them did not exceed.
    pub p99_ns: Figure,
    /// What 99.9 % of them did not exceed.
    pub p999_ns: Figure,
    /// The longest.
    pub max_ns: Figure,
}

impl LatencyReport {
    /// The figures of `latencies`.
    #[must_use]
    pub fn new(latencies: &Histogram) -> LatencyReport {
        let figure = |span: Option<Nanos>| span.map(|span| span.0);
        LatencyReport {
            count: Some(latencies.count()),
            min_ns: figure(latencies.min()),
            mean_ns: figure(latencies.mean()),
            p50_ns: figure(latencies.quantile(500)),
            p90_ns: figure(latencies.quantile(900)),
            p99_ns: figure(latencies.quantile(990)),
            p999_ns: figure(latencies.quantile(999)),
            max_ns: figure(latencies.max()),
        }
    }
}

/// The sum of a figure over `rows`; `None` if it is unknown for one of them.
pub(crate) fn sum<T>(rows: &[T], figure: impl FnMut(&T) -> Figure) -> Figure {
    rows.iter().map(figure).sum()
}
