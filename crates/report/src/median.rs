//! The median.
//!
//! The benches and `xtask` have this text too, so it names no crate.

use std::borrow::Borrow;

/// The median of `values`; of an even number the mean of the two in the middle; `None` if there are none.
#[must_use]
pub fn median(values: impl IntoIterator<Item = impl Borrow<f64>>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.into_iter().map(|value| *value.borrow()).collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n.is_multiple_of(2) => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
        _ => Some(sorted[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 3.0, 1.0, 2.0]), Some(2.5));
        assert_eq!(median([0.0; 0]), None);
    }
}
