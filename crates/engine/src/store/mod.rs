//! Containers that allocate only when room is made for them (places, lists, heaps), and decaying
//! sums.

pub(crate) mod array_heap;
pub(crate) mod bits;
pub(crate) mod column;
pub(crate) mod decay;
pub(crate) mod heap;
pub(crate) mod list;
pub(crate) mod slots;

/// Moves the contents of `used` into the memory of `room`, if that is larger. The caller later
/// frees the memory that `room` then has, where it may call the allocator.
pub(crate) fn move_into<T>(used: &mut Vec<T>, room: &mut Vec<T>) {
    if used.capacity() < room.capacity() {
        room.clear();
        room.append(used);
        std::mem::swap(used, room);
    }
}
