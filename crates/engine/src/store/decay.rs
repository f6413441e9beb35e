//! Sums that decay by half in 32 periods, in integers: the series behind the running averages of
//! load (PELT).
//!
//! Time is divided into periods of 2^20 ns, which begin at the same instants everywhere. The amount
//! added in a period decreases by the factor 2^(-1/32) with each period that begins after it. An
//! average is such a sum divided by [`full`], the sum for a signal that was always 1.
//!
//! Linux counts in units of 1024 ns; this file counts nanoseconds. Each step is off by less than a
//! nanosecond for each unit of the signal, and that error decays, too: it is 47 ns at most, of 48
//! million. A signal that is always 1 is always exactly full.

use crate::time::Time;

/// The length of a period, in nanoseconds.
pub(crate) const PERIOD: u64 = 1 << PERIOD_BITS;

const PERIOD_BITS: u32 = 20;

/// The number of periods after which a half is left.
const HALF_LIFE: u64 = 32;

/// The remaining part after each number of periods, times 2^32.
const LEFT: [u64; HALF_LIFE as usize] = left();

/// The sum for a signal that was always 1 at the end of a period: the fixed point of a step of the
/// series.
pub(crate) const MOST: u64 = most();

/// Returns the rest of a value after a number of periods.
#[inline]
pub(crate) const fn decay(value: u64, periods: u64) -> u64 {
    let halvings = periods / HALF_LIFE;
    if halvings >= u64::BITS as u64 {
        return 0;
    }
    let (value, left) = (value >> halvings, LEFT[(periods % HALF_LIFE) as usize]);
    ((value as u128 * left as u128) >> 32) as u64
}

/// Returns the period of an instant.
#[inline]
pub(crate) const fn period_of(at: Time) -> u64 {
    at.0 >> PERIOD_BITS
}

/// Returns the sum at an instant for a signal that was always 1.
#[inline]
pub(crate) const fn full(at: Time) -> u64 {
    MOST - PERIOD + at.0 % PERIOD
}

/// A span of time, in the terms of decaying sums.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed {
    /// The number of periods that began.
    periods: u64,
    /// The amount that a signal of 1 adds in this time.
    adds: u64,
}

impl Passed {
    /// Returns the span from one instant to another that is not earlier.
    #[inline]
    pub(crate) fn between(since: Time, now: Time) -> Passed {
        let periods = period_of(now) - period_of(since);
        // This equals the amount by which the earlier sum decayed, so a signal that was always 1
        // stays full.
        let adds = full(now) - decay(full(since), periods);
        Passed { periods, adds }
    }

    /// Returns a sum after this span, in which a signal of this strength was added.
    #[inline]
    pub(crate) fn age(self, sum: u64, signal: u64) -> u64 {
        decay(sum, self.periods) + signal * self.adds
    }
}

/// Returns 2^(-n/32) for each n, from five square roots of a half in fixed point and their powers.
const fn left() -> [u64; HALF_LIFE as usize] {
    const BITS: u32 = 62;
    let mut factor = 1_u128 << (BITS - 1);
    let mut halved = HALF_LIFE;
    while halved > 1 {
        factor = (factor << BITS).isqrt();
        halved /= 2;
    }
    let mut table = [0; HALF_LIFE as usize];
    let (mut nth, mut power) = (0, 1_u128 << BITS);
    while nth < table.len() {
        table[nth] = ((power >> (BITS - 33)) as u64).div_ceil(2);
        power = (power * factor) >> BITS;
        nth += 1;
    }
    table
}

const fn most() -> u64 {
    let mut sum = 0;
    loop {
        let next = decay(sum, 1) + PERIOD;
        if next == sum {
            return sum;
        }
        sum = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn exact(periods: f64) -> f64 {
        2_f64.powf(-periods / HALF_LIFE as f64)
    }

    #[test]
    fn factors_are_the_nearest_to_the_powers_of_two() {
        for (nth, &left) in LEFT.iter().enumerate() {
            let exact = exact(nth as f64) * 2_f64.powi(32);
            assert!((left as f64 - exact).abs() < 0.501, "{nth}: {left}, not {exact}");
        }
    }

    #[test]
    fn the_limit_is_that_of_the_series() {
        let limit = PERIOD as f64 / (1.0 - exact(1.0));
        let short = limit - MOST as f64;
        assert!((0.0..47.0).contains(&short), "{MOST} is short of {limit} by {short}");
        assert_eq!(decay(MOST, 1) + PERIOD, MOST);
    }

    proptest! {
        #[test]
        fn what_is_left_is_rounded_down(value in 0_u64..1 << 50, periods in 0_u64..2_500) {
            let (left, exact) = (decay(value, periods) as f64, value as f64 * exact(periods as f64));
            // The factors have 32 bits.
            let slack = exact * 2_f64.powi(-32) + 1e-6;
            prop_assert!(left <= exact + slack && left > exact - slack - 2.0, "{left} of {exact}");
        }

        /// Compares a signal that changes with the sum of its pieces, which are cut where periods
        /// begin.
        #[test]
        fn sums_are_those_of_the_series(
            begin in 0_u64..1 << 40,
            spans in prop::collection::vec((0_u64..1 << 24, 0_u64..3), 1..40),
        ) {
            let (mut at, mut sum, mut pieces) = (begin, 0, Vec::new());
            for &(span, signal) in &spans {
                let (since, now) = (at, at + span);
                sum = Passed::between(Time(since), Time(now)).age(sum, signal);
                while at < now {
                    let end = now.min((at / PERIOD + 1) * PERIOD);
                    pieces.push((at / PERIOD, (end - at) as f64 * signal as f64));
                    at = end;
                }
                let age = |&(period, ns): &(u64, f64)| ns * exact((now / PERIOD - period) as f64);
                let expected: f64 = pieces.iter().map(age).sum();
                prop_assert!((sum as f64 - expected).abs() < 200.0, "{sum}, not {expected}");
            }
        }

        #[test]
        fn a_signal_of_one_is_always_full(
            begin in 0_u64..1 << 40,
            spans in prop::collection::vec(0_u64..1 << 26, 1..60),
        ) {
            let (mut at, mut sum) = (Time(begin), full(Time(begin)));
            for span in spans {
                let now = Time(at.0 + span);
                sum = Passed::between(at, now).age(sum, 1);
                at = now;
                prop_assert_eq!(sum, full(at));
            }
        }
    }
}
