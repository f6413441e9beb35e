//! For tests: allocators, as those of crates may be.

use crate::os::above::{Above, Calls};
use crate::os::sync::{AtomicBool, Mutex, Ordering, lock};
use std::alloc::{GlobalAlloc, Layout, System};

/// An allocator with one lock for all, which is neither the C library's nor known to the runtime: a task
/// may be stopped with it at any instruction.
#[derive(Debug)]
pub struct OneLock {
    calls: Mutex<u64>,
    /// It takes and gives no memory for a worker in own code: it ends the process.
    refuses: AtomicBool,
}

impl OneLock {
    /// One that is free.
    #[must_use]
    pub const fn new() -> OneLock {
        OneLock { calls: Mutex::new(0), refuses: AtomicBool::new(false) }
    }

    /// From now on, or no more, the process ends where a worker takes memory or gives it back in own code.
    pub fn refuse_own_code(&self, refuses: bool) {
        self.refuses.store(refuses, Ordering::SeqCst);
    }

    fn check(&self) {
        if self.refuses.load(Ordering::Relaxed) {
            refuse_own_code();
        }
    }

    /// Takes longer than most, so that somebody is stopped in it.
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

// SAFETY: every call goes to the system's allocator with the caller's own arguments, once.
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

/// The system's allocator, which ends the process where a worker calls it in own code.
#[derive(Debug)]
pub struct Strict;

// SAFETY: every call goes to the system's allocator with the caller's own arguments, once.
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

/// Ends the process if the calling thread is a worker in own code, and says where that is.
fn refuse_own_code() {
    static SAYS: AtomicBool = AtomicBool::new(false);
    // To say so takes memory.
    if is_in_own_code() && !SAYS.swap(true, Ordering::SeqCst) {
        let trace = std::backtrace::Backtrace::force_capture();
        eprintln!("the allocator is called where nobody is stopped:\n{trace}");
        std::process::abort();
    }
}

/// Whether the calling thread is a worker in own code, where nobody is stopped and nothing is to be
/// allocated. A section that blocks is none.
pub fn is_in_own_code() -> bool {
    Above::is_in_own_code()
}
