//! Why something was not done, sorted by the one who can mend it.

use std::fmt::Display;

/// Why a run did not take place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The input or the usage is wrong.
    Input(String),
    /// The machine or the kernel does not allow it.
    Refused(String),
}

impl Failure {
    /// A failure of the input, with a message that says what is wrong.
    pub fn input(what: impl Display) -> Failure {
        Failure::Input(what.to_string())
    }
}
