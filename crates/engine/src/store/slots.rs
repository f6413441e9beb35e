//! Numbered places for things that come and go; a place keeps its number while it is taken.

use crate::store::heap::Index;
use crate::store::move_into;

/// An arena. Taking and freeing places never allocates while there is room.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    places: Vec<Option<T>>,
    free: Vec<Index>,
}

impl<T> Slots<T> {
    pub(crate) fn new() -> Slots<T> {
        Slots { places: Vec::new(), free: Vec::new() }
    }

    /// Makes room for `len` things in all. Allocates.
    pub(crate) fn grow(&mut self, len: usize) {
        let old = self.places.len();
        if len > old {
            self.places.resize_with(len, || None);
            self.free.reserve_exact(len - self.free.len());
            self.free.extend((old..len).rev().map(|at| at as Index));
        }
    }

    /// As [`Slots::grow`], to the room of another, of which the memory is used. Allocates nothing.
    pub(crate) fn grow_into(&mut self, room: &mut Slots<T>) {
        let len = room.capacity();
        move_into(&mut self.places, &mut room.places);
        move_into(&mut self.free, &mut room.free);
        self.grow(len);
    }

    /// How many things there is room for.
    pub(crate) fn capacity(&self) -> usize {
        self.places.len()
    }

    /// How many things there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// # Panics
    /// If there is no room.
    pub(crate) fn insert(&mut self, thing: T) -> Index {
        let at = self.free.pop().expect("room was made before it was needed");
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
