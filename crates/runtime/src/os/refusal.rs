//! The refusals of a thread.

use std::io;

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
