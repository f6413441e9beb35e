//! An allocator for tests: what those of crates may be like.

use crate::primitives::{Mutex, lock};
use std::alloc::{GlobalAlloc, Layout, System};

/// An allocator with one lock for all, which is neither the C library's nor known to the runtime: a task
/// may be stopped with it at any instruction.
#[derive(Debug)]
pub struct OneLock(Mutex<u64>);

impl OneLock {
    /// One that is free.
    #[must_use]
    pub const fn new() -> OneLock {
        OneLock(Mutex::new(0))
    }

    /// Takes longer than most, so that somebody is stopped in it.
    fn section<R>(&self, call: impl FnOnce() -> R) -> R {
        let mut calls = lock(&self.0);
        *calls += 1;
        for _ in 0..200 {
            std::hint::spin_loop();
        }
        call()
    }
}

impl Default for OneLock {
    fn default() -> OneLock {
        OneLock::new()
    }
}

// SAFETY: every call goes to the system's allocator with the caller's own arguments, once.
unsafe impl GlobalAlloc for OneLock {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract, which is the same.
        self.section(|| unsafe { System.alloc(layout) })
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        self.section(|| unsafe { System.dealloc(at, layout) });
    }
}
