//! Memory for the runtime's own code, apart from the program's allocator.
//!
//! A task may be stopped anywhere, also inside the program's allocator, and the runtime's own code must not wait for
//! it. So the lists of that code live here: in pages of the kernel, cut into blocks of a few sizes. No thread is
//! stopped with the lock, and the only call under it is `mmap`. A freed block is kept for the next allocation of its
//! size. It goes back to the kernel only if it is larger than [`LARGEST`]. If the rest of a chunk is too small for the
//! next block, it is abandoned.
//!
//! Rejected: to allocate before the section begins. A waiter needs memory for three lists of two tasks and for the
//! queue of a mutex. It would have to ask for each, and again after each try.

use crate::os::above::without_preemption;
use crate::os::local;
use crate::os::pages::{PAGE, map, unmap};
use crate::os::sync::{Mutex, lock};
use allocator_api2::alloc::{AllocError, Allocator, Layout};
use std::ptr::{self, NonNull};

/// The runtime's own memory, one for the process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Own;

/// The smallest block, and the largest that is cut from a chunk. Sizes are powers of two.
const SMALLEST: usize = 16;
const LARGEST: usize = 32 << 10;
const CLASSES: usize = (LARGEST / SMALLEST).ilog2() as usize + 1;

/// The bytes that are mapped at a time for blocks. The kernel provides a page only when it is touched.
const CHUNK: usize = 256 << 10;

static ARENA: Mutex<Arena> =
    Mutex::new(Arena { free: [ptr::null_mut(); CLASSES], next: ptr::null_mut(), left: 0 });

/// A free block, which holds the pointer to the next free block of its size.
struct Free(*mut Free);

struct Arena {
    /// The lists of free blocks, one for each size.
    free: [*mut Free; CLASSES],
    /// The unused rest of the last chunk.
    next: *mut u8,
    left: usize,
}

// SAFETY: the pointers lead to memory that no other thread owns: a thread that has the arena owns that memory too.
unsafe impl Send for Arena {}

impl Arena {
    fn take(&mut self, class: usize) -> Option<NonNull<u8>> {
        let first = self.free[class];
        if first.is_null() {
            return self.cut(SMALLEST << class);
        }
        // SAFETY: the word was written when the block was freed, and no thread has used the block since.
        self.free[class] = unsafe { (*first).0 };
        NonNull::new(first.cast())
    }

    /// Cuts a block from the last chunk, or from a new one. It is aligned to its size, at most to a page.
    fn cut(&mut self, size: usize) -> Option<NonNull<u8>> {
        let skipped = self.next.align_offset(size.min(PAGE));
        if self.left < size + skipped {
            (self.next, self.left) = (map(CHUNK)?.as_ptr(), CHUNK);
            return self.cut(size);
        }
        // SAFETY: that many bytes are left of the chunk.
        let (block, next) = unsafe { (self.next.add(skipped), self.next.add(skipped + size)) };
        (self.next, self.left) = (next, self.left - skipped - size);
        NonNull::new(block)
    }

    /// # Safety
    /// The block is of this class, and no thread uses it any more.
    unsafe fn give_back(&mut self, class: usize, block: NonNull<u8>) {
        let first = block.cast::<Free>();
        // SAFETY: a block is at least as large as a pointer, and aligned to its size.
        unsafe { first.write(Free(self.free[class])) };
        self.free[class] = first.as_ptr();
    }
}

/// Returns the class of the smallest blocks that are large enough; `None` if the memory gets pages of its own.
fn class(layout: Layout) -> Option<usize> {
    let size = layout.size().max(layout.align()).max(SMALLEST).next_power_of_two();
    (size <= LARGEST).then(|| (size / SMALLEST).ilog2() as usize)
}

/// Runs `act` with the arena locked. No thread is stopped with the lock, wherever the caller is.
fn with_arena<R>(act: impl FnOnce(&mut Arena) -> R) -> R {
    debug_assert!(!local::is_handling(), "the signal handler allocates nothing (H1)");
    without_preemption(|| act(&mut lock(&ARENA)))
}

// SAFETY: a block has one owner from `allocate` to `deallocate`: it is cut from a chunk once, and is in the list of
// free blocks otherwise. Its layout says all that is known of it, so all copies of `Own` are the same allocator.
unsafe impl Allocator for Own {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.align() > PAGE {
            return Err(AllocError);
        }
        let block = match class(layout) {
            Some(class) => with_arena(|arena| arena.take(class)),
            None => map(layout.size()),
        };
        let block = block.ok_or(AllocError)?;
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        match class(layout) {
            // SAFETY: the caller got the block with this layout.
            Some(class) => with_arena(|arena| unsafe { arena.give_back(class, block) }),
            None => {
                // SAFETY: as above; these pages were mapped for this memory alone.
                unsafe { unmap(block, layout.size()) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocator_api2::vec::Vec;
    use std::thread;

    #[test]
    fn what_is_in_a_block_stays_there_while_others_come_and_go() {
        let work = |seed: u64| {
            let mut kept: [Vec<u64, Own>; 8] = std::array::from_fn(|_| Vec::new_in(Own));
            for round in 0..3_000_u64 {
                let at = (round.wrapping_mul(0x9E37_79B9_7F4A_7C15 ^ seed) >> 61) as usize;
                let whole =
                    |list: &Vec<u64, Own>| list.iter().all(|&word| word == seed << 8 | at as u64);
                assert!(whole(&kept[at]), "another thread wrote here");
                match round % 7 {
                    0 => kept[at] = Vec::new_in(Own),
                    more => {
                        let len = kept[at].len() + (more as usize) * (round as usize % 900);
                        kept[at].resize(len % 40_000, seed << 8 | at as u64);
                    }
                }
            }
        };
        thread::scope(|scope| (1..=4).for_each(|seed| drop(scope.spawn(move || work(seed)))));
    }

    #[test]
    fn a_block_is_aligned_and_used_again() {
        for power in 0..=12 {
            let layout = Layout::from_size_align(24, 1 << power).unwrap();
            let block = Own.allocate(layout).unwrap().cast::<u8>();
            assert_eq!(block.addr().get() % layout.align(), 0);
            // SAFETY: it was allocated with this layout.
            unsafe { Own.deallocate(block, layout) };
        }
        assert!(Own.allocate(Layout::from_size_align(8, 2 * PAGE).unwrap()).is_err());
    }
}
