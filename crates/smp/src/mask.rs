//! Sets of CPUs in which each CPU writes its own bit, and which all CPUs read.
//!
//! A reader may see a bit late. Where that matters, writer and reader follow *publish, then look* (see
//! [`crate::machine`]). Elsewhere a stale bit costs a refused offer or a missed idle CPU.

use crate::sync::{AtomicU64, Ordering};
use runyard_engine::cpu::{CpuId, CpuSet};
use std::ops::Range;

const WORD: usize = u64::BITS as usize;

/// A set with one bit for each CPU. A bit is written with its CPU's run-queue lock held, and read without it.
#[derive(Debug)]
pub(crate) struct Mask(Box<[AtomicU64]>);

impl Mask {
    pub(crate) fn new(cpus: usize) -> Mask {
        Mask((0..cpus.div_ceil(WORD)).map(|_| AtomicU64::new(0)).collect())
    }

    #[inline]
    pub(crate) fn set(&self, cpu: CpuId, on: bool) {
        let bit = 1 << (cpu.index() % WORD);
        let word = &self.0[cpu.index() / WORD];
        if on {
            word.fetch_or(bit, Ordering::Release);
        } else {
            word.fetch_and(!bit, Ordering::Release);
        }
    }

    #[inline]
    pub(crate) fn contains(&self, cpu: CpuId) -> bool {
        self.word(cpu.index() / WORD) >> (cpu.index() % WORD) & 1 == 1
    }

    /// Returns whether the set is empty. Each word is read once.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| word.load(Ordering::Acquire) == 0)
    }

    /// Returns the next member after `cpu` in ring order, other than `cpu`.
    #[inline]
    pub(crate) fn next_beside(&self, cpu: CpuId) -> Option<CpuId> {
        let (own, bit) = (cpu.index() / WORD, cpu.index() % WORD);
        let above = |word: u64| word & (u64::MAX << bit << 1);
        let words = self.0.len();
        // The word of `cpu` is read twice: first the bits above its own, and at the end the bits below.
        (0..=words).find_map(|nth| {
            // A division takes as long as all the rest.
            let at = if own + nth < words { own + nth } else { own + nth - words };
            let word = self.word(at);
            let word = match nth {
                0 => above(word),
                last if last == words => word & !above(word) & !(1 << bit),
                _ => word,
            };
            (word != 0).then(|| CpuId::at(at * WORD + word.trailing_zeros() as usize))
        })
    }

    #[inline]
    pub(crate) fn word(&self, index: usize) -> u64 {
        self.0[index].load(Ordering::Acquire)
    }

    /// Returns the number of CPUs of `range` that are in both sets. Each word is read once.
    #[inline]
    pub(crate) fn count(&self, with: &CpuSet, range: Range<usize>) -> usize {
        let (first, last) = (range.start / WORD, range.end.div_ceil(WORD));
        let in_range = |at: usize| {
            let below = |end: usize| match end.saturating_sub(at * WORD) {
                bits if bits < WORD => (1 << bits) - 1,
                _ => u64::MAX,
            };
            below(range.end) & !below(range.start)
        };
        let words = (first..last).map(|at| (at, with.word(at) & in_range(at)));
        let both = words.map(|(at, wanted)| if wanted == 0 { 0 } else { wanted & self.word(at) });
        both.map(|word| word.count_ones() as usize).sum()
    }

    /// Returns the CPUs of `range` that are in both sets, in ring order from `start`. Each word is read once, and that
    /// of `start` twice.
    #[inline]
    pub(crate) fn ring<'a>(
        &'a self,
        with: &'a CpuSet,
        range: Range<usize>,
        start: CpuId,
    ) -> impl Iterator<Item = CpuId> + 'a {
        let start = start.index().clamp(range.start, range.end.saturating_sub(1));
        let high = Bits::new(self, with, start..range.end);
        high.chain(Bits::new(self, with, range.start..start))
    }
}

/// An iterator over the CPUs of a range that are in both sets, in order.
struct Bits<'a> {
    mask: &'a Mask,
    with: &'a CpuSet,
    range: Range<usize>,
    /// The remaining bits of the word in which `range` starts. The word is read when the iteration reaches it.
    left: Option<u64>,
}

impl<'a> Bits<'a> {
    #[inline]
    fn new(mask: &'a Mask, with: &'a CpuSet, range: Range<usize>) -> Bits<'a> {
        Bits { mask, with, range, left: None }
    }
}

impl Iterator for Bits<'_> {
    type Item = CpuId;

    #[inline]
    fn next(&mut self) -> Option<CpuId> {
        while self.range.start < self.range.end {
            let at = self.range.start / WORD;
            let (mask, with, from) = (self.mask, self.with, self.range.start % WORD);
            let left = self.left.get_or_insert_with(|| {
                let wanted = with.word(at) & u64::MAX << from;
                if wanted == 0 { 0 } else { wanted & mask.word(at) }
            });
            if *left == 0 {
                self.left = None;
                self.range.start = (at + 1) * WORD;
                continue;
            }
            let cpu = at * WORD + left.trailing_zeros() as usize;
            *left &= *left - 1;
            return (cpu < self.range.end).then(|| CpuId::at(cpu));
        }
        None
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn the_ring_starts_where_it_is_told_and_stays_in_range() {
        let mask = Mask::new(200);
        for cpu in [0, 3, 64, 65, 130, 199] {
            mask.set(CpuId(cpu), true);
        }
        let all = CpuSet::first(200);
        let ring = |range: Range<usize>, start| {
            mask.ring(&all, range, CpuId(start)).map(|cpu| cpu.0).collect::<Vec<_>>()
        };
        assert_eq!(ring(0..200, 64), [64, 65, 130, 199, 0, 3]);
        assert_eq!(ring(0..200, 66), [130, 199, 0, 3, 64, 65]);
        assert_eq!(ring(1..131, 0), [3, 64, 65, 130]);
        assert_eq!(ring(4..64, 10), [] as [u16; 0]);
        let counts = [0..200, 1..131, 4..64, 64..65, 65..200, 130..131, 131..199, 7..7];
        assert_eq!(counts.map(|range| mask.count(&all, range)), [6, 4, 0, 1, 3, 1, 0, 0]);
        let few: CpuSet = [CpuId(3), CpuId(199)].into_iter().collect();
        assert_eq!(mask.ring(&few, 0..200, CpuId(4)).collect::<Vec<_>>(), [CpuId(199), CpuId(3)]);
        assert_eq!((mask.count(&few, 0..200), mask.count(&few, 0..199)), (2, 1));
        let beside = |cpu| mask.next_beside(CpuId(cpu)).map(|cpu| cpu.0);
        assert_eq!([0, 3, 63, 65, 130, 199].map(beside), [3, 64, 64, 130, 199, 0].map(Some));
        let one = Mask::new(64);
        one.set(CpuId(63), true);
        let beside = |cpu| one.next_beside(CpuId(cpu)).map(|cpu| cpu.0);
        assert_eq!([0, 62, 63].map(beside), [Some(63), Some(63), None]);
        mask.set(CpuId(3), false);
        assert!(!mask.contains(CpuId(3)) && mask.contains(CpuId(199)));
    }
}
