//! Numbered places for values that come and go.

use crate::os::list::List;

/// Values by the numbers of their places.
#[derive(Debug)]
pub(crate) struct Places<T> {
    entries: List<Entry<T>>,
    /// The place that was freed last, or the first one that was never taken.
    next: usize,
    len: usize,
}

#[derive(Debug)]
enum Entry<T> {
    Taken(T),
    Left(Left),
}

/// The content of a place without a value. Apart from [`Entry`], so that the entry of a fat pointer is as large as the
/// pointer.
#[derive(Debug)]
enum Left {
    /// The place that is free after this one.
    Free(u32),
    /// The value is gone, and its place is kept for this many holders of its number.
    Kept(i32),
}

impl<T> Default for Places<T> {
    fn default() -> Places<T> {
        Places { entries: List::new(), next: 0, len: 0 }
    }
}

impl<T> Places<T> {
    /// Returns the place of the next value.
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
                Entry::Left(Left::Free(next)) => self.next = next as usize,
                Entry::Left(Left::Kept(_)) | Entry::Taken(_) => {
                    unreachable!("a place is free once")
                }
            },
        }
        self.len += 1;
        at
    }

    /// # Panics
    /// If no value is at `at`.
    pub(crate) fn remove(&mut self, at: usize) -> T {
        let thing = self.exchange(at, Left::Free(self.next as u32));
        (self.next, self.len) = (at, self.len - 1);
        thing
    }

    /// Removes a value, as [`Places::remove`] does, but keeps the place free of other values until it has been [counted
    /// down](Places::count_for) to 0 from `count`, which is not 0.
    pub(crate) fn leave(&mut self, at: usize, count: i32) -> T {
        self.exchange(at, Left::Kept(count))
    }

    /// Adds `more`, which may be negative, to the number of holders of a place whose value is gone. Does nothing for a
    /// place that is not kept.
    pub(crate) fn count_for(&mut self, at: usize, more: i32) {
        let Some(Entry::Left(left)) = self.entries.get_mut(at) else { return };
        let Left::Kept(count) = left else { return };
        *count += more;
        if *count == 0 {
            *left = Left::Free(self.next as u32);
            (self.next, self.len) = (at, self.len - 1);
        }
    }

    fn exchange(&mut self, at: usize, left: Left) -> T {
        match std::mem::replace(&mut self.entries[at], Entry::Left(left)) {
            Entry::Taken(thing) => thing,
            Entry::Left(_) => unreachable!("the place is taken"),
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

/// The place of a task among the live ones: the part, and the place in that part.
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

    #[test]
    fn a_place_is_kept_for_those_who_know_it() {
        let mut places = Places::default();
        let at = [places.insert('a'), places.insert('b')];
        assert_eq!((places.leave(at[0], 2), places.get(at[0]), places.len()), ('a', None, 2));
        assert_eq!(places.insert('c'), 2, "the place is not free");
        places.count_for(at[0], 1);
        places.count_for(at[0], -3);
        assert_eq!((places.len(), places.insert('d')), (2, at[0]));
        places.count_for(at[0], -1);
        assert_eq!((places.get(at[0]), places.iter().count()), (Some(&'d'), 3));
    }

    /// The runtime has one entry for each live task.
    #[test]
    fn a_place_is_as_large_as_what_is_there() {
        assert_eq!(size_of::<Entry<std::sync::Arc<dyn Send>>>(), 16);
    }
}
