//! Failures, sorted by the person that can mend them.

use std::fmt::Display;

/// The reason why a run did not take place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The input or the usage is wrong.
    Input(String),
    /// The machine or the kernel does not allow it.
    Refused(String),
}

impl Failure {
    /// A failure of the input. The message says which input is wrong, and why.
    pub fn input(what: impl Display) -> Failure {
        Failure::Input(what.to_string())
    }
}
