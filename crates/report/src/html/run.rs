//! A run in the form in which a page shows it.

use crate::report::Report;
use crate::stretches::Stretches;

/// A run in the form in which a page shows it.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Its report.
    pub report: &'a Report,
    /// The occupancy of its CPUs. A saved report does not have it.
    pub stretches: Option<&'a Stretches>,
}
