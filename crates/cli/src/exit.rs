//! How the command says how it went: a message on standard error, and its exit code.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | it ran, and a claim or an invariant does not hold |
//! | 2 | the input or the usage is wrong |
//! | 3 | the host refused |
//! | 130, 143 | a signal ended it before its end: 128 and the signal's number, as shells have it; what there was is shown |

use runyard_hosts::Failure;
use runyard_hosts::stderr::say;
use std::process::ExitCode;

/// What a subcommand comes to that ran to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// Nothing is wrong.
    Well,
    /// A claim or an invariant does not hold. What there is to say about it was said.
    Broken,
    /// A signal of this number ended it. What there was by then was shown.
    Interrupted(u8),
}

/// The exit code of a subcommand, after its failure was said.
pub(crate) fn code(result: Result<Done, Failure>) -> ExitCode {
    ExitCode::from(number(result))
}

/// The same as a number.
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
