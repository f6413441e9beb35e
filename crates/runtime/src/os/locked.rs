//! A value that one at a time may touch: what a lock guards, apart from who gets it when.

use crate::primitives::{AtomicBool, Ordering};
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// A value, and whether somebody has it. Sound by itself: whoever decides whose turn it is can be wrong
/// without harm, as who comes too early gets nothing.
pub(crate) struct Locked<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: of all who share it one has the value at a time, by `taken`, and may take it to its thread.
unsafe impl<T: Send> Sync for Locked<T> {}

/// The value, by whoever has it.
pub(crate) struct Held<'a, T> {
    locked: &'a Locked<T>,
    /// Who has the value may do with it what the owner of a `&mut T` may.
    value: PhantomData<&'a mut T>,
}

impl<T> Locked<T> {
    pub(crate) fn new(value: T) -> Locked<T> {
        Locked { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// The value, unless somebody has it.
    pub(crate) fn take(&self) -> Option<Held<'_, T>> {
        let free = !self.taken.swap(true, Ordering::Acquire);
        free.then_some(Held { locked: self, value: PhantomData })
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    pub(crate) fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: a `Held` is made by who found `taken` unset and set it, and unsets it when it goes, so
        // there is one at a time; the borrows that it gives out end before it goes.
        unsafe { &*self.locked.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and `self` is borrowed as the only one.
        unsafe { &mut *self.locked.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        self.locked.taken.store(false, Ordering::Release);
    }
}

impl<T> fmt::Debug for Locked<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locked").field("taken", &self.taken).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_has_it() {
        let locked = Locked::new(1);
        let mut held = locked.take().unwrap();
        *held += 1;
        assert!(locked.take().is_none());
        drop(held);
        assert_eq!(*locked.take().unwrap(), 2);
    }
}
