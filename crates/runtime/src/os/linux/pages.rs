//! Pages of memory from the kernel.

use std::ptr::{self, NonNull};

/// The smallest alignment of memory from the kernel.
pub(in crate::os) const PAGE: usize = 4 << 10;

/// Maps zeroed pages.
pub(in crate::os) fn map(size: usize) -> Option<NonNull<u8>> {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new memory at an address of the kernel's choice overlaps no other memory.
    let at = unsafe { libc::mmap(ptr::null_mut(), size, protection, flags, -1, 0) };
    if at == libc::MAP_FAILED { None } else { NonNull::new(at.cast()) }
}

/// Forbids access to pages.
///
/// # Safety
/// [`map`] returned memory that contains them, and no thread uses them.
pub(in crate::os) unsafe fn protect(pages: NonNull<u8>, size: usize) {
    // SAFETY: as the caller promises.
    unsafe { libc::mprotect(pages.as_ptr().cast(), size, libc::PROT_NONE) };
}

/// Unmaps pages.
///
/// # Safety
/// [`map`] returned them for this size, and no thread uses them any more.
pub(in crate::os) unsafe fn unmap(pages: NonNull<u8>, size: usize) {
    // SAFETY: as the caller promises.
    unsafe { libc::munmap(pages.as_ptr().cast(), size) };
}
