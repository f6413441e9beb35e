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
    /// The place of this CPU in an array with one element for each CPU.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The CPU at place `index`.
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

/// An immutable set of CPUs, cheap to clone: a task's affinity, a domain's span.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CpuSet {
    words: Arc<[u64]>,
    len: u32,
}

impl CpuSet {
    /// The CPUs `0..n`.
    ///
    /// # Panics
    /// If `n` is above [`MAX_CPUS`].
    #[must_use]
    pub fn first(n: usize) -> CpuSet {
        assert!(n <= MAX_CPUS, "a machine has at most 65,536 CPUs");
        (0..n).map(CpuId::at).collect()
    }

    /// Just `cpu`.
    #[must_use]
    pub fn only(cpu: CpuId) -> CpuSet {
        std::iter::once(cpu).collect()
    }

    /// Whether `cpu` is in the set.
    #[must_use]
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.word(cpu.index() / WORD) >> (cpu.index() % WORD) & 1 == 1
    }

    /// How many CPUs are in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether no CPU is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The set as 64-bit words, lowest CPU in the lowest bit of the first; absent words are empty.
    #[must_use]
    pub fn word(&self, index: usize) -> u64 {
        self.words.get(index).copied().unwrap_or(0)
    }

    /// How many words [`CpuSet::word`] has that may be other than zero.
    #[must_use]
    pub fn words(&self) -> usize {
        self.words.len()
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            (0..WORD)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |bit| CpuId::at(at * WORD + bit))
        })
    }

    /// The CPUs that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &CpuSet) -> CpuSet {
        CpuSet::from_words(
            (0..self.words().min(other.words())).map(|at| self.word(at) & other.word(at)).collect(),
        )
    }

    fn from_words(mut words: Vec<u64>) -> CpuSet {
        words.truncate(words.iter().rposition(|&word| word != 0).map_or(0, |last| last + 1));
        let len = words.iter().map(|word| word.count_ones()).sum();
        CpuSet { words: words.into(), len }
    }
}

impl FromIterator<CpuId> for CpuSet {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> CpuSet {
        let mut words = Vec::new();
        for cpu in cpus {
            let at = cpu.index() / WORD;
            if at >= words.len() {
                words.resize(at + 1, 0);
            }
            words[at] |= 1 << (cpu.index() % WORD);
        }
        CpuSet::from_words(words)
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
        assert_eq!(set.len(), 6);
        assert!(set.contains(CpuId(70)) && !set.contains(CpuId(69)) && !set.contains(CpuId(9_000)));
    }

    #[test]
    fn equal_sets_are_equal_however_they_were_made() {
        let far: CpuSet = [CpuId(1), CpuId(200)].into_iter().collect();
        assert_eq!(far.intersection(&CpuSet::first(100)), CpuSet::only(CpuId(1)));
        assert!(far.intersection(&CpuSet::only(CpuId(2))).is_empty());
    }
}
