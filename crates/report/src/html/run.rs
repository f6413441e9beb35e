//! A run, as a page shows it.

use crate::report::Report;
use crate::stretches::Stretches;

/// A run, as a page shows it.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// What it came to.
    pub report: &'a Report,
    /// Who had the CPUs at its beginning; a saved report does not say that.
    pub stretches: Option<&'a Stretches>,
}
