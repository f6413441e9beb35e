//! Memory of the system's allocator, which is also the program's unless the program sets another.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::NonNull;

/// The alignment of the memory.
pub(in crate::os) const PAGE: usize = 4 << 10;

/// Allocates zeroed memory. Returns `None` for a `size` of zero.
pub(in crate::os) fn map(size: usize) -> Option<NonNull<u8>> {
    let layout = layout(size)?;
    // SAFETY: the size is not zero.
    NonNull::new(unsafe { System.alloc_zeroed(layout) })
}

/// Frees memory.
///
/// # Safety
/// [`map`] returned it for this size, and no thread uses it any more.
pub(in crate::os) unsafe fn unmap(pages: NonNull<u8>, size: usize) {
    if let Some(layout) = layout(size) {
        // SAFETY: the caller promises that it was allocated with this layout.
        unsafe { System.dealloc(pages.as_ptr(), layout) };
    }
}

fn layout(size: usize) -> Option<Layout> {
    Layout::from_size_align(size, PAGE).ok().filter(|layout| layout.size() > 0)
}
