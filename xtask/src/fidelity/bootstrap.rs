//! The confidence in the difference between *simulated* and *itself*, by a bootstrap over scenarios.
//!
//! The tasks of one scenario depend on each other, so scenarios are resampled and not tasks.

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

use super::verdict::{Tally, percentile};

/// The number of resamples. The fifth percentile of so many is known within 0.5 per cent of them.
const RESAMPLES: usize = 10_000;

/// The percentile of a one-sided bound: the true difference is above it with 95 % confidence.
const BELOW: usize = 5;

/// The lower bound of the difference in points, with 95 % confidence; `seed` draws the scenarios' tallies. `None` if no
/// scenario has an entry.
pub(super) fn lower_95(scenarios: &[Tally], seed: u64) -> Option<f64> {
    let mut dice = Pcg64Mcg::new(u128::from(seed) << 64 | 1);
    let mut resample = || {
        let mut all = Tally::default();
        for _ in scenarios {
            // The bias of a remainder of 64 bits does not matter here.
            all.add(scenarios[(dice.next_u64() % scenarios.len() as u64) as usize]);
        }
        all.difference()
    };
    let differences = (0..RESAMPLES).filter_map(|_| resample()).collect();
    percentile(differences, BELOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALIKE: Tally = Tally { itself: (9, 10), simulated: (16, 20) };

    #[test]
    fn scenarios_that_say_the_same_leave_no_doubt() {
        let bound = lower_95(&[ALIKE; 5], 1).expect("there are entries");
        assert!((bound - -10.0).abs() < 1e-9, "{bound}");
        assert_eq!(lower_95(&[], 1), None);
        assert_eq!(lower_95(&[Tally::default()], 1), None);
    }

    #[test]
    fn the_bound_is_the_fifth_percentile_of_what_may_be_drawn() {
        // Two scenarios, one of which the simulator gets wrong. With probability 1/4 both draws are the wrong one, so
        // the fifth percentile is its -100 points.
        let right = Tally { itself: (1, 1), simulated: (2, 2) };
        let wrong = Tally { itself: (1, 1), simulated: (0, 2) };
        assert_eq!(lower_95(&[right, wrong], 7), Some(-100.0));
        // Twenty scenarios with one wrong: it is drawn k times with binomial(20, 1/20), 3 times or more with 7.5 %, 4
        // times or more with 1.6 %.
        let mut twenty = [right; 20];
        twenty[0] = wrong;
        let bound = lower_95(&twenty, 7).expect("there are entries");
        assert!((bound - -15.0).abs() < 1e-9, "{bound}");
    }

    #[test]
    fn the_bound_follows_from_the_seed() {
        let twenty: Vec<_> =
            (0..20).map(|at| Tally { itself: (at, 20), simulated: (7, 40) }).collect();
        assert_eq!(lower_95(&twenty, 3), lower_95(&twenty, 3));
        assert_ne!(lower_95(&twenty, 3), lower_95(&twenty, 4));
    }
}
