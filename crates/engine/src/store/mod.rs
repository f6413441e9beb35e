//! Places, lists and heaps that allocate only when room is made for them.

pub(crate) mod heap;
pub(crate) mod list;
pub(crate) mod slots;
