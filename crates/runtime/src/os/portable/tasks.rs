//! The threads of this process, which cannot be listed here.

use super::thread::Tid;

/// The list of the threads, which is never made.
#[derive(Debug)]
pub(crate) enum Tasks {}

/// A wait of a thread for a word, without a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FutexWait {
    pub(crate) expected: u32,
}

impl Tasks {
    /// Returns `None`: there is no list.
    pub(crate) fn open() -> Option<Tasks> {
        None
    }

    /// Never called: there is no list.
    pub(crate) fn links(&self) -> u64 {
        match *self {}
    }

    /// Never called: there is no list.
    pub(crate) fn each(&mut self, _each: impl FnMut(Tid)) {
        match *self {}
    }
}

/// Returns `None`: the system does not report waits.
pub(crate) fn futex_wait_of(_thread: Tid) -> Option<FutexWait> {
    None
}
