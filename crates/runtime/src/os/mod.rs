//! Everything that only the kernel can do, behind safe functions: the only `unsafe` of Runyard.
//!
//! Linux only. What may be called from a signal handler says so; it is atomics and raw system
//! calls, never the allocator, never a lock, and it keeps errno.

pub(crate) mod alloc;
mod code;
pub(crate) mod futex;
pub(crate) mod local;
pub(crate) mod locked;
pub(crate) mod memory;
mod quiet;
pub(crate) mod signal;
pub(crate) mod tasks;
pub(crate) mod thread;
pub(crate) mod timer;
pub(crate) mod trial;
