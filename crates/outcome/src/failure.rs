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
    ///
    /// ```
    /// use runyard_outcome::Failure;
    ///
    /// let failure = Failure::input("nofile.json: no such file");
    /// assert_eq!(failure, Failure::Input("nofile.json: no such file".to_owned()));
    /// ```
    pub fn input(what: impl Display) -> Failure {
        Failure::Input(what.to_string())
    }
}
