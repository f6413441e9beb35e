//! Numbered places for things that come and go; a place keeps its number while it is taken.
//!
//! The memory of a place is touched when it is used for the first time, as in a [`crate::store::column`].

use crate::store::column::CHUNK;
use crate::store::heap::Index;
use crate::store::move_into;

/// An arena. Taking and freeing places never allocates while there is room.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    /// Those that were used, and a few more.
    places: Vec<Option<T>>,
    /// Those of them that are free.
    free: Vec<Index>,
    /// How many things there is room for.
    room: usize,
}

impl<T> Slots<T> {
    pub(crate) fn new() -> Slots<T> {
        Slots { places: Vec::new(), free: Vec::new(), room: 0 }
    }

    /// Makes room for `len` things in all. Allocates.
    pub(crate) fn grow(&mut self, len: usize) {
        self.places.reserve_exact(len.saturating_sub(self.places.len()));
        self.free.reserve_exact(len.saturating_sub(self.free.len()));
        self.room = self.room.max(len);
    }

    /// As [`Slots::grow`], to the room of another, of which the memory is used. Allocates nothing.
    pub(crate) fn grow_into(&mut self, room: &mut Slots<T>) {
        move_into(&mut self.places, &mut room.places);
        move_into(&mut self.free, &mut room.free);
        self.room = self.room.max(room.room);
    }

    /// How many things there is room for.
    pub(crate) fn capacity(&self) -> usize {
        self.room
    }

    /// How many things there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty() && self.places.len() == self.room
    }

    /// Whether the next thing needs a place that was never used.
    #[inline]
    pub(crate) fn is_at_end(&self) -> bool {
        self.free.is_empty()
    }

    /// The place of the next thing, if it was used before.
    #[inline]
    pub(crate) fn next_free(&self) -> Option<Index> {
        self.free.last().copied()
    }

    /// A few places more can be used from now on; how many those are in all.
    ///
    /// # Panics
    /// If there is no room.
    #[cold]
    pub(crate) fn open(&mut self) -> usize {
        let old = self.places.len();
        let new = (old + CHUNK).min(self.room);
        assert!(new > old, "room was made before it was needed");
        self.places.resize_with(new, || None);
        self.free.extend((old..new).rev().map(|at| at as Index));
        new
    }

    /// # Panics
    /// If there is no room.
    pub(crate) fn insert(&mut self, thing: T) -> Index {
        if self.is_at_end() {
            self.open();
        }
        let at = self.free.pop().expect("a place was opened");
        self.places[at as usize] = Some(thing);
        at
    }

    /// # Panics
    /// If nothing is at `at`.
    pub(crate) fn remove(&mut self, at: Index) -> T {
        let thing = self.places[at as usize].take().expect("the place is taken");
        self.free.push(at);
        thing
    }

    /// Puts a thing where another is, and gives that.
    ///
    /// # Panics
    /// If nothing is at `at`.
    pub(crate) fn replace(&mut self, at: Index, thing: T) -> T {
        self.places[at as usize].replace(thing).expect("the place is taken")
    }

    pub(crate) fn get(&self, at: Index) -> Option<&T> {
        self.places.get(at as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, at: Index) -> Option<&mut T> {
        self.places.get_mut(at as usize)?.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Index, &T)> {
        self.places.iter().enumerate().filter_map(|(at, p)| Some((at as Index, p.as_ref()?)))
    }
}
