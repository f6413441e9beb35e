//! What a program draws: from a generator of its own, which a seed and two numbers fix.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// Draws of one program.
#[derive(Debug)]
pub struct Draws(Pcg64Mcg);

impl Draws {
    /// For the `nth` who draws by `seed`.
    #[must_use]
    pub fn new(seed: u64, nth: u64) -> Draws {
        Draws(Pcg64Mcg::seed_from_u64(seed ^ nth.rotate_left(40)))
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// A number in `lowest..highest`.
    pub fn within(&mut self, lowest: u64, highest: u64) -> u64 {
        lowest + self.below(highest - lowest)
    }

    /// So many bytes.
    pub fn bytes(&mut self, length: u64) -> Vec<u8> {
        (0..length).map(|_| self.number() as u8).collect()
    }

    /// The items of a list in an order that is drawn.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}
