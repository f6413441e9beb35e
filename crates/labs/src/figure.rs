//! The figures of an experiment, in the form of the table of claims.

use crate::claims::{Claim, ClaimVerdict};
use runyard_engine::time::Nanos;

/// A figure with its published values.
#[derive(Debug)]
pub(crate) struct Figure<'w> {
    pub(crate) what: &'w str,
    pub(crate) unit: &'w str,
    /// The published value without the mechanism; `None` if the document gives none.
    pub(crate) before: Option<f64>,
    /// The published value with the mechanism.
    pub(crate) after: Option<f64>,
}

impl Figure<'_> {
    /// The claim about this figure, with the measured values.
    pub(crate) fn claim(
        &self,
        before: Option<f64>,
        after: Option<f64>,
        verdict: ClaimVerdict,
    ) -> Claim {
        Claim {
            what: self.what.to_owned(),
            unit: self.unit.to_owned(),
            published_before: self.before,
            published_after: self.after,
            before,
            after,
            verdict,
        }
    }
}

/// A fraction in per cent, to a hundredth, as in the documents.
pub(crate) fn percent(part: f64) -> f64 {
    (part * 10_000.0).round() / 100.0
}

/// A span in microseconds, to a tenth. This is more precise than the documents.
pub(crate) fn micros(span: Nanos) -> f64 {
    (span.0 as f64 / 100.0).round() / 10.0
}
