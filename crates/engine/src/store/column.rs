//! One value for each index of a run queue, in memory that is only touched up to the used indices.
//!
//! Each CPU has room for every task that lives, because no enqueue may wait for the allocator. Few
//! of the tasks are in one queue at a time. Memory that was allocated and never written costs only
//! addresses. So `grow` only reserves memory, and values are written when an index is first used.

use crate::store::move_into;
use std::ops;

/// A place in a run queue; the same number names its task or group in every column.
pub(crate) type Index = u32;

/// The number of values written at a time: a few cache lines, far less than a page. So the test for
/// a new chunk rarely succeeds.
pub(crate) const CHUNK: usize = 32;

/// One value for each index.
#[derive(Debug)]
pub(crate) struct Column<T> {
    items: Vec<T>,
    /// The value of an index that was never used.
    blank: T,
}

impl<T: Default> Default for Column<T> {
    fn default() -> Column<T> {
        Column { items: Vec::new(), blank: T::default() }
    }
}

impl<T: Copy> Column<T> {
    pub(crate) const fn new(blank: T) -> Column<T> {
        Column { items: Vec::new(), blank }
    }

    /// Makes room for the indices `0..len`, without touching it. Allocates.
    pub(crate) fn grow(&mut self, len: usize) {
        self.items.reserve_exact(len.saturating_sub(self.items.len()));
    }

    /// Takes over the room of `room` if that is larger, and leaves its own there. Allocates
    /// nothing.
    pub(crate) fn grow_into(&mut self, room: &mut Column<T>) {
        move_into(&mut self.items, &mut room.items);
    }

    /// Gives the indices `0..len` values. Allocates if there is no room.
    pub(crate) fn open(&mut self, len: usize) {
        self.items.resize(len.max(self.items.len()), self.blank);
    }

    /// Returns the value of an index, which has one from now on. Allocates if there is no room.
    #[inline]
    pub(crate) fn cover(&mut self, at: Index) -> &mut T {
        if at as usize >= self.items.len() {
            self.open_to(at as usize);
        }
        &mut self.items[at as usize]
    }

    #[cold]
    fn open_to(&mut self, at: usize) {
        self.open((at + CHUNK).min(self.items.capacity()).max(at + 1));
    }

    /// Returns the value of an index that was used, or is near one that was.
    #[inline]
    pub(crate) fn get(&self, at: Index) -> Option<&T> {
        self.items.get(at as usize)
    }

    /// Returns the existing values, by index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter()
    }
}

impl<T> ops::Index<Index> for Column<T> {
    type Output = T;

    #[inline]
    fn index(&self, at: Index) -> &T {
        &self.items[at as usize]
    }
}

impl<T> ops::IndexMut<Index> for Column<T> {
    #[inline]
    fn index_mut(&mut self, at: Index) -> &mut T {
        &mut self.items[at as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_touched_only_where_it_is_used() {
        let mut column = Column::new(7_u32);
        column.grow(1_000);
        assert_eq!((column.iter().count(), column.get(0)), (0, None));
        assert_eq!(*column.cover(3), 7);
        assert_eq!((column.iter().count(), column[3]), (3 + CHUNK, 7));
        assert_eq!(*column.cover(999), 7);
        assert_eq!(column.iter().count(), 1_000, "no further than there is room");
    }

    #[test]
    fn values_come_along_to_more_room() {
        let (mut column, mut room) = (Column::new(0_u32), Column::new(0));
        *column.cover(0) = 5;
        room.grow(1_000);
        column.grow_into(&mut room);
        assert_eq!((*column.cover(999), column[0]), (0, 5));
    }
}
