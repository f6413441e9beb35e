//! The operations that only the operating system provides, behind safe functions. Runyard has `unsafe` code only here.
//!
//! Linux has all of them. Other systems have [`portable`], with the same functions; it cannot stop a thread, so tasks
//! cooperate there. This file chooses between the two; beside it only [`sync`] and [`errno`] check the system.
//!
//! A function that may be called in a signal handler says so. It uses only atomics and raw system calls, no allocator
//! and no lock, and it keeps errno.

pub(crate) mod above;
pub(crate) mod alloc;
pub(crate) mod biased;
pub(crate) mod cgroup;
pub(crate) mod cpu_latency;
pub(crate) mod errno;
pub(crate) mod future;
pub(crate) mod harmless;
pub(crate) mod here;
pub(crate) mod list;
pub(crate) mod local;
pub(crate) mod locked;
pub(crate) mod memory;
pub(crate) mod mounts;
pub(crate) mod refusal;
pub(crate) mod seat;
pub(crate) mod sync;
pub(crate) mod threads;
pub(crate) mod trial;
pub(crate) mod wait;

#[cfg(all(target_os = "linux", not(runyard_portable)))]
mod linux;
#[cfg(all(target_os = "linux", not(runyard_portable)))]
use linux as system;
#[cfg(not(all(target_os = "linux", not(runyard_portable))))]
mod portable;
#[cfg(not(all(target_os = "linux", not(runyard_portable))))]
use portable as system;

#[cfg(feature = "tokio")]
pub(crate) use system::bell;
pub(crate) use system::{
    alternate, barrier, disturb, fork, futex, pages, signal, stack, symbols, tasks, thread, timer,
};

/// Whether threads can be stopped on this system at all.
pub(crate) const PREEMPTS: bool = cfg!(all(target_os = "linux", not(runyard_portable)));
