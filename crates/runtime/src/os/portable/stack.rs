//! No stack is copied here: no signal can interrupt the thread of the stack.

use runyard_engine::time::Time;

/// A copy of a stack, which is always empty.
#[derive(Debug)]
pub(crate) struct Copied;

/// The answer of a thread.
#[derive(Debug)]
#[expect(dead_code, reason = "no thread is asked for a stack")]
pub(crate) enum Answer {
    Taken(Vec<usize>),
    AnotherPoll,
    AnotherStack,
}

impl Copied {
    pub(crate) fn new() -> Copied {
        Copied
    }

    /// Asks no thread.
    pub(crate) fn ask(&self, _worker: u32) {}

    /// Waits for no answer.
    pub(crate) fn wait(&self, _until: Time) -> bool {
        false
    }

    /// Gives up: no answer is under way.
    pub(crate) fn give_up(&self) -> bool {
        true
    }

    /// Returns that nothing was copied.
    pub(crate) fn take(&self, _poll: u64) -> Answer {
        Answer::AnotherStack
    }
}

/// Returns `None`: the end of a stack is not known.
pub(crate) fn lowest() -> Option<usize> {
    None
}
