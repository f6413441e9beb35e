//! Names of CPUs and sets of them.

use std::fmt;
use std::sync::Arc;

/// A simulated CPU, or a slot of the runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuId(pub u16);

/// The most CPUs that a machine may have: a [`CpuId`] has 16 bits.
pub const MAX_CPUS: usize = 65_536;

const WORD: usize = u64::BITS as usize;

impl CpuId {
    /// Returns the index of this CPU in an array with one element for each CPU.
    #[inline]
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Returns the CPU with this index.
    ///
    /// # Panics
    /// If `index` is not below [`MAX_CPUS`].
    #[must_use]
    pub fn at(index: usize) -> CpuId {
        CpuId(u16::try_from(index).expect("a machine has at most 65,536 CPUs"))
    }
}

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// An immutable set of CPUs that is cheap to clone: a task's affinity, or a domain's span. On a
/// machine of up to 64 CPUs it takes no memory of its own.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CpuSet(Words);

/// No CPU.
impl Default for CpuSet {
    fn default() -> CpuSet {
        CpuSet::empty()
    }
}

/// The bits of a set. The variant follows from the CPUs in it, so equal sets have equal variants.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Words {
    /// The bits of CPUs below 64.
    One(u64),
    /// The number of CPUs, then their bits. The last word is not 0.
    Many(Arc<[u64]>),
}

impl CpuSet {
    /// Returns the CPUs `0..n`.
    ///
    /// # Panics
    /// If `n` is above [`MAX_CPUS`].
    #[must_use]
    pub fn first(n: usize) -> CpuSet {
        assert!(n <= MAX_CPUS, "a machine has at most 65,536 CPUs");
        (0..n).map(CpuId::at).collect()
    }

    /// Returns the set of one CPU.
    #[must_use]
    pub fn only(cpu: CpuId) -> CpuSet {
        std::iter::once(cpu).collect()
    }

    /// Returns the set without any CPU.
    #[must_use]
    pub const fn empty() -> CpuSet {
        CpuSet(Words::One(0))
    }

    /// Returns the CPUs that are in both sets.
    ///
    /// ```
    /// use runyard_engine::cpu::{CpuId, CpuSet};
    ///
    /// let (few, more) = (CpuSet::first(3), CpuSet::first(100));
    /// assert_eq!(more.intersection(&few), few);
    /// assert_eq!(few.without(&CpuSet::first(2)), CpuSet::only(CpuId(2)));
    /// ```
    #[must_use]
    pub fn intersection(&self, other: &CpuSet) -> CpuSet {
        let words = self.words().min(other.words());
        CpuSet::from_words((0..words).map(|at| (at, self.word(at) & other.word(at))))
    }

    /// Returns the CPUs of this set that are not in `other`.
    #[must_use]
    pub fn without(&self, other: &CpuSet) -> CpuSet {
        CpuSet::from_words((0..self.words()).map(|at| (at, self.word(at) & !other.word(at))))
    }

    /// Returns whether `cpu` is in the set.
    #[inline]
    #[must_use]
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.word(cpu.index() / WORD) >> (cpu.index() % WORD) & 1 == 1
    }

    /// Returns the number of CPUs in the set.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Words::One(word) => word.count_ones() as usize,
            Words::Many(words) => words[0] as usize,
        }
    }

    /// Returns whether no CPU is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0 == Words::One(0)
    }

    /// Returns one of the 64-bit words of the set, with the lowest CPU in the lowest bit of the
    /// first; absent words are empty.
    #[inline]
    #[must_use]
    pub fn word(&self, index: usize) -> u64 {
        match &self.0 {
            Words::One(word) if index == 0 => *word,
            Words::One(_) => 0,
            Words::Many(words) => words.get(index + 1).copied().unwrap_or(0),
        }
    }

    /// Returns the number of words of [`CpuSet::word`] that may be other than zero.
    #[inline]
    #[must_use]
    pub fn words(&self) -> usize {
        match &self.0 {
            Words::One(_) => 1,
            Words::Many(words) => words.len() - 1,
        }
    }

    /// Returns the CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        (0..self.words()).flat_map(|at| {
            let word = self.word(at);
            (0..WORD)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |bit| CpuId::at(at * WORD + bit))
        })
    }

    /// Returns the set with these words, each with its index, in any order; absent ones are empty.
    fn from_words(words: impl Iterator<Item = (usize, u64)>) -> CpuSet {
        let (mut first, mut more) = (0, Vec::new());
        for (at, word) in words.filter(|&(_, word)| word != 0) {
            match at.checked_sub(1) {
                None => first |= word,
                Some(at) => {
                    more.resize(more.len().max(at + 1), 0);
                    more[at] |= word;
                }
            }
        }
        if more.is_empty() {
            return CpuSet(Words::One(first));
        }
        let len =
            std::iter::once(&first).chain(&more).map(|word| u64::from(word.count_ones())).sum();
        CpuSet(Words::Many([len, first].into_iter().chain(more).collect()))
    }
}

impl FromIterator<CpuId> for CpuSet {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> CpuSet {
        let bit = |cpu: CpuId| (cpu.index() / WORD, 1 << (cpu.index() % WORD));
        CpuSet::from_words(cpus.into_iter().map(bit))
    }
}

/// Ranges as in `taskset -c`: `0-3,8`.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().map(CpuId::index).peekable();
        let mut separator = "";
        while let Some(low) = cpus.next() {
            let mut high = low;
            while cpus.next_if_eq(&(high + 1)).is_some() {
                high += 1;
            }
            match high - low {
                0 => write!(f, "{separator}{low}")?,
                _ => write!(f, "{separator}{low}-{high}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_prints_as_ranges() {
        let set: CpuSet = [0, 1, 2, 8, 70, 71].map(CpuId).into_iter().collect();
        assert_eq!(set.to_string(), "0-2,8,70-71");
        assert_eq!((set.len(), set.words(), set.is_empty()), (6, 2, false));
        assert_eq!((CpuSet::only(CpuId(70)).len(), CpuSet::first(0).is_empty()), (1, true));
        assert!(set.contains(CpuId(70)) && !set.contains(CpuId(69)) && !set.contains(CpuId(9_000)));
    }

    #[test]
    fn equal_sets_are_equal_however_they_were_made() {
        let cpus = |cpus: &[u16]| cpus.iter().copied().map(CpuId).collect::<CpuSet>();
        assert_eq!(cpus(&[70, 3, 70]).iter().collect::<Vec<_>>(), [CpuId(3), CpuId(70)]);
        assert_eq!(cpus(&[70, 3]).len(), 2);
    }
}
