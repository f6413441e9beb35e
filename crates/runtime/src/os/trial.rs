//! Allocators for tests, with locks like those of other crates.

use crate::os::above::{Above, Calls};
use crate::os::sync::{AtomicBool, Mutex, Ordering, lock};
use std::alloc::{GlobalAlloc, Layout, System};

/// An allocator with one lock for all threads. It is neither the C library's nor known to the runtime: a task may be
/// stopped with the lock at any instruction.
#[derive(Debug)]
pub struct OneLock {
    calls: Mutex<u64>,
    /// Whether the process ends when a worker in own code allocates or frees.
    refuses: AtomicBool,
}

impl OneLock {
    /// Makes an allocator whose lock is free.
    #[must_use]
    pub const fn new() -> OneLock {
        OneLock { calls: Mutex::new(0), refuses: AtomicBool::new(false) }
    }

    /// Sets whether the process ends when a worker in own code allocates or frees.
    pub fn refuse_own_code(&self, refuses: bool) {
        self.refuses.store(refuses, Ordering::SeqCst);
    }

    fn check(&self) {
        if self.refuses.load(Ordering::Relaxed) {
            refuse_own_code();
        }
    }

    /// Holds the lock for longer than most allocators do, so that threads are stopped with it.
    fn section<R>(&self, call: impl FnOnce() -> R) -> R {
        let mut calls = lock(&self.calls);
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

// SAFETY: every call is passed to the system's allocator once, with the caller's own arguments.
unsafe impl GlobalAlloc for OneLock {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.check();
        // SAFETY: the caller keeps the contract, which is the same.
        self.section(|| unsafe { System.alloc(layout) })
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        self.check();
        // SAFETY: as above.
        self.section(|| unsafe { System.dealloc(at, layout) });
    }
}

/// The system's allocator, which ends the process if a worker calls it in own code.
#[derive(Debug)]
pub struct Strict;

// SAFETY: every call is passed to the system's allocator once, with the caller's own arguments.
unsafe impl GlobalAlloc for Strict {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        refuse_own_code();
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        refuse_own_code();
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) };
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        refuse_own_code();
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// Ends the process if the calling thread is a worker in own code, and reports the place.
fn refuse_own_code() {
    static SAYS: AtomicBool = AtomicBool::new(false);
    // The report itself allocates.
    if is_in_own_code() && !SAYS.swap(true, Ordering::SeqCst) {
        let trace = std::backtrace::Backtrace::force_capture();
        eprintln!("the allocator is called in the runtime's own code:\n{trace}");
        std::process::abort();
    }
}

/// Returns whether the calling thread is a worker in own code, where no thread is stopped and nothing may be allocated.
/// A section that blocks does not count.
pub fn is_in_own_code() -> bool {
    Above::is_in_own_code()
}
