//! The operations of Linux.

pub(crate) mod alternate;
pub(crate) mod barrier;
#[cfg(feature = "tokio")]
pub(crate) mod bell;
mod clock;
mod code;
pub(crate) mod disturb;
pub(crate) mod fork;
pub(crate) mod futex;
mod gettime;
pub(crate) mod pages;
mod quiet;
pub(crate) mod signal;
pub(crate) mod stack;
pub(crate) mod symbols;
pub(crate) mod tasks;
pub(crate) mod thread;
pub(crate) mod timer;
mod unwind;

use super::refusal::{LATER, Later};
use super::sync::Ordering;

/// Notes that the kernel refuses what it granted at the start. May be called in a signal handler.
fn note_refused(later: Later) {
    LATER.fetch_or(later as u32, Ordering::Relaxed);
}
