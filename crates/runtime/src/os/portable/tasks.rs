//! The threads of this process, which nobody lists here.

use super::thread::Tid;

/// The list of the threads. There is none.
#[derive(Debug)]
pub(crate) enum Tasks {}

/// What a thread waits for without a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FutexWait {
    pub(crate) expected: u32,
}

impl Tasks {
    /// Nobody says.
    pub(crate) fn open() -> Option<Tasks> {
        None
    }

    /// A number that changes when a thread starts or ends.
    pub(crate) fn links(&self) -> u64 {
        match *self {}
    }

    /// Calls `each` with every thread.
    pub(crate) fn each(&mut self, _each: impl FnMut(Tid)) {
        match *self {}
    }
}

/// Nobody says what a thread waits for.
pub(crate) fn futex_wait_of(_thread: Tid) -> Option<FutexWait> {
    None
}
