//! Durations, fixed or random, with the same result on every machine.

use crate::ids::SpecId;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use runyard_engine::cpu::CpuId;
use runyard_engine::time::Nanos;

/// A duration that is drawn for each use.
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
}

impl Draw {
    /// Draws one value. The random bits come from `rng` alone and the arithmetic from a software library, so the result
    /// is the same on every machine.
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

/// Returns the nearest span. A negative value and NaN become zero, and a large value saturates.
fn nanos(value: f64) -> Nanos {
    Nanos(libm::round(value) as u64)
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
}

/// Returns the generator for one purpose. A draw for one purpose does not change the draws for another.
#[must_use]
pub fn stream(seed: u64, stream: Stream) -> Pcg64Mcg {
    let pair = |kind: u64, a: u32, b: u32| kind << 62 | u64::from(a) << 32 ^ u64::from(b) << 1;
    let name = match stream {
        Stream::Order => pair(0, 0, 0),
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

    /// The expected values are those of the first machine that ran this test.
    #[test]
    fn a_draw_is_the_same_on_every_machine() {
        let mut rng = Pcg64Mcg::new(1);
        let normal = Draw::Normal { mean: Nanos(1_000_000), sd: Nanos(300_000) };
        let exponential = Draw::Exponential(Nanos(1_000_000));
        let drawn = [(); 3].map(|()| (normal.sample(&mut rng).0, exponential.sample(&mut rng).0));
        assert_eq!(drawn, [(1_315_750, 2_076_435), (930_766, 744_248), (343_412, 228_181)]);
    }
}
