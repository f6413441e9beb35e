//! Numbered places for things that come and go.

use crate::list::List;

/// Things by the numbers of their places.
#[derive(Debug)]
pub(crate) struct Places<T> {
    entries: List<Entry<T>>,
    /// The place that was freed last, or the first that was never taken.
    next: usize,
    len: usize,
}

#[derive(Debug)]
enum Entry<T> {
    Taken(T),
    /// The place that is free after this one.
    Free(usize),
}

impl<T> Default for Places<T> {
    fn default() -> Places<T> {
        Places { entries: List::new(), next: 0, len: 0 }
    }
}

impl<T> Places<T> {
    /// Where the next thing comes to be.
    pub(crate) fn next(&self) -> usize {
        self.next
    }

    pub(crate) fn insert(&mut self, thing: T) -> usize {
        let at = self.next;
        match self.entries.get_mut(at) {
            None => {
                self.entries.push(Entry::Taken(thing));
                self.next = at + 1;
            }
            Some(entry) => match std::mem::replace(entry, Entry::Taken(thing)) {
                Entry::Free(next) => self.next = next,
                Entry::Taken(_) => unreachable!("a place is free once"),
            },
        }
        self.len += 1;
        at
    }

    /// # Panics
    /// If nothing is at `at`.
    pub(crate) fn remove(&mut self, at: usize) -> T {
        match std::mem::replace(&mut self.entries[at], Entry::Free(self.next)) {
            Entry::Taken(thing) => {
                (self.next, self.len) = (at, self.len - 1);
                thing
            }
            Entry::Free(_) => unreachable!("the place is taken"),
        }
    }

    pub(crate) fn get(&self, at: usize) -> Option<&T> {
        match self.entries.get(at) {
            Some(Entry::Taken(thing)) => Some(thing),
            _ => None,
        }
    }

    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        match self.entries.get_mut(at) {
            Some(Entry::Taken(thing)) => Some(thing),
            _ => None,
        }
    }

    pub(crate) fn contains(&self, at: usize) -> bool {
        self.get(at).is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.entries.len()).filter_map(|at| self.get(at))
    }
}

/// The place of a task among the live ones: in which part, and where there.
#[cfg(not(loom))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place(pub(crate) u64);

#[cfg(not(loom))]
impl Place {
    pub(crate) fn new(part: usize, key: usize) -> Place {
        Place((part as u64) << 32 | key as u64)
    }

    pub(crate) fn part(self) -> usize {
        (self.0 >> 32) as usize
    }

    pub(crate) fn key(self) -> usize {
        self.0 as u32 as usize
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn things_keep_their_places_while_there_come_to_be_more() {
        let mut places = Places::default();
        for nth in 0..200 {
            assert_eq!((places.next(), places.insert(nth)), (nth, nth));
        }
        assert_eq!((places.remove(7), places.remove(90)), (7, 90));
        assert_eq!((places.len(), places.contains(7), places.get(8)), (198, false, Some(&8)));
        assert_eq!((places.insert(1_000), places.insert(1_001)), (90, 7));
        assert_eq!(places.insert(1_002), 200);
        assert_eq!(places.get_mut(90), Some(&mut 1_000));
        assert_eq!(places.iter().count(), 201);
    }
}
