//! The statistics of several runs: the mean of a figure with its interval, and a test for a difference between two
//! sides.
//!
//! Sums are in the order of the values, and square roots and quotients are exact by IEEE 754. Libraries compute the
//! quantiles of Student's distribution by the logarithms of the machine's own mathematics, so the quantiles are rounded
//! to six decimals. With this, intervals are the same numbers on every machine.
//!
//! Two sides are compared by pairs, since one seed makes the same draws on both. The signed-rank test of Wilcoxon
//! assumes only that a difference is as often positive as negative. Its interval is that of Hodges and Lehmann: of the
//! median difference, from the means of all pairs of differences. Many figures are tested at once; [`holm`] corrects
//! for this.

pub use crate::median::median;

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};
use statrs::function::erf::erfc;
use std::collections::BTreeMap;

/// The fraction of intervals that do not contain the true value.
pub const ALPHA: f64 = 0.05;

/// Up to this number of differences the signed-rank test counts all their signs. Beyond it, a normal distribution is
/// exact to the three shown digits of a probability.
const EXACT: usize = 50;

/// A mean and its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The number of values, at least one.
    pub n: usize,
    /// Their mean.
    pub mean: f64,
    /// The median; of an even number the mean of the two in the middle.
    pub median: f64,
    /// The interval that contains the true mean with 95 % confidence, by Student's distribution; `None` for one value. If no
    /// value is below zero, its lower end is not.
    pub interval: Option<(f64, f64)>,
}

/// Makes summaries, and caches the quantiles that they need.
#[derive(Clone, Debug, Default)]
pub struct Summaries {
    quantiles: BTreeMap<usize, f64>,
}

impl Summaries {
    /// The summary of `values`; `None` if there are none.
    pub fn of(&mut self, values: &[f64]) -> Option<Summary> {
        let n = values.len();
        let median = median(values)?;
        let mean = values.iter().sum::<f64>() / n as f64;
        let interval = (n > 1).then(|| {
            let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
            let error = (squares / (n - 1) as f64).sqrt() / (n as f64).sqrt();
            let quantile = *self.quantiles.entry(n - 1).or_insert_with(|| t_quantile(n - 1));
            // What is never below zero has a mean that is not.
            let least = if values.iter().all(|&it| it >= 0.0) { 0.0 } else { f64::NEG_INFINITY };
            ((mean - quantile * error).max(least), mean + quantile * error)
        });
        Some(Summary { n, mean, median, interval })
    }
}

/// The quantile of Student's distribution beyond which half of [`ALPHA`] lies, with six decimals.
///
/// # Panics
/// Without a degree of freedom.
fn t_quantile(freedom: usize) -> f64 {
    let student = StudentsT::new(0.0, 1.0, freedom as f64).expect("there is a degree of freedom");
    rounded(student.inverse_cdf(1.0 - ALPHA / 2.0))
}

/// The value of the standard normal distribution beyond which `chance` lies, half of it on each side.
fn normal_quantile(chance: f64) -> f64 {
    rounded(Normal::standard().inverse_cdf(1.0 - chance / 2.0))
}

fn rounded(quantile: f64) -> f64 {
    const DECIMALS: f64 = 1e6;
    (quantile * DECIMALS).round() / DECIMALS
}

/// The probability that differences with random signs are at least as one-sided as these: the two-sided signed-rank
/// test. Differences of zero are left out; those of one size share their ranks. It is exact for up to 50 differences,
/// including ties.
#[must_use]
pub fn signed_rank(differences: &[f64]) -> f64 {
    let mut nonzero: Vec<f64> = differences.iter().copied().filter(|&it| it != 0.0).collect();
    nonzero.sort_by(|one, other| one.abs().total_cmp(&other.abs()));
    let (ranks, ties) = doubled_ranks(&nonzero);
    let above = ranks.iter().zip(&nonzero).filter(|(_, it)| **it > 0.0);
    let above: usize = above.map(|(rank, _)| rank).sum();
    match nonzero.len() {
        0 => 1.0,
        n if n <= EXACT => exact(&ranks, above),
        n => approximate((n, ties), above),
    }
}

/// The probability over all signs that `ranks` can have.
fn exact(ranks: &[usize], above: usize) -> f64 {
    let chances = rank_sums(ranks);
    let at_most: f64 = chances[..=above].iter().sum();
    let at_least: f64 = chances[above..].iter().sum();
    (2.0 * at_most.min(at_least)).min(1.0)
}

/// The probability by the normal distribution, for `n` ranks.
fn approximate((n, ties): (usize, f64), above: usize) -> f64 {
    let n = n as f64;
    let variance = n * (n + 1.0) * (2.0 * n + 1.0) / 24.0 - ties / 48.0;
    let away = (above as f64 / 2.0 - n * (n + 1.0) / 4.0).abs();
    // The continuity correction: the sum of ranks is a whole number, which stands for half a unit on both sides.
    let away = (away - 0.5).max(0.0) / variance.sqrt();
    erfc(away / std::f64::consts::SQRT_2)
}

/// Twice the ranks of values sorted by size, so that a mean of ranks is a whole number. And the correction for ties:
/// the sum, over sets of equal values, of the cube of their number minus their number.
fn doubled_ranks(sorted: &[f64]) -> (Vec<usize>, f64) {
    let (mut ranks, mut ties) = (Vec::with_capacity(sorted.len()), 0.0);
    for equal in sorted.chunk_by(|one, other| one.abs() == other.abs()) {
        let (before, count) = (ranks.len(), equal.len());
        ranks.extend(std::iter::repeat_n(2 * before + count + 1, count));
        let count = count as f64;
        ties += count * count * count - count;
    }
    (ranks, ties)
}

/// The probability of each sum of the positive ones of `ranks`, when both signs are equally probable.
fn rank_sums(ranks: &[usize]) -> Vec<f64> {
    let mut chances = vec![0.0; ranks.iter().sum::<usize>() + 1];
    chances[0] = 1.0;
    let mut most = 0;
    for &rank in ranks {
        most += rank;
        for sum in (0..=most).rev() {
            let with = if sum >= rank { chances[sum - rank] } else { 0.0 };
            chances[sum] = (chances[sum] + with) / 2.0;
        }
    }
    chances
}

/// The typical difference, and the interval that contains it with 95 % confidence: the estimate of Hodges and Lehmann.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// The median of the means of all pairs of differences, including each with itself.
    pub estimate: f64,
    /// The interval; `None` with fewer than six differences, which have no 95 % interval.
    pub interval: Option<(f64, f64)>,
}

/// The shift of `differences`; `None` if there are none.
#[must_use]
pub fn shift(differences: &[f64]) -> Option<Shift> {
    shift_of(differences, 1)
}

/// The shift of `differences`, whose interval is one of `intervals` that all contain the true values with 95 %
/// confidence (Bonferroni); `None` if there are no differences.
#[must_use]
pub fn shift_of(differences: &[f64], intervals: usize) -> Option<Shift> {
    let n = differences.len();
    let mut means: Vec<f64> = Vec::with_capacity(n * (n + 1) / 2);
    for (at, one) in differences.iter().enumerate() {
        means.extend(differences[at..].iter().map(|other| f64::midpoint(*one, *other)));
    }
    let estimate = median(&means)?;
    let interval = beyond(n, ALPHA / intervals.max(1) as f64).map(|beyond| {
        means.sort_by(f64::total_cmp);
        (means[beyond], means[means.len() - 1 - beyond])
    });
    Some(Shift { estimate, interval })
}

/// The number of means of pairs that are left out on each side of an interval that misses with the chance `alpha`.
fn beyond(n: usize, alpha: f64) -> Option<usize> {
    if n > EXACT {
        let n = n as f64;
        let spread = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
        return Some(
            (n * (n + 1.0) / 4.0 - 0.5 - normal_quantile(alpha) * spread).max(0.0) as usize
        );
    }
    let ranks: Vec<usize> = (1..=n).collect();
    let mut at_most = 0.0;
    let mut within = |chance: &f64| {
        at_most += chance;
        at_most <= alpha / 2.0
    };
    // The sums of ranks from 0 on that are improbable together. The last of them is the critical value of the tables.
    rank_sums(&ranks).iter().take_while(|chance| within(chance)).count().checked_sub(1)
}

/// The probabilities, corrected for their number by the method of Holm: the probability that any of those below 0.05 is
/// chance is itself below 0.05.
#[must_use]
pub fn holm(probabilities: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|&one, &other| probabilities[one].total_cmp(&probabilities[other]));
    let mut corrected = vec![0.0; probabilities.len()];
    let mut most: f64 = 0.0;
    for (rank, &at) in order.iter().enumerate() {
        most = most.max(probabilities[at] * (order.len() - rank) as f64).min(1.0);
        corrected[at] = most;
    }
    corrected
}

/// The least number of pairs with which one of `tested` figures can be found to differ.
#[must_use]
pub fn pairs_needed(tested: usize) -> usize {
    let least = |pairs: i32| 2.0 * 0.5_f64.powi(pairs) * tested.max(1) as f64;
    (1..).find(|&pairs| least(pairs) < ALPHA).expect("a power of two is below any number") as usize
}

/// The number of pairs with which a difference is found among `tested` figures, if it goes on as in the first `pairs`
/// pairs, where its probability is `chance` before the correction.
#[must_use]
pub fn pairs_to_find(chance: f64, pairs: usize, tested: usize) -> usize {
    let more = normal_quantile(ALPHA / tested.max(1) as f64) / normal_quantile(chance);
    let needed = (pairs as f64 * more * more).ceil() as usize;
    needed.max(pairs + 1)
}

/// The number of pairs whose interval does not contain `bound`, if the interval narrows with the root of the number of
/// pairs; `None` without an interval, or if the bound is its middle.
#[must_use]
pub fn pairs_to_decide(shift: &Shift, bound: f64, pairs: usize) -> Option<usize> {
    let (low, high) = shift.interval?;
    let half = if shift.estimate > bound { shift.estimate - low } else { high - shift.estimate };
    let more = half / (shift.estimate - bound).abs();
    let needed = (pairs as f64 * more * more).ceil();
    needed.is_finite().then_some((needed as usize).max(pairs + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-4 * other.abs()
    }

    #[test]
    fn the_interval_of_what_is_never_negative_is_not() {
        let interval = |values: &[f64]| Summaries::default().of(values).unwrap().interval.unwrap();
        assert_eq!(interval(&[0.0, 0.0, 10.0]).0, 0.0);
        assert!(interval(&[-1.0, 0.0, 10.0]).0 < -10.0);
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        let table = [
            (1, 12.706_205),
            (2, 4.302_653),
            (3, 3.182_446),
            (4, 2.776_445),
            (5, 2.570_582),
            (9, 2.262_157),
            (19, 2.093_024),
            (30, 2.042_272),
            (60, 2.000_298),
            (120, 1.979_930),
        ];
        for (freedom, quantile) in table {
            assert_eq!(t_quantile(freedom), quantile, "{freedom} degrees of freedom");
        }
    }

    /// Gosset's own data: the hours of sleep that a drug gave ten patients.
    #[test]
    fn an_interval_is_that_of_the_book() {
        let sleep = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
        let Summary { n, mean, median, interval } = Summaries::default().of(&sleep).unwrap();
        let (low, high) = interval.unwrap();
        assert_eq!(n, 10);
        assert!(near(mean, 0.75) && near(median, 0.35), "{mean} {median}");
        assert!(near(low, -0.529_78) && near(high, 2.029_78), "{low} {high}");
        let one = Summaries::default().of(&[3.0]).unwrap();
        assert_eq!((one.mean, one.median, one.interval), (3.0, 3.0, None));
        assert_eq!(Summaries::default().of(&[]), None);
    }

    /// Hollander and Wolfe: nine patients before and after a tranquilizer.
    #[test]
    fn signed_ranks_are_those_of_the_book() {
        let before = [1830, 500, 1620, 2480, 1680, 1880, 1550, 3060, 1300];
        let after = [878, 647, 598, 2050, 1060, 1290, 1060, 3140, 1290];
        let thousandths = before.iter().zip(after).map(|(a, b)| a - b);
        let differences: Vec<f64> = thousandths.map(|it: i32| f64::from(it) / 1e3).collect();
        assert!(near(signed_rank(&differences), 0.039_062_5));
        let Shift { estimate, interval } = shift(&differences).unwrap();
        let (low, high) = interval.unwrap();
        assert!(near(estimate, 0.46), "{estimate}");
        assert!(near(low, 0.01) && near(high, 0.786), "{low} {high}");
    }

    #[test]
    fn critical_values_are_those_of_the_tables() {
        // The greatest sum of ranks that is significant at 5 % on two sides.
        for (n, critical) in [(6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (15, 25), (20, 52), (25, 89)]
        {
            assert_eq!(beyond(n, ALPHA), Some(critical), "{n}");
        }
        assert_eq!([1, 5].map(|n| beyond(n, ALPHA)), [None, None]);
        assert_eq!([7, 8].map(|n| beyond(n, ALPHA / 5.0)), [None, Some(0)], "1 % on two sides");
        assert_eq!([0.05, 0.01].map(normal_quantile), [1.959_964, 2.575_829]);
        assert_eq!(signed_rank(&[1.0, 2.0, 3.0, 4.0, 5.0]), 0.0625);
        assert_eq!(signed_rank(&[1.0; 6]), 0.03125);
        assert_eq!(signed_rank(&[0.0, 0.0]), 1.0, "nothing differs");
        assert_eq!(signed_rank(&[1.0, -1.0, 0.0]), 1.0);
    }

    #[test]
    fn the_approximation_is_near_what_is_exact() {
        // Every third negative, and some equal.
        let signs = (1..=50).map(|it| f64::from(if it % 3 == 0 { -it } else { it }) / 2.0);
        let mut values: Vec<f64> = signs.map(f64::trunc).filter(|it| *it != 0.0).collect();
        values.sort_by(|one, other| one.abs().total_cmp(&other.abs()));
        let (ranks, ties) = doubled_ranks(&values);
        let above =
            ranks.iter().zip(&values).filter(|(_, it)| **it > 0.0).map(|(rank, _)| rank).sum();
        let (exact, approximate) = (exact(&ranks, above), approximate((ranks.len(), ties), above));
        assert!((exact / approximate - 1.0).abs() < 0.05 && ties > 0.0, "{exact} {approximate}");
        let many: Vec<f64> =
            (1..=80).map(|it| f64::from(if it % 4 == 0 { -it } else { it })).collect();
        assert!(near(signed_rank(&many), 1.849700e-04));
        assert!(shift(&many).unwrap().interval.unwrap().0 > 0.0);
    }

    #[test]
    fn many_tests_are_corrected() {
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005]);
        let expected = [0.03, 0.06, 0.06, 0.02];
        assert!(
            corrected.iter().zip(expected).all(|(one, other)| near(*one, other)),
            "{corrected:?}"
        );
        assert_eq!(holm(&[0.6, 0.7]), [1.0, 1.0]);
        assert_eq!((pairs_needed(1), pairs_needed(40)), (6, 11));
    }

    #[test]
    fn more_pairs_would_do() {
        // Ten pairs of one sign are not enough among 33 figures, and eleven are the least.
        let same: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!(signed_rank(&same), 2.0 / 1024.0);
        assert_eq!(pairs_to_find(signed_rank(&same), 10, 33), 11);
        assert_eq!(pairs_to_find(0.04, 20, 10), 38, "(2.807 / 2.054)^2 = 1.87");
        let shift = |low, high| Shift { estimate: 0.2, interval: Some((low, high)) };
        assert_eq!(pairs_to_decide(&shift(0.0, 0.4), 0.1, 20), Some(80), "half as wide");
        assert_eq!(pairs_to_decide(&shift(0.0, 0.3), 0.25, 20), Some(80));
        assert_eq!(pairs_to_decide(&shift(0.0, 0.4), 0.2, 20), None);
        assert_eq!(pairs_to_decide(&Shift { estimate: 0.2, interval: None }, 0.1, 5), None);
    }

    proptest! {
        #[test]
        fn the_exact_test_counts_all_signs(values in prop::collection::vec(-4_i8..=4, 1..9)) {
            let values: Vec<f64> = values.into_iter().map(f64::from).filter(|it| *it != 0.0).collect();
            let mut sorted = values.clone();
            sorted.sort_by(|one, other| one.abs().total_cmp(&other.abs()));
            let (ranks, _) = doubled_ranks(&sorted);
            let sum = |plus: &dyn Fn(usize) -> bool| -> i64 {
                ranks.iter().enumerate().map(|(at, rank)| if plus(at) { *rank as i64 } else { 0 }).sum()
            };
            let middle = ranks.iter().sum::<usize>() as i64;
            let away = |sum: i64| (2 * sum - middle).abs();
            let seen = away(sum(&|at| sorted[at] > 0.0));
            let all = 1_usize << ranks.len();
            let as_far = (0..all).filter(|signs| away(sum(&|at| signs >> at & 1 == 1)) >= seen).count();
            prop_assert!((signed_rank(&values) - as_far as f64 / all as f64).abs() < 1e-12);
        }

        #[test]
        fn an_interval_excludes_zero_only_if_the_test_does(values in prop::collection::vec(-9.0_f64..9.0, 6..20)) {
            let (low, high) = shift(&values).unwrap().interval.unwrap();
            prop_assert_eq!(low > 0.0 || high < 0.0, signed_rank(&values) <= ALPHA);
        }
    }
}
