//! Numbered places for values that come and go; a place keeps its number while it is in use.
//!
//! The memory of a place is touched when it is first used, as in a [`crate::store::column`].

use crate::store::column::CHUNK;
use crate::store::heap::Index;
use crate::store::move_into;

/// An arena. While there is room, no operation allocates.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    /// The places that were ever used, and a few more.
    places: Vec<Option<T>>,
    /// Those of them that are free.
    free: Vec<Index>,
    /// The number of values that have room.
    room: usize,
}

impl<T> Slots<T> {
    pub(crate) fn new() -> Slots<T> {
        Slots { places: Vec::new(), free: Vec::new(), room: 0 }
    }

    /// Makes room for `len` values in total. Allocates.
    pub(crate) fn grow(&mut self, len: usize) {
        self.places.reserve_exact(len.saturating_sub(self.places.len()));
        self.free.reserve_exact(len.saturating_sub(self.free.len()));
        self.room = self.room.max(len);
    }

    /// Like [`Slots::grow`], up to the room of `room`, whose memory is used. Allocates nothing.
    pub(crate) fn grow_into(&mut self, room: &mut Slots<T>) {
        move_into(&mut self.places, &mut room.places);
        move_into(&mut self.free, &mut room.free);
        self.room = self.room.max(room.room);
    }

    /// Returns the number of values that have room.
    pub(crate) fn capacity(&self) -> usize {
        self.room
    }

    /// Returns the number of values.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty() && self.places.len() == self.room
    }

    /// Returns whether the next value needs a place that was never used.
    #[inline]
    pub(crate) fn is_at_end(&self) -> bool {
        self.free.is_empty()
    }

    /// Returns the place of the next value, if it was used before.
    #[inline]
    pub(crate) fn next_free(&self) -> Option<Index> {
        self.free.last().copied()
    }

    /// Opens a few more places for use; returns the number of open places.
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

    /// Stores a value and returns its place.
    ///
    /// # Panics
    /// If there is no room.
    #[inline]
    pub(crate) fn insert(&mut self, thing: T) -> Index {
        if self.is_at_end() {
            self.open();
        }
        let at = self.free.pop().expect("a place was opened");
        self.places[at as usize] = Some(thing);
        at
    }

    /// Takes the value at a place and frees the place.
    ///
    /// # Panics
    /// If no value is at `at`.
    #[inline]
    pub(crate) fn remove(&mut self, at: Index) -> T {
        let thing = self.places[at as usize].take().expect("the place is taken");
        self.free.push(at);
        thing
    }

    /// Replaces the value at a place, and returns the old one.
    ///
    /// # Panics
    /// If no value is at `at`.
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
