//! An allocator inside which no task is stopped.

use crate::os::above::without_preemption;
use crate::os::local;
use std::alloc::{GlobalAlloc, Layout, System};

/// A global allocator inside which no task is stopped, so no task is stopped while it holds the allocator's lock (H4).
///
/// With another allocator this happens, though rarely: a thread that is found inside the C library runs on for up to 10
/// ms, and is then stopped there. Every thread that allocates then waits until the runtime sees that it blocks and lets
/// the holder run, which takes a few milliseconds.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: runyard::Allocator = runyard::Allocator::system();
/// # fn main() {}
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator<A = System>(A);

impl Allocator<System> {
    /// Wraps the system's allocator.
    #[must_use]
    pub const fn system() -> Allocator<System> {
        Allocator(System)
    }
}

impl<A> Allocator<A> {
    /// Wraps another allocator.
    #[must_use]
    pub const fn new(inner: A) -> Allocator<A> {
        Allocator(inner)
    }
}

impl<A> Allocator<A> {
    #[inline]
    fn section<R>(&self, call: impl FnOnce(&A) -> R) -> R {
        debug_assert!(!local::is_handling(), "the signal handler allocates nothing (H1)");
        without_preemption(|| call(&self.0))
    }
}

// SAFETY: every call is passed to the inner allocator once, with the caller's own arguments.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Allocator<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps this allocator's contract, which is the inner allocator's.
        self.section(|inner| unsafe { inner.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        self.section(|inner| unsafe { inner.alloc_zeroed(layout) })
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        self.section(|inner| unsafe { inner.dealloc(at, layout) });
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        self.section(|inner| unsafe { inner.realloc(at, layout, size) })
    }
}
