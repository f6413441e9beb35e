//! Durations, fixed or random, with the same result on every machine.

use crate::ids::SpecId;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use runyard_engine::cpu::CpuId;
use runyard_engine::time::Nanos;
use std::f64::consts::{PI, SQRT_2};

/// A duration that is drawn for each use. Its bits come from a generator alone and the arithmetic from a software library,
/// so it is the same on every machine.
///
/// ```
/// use rand_pcg::Pcg64Mcg;
/// use runyard_engine::time::Nanos;
/// use runyard_workload::draw::Draw;
///
/// let tail = Draw::Tail { usual: Nanos(100), extra: Nanos(50), often: 1_000_000 }; // in one of 100
/// assert!(tail.sample(&mut Pcg64Mcg::new(1)) >= Nanos(100));
/// assert_eq!(tail.mean(), 100.5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// A constant.
    Fixed(Nanos),
    /// A uniform distribution from the first value to the second, both included.
    Uniform(Nanos, Nanos),
    /// An exponential distribution with this mean.
    Exponential(Nanos),
    /// A normal distribution; a negative value becomes zero.
    Normal {
        /// The mean.
        mean: Nanos,
        /// The standard deviation.
        sd: Nanos,
    },
    /// A lognormal distribution.
    Lognormal {
        /// The mean of the values, not that of their logarithms. It is not zero.
        mean: Nanos,
        /// The standard deviation of the values.
        sd: Nanos,
    },
    /// A Pareto distribution: a value is above `x` with the probability (`least` / `x`)^`shape`.
    Pareto {
        /// The least value.
        least: Nanos,
        /// The shape, in millionths. It is above 1, as there is no mean below.
        shape: u32,
    },
    /// A Weibull distribution: a value is above `x` with the probability exp(-(`x` / `scale`)^`shape`).
    Weibull {
        /// The scale: 63.2 % of the values are below.
        scale: Nanos,
        /// The shape, in millionths. It is not zero.
        shape: u32,
    },
    /// A constant with a tail: some draws have an additional exponential time.
    Tail {
        /// The constant.
        usual: Nanos,
        /// The mean of the additional time.
        extra: Nanos,
        /// The share of the draws that have it, in millionths of a per cent.
        often: u32,
    },
    /// One of these measured values, each as likely as the others. There is at least one.
    Values(&'static [Nanos]),
}

impl Draw {
    /// The longest time that is drawn: 36 years, more than any run.
    pub const LONGEST: Nanos = Nanos(1 << 60);

    /// Draws one value.
    pub fn sample(self, rng: &mut impl Rng) -> Nanos {
        match self {
            Draw::Fixed(span) => span,
            Draw::Uniform(low, high) => low + Nanos(below(rng, high.0 - low.0 + 1)),
            Draw::Exponential(mean) => scaled(mean, exponential(rng)),
            Draw::Normal { mean, sd } => nanos(mean.0 as f64 + normal(sd.0 as f64, rng)),
            Draw::Lognormal { mean, sd } => {
                let (mu, sigma) = logarithms(mean, sd);
                nanos(libm::exp(mu + normal(sigma, rng)))
            }
            Draw::Pareto { least, shape } => {
                scaled(least, libm::exp(exponential(rng) / decimal(shape)))
            }
            Draw::Weibull { scale, shape } => {
                scaled(scale, libm::pow(exponential(rng), 1.0 / decimal(shape)))
            }
            Draw::Tail { usual, extra, often } => match below(rng, 100 * MILLION) < often.into() {
                true => usual + scaled(extra, exponential(rng)),
                false => usual,
            },
            Draw::Values(values) => values[below(rng, values.len() as u64) as usize],
        }
    }

    /// Returns the mean of the draws in nanoseconds, in which negative values and those beyond [`Draw::LONGEST`] are cut.
    #[must_use]
    pub fn mean(self) -> f64 {
        let longest = Draw::LONGEST.0 as f64;
        match self {
            Draw::Normal { mean, sd } if sd > Nanos::ZERO => {
                let (mean, sd) = (mean.0 as f64, sd.0 as f64);
                let density = libm::exp(-0.5 * (mean / sd) * (mean / sd));
                mean * below_normal(mean / sd) + sd * density / libm::sqrt(2.0 * PI)
            }
            Draw::Lognormal { mean, sd } if sd > Nanos::ZERO => {
                let (mu, sigma) = logarithms(mean, sd);
                let cut = (libm::log(longest) - mu) / sigma;
                mean.0 as f64 * below_normal(cut - sigma) + longest * below_normal(-cut)
            }
            Draw::Pareto { least, shape } if least > Nanos::ZERO => {
                let (least, more) = (least.0 as f64, decimal(shape) - 1.0);
                self.uncut_mean() - least * libm::pow(least / longest, more) / more
            }
            _ => self.uncut_mean(),
        }
    }

    /// Returns the mean that the distribution has without a cut, in nanoseconds.
    #[must_use]
    pub fn uncut_mean(self) -> f64 {
        match self {
            Draw::Fixed(mean) | Draw::Exponential(mean) => mean.0 as f64,
            Draw::Normal { mean, .. } | Draw::Lognormal { mean, .. } => mean.0 as f64,
            Draw::Uniform(low, high) => (low.0 as f64 + high.0 as f64) / 2.0,
            Draw::Pareto { least, shape } => {
                least.0 as f64 * decimal(shape) / (decimal(shape) - 1.0)
            }
            Draw::Weibull { scale, shape } => {
                scale.0 as f64 * libm::tgamma(1.0 + 1.0 / decimal(shape))
            }
            Draw::Tail { usual, extra, often } => {
                usual.0 as f64 + extra.0 as f64 * decimal(often) / 100.0
            }
            Draw::Values(values) => {
                values.iter().map(|value| value.0 as f64).sum::<f64>() / values.len() as f64
            }
        }
    }

    /// Returns whether any value is above zero.
    #[must_use]
    pub fn may_last(self) -> bool {
        let longest = match self {
            Draw::Fixed(span) | Draw::Uniform(_, span) | Draw::Exponential(span) => span,
            Draw::Normal { mean, sd } => mean + sd,
            Draw::Lognormal { mean, .. } => mean,
            Draw::Pareto { least, .. } => least,
            Draw::Weibull { scale, .. } => scale,
            Draw::Tail { usual, extra, often } => usual + Nanos(extra.0 * u64::from(often.min(1))),
            Draw::Values(values) => values.iter().copied().max().unwrap_or_default(),
        };
        longest > Nanos::ZERO
    }
}

const MILLION: u64 = 1_000_000;

/// Returns a number that is kept in millionths.
fn decimal(millionths: u32) -> f64 {
    f64::from(millionths) / MILLION as f64
}

/// Returns mean and deviation of the logarithms of lognormal values with this mean and deviation.
fn logarithms(mean: Nanos, sd: Nanos) -> (f64, f64) {
    let (mean, sd) = (mean.0 as f64, sd.0 as f64);
    let variance = libm::log1p((sd / mean) * (sd / mean));
    (libm::log(mean) - variance / 2.0, libm::sqrt(variance))
}

/// Returns the probability that a normal value of mean 0 and deviation 1 is below `x`.
fn below_normal(x: f64) -> f64 {
    libm::erfc(-x / SQRT_2) / 2.0
}

/// Draws an exponential number with mean 1.
pub(crate) fn exponential(rng: &mut impl Rng) -> f64 {
    -libm::log(1.0 - unit(rng))
}

/// Draws a normal number with mean 0 and this deviation.
fn normal(sd: f64, rng: &mut impl Rng) -> f64 {
    let radius = libm::sqrt(2.0 * exponential(rng));
    let angle = 2.0 * PI * unit(rng);
    sd * radius * libm::cos(angle)
}

/// Draws an integer of `0..bound`, by multiplication: the bias is below `bound` / 2^64.
///
/// # Panics
/// If `bound` is zero.
pub fn below(rng: &mut impl Rng, bound: u64) -> u64 {
    assert!(bound > 0, "nothing is below zero");
    ((u128::from(rng.next_u64()) * u128::from(bound)) >> 64) as u64
}

/// Draws a number of [0, 1) with 53 random bits.
fn unit(rng: &mut impl Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

fn scaled(mean: Nanos, factor: f64) -> Nanos {
    nanos(mean.0 as f64 * factor)
}

/// Returns the nearest span. A negative value and NaN become zero, and a large one is cut.
fn nanos(value: f64) -> Nanos {
    Nanos(libm::round(value) as u64).min(Draw::LONGEST)
}

/// The purpose of a generator of random draws.
#[derive(Clone, Copy, Debug)]
pub enum Stream {
    /// The order of simultaneous events in the simulator.
    Order,
    /// The costs of one kind on a simulated CPU.
    Cost(CpuId, u32),
    /// An instance of a thread object.
    Task(SpecId, u32),
    /// A task forked from a thread object, by its number among those forks.
    Fork(SpecId, u32),
    /// The time that the system calls of an instance of a thread object take.
    CallsOfTask(SpecId, u32),
    /// The same of a forked task.
    CallsOfFork(SpecId, u32),
    /// The times of the arrivals with this number.
    Arrivals(u32),
}

/// Returns the generator for one purpose. A draw for one purpose does not change the draws for another.
#[must_use]
pub fn stream(seed: u64, stream: Stream) -> Pcg64Mcg {
    let pair = |kind: u64, a: u32, b: u32| kind << 62 | u64::from(a) << 32 ^ u64::from(b) << 1;
    let name = match stream {
        Stream::Order => pair(0, 0, 0),
        Stream::Arrivals(nth) => pair(0, nth + 1, 0),
        Stream::Cost(cpu, kind) => pair(1, kind, cpu.0.into()),
        Stream::Task(spec, nth) => pair(2, spec.0, nth),
        Stream::Fork(spec, nth) => pair(3, spec.0, nth),
        Stream::CallsOfTask(spec, nth) => pair(2, spec.0, nth) | 1,
        Stream::CallsOfFork(spec, nth) => pair(3, spec.0, nth) | 1,
    };
    Pcg64Mcg::new(u128::from(mix(seed)) << 64 | u128::from(mix(seed ^ mix(name))))
}

/// Spreads every bit of `x` over all 64 (the finalizer of SplitMix64).
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEAN: Nanos = Nanos(1_000_000);
    const COUNT: u32 = 300_000;

    fn samples(draw: Draw) -> impl Iterator<Item = f64> {
        let mut rng = Pcg64Mcg::new(7);
        (0..COUNT).map(move |_| draw.sample(&mut rng).0 as f64)
    }

    #[test]
    fn draws_have_their_means() {
        for draw in [
            Draw::Uniform(Nanos(0), Nanos(2_000_000)),
            Draw::Exponential(MEAN),
            Draw::Normal { mean: MEAN, sd: Nanos(10_000) },
            Draw::Normal { mean: MEAN, sd: Nanos(2_000_000) },
            Draw::Lognormal { mean: MEAN, sd: MEAN },
            Draw::Lognormal { mean: MEAN, sd: Nanos::ZERO },
            Draw::Pareto { least: MEAN, shape: 3_000_000 },
            Draw::Weibull { scale: MEAN, shape: 700_000 },
            Draw::Weibull { scale: MEAN, shape: 2_000_000 },
            Draw::Tail { usual: MEAN, extra: Nanos(9_000_000), often: 10_000_000 },
            Draw::Values(&[Nanos(1), Nanos(2_000), Nanos(999_999)]),
        ] {
            let mean = samples(draw).sum::<f64>() / f64::from(COUNT);
            assert!((mean / draw.mean() - 1.0).abs() < 0.01, "{draw:?}: {mean}");
        }
    }

    /// The expected values are those of tables: P(X < mean) for each shape.
    #[test]
    fn draws_have_their_shapes() {
        for (draw, below) in [
            (Draw::Lognormal { mean: MEAN, sd: MEAN }, 0.6615), // Phi(sqrt(ln 2) / 2)
            (Draw::Pareto { least: MEAN, shape: 2_000_000 }, 0.75), // 1 - (1 / 2)^2
            (Draw::Weibull { scale: MEAN, shape: 1_000_000 }, 0.6321), // 1 - 1 / e
            (Draw::Weibull { scale: MEAN, shape: 2_000_000 }, 0.5441), // 1 - exp(-pi / 4)
            (Draw::Tail { usual: MEAN, extra: MEAN, often: 25_000_000 }, 0.75 + 0.25 * 0.2212),
        ] {
            let share =
                samples(draw).filter(|&it| it <= draw.mean()).count() as f64 / f64::from(COUNT);
            assert!((share - below).abs() < 0.005, "{draw:?}: {share}");
        }
    }

    #[test]
    fn a_cut_changes_the_mean() {
        let normal = Draw::Normal { mean: Nanos(100), sd: Nanos(200) };
        assert_eq!((normal.mean().round(), normal.uncut_mean()), (140.0, 100.0));
        let wide = Draw::Lognormal { mean: Nanos(1_000), sd: Nanos(1 << 52) };
        assert!(wide.mean() < 0.9 * wide.uncut_mean());
        let heavy = Draw::Pareto { least: Nanos(100_000), shape: 1_010_000 };
        assert!(heavy.mean() < 0.3 * heavy.uncut_mean());
        let least = Draw::Weibull { scale: Nanos(2_147_483_647_000), shape: 300_000 };
        assert!(samples(least).all(|value| value < Draw::LONGEST.0 as f64));
    }

    /// The expected values are those of the first machine that ran this test.
    #[test]
    fn a_draw_is_the_same_on_every_machine() {
        let mut rng = Pcg64Mcg::new(1);
        let normal = Draw::Normal { mean: MEAN, sd: Nanos(300_000) };
        let exponential = Draw::Exponential(MEAN);
        let drawn = [(); 3].map(|()| (normal.sample(&mut rng).0, exponential.sample(&mut rng).0));
        assert_eq!(drawn, [(1_315_750, 2_076_435), (930_766, 744_248), (343_412, 228_181)]);
        let all = [
            Draw::Lognormal { mean: MEAN, sd: MEAN },
            Draw::Pareto { least: MEAN, shape: 1_500_000 },
            Draw::Weibull { scale: MEAN, shape: 700_000 },
            Draw::Tail { usual: MEAN, extra: MEAN, often: 50_000_000 },
        ];
        assert_eq!(
            all.map(|draw| draw.sample(&mut rng).0),
            [788_482, 3_231_162, 385_276, 1_273_203]
        );
    }
}
