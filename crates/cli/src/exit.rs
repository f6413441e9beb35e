//! The outcome of a command: a message on standard error, and an exit code.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | the run ended, and a claim or an invariant does not hold |
//! | 2 | the input or the usage is wrong |
//! | 3 | the host refused |
//! | 130, 143 | a signal ended the run early: 128 and the signal's number, as in shells; the results until then are shown |

use runyard_outcome::Failure;
use runyard_outcome::stderr::say;
use std::process::ExitCode;

/// The outcome of a subcommand that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// Everything holds.
    Well,
    /// A claim or an invariant does not hold. The command has already reported it.
    Broken,
    /// A signal of this number ended the run. The command has shown the results until then.
    Interrupted(u8),
}

/// Reports a failure, and returns the exit code of a subcommand.
pub(crate) fn code(result: Result<Done, Failure>) -> ExitCode {
    ExitCode::from(number(result))
}

/// Like [`code`], as a number.
pub(crate) fn number(result: Result<Done, Failure>) -> u8 {
    let (code, what) = match result {
        Ok(Done::Well) => return 0,
        Ok(Done::Broken) => return 1,
        Ok(Done::Interrupted(signal)) => return 128 + signal,
        Err(Failure::Input(what)) => (2, what),
        Err(Failure::Refused(what)) => (3, what),
    };
    say(what);
    code
}
