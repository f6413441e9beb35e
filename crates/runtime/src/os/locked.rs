//! A value that one holder at a time may touch: the part of a lock that guards the value, without the part that decides
//! the order.

use crate::os::sync::{Arc, AtomicBool, Ordering};
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

/// A value with a flag for "taken". It is sound by itself: code that decides the order may be wrong without harm, since
/// a thread that comes too early gets nothing.
pub(crate) struct Locked<T: ?Sized> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: because of `taken`, one of the threads that share it has the value at a time, and may take it to its thread.
unsafe impl<T: ?Sized + Send> Sync for Locked<T> {}

/// Exclusive access to the value, until it is dropped.
pub(crate) struct Held<'a, T: ?Sized> {
    locked: &'a Locked<T>,
    /// The holder may do with the value all that the owner of a `&mut T` may.
    value: PhantomData<&'a mut T>,
}

impl<T> Locked<T> {
    pub(crate) const fn new(value: T) -> Locked<T> {
        Locked { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    pub(crate) fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Locked<T> {
    fn is_taken_now(&self) -> bool {
        !self.taken.swap(true, Ordering::Acquire)
    }

    fn give_back(&self) {
        self.taken.store(false, Ordering::Release);
    }

    /// Takes the value, unless it is taken.
    pub(crate) fn take(&self) -> Option<Held<'_, T>> {
        // The `Held` is made only after the value is taken: dropping a `Held` gives the value back.
        self.is_taken_now().then(|| Held { locked: self, value: PhantomData })
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<T: ?Sized> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: a `Held` is made only by a thread that found `taken` unset and set it, and unsets it when it is
        // dropped. So there is one at a time, and the borrows that it gives out end before it is dropped.
        unsafe { &*self.locked.value.get() }
    }
}

impl<T: ?Sized> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { &mut *self.locked.value.get() }
    }
}

impl<T: ?Sized> Drop for Held<'_, T> {
    fn drop(&mut self) {
        self.locked.give_back();
    }
}

/// Exclusive access to the value, together with a share in the owner that contains the [`Locked`].
pub(crate) struct OwnedHeld<M: ?Sized, T: ?Sized> {
    owner: Arc<M>,
    /// A part of the data that `owner` shares or borrows; it lives as long as the owner.
    locked: NonNull<Locked<T>>,
}

// SAFETY: it consists of an `Arc<M>`, which may be sent if `M` may be sent and shared, and of a `Held`, which may be
// sent if `T` may.
unsafe impl<M: ?Sized + Send + Sync, T: ?Sized + Send> Send for OwnedHeld<M, T> {}

// SAFETY: as above. A thread that shares it has a `&T`, and may get a clone of the `Arc<M>`.
unsafe impl<M: ?Sized + Send + Sync, T: ?Sized + Send + Sync> Sync for OwnedHeld<M, T> {}

impl<M: ?Sized, T: ?Sized> OwnedHeld<M, T> {
    /// Takes the value that `of` finds in the owner, unless it is taken.
    pub(crate) fn take(owner: Arc<M>, of: fn(&M) -> &Locked<T>) -> Option<OwnedHeld<M, T>> {
        let locked = NonNull::from(of(&owner));
        // SAFETY: `of` returned the reference for a borrow of `owner` of any length, and `owner` is alive.
        let is_taken_now = unsafe { locked.as_ref() }.is_taken_now();
        is_taken_now.then(|| OwnedHeld { owner, locked })
    }

    pub(crate) fn owner(&self) -> &Arc<M> {
        &self.owner
    }

    /// Gives the value back, and returns the owner.
    pub(crate) fn end(self) -> Arc<M> {
        self.locked().give_back();
        let this = ManuallyDrop::new(self);
        // SAFETY: it is read once, and `this` is not dropped.
        unsafe { ptr::read(&raw const this.owner) }
    }

    fn locked(&self) -> &Locked<T> {
        // SAFETY: `of` returned the reference to `take` for a borrow of `owner` of any length. `owner` is shared as
        // long as `self` lives. No code has it exclusively meanwhile: that needs the only `Arc`, and `self` gives out
        // no `&mut` of its own.
        unsafe { self.locked.as_ref() }
    }
}

impl<M: ?Sized, T: ?Sized> Deref for OwnedHeld<M, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: an `OwnedHeld` is made only by a thread that found `taken` unset and set it, and unsets it when it is
        // dropped. So there is one at a time, and the borrows that it gives out end before it is dropped.
        unsafe { &*self.locked().value.get() }
    }
}

impl<M: ?Sized, T: ?Sized> DerefMut for OwnedHeld<M, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { &mut *self.locked().value.get() }
    }
}

impl<M: ?Sized, T: ?Sized> Drop for OwnedHeld<M, T> {
    fn drop(&mut self) {
        self.locked().give_back();
    }
}

impl<T: ?Sized> fmt::Debug for Locked<T> {
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
        assert!(locked.take().is_none(), "a thread that did not take the value gives nothing back");
        drop(held);
        assert_eq!(*locked.take().unwrap(), 2);
    }
    #[test]
    fn one_at_a_time_has_it_who_shares_its_owner_too() {
        let owner = Arc::new((7, Locked::new(1)));
        let take = |owner: &Arc<_>| OwnedHeld::take(Arc::clone(owner), |of: &(u8, _)| &of.1);
        let mut held = take(&owner).unwrap();
        *held += 1;
        assert!(take(&owner).is_none() && owner.1.take().is_none());
        assert_eq!(held.end().0, 7);
        let held = take(&owner).unwrap();
        drop(owner);
        assert_eq!(*held, 2, "the value is there as long as it is held");
    }
}
