//! One figure of a report, and the figures of one distribution.

use crate::histogram::Histogram;
use runyard_engine::time::Nanos;
use serde::{Deserialize, Serialize};

/// A count, or a span in nanoseconds; `None` if the host cannot know it.
pub type Figure = Option<u64>;

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Nanoseconds, of which fewer are better.
    Delay,
    /// Nanoseconds.
    Span,
    /// A number of things.
    Count,
    /// The number of samples of other figures, over all runs together. It is not tested.
    Samples,
    /// Parts of a million.
    Share,
}

/// The figures of a distribution of spans: exact count, minimum, mean and maximum; percentiles within 1 %. All but the
/// count are `None` if the count is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyReport {
    /// The number of spans.
    pub count: Figure,
    /// The shortest span.
    pub min_ns: Figure,
    /// The mean, rounded down.
    pub mean_ns: Figure,
    /// The median: half of the spans are not longer.
    pub p50_ns: Figure,
    /// The 90th percentile.
    pub p90_ns: Figure,
    /// The 99th percentile.
    pub p99_ns: Figure,
    /// The 99.9th percentile.
    pub p999_ns: Figure,
    /// The longest span.
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
            p50_ns: figure(latencies.quantile(500_000)),
            p90_ns: figure(latencies.quantile(900_000)),
            p99_ns: figure(latencies.quantile(990_000)),
            p999_ns: figure(latencies.quantile(999_000)),
            max_ns: figure(latencies.max()),
        }
    }
}

/// The sum of a figure over `rows`; `None` if it is unknown for one of them.
pub(crate) fn sum<T>(rows: &[T], figure: impl FnMut(&T) -> Figure) -> Figure {
    rows.iter().map(figure).sum()
}
