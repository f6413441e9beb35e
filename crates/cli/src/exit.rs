//! How the command says how it went: a message on standard error, and its exit code.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | it ran, and a claim or an invariant does not hold |
//! | 2 | the input or the usage is wrong |
//! | 3 | the host refused |

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
}

/// The exit code of a subcommand, after its failure was said.
pub(crate) fn code(result: Result<Done, Failure>) -> ExitCode {
    match result {
        Ok(Done::Well) => ExitCode::SUCCESS,
        Ok(Done::Broken) => ExitCode::from(1),
        Err(Failure::Input(what)) => {
            say(what);
            ExitCode::from(2)
        }
        Err(Failure::Refused(what)) => {
            say(what);
            ExitCode::from(3)
        }
    }
}
