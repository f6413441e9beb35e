//! The mean of some runs and its uncertainty, in the form of `perf stat -r`.

/// A mean, and its standard deviation: that of the runs, divided by the square root of their number. This is the "+-"
/// of `perf`, in per cent of the mean (`stddev_stats`, `rel_stddev_stats`).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Spread {
    pub(crate) mean: f64,
    pub(crate) deviation: f64,
}

/// Two means count as the same if their distance is at most this multiple of their combined deviation. Five runs of the
/// same thing pass this in nine of ten cases.
const DEVIATIONS: f64 = 2.0;

/// The distance must also be at most this fraction of the first mean, however much the runs differ.
const MAX_NOISE: f64 = 0.1;

impl Spread {
    pub(crate) fn of(values: &[f64]) -> Spread {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n.max(1.0);
        if n < 2.0 {
            return Spread { mean, deviation: 0.0 };
        }
        let variance =
            values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / (n - 1.0);
        Spread { mean, deviation: (variance / n).sqrt() }
    }

    /// The standard deviation of `values` themselves.
    pub(crate) fn of_each(values: &[f64]) -> f64 {
        Spread::of(values).deviation * (values.len() as f64).sqrt()
    }

    /// The deviation in per cent of the mean.
    pub(crate) fn percent(self) -> f64 {
        if self.mean == 0.0 { 0.0 } else { 100.0 * self.deviation / self.mean }
    }

    /// The largest distance of another mean that counts as the same.
    pub(crate) fn noise(self, other: Spread) -> f64 {
        (DEVIATIONS * self.deviation.hypot(other.deviation)).min(MAX_NOISE * self.mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(values: &[f64]) -> Spread {
        Spread::of(values)
    }

    #[test]
    fn the_deviation_is_that_of_the_mean() {
        let some = spread(&[98.0, 102.0, 98.0, 102.0]);
        assert_eq!(some.mean, 100.0);
        // The variance is 16 / 3, and the variance of the mean is a quarter of it.
        assert!((some.deviation - (4.0_f64 / 3.0).sqrt()).abs() < 1e-12, "{some:?}");
        assert!((some.percent() - some.deviation).abs() < 1e-12);
        assert!((Spread::of_each(&[98.0, 102.0]) - 8.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(spread(&[7.0]), Spread { mean: 7.0, deviation: 0.0 });
        assert_eq!(spread(&[0.0, 0.0]).percent(), 0.0);
    }

    #[test]
    fn noise_is_of_both_and_has_a_bound() {
        let of = |deviation| Spread { mean: 100.0, deviation };
        assert_eq!(of(3.0).noise(of(4.0)), 10.0);
        assert_eq!(of(0.3).noise(of(0.4)), 1.0);
        assert_eq!(of(30.0).noise(of(4.0)), 10.0);
        assert_eq!(of(0.0).noise(of(0.0)), 0.0);
    }
}
