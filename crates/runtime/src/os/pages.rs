//! Memory of the kernel.

use std::ptr::{self, NonNull};

/// What the kernel aligns memory to, at the least.
pub(super) const PAGE: usize = 4 << 10;

/// Pages of the kernel, full of zeros.
pub(super) fn map(size: usize) -> Option<NonNull<u8>> {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new memory at an address of the kernel's choice concerns nobody.
    let at = unsafe { libc::mmap(ptr::null_mut(), size, protection, flags, -1, 0) };
    if at == libc::MAP_FAILED { None } else { NonNull::new(at.cast()) }
}

/// Gives pages back.
///
/// # Safety
/// [`map`] gave them for this size, and nobody uses them any more.
pub(super) unsafe fn unmap(pages: NonNull<u8>, size: usize) {
    // SAFETY: the caller promises it.
    unsafe { libc::munmap(pages.as_ptr().cast(), size) };
}
