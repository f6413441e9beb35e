//! The reasons why a runtime cannot start.

use crate::os::refusal::Refusal;
use std::fmt;
use std::io;

/// The reason why a runtime cannot start.
///
/// ```
/// use runyard::{BuildError, Runtime};
///
/// fn start() -> Result<Runtime, BuildError> {
///     Runtime::builder().workers(1).try_build()
/// }
/// assert!(start().is_ok());
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// The operating system refuses to start a thread.
    Thread(io::Error),
    /// The kernel refuses a timer for a thread (`RLIMIT_SIGPENDING`). A runtime without
    /// [preemption](crate::Builder::preempt) needs none.
    Timer,
    /// The operating system refuses a resource of tokio's driver (`Builder::enable_tokio`, with the feature `tokio`).
    Driver(io::Error),
    /// The builder asks for [room for more groups](crate::Builder::max_groups) than there can be.
    Groups {
        /// The room that is asked for.
        asked: usize,
        /// The most room that there can be.
        most: usize,
    },
    /// The process is a child of fork, and its parent had a runtime when it forked: locks of that runtime may be held
    /// by threads that the child does not have.
    Forked,
}

impl From<Refusal> for BuildError {
    fn from(refusal: Refusal) -> BuildError {
        match refusal {
            Refusal::Thread(error) => BuildError::Thread(error),
            Refusal::Timer => BuildError::Timer,
            Refusal::Ceiling => unreachable!("the first threads are below any ceiling"),
        }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Thread(error) => {
                write!(f, "a runtime cannot start: the system refuses more threads ({error})")
            }
            BuildError::Driver(error) => {
                write!(
                    f,
                    "a runtime cannot start: the system refuses a resource of tokio's driver ({error})"
                )
            }
            BuildError::Timer => f.write_str(
                "a runtime cannot start: the kernel refuses more timers (RLIMIT_SIGPENDING)",
            ),
            BuildError::Groups { asked, most } => {
                write!(f, "a runtime cannot start: it has room for at most {most} groups, not {asked}")
            }
            BuildError::Forked => f.write_str(
                "a runtime cannot start: this process is a child of fork, and a runtime lived in its parent",
            ),
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BuildError::Thread(error) | BuildError::Driver(error) => Some(error),
            BuildError::Timer | BuildError::Groups { .. } | BuildError::Forked => None,
        }
    }
}

impl From<BuildError> for io::Error {
    fn from(error: BuildError) -> io::Error {
        let kind = match &error {
            BuildError::Thread(error) | BuildError::Driver(error) => error.kind(),
            BuildError::Timer => io::ErrorKind::WouldBlock,
            BuildError::Groups { .. } => io::ErrorKind::InvalidInput,
            BuildError::Forked => io::ErrorKind::Unsupported,
        };
        io::Error::new(kind, error)
    }
}
