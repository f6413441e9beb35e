//! The median of measured values.

/// The middle one, of an even number the higher of the two; nothing if there is none.
pub fn median(figures: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_one_of_the_figures() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 3.0, 1.0, 2.0]), Some(3.0));
        assert_eq!(median([]), None);
    }
}
