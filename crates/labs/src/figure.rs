//! The figures of an experiment, as it gives them to the table of claims.

use crate::claims::{Claim, ClaimVerdict};
use runyard_engine::time::Nanos;

/// A figure, and what a founding document says of it.
#[derive(Debug)]
pub(crate) struct Figure<'w> {
    pub(crate) what: &'w str,
    pub(crate) unit: &'w str,
    /// Without the mechanism; `None` if the document does not say.
    pub(crate) before: Option<f64>,
    /// With it.
    pub(crate) after: Option<f64>,
}

impl Figure<'_> {
    /// The claim about it, with what was measured.
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

/// A part of one in per cent, to a hundredth, which is what the documents give.
pub(crate) fn percent(part: f64) -> f64 {
    (part * 10_000.0).round() / 100.0
}

/// A span in microseconds, to a tenth, which is more than the documents give.
pub(crate) fn micros(span: Nanos) -> f64 {
    (span.0 as f64 / 100.0).round() / 10.0
}
