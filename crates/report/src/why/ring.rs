//! The last entries of a list, in bounded memory.

/// A ring that keeps the last pushed entries. It grows as it is filled.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    kept: Vec<T>,
    /// The capacity, a power of two.
    most: usize,
    pushed: usize,
}

impl<T: Copy> Ring<T> {
    /// A ring of this capacity, rounded down to a power of two.
    pub(crate) fn new(most: usize) -> Ring<T> {
        let most = 1 << most.max(1).ilog2();
        Ring { kept: Vec::new(), most, pushed: 0 }
    }

    #[inline]
    pub(crate) fn push(&mut self, it: T) {
        match self.kept.get_mut(self.pushed & (self.most - 1)) {
            Some(oldest) => *oldest = it,
            None => self.kept.push(it),
        }
        self.pushed += 1;
    }

    /// The number of the oldest kept entry; the first ever pushed has 0.
    pub(crate) fn first(&self) -> usize {
        self.pushed - self.kept.len()
    }

    /// The number of entries that were ever pushed.
    pub(crate) fn end(&self) -> usize {
        self.pushed
    }

    /// The entry of a number from [`Ring::first`] on; `None` if it is yet to come.
    pub(crate) fn get(&self, nth: usize) -> Option<T> {
        debug_assert!(nth >= self.first(), "{nth} is forgotten");
        (nth < self.pushed).then(|| self.kept[nth & (self.most - 1)])
    }

    /// The number of the first entry, from number `from` on, for which `is_before` is false. It must be true for all
    /// entries before that one and for no later one.
    pub(crate) fn after(&self, from: usize, is_before: impl Fn(&T) -> bool) -> usize {
        let (mut low, mut high) = (from, self.pushed);
        while low < high {
            let middle = low.midpoint(high);
            match is_before(&self.kept[middle & (self.most - 1)]) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_are_kept_under_their_numbers() {
        let mut ring = Ring::new(5);
        for nth in 0..11_usize {
            assert_eq!((ring.end(), ring.first()), (nth, nth.saturating_sub(4)));
            ring.push(nth);
            let kept: Vec<_> = (ring.first()..ring.end()).filter_map(|nth| ring.get(nth)).collect();
            assert_eq!(kept, (ring.first()..=nth).collect::<Vec<_>>());
        }
        assert_eq!(ring.get(11), None);
        assert_eq!([7, 9, 40].map(|it| ring.after(7, |kept| *kept < it)), [7, 9, 11]);
    }
}
