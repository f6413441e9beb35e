//! Places, lists and heaps that allocate only when room is made for them; and sums that decay.

pub(crate) mod array_heap;
pub(crate) mod bits;
pub(crate) mod column;
pub(crate) mod decay;
pub(crate) mod heap;
pub(crate) mod list;
pub(crate) mod slots;

/// Brings what is in `used` into the memory of `room`, if that is more. The caller frees what `room` has
/// then, where the allocator may be called.
pub(crate) fn move_into<T>(used: &mut Vec<T>, room: &mut Vec<T>) {
    if used.capacity() < room.capacity() {
        room.clear();
        room.append(used);
        std::mem::swap(used, room);
    }
}
