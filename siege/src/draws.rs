//! The random draws of a program. They come from a generator of its own, which a seed and a number determine.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// A generator of random draws.
#[derive(Debug)]
pub struct Draws(Pcg64Mcg);

impl Draws {
    /// Makes the generator with the number `nth` under `seed`.
    #[must_use]
    pub fn new(seed: u64, nth: u64) -> Draws {
        Draws(Pcg64Mcg::seed_from_u64(seed ^ nth.rotate_left(40)))
    }

    /// Draws any number.
    pub fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Draws a number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// Draws a number in `lowest..highest`.
    pub fn within(&mut self, lowest: u64, highest: u64) -> u64 {
        lowest + self.below(highest - lowest)
    }

    /// Draws `length` bytes.
    pub fn bytes(&mut self, length: u64) -> Vec<u8> {
        (0..length).map(|_| self.number() as u8).collect()
    }

    /// Puts the items into a drawn order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}
