//! The last of many things, in bounded memory.

/// Keeps what was pushed last. It grows as it is filled.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    kept: Vec<T>,
    /// A power of two.
    most: usize,
    pushed: usize,
}

impl<T: Copy> Ring<T> {
    /// One that keeps so many, rounded down to a power of two.
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

    /// The number of the oldest that is kept; the first ever pushed has 0.
    pub(crate) fn first(&self) -> usize {
        self.pushed - self.kept.len()
    }

    /// How many were ever pushed.
    pub(crate) fn end(&self) -> usize {
        self.pushed
    }

    /// That of a number from [`Ring::first`] on; `None` if it is yet to come.
    pub(crate) fn get(&self, nth: usize) -> Option<T> {
        debug_assert!(nth >= self.first(), "{nth} is forgotten");
        (nth < self.pushed).then(|| self.kept[nth & (self.most - 1)])
    }

    /// The number of the first, from number `from` on, of which `is_before` does not hold; it holds of those before that alone.
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
