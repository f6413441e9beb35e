//! Random numbers, and the objects of random scenarios.
//!
//! This module writes the text itself, without a library: the order of keys is the order of events, and a key may be
//! repeated.

use std::fmt::Display;
use std::iter;

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

/// An object of the language: its members in their order, including repeated ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Object(Vec<String>);

impl Object {
    /// Adds a member. Its value is JSON already.
    pub(crate) fn set(&mut self, key: &str, value: impl Display) {
        self.0.push(format!("{key:?}: {value}"));
    }

    pub(crate) fn text(&self) -> String {
        format!("{{{}}}", self.0.join(", "))
    }

    /// The text with a line for each member, for an object that is indented by so many blanks.
    pub(crate) fn lines(&self, indent: usize) -> String {
        let blanks = " ".repeat(indent);
        format!("{{\n{blanks}  {}\n{blanks}}}", self.0.join(&format!(",\n{blanks}  ")))
    }
}

/// Random numbers.
pub(crate) struct Dice(Box<dyn Iterator<Item = u64>>);

/// The number of draws after which generators with seeds that differ in one bit are independent.
const WARM_UP: usize = 16;

impl Dice {
    /// The generator number `index` of those for `seed`.
    pub(crate) fn new(seed: u64, index: u64) -> Dice {
        // The generator makes its state odd, so the lowest bit of the index would be lost.
        let mut numbers = Pcg64Mcg::new((u128::from(seed) << 64) | (u128::from(index) << 1) | 1);
        Dice::of(iter::repeat_with(move || numbers.next_u64()).skip(WARM_UP))
    }

    /// These numbers, and zeros after them.
    pub(crate) fn of(numbers: impl Iterator<Item = u64> + 'static) -> Dice {
        Dice(Box::new(numbers.chain(iter::repeat(0))))
    }

    fn next(&mut self) -> u64 {
        self.0.next().expect("the numbers never end")
    }

    /// A number from `low` to `high`, both included. The bias does not matter here.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.between(1, 100) <= chance
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.between(0, end as u64 - 1) as usize
    }

    pub(crate) fn pick_of(&mut self, of: &[u64]) -> u64 {
        of[self.below(of.len())]
    }

    pub(crate) fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    /// A nice value or a latency nice value.
    pub(crate) fn nice(&mut self) -> i64 {
        self.between(0, 39) as i64 - 20
    }

    /// A number from `low` to `high`, with the same probability in each octave: small numbers and large ones.
    pub(crate) fn log_uniform(&mut self, low: u64, high: u64) -> u64 {
        let part = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let drawn = low as f64 * (high as f64 / low as f64).powf(part);
        (drawn.round() as u64).clamp(low, high)
    }

    /// A span of about `mean` microseconds, fixed or drawn.
    pub(crate) fn span(&mut self, mean: u64) -> String {
        let mean = self.between(mean / 4 + 1, mean * 2);
        match self.between(0, 5) {
            0 => format!(r#"{{"uniform": [{}, {mean}]}}"#, mean / 2),
            1 => format!(r#"{{"exponential": {mean}}}"#),
            2 => format!(r#"{{"normal": [{mean}, {}]}}"#, mean / 4),
            _ => mean.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_keeps_the_order_of_its_members_and_repeats_them() {
        let mut object = Object::default();
        object.set("run", 2);
        object.set("lock", "\"m\"");
        object.set("run", 1);
        assert_eq!(object.text(), r#"{"run": 2, "lock": "m", "run": 1}"#);
    }

    #[test]
    fn a_log_uniform_draw_is_as_often_in_each_octave() {
        let mut dice = Dice::new(1, 1);
        let drawn: Vec<_> = (0..4_000).map(|_| dice.log_uniform(2, 32)).collect();
        assert!(drawn.iter().all(|drawn| (2..=32).contains(drawn)));
        let below = drawn.iter().filter(|&&drawn| drawn < 8).count();
        // 2..7.5 of 2..32 is log(7.5 / 2) / log(16) = 47.7 %, or 1,907 of them; 100 are three standard deviations.
        assert!(below.abs_diff(1_907) < 100, "{below}");
    }
}
