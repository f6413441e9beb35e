//! Growing lists for the runtime's own code.

#[cfg(not(loom))]
use crate::os::memory::Own;
#[cfg(not(loom))]
use allocator_api2::vec::Vec;
use std::fmt;
use std::ops::{Deref, DerefMut};

#[cfg(not(loom))]
type Memory<T> = Vec<T, Own>;
/// The model checker stops no thread in the allocator.
#[cfg(loom)]
type Memory<T> = Vec<T>;

/// A vector in the runtime's own memory: a thread that allocates or frees it waits for no task.
pub(crate) struct List<T>(Memory<T>);

impl<T> List<T> {
    pub(crate) const fn new() -> List<T> {
        #[cfg(not(loom))]
        return List(Vec::new_in(Own));
        #[cfg(loom)]
        List(Vec::new())
    }
}

impl<T> Default for List<T> {
    fn default() -> List<T> {
        List::new()
    }
}

impl<T: Clone> Clone for List<T> {
    fn clone(&self) -> List<T> {
        List(self.0.clone())
    }
}

impl<T> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(all: I) -> List<T> {
        let mut list = List::new();
        list.extend(all);
        list
    }
}

impl<T> IntoIterator for List<T> {
    type Item = T;
    type IntoIter = <Memory<T> as IntoIterator>::IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<T: fmt::Debug> fmt::Debug for List<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<T> Deref for List<T> {
    type Target = Memory<T>;

    fn deref(&self) -> &Memory<T> {
        &self.0
    }
}

impl<T> DerefMut for List<T> {
    fn deref_mut(&mut self) -> &mut Memory<T> {
        &mut self.0
    }
}
