//! The refusals of a thread, and of what the system granted at the start.

use crate::os::sync::{AtomicU32, Ordering};
use std::io;

/// What the system may refuse later on, although it granted it at the start: a sandbox, `setuid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Later {
    /// To set a timer that exists.
    Timers = 1,
    /// To send a signal to a thread of this process.
    Signals = 2,
    /// To show the system calls in which threads of this process wait.
    Calls = 4,
}

/// The set of those that were refused.
pub(super) static LATER: AtomicU32 = AtomicU32::new(0);

impl Later {
    /// Returns whether the system has refused this.
    pub(crate) fn was_refused(self) -> bool {
        LATER.load(Ordering::Relaxed) & self as u32 != 0
    }
}

/// The reason why a thread of the runtime does not start.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The runtime has its maximum number of threads.
    Ceiling,
    Thread(io::Error),
    Timer,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::Ceiling => write!(f, "the runtime has its maximum number of threads"),
            Refusal::Thread(error) => write!(f, "the system starts no more threads ({error})"),
            Refusal::Timer => write!(f, "the kernel makes no more timers (RLIMIT_SIGPENDING)"),
        }
    }
}
