//! Figures in the units and with the precision of the documents.

use runyard_engine::time::Nanos;

/// A fraction in per cent, to a hundredth, as in the documents.
pub(crate) fn percent(part: f64) -> f64 {
    (part * 10_000.0).round() / 100.0
}

/// A span in microseconds, to a tenth. This is more precise than the documents.
pub(crate) fn micros(span: Nanos) -> f64 {
    (span.0 as f64 / 100.0).round() / 10.0
}

/// A figure with so many digits after the point.
pub(crate) fn rounded(figure: f64, digits: i32) -> f64 {
    let unit = 10.0_f64.powi(digits);
    (figure * unit).round() / unit
}
