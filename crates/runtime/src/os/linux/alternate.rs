//! A stack for the signal handler (sigaltstack(2)).
//!
//! The handler and the kernel's frame take some 4 KB, and more with wide vector registers. A task may run on a stack that
//! has no room for that: a coroutine's, or that of a Go library, whose runtime refuses a handler on its own stacks. The
//! standard library gives each thread such a stack as well, but only of the least size that the kernel needs.
//!
//! Rejected: one stack that all workers share. A stopped task waits in the handler, so each thread has a handler of its own.

use super::pages::{PAGE, map, protect, unmap};
use std::ptr::NonNull;

/// The room for the handler beyond the kernel's frame.
const ROOM: usize = 64 << 10;

/// The entry of the auxiliary vector with the size of the kernel's frame (getauxval(3)); older kernels have none.
const AT_MINSIGSTKSZ: libc::c_ulong = 51;

/// The alternate stack of the calling thread, until this is dropped. Below it is a page without access.
#[derive(Debug)]
pub(crate) struct AlternateStack {
    pages: NonNull<u8>,
    size: usize,
    before: libc::stack_t,
}

impl AlternateStack {
    /// Makes the stack. `None` if the kernel has no memory for it.
    pub(crate) fn new() -> Option<AlternateStack> {
        // SAFETY: the call takes only a number.
        let frame = unsafe { libc::getauxval(AT_MINSIGSTKSZ) } as usize;
        let size = (PAGE + ROOM + frame.max(libc::MINSIGSTKSZ)).next_multiple_of(PAGE);
        let pages = map(size)?;
        let (bottom, room) = (pages.as_ptr().wrapping_add(PAGE), size - PAGE);
        let stack = libc::stack_t { ss_sp: bottom.cast(), ss_flags: 0, ss_size: room };
        let mut before = libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: 0, ss_size: 0 };
        // SAFETY: the page was mapped above, and is used by nobody. The stack stays mapped until it is not the thread's any
        // more; the kernel writes one setting into a valid one.
        let is_set = unsafe {
            protect(pages, PAGE);
            libc::sigaltstack(&raw const stack, &raw mut before) == 0
        };
        if !is_set {
            // SAFETY: nobody uses the pages.
            unsafe { unmap(pages, size) };
            return None;
        }
        Some(AlternateStack { pages, size, before })
    }
}

impl Drop for AlternateStack {
    /// Gives the thread the stack that it had before, unless a library has given it another one since.
    fn drop(&mut self) {
        let mut now = self.before;
        // SAFETY: the kernel writes one setting into a valid one, and reads one that it wrote before. No handler runs on
        // this stack: the thread is here. So nobody uses the pages afterwards.
        unsafe {
            libc::sigaltstack(std::ptr::null(), &raw mut now);
            if now.ss_sp.addr() == self.pages.as_ptr().addr() + PAGE {
                libc::sigaltstack(&raw const self.before, std::ptr::null_mut());
            }
            unmap(self.pages, self.size);
        }
    }
}
