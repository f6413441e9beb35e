//! No stack is copied here: nobody can interrupt the thread whose stack it is.

use runyard_engine::time::Time;

/// No copy.
#[derive(Debug)]
pub(crate) struct Copied;

/// What a thread would answer.
#[derive(Debug)]
#[expect(dead_code, reason = "nobody is asked")]
pub(crate) enum Answer {
    Taken(Vec<usize>),
    AnotherPoll,
    AnotherStack,
}

impl Copied {
    pub(crate) fn new() -> Copied {
        Copied
    }

    /// Nobody is asked.
    pub(crate) fn ask(&self, _worker: u32) {}

    /// Nobody answers.
    pub(crate) fn wait(&self, _until: Time) -> bool {
        false
    }

    /// Nobody is about to answer.
    pub(crate) fn give_up(&self) -> bool {
        true
    }

    /// Nothing was copied.
    pub(crate) fn take(&self, _poll: u64) -> Answer {
        Answer::AnotherStack
    }
}

/// Where a stack ends is not known.
pub(crate) fn lowest() -> Option<usize> {
    None
}
