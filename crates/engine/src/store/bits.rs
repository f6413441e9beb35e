//! A set of numbers below a bound. Up to 64 numbers take no memory of their own.

/// A set of numbers below a bound.
#[derive(Debug)]
pub(crate) enum Bits {
    Few(u64),
    Many(Box<[u64]>),
}

const WORD: usize = u64::BITS as usize;

impl Bits {
    /// Returns an empty set of numbers below `bound`.
    pub(crate) fn new(bound: usize) -> Bits {
        match bound {
            0..=WORD => Bits::Few(0),
            _ => Bits::Many(vec![0; bound.div_ceil(WORD)].into()),
        }
    }

    fn words(&self) -> &[u64] {
        match self {
            Bits::Few(word) => std::slice::from_ref(word),
            Bits::Many(words) => words,
        }
    }

    pub(crate) fn set(&mut self, nth: usize, on: bool) {
        let words = match self {
            Bits::Few(word) => std::slice::from_mut(word),
            Bits::Many(words) => words,
        };
        let (word, bit) = (&mut words[nth / WORD], 1 << (nth % WORD));
        *word = if on { *word | bit } else { *word & !bit };
    }

    /// Returns the least number in the set.
    #[inline]
    pub(crate) fn first(&self) -> Option<usize> {
        let mut words = self.words().iter().enumerate();
        let (at, word) = words.find(|&(_, &word)| word != 0)?;
        Some(at * WORD + word.trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_first_however_many_there_may_be() {
        for bound in [1, 64, 65, 200] {
            let mut bits = Bits::new(bound);
            assert_eq!(bits.first(), None);
            (0..bound).rev().for_each(|nth| bits.set(nth, true));
            for nth in 0..bound {
                assert_eq!(bits.first(), Some(nth));
                bits.set(nth, false);
            }
            assert_eq!(bits.first(), None);
        }
    }
}
