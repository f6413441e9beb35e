//! The operations that only the operating system provides, behind safe functions. Runyard has `unsafe` code only here.
//!
//! Linux has all of them. Other systems have [`portable`], with the same functions; it cannot stop a thread, so tasks
//! cooperate there. Only this file chooses between the two; no other file checks the system.
//!
//! A function that may be called in a signal handler says so. It uses only atomics and raw system calls, no allocator
//! and no lock, and it keeps errno.

pub(crate) mod above;
pub(crate) mod alloc;
pub(crate) mod biased;
pub(crate) mod cgroup;
pub(crate) mod cpu_latency;
pub(crate) mod future;
pub(crate) mod harmless;
pub(crate) mod here;
pub(crate) mod list;
pub(crate) mod local;
pub(crate) mod locked;
pub(crate) mod memory;
pub(crate) mod seat;
pub(crate) mod sync;
pub(crate) mod trial;
pub(crate) mod wait;

#[cfg(all(target_os = "linux", not(runyard_portable)))]
pub(crate) mod barrier;
#[cfg(all(target_os = "linux", not(runyard_portable), feature = "tokio"))]
pub(crate) mod bell;
#[cfg(all(target_os = "linux", not(runyard_portable)))]
mod clock;
#[cfg(all(target_os = "linux", not(runyard_portable)))]
mod code;
#[cfg(all(target_os = "linux", not(runyard_portable)))]
pub(crate) mod disturb;
#[cfg(all(target_os = "linux", not(runyard_portable)))]
pub(crate) mod fork;
#[cfg(all(target_os = "linux", not(runyard_portable)))]
pub(crate) mod futex;
#[cfg(all(target_os = "linux", not(runyard_portable)))]
mod pages;
#[cfg(all(target_os = "linux", not(runyard_portable)))]
mod quiet;
#[cfg(all(target_os = "linux", not(runyard_portable)))]
pub(crate) mod signal;
#[cfg(all(target_os = "linux", not(runyard_portable)))]
pub(crate) mod stack;
#[cfg(all(target_os = "linux", not(runyard_portable)))]
pub(crate) mod symbols;
#[cfg(all(target_os = "linux", not(runyard_portable)))]
pub(crate) mod tasks;
#[cfg(all(target_os = "linux", not(runyard_portable)))]
pub(crate) mod thread;
#[cfg(all(target_os = "linux", not(runyard_portable)))]
pub(crate) mod timer;
#[cfg(all(target_os = "linux", not(runyard_portable)))]
mod unwind;

#[cfg(not(all(target_os = "linux", not(runyard_portable))))]
mod portable;
#[cfg(all(not(all(target_os = "linux", not(runyard_portable))), feature = "tokio"))]
pub(crate) use portable::bell;
#[cfg(not(all(target_os = "linux", not(runyard_portable))))]
pub(crate) use portable::{
    barrier, disturb, fork, futex, pages, signal, stack, symbols, tasks, thread, timer,
};

/// Whether threads can be stopped on this system at all.
pub(crate) const PREEMPTS: bool = cfg!(all(target_os = "linux", not(runyard_portable)));
