//! Durations, fixed or random, with the same result on every machine.

use rand_core::Rng;
use runyard_engine::time::Nanos;

/// How long something takes, drawn anew each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// Always the same.
    Fixed(Nanos),
    /// Each value from the first to the second, both included, equally often.
    Uniform(Nanos, Nanos),
    /// Memoryless, with this mean.
    Exponential(Nanos),
    /// The bell curve; what would be negative is zero.
    Normal {
        /// The mean.
        mean: Nanos,
        /// The standard deviation.
        sd: Nanos,
    },
}

impl Draw {
    /// One value. The random bits come from `rng` alone and the arithmetic is that of a software
    /// library, so that the result is the same on every machine.
    pub fn sample(self, rng: &mut impl Rng) -> Nanos {
        match self {
            Draw::Fixed(span) => span,
            Draw::Uniform(low, high) => low + Nanos(below(rng, high.0 - low.0 + 1)),
            Draw::Exponential(mean) => scaled(mean, -libm::log(1.0 - unit(rng))),
            Draw::Normal { mean, sd } => {
                let radius = libm::sqrt(-2.0 * libm::log(1.0 - unit(rng)));
                let angle = 2.0 * std::f64::consts::PI * unit(rng);
                nanos(mean.0 as f64 + sd.0 as f64 * radius * libm::cos(angle))
            }
        }
    }
}

/// An integer of `0..bound`, by multiplication: the bias is below `bound` / 2^64.
///
/// # Panics
/// If `bound` is zero.
pub fn below(rng: &mut impl Rng, bound: u64) -> u64 {
    assert!(bound > 0, "nothing is below zero");
    ((u128::from(rng.next_u64()) * u128::from(bound)) >> 64) as u64
}

/// A number of [0, 1) with 53 random bits.
fn unit(rng: &mut impl Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

fn scaled(mean: Nanos, factor: f64) -> Nanos {
    nanos(mean.0 as f64 * factor)
}

/// The nearest span; negative and NaN give zero, the rest saturates.
fn nanos(value: f64) -> Nanos {
    Nanos(libm::round(value) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_pcg::Pcg64Mcg;

    fn mean(draw: Draw) -> u64 {
        let mut rng = Pcg64Mcg::new(7);
        (0..100_000).map(|_| draw.sample(&mut rng).0).sum::<u64>() / 100_000
    }

    #[test]
    fn draws_have_their_means() {
        let near = |got: u64, want: u64| got.abs_diff(want) * 100 < want;
        assert!(near(mean(Draw::Uniform(Nanos(0), Nanos(2_000_000))), 1_000_000));
        assert!(near(mean(Draw::Exponential(Nanos(1_000_000))), 1_000_000));
        let normal = Draw::Normal { mean: Nanos(1_000_000), sd: Nanos(10_000) };
        assert!(near(mean(normal), 1_000_000));
    }

    /// The values are those of the first machine that ran this.
    #[test]
    fn a_draw_is_the_same_on_every_machine() {
        let mut rng = Pcg64Mcg::new(1);
        let normal = Draw::Normal { mean: Nanos(1_000_000), sd: Nanos(300_000) };
        let exponential = Draw::Exponential(Nanos(1_000_000));
        let drawn = [(); 3].map(|()| (normal.sample(&mut rng).0, exponential.sample(&mut rng).0));
        assert_eq!(drawn, [(1_315_750, 2_076_435), (930_766, 744_248), (343_412, 228_181)]);
    }
}
